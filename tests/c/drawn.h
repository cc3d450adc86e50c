// Drawn arguments for the functions of gnomon.h. The buffer of a drawn tensor is exactly as
// long as the tensor says, so that the sanitized program finds any access outside it.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gnomon.h"
#include "gnomon_ragged.h"
#include "sanitizers.h"

// Defined in programs under the address sanitizer.
extern "C" {
[[gnu::weak]] void __lsan_disable();
[[gnu::weak]] void __lsan_enable();
}

namespace gnomon {
namespace drawn {

using std::int64_t;

constexpr int64_t most = std::numeric_limits<int64_t>::max();
constexpr int64_t least = std::numeric_limits<int64_t>::min();
constexpr std::size_t buffer_bytes = 8192;

enum class Kind { f32, f64, i64, i32, any };

class Draws {
 public:
  explicit Draws(unsigned seed) : engine_(seed) {}
  // Two bytes choose each number; after them, as with the seed 0.
  explicit Draws(std::span<const std::byte> bytes) : engine_(0), bytes_(bytes) {}
  bool more() const { return !bytes_.empty(); }
  // Draws for the elements of an array, which would take all bytes.
  Draws apart() { return Draws(static_cast<unsigned>(below(1 << 16))); }
  int64_t below(int64_t count) {
    std::uint64_t number = bytes_.empty() ? engine_() : 0;
    for (int i = 0; i < 2 && more(); ++i, bytes_ = bytes_.subspan(1))
      number = number << 8 | std::to_integer<std::uint64_t>(bytes_.front());
    return static_cast<int64_t>(number % static_cast<std::uint64_t>(count));
  }
  bool one_in(int64_t count) { return below(count) == 0; }
  template <typename T>
  T of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(std::ssize(values)))];
  }
  // A size that an allocation depends on. The sanitizers end the process where
  // operator new throws, so they get no size that would be too much memory and is not refused.
  int64_t size() {
    if (!one_in(4)) return below(9);
    return testing::sanitized() ? of<int64_t>({0, 1, 7, -1, most, 1LL << 62, least})
                                : of<int64_t>({0, 1, 7, -1, most, 1LL << 62, least, 1LL << 31,
                                               (1LL << 32) + 1, 7905747460161236407});
  }
  int64_t number() {
    return one_in(2) ? below(9)
                     : of<int64_t>({0, 1, 7, -1, 1LL << 31, (1LL << 32) + 1, 1LL << 62, most,
                                    least, 7905747460161236407, -(1LL << 53)});
  }
  std::int32_t code() {
    return one_in(4) ? of<std::int32_t>({-1, 0, 3, 4, 257, INT32_MAX, INT32_MIN})
                     : static_cast<std::int32_t>(1 + below(2));
  }
  double real() {
    return one_in(2) ? 1.0 + static_cast<double>(below(9))
                     : of<double>({0, -1, 1e300, -1e-300, INFINITY, -INFINITY, NAN, 10000});
  }
  // The member `size` of a struct.
  template <typename Struct>
  std::size_t size_of() {
    return fault(100) ? of<std::size_t>({0, 1, sizeof(Struct) - 1, 4097, SIZE_MAX})
                      : sizeof(Struct);
  }
  bool fault(int64_t n) { return !sound && one_in(n); }
  bool sound = false;  // whether no argument that asks for a fault has one

 private:
  std::mt19937_64 engine_;
  std::span<const std::byte> bytes_ = {};
};

// A tensor with its buffer. Copies are not possible: the tensor points into it.
struct Drawn {
  std::vector<double> buffer;
  std::array<int64_t, 8> shape{}, strides{};
  gnomon_tensor tensor{};

  Drawn(Draws& draw, Kind kind, const std::vector<int64_t>& wanted) {
    fill(draw.apart(), kind);
    auto rank = static_cast<std::int32_t>(wanted.size());
    if (draw.fault(12))
      rank = draw.of<std::int32_t>({-1, 0, 1, 2, 3, 4, 5, 1000000, INT32_MIN});
    const std::int32_t axes = rank < 0 ? 0 : rank > 8 ? 8 : rank;
    int64_t step = 1;
    for (std::int32_t axis = axes; axis-- > 0;) {
      const auto at = static_cast<std::size_t>(axis);
      shape[at] = at < wanted.size() ? wanted[at] : draw.below(4);
      if (draw.fault(20)) shape[at] = draw.number();
      strides[at] = step;
      if (__builtin_mul_overflow(step, shape[at] > 0 ? shape[at] : 1, &step)) step = 1;
    }
    if (draw.fault(3))
      for (auto& one : strides)
        if (draw.one_in(3))
          one = draw.one_in(2)
                    ? draw.below(20) - 6
                    : draw.of<int64_t>({0, 1, -1, most, least, 1LL << 62, 1LL << 31});
    tensor.data = buffer.data();
    tensor.device = {1, 0};
    tensor.ndim = rank;
    tensor.dtype = type(draw, kind);
    tensor.shape = draw.fault(60) ? nullptr : shape.data();
    tensor.strides = draw.one_in(3) ? nullptr : strides.data();
    if (draw.fault(10))
      tensor.byte_offset = draw.of<std::uint64_t>({1, 3, 4, 8, 16, std::uint64_t(-8)});
    if (draw.fault(40)) tensor.device.device_type = draw.of<int>({0, 2, 13, -5});
    if (draw.fault(40)) tensor.data = nullptr;
    make_true(axes);
  }
  // Every member of the tensor is drawn.
  explicit Drawn(Draws& draw) {
    fill(draw.apart(), draw.of<Kind>({Kind::f32, Kind::f64, Kind::i64, Kind::i32, Kind::any}));
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      shape[axis] = draw.one_in(4) ? draw.number() : draw.below(6);
      strides[axis] = draw.one_in(4) ? draw.number() : draw.below(12) - 2;
    }
    tensor.data = draw.one_in(20) ? nullptr : buffer.data();
    tensor.device = {draw.one_in(8) ? draw.of<std::int32_t>({0, 2, 3, 13, -1}) : 1, 0};
    tensor.ndim = draw.one_in(16) ? draw.code() : static_cast<std::int32_t>(draw.below(6));
    tensor.dtype = type(draw, draw.of<Kind>({Kind::f32, Kind::f64, Kind::i64, Kind::any}));
    tensor.shape = draw.one_in(20) ? nullptr : shape.data();
    tensor.strides = draw.one_in(2) ? nullptr : strides.data();
    tensor.byte_offset = draw.one_in(8) ? static_cast<std::uint64_t>(draw.number()) : 0;
    make_true(tensor.ndim < 0 ? 0 : tensor.ndim > 8 ? 8 : tensor.ndim);
  }
  Drawn(const Drawn&) = delete;
  Drawn& operator=(const Drawn&) = delete;

 private:
  void fill(Draws draw, Kind kind) {
    buffer.resize(buffer_bytes / sizeof(double));
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      if (kind == Kind::i64 || kind == Kind::any) {
        const int64_t one = draw.one_in(400) ? draw.number() : draw.below(7);
        std::memcpy(&buffer[i], &one, sizeof one);
      } else if (kind == Kind::i32) {
        const std::int32_t both[2] = {static_cast<std::int32_t>(draw.below(4)) - 1,
                                      draw.one_in(400) ? INT32_MIN : 0};
        std::memcpy(&buffer[i], both, sizeof both);
      } else if (kind == Kind::f64) {
        buffer[i] = draw.one_in(400) ? draw.real() : static_cast<double>(i % 13) / 13;
      } else {
        const float both[2] = {static_cast<float>(draw.below(5)) / 4 - 0.5f, 0.25f};
        std::memcpy(&buffer[i], both, sizeof both);
      }
    }
  }
  static gnomon_data_type type(Draws& draw, Kind kind) {
    if (draw.fault(30))
      return {draw.of<std::uint8_t>({0, 1, 2, 4, 5, 6, 10, 255}),
              draw.of<std::uint8_t>({0, 8, 16, 32, 64, 255}),
              draw.of<std::uint16_t>({1, 1, 0, 4, 65535})};
    switch (kind) {
      case Kind::f64:
        return {2, 64, 1};
      case Kind::i64:
        return {0, 64, 1};
      case Kind::i32:
        return {0, 32, 1};
      case Kind::f32:
        return {2, 32, 1};
      default:
        return draw.of<gnomon_data_type>(
            {{2, 32, 1}, {2, 32, 1}, {2, 16, 1}, {4, 16, 1}, {2, 64, 1}, {0, 8, 1}});
    }
  }
  // The memory that a legal tensor names must be that of the buffer. Sizes that overflow stay:
  // they must be refused without a look at the data.
  void make_true(std::int32_t axes) {
    if (tensor.ndim < 0 || tensor.ndim > 8 || !tensor.shape) return;
    __int128 count = 1, low = 0, high = 0, step = 1;
    bool empty = false;
    std::array<__int128, 8> steps{};
    for (std::int32_t axis = axes; axis-- > 0;) {
      const auto at = static_cast<std::size_t>(axis);
      if (shape[at] < 0) return;
      steps[at] = tensor.strides ? static_cast<__int128>(strides[at]) : step;
      step *= shape[at] > 1 ? shape[at] : 1;
      if (step > (static_cast<__int128>(1) << 60)) return;
      empty |= shape[at] == 0;
      if (shape[at] < 2) continue;
      if (steps[at] > (1LL << 59) || steps[at] < -(1LL << 59)) return;
      (steps[at] < 0 ? low : high) += steps[at] * (shape[at] - 1);
    }
    count = step;
    if (empty || high - low > (1LL << 59)) return;
    if (count > 1 << 13) {
      tensor.data = nullptr;  // legal, but it would take long
      return;
    }
    const __int128 bytes = (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
    if ((high - low + 1) * bytes + 16 <= static_cast<__int128>(buffer_bytes)) {
      tensor.data = reinterpret_cast<std::byte*>(buffer.data()) +
                    (tensor.data ? static_cast<std::ptrdiff_t>(-low * bytes + 8) / 8 * 8 : 0);
      const auto start = static_cast<std::ptrdiff_t>(-low * bytes) + 8;
      tensor.data = reinterpret_cast<std::byte*>(buffer.data()) + (start + 7) / 8 * 8;
      if (tensor.byte_offset > 8 && tensor.byte_offset != std::uint64_t(-8))
        tensor.byte_offset = 8;
      if ((high - low + 1) * bytes + 40 > static_cast<__int128>(buffer_bytes))
        tensor.byte_offset = 0;
    } else {
      tensor.data = nullptr;
    }
  }
};

template <typename Handle>
class Handles {
 public:
  using Destroy = void (*)(Handle*);
  explicit Handles(Destroy destroy) : destroy_(destroy) {}
  ~Handles() {
    for (Handle* one : all_) destroy_(one);
  }
  void add(Draws& draw, Handle* one) {
    if (!one) return;
    if (all_.size() < 12) {
      all_.push_back(one);
      return;
    }
    Handle*& place = all_[static_cast<std::size_t>(draw.below(12))];
    destroy_(place);
    place = one;
  }
  Handle* one(Draws& draw) { return all_.empty() || draw.one_in(30) ? nullptr : draw.of(all_); }

 private:
  Destroy destroy_;
  std::vector<Handle*> all_;
};

// A limit of the memory of this process, so that a size which is legal but too large throws.
class MemoryLimit {
 public:
  MemoryLimit() {
    if (testing::sanitized()) return;  // its shadow memory is larger than any limit
    getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{rlim_t{6} << 30, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() {
    if (!testing::sanitized()) setrlimit(RLIMIT_AS, &before_);
  }

 private:
  rlimit before_{};
};

// Calls functions with drawn arguments, and counts the calls.
class Caller {
 public:
  explicit Caller(unsigned seed) : draw(seed) {}
  explicit Caller(std::span<const std::byte> bytes) : draw(bytes) {}
  bool more() const { return draw.more(); }
  // Calls by function, and how many of them succeeded.
  std::map<std::string, std::array<int, 2>> counts;

 protected:
  // Begins a call. In one of three, the tensors have no fault.
  void begin() {
    tensors.clear();
    if (draw.one_in(200)) count("error_message");
    EXPECT_NE(gnomon_error_message(), nullptr);
    draw.sound = draw.one_in(3);
  }
  // Counts a call that returns no status.
  void count(const char* name) { count(name, GNOMON_OK); }
  void count(const char* name, gnomon_status status) {
    EXPECT_GE(status, GNOMON_OK) << name;
    EXPECT_LE(status, GNOMON_OUT_OF_MEMORY) << name << ": " << gnomon_error_message();
    ++counts[name][0];
    counts[name][1] += status == GNOMON_OK;
  }
  const gnomon_tensor* tensor(Kind kind, const std::vector<int64_t>& wanted) {
    if (draw.fault(60)) return nullptr;
    if (!tensors.empty() && draw.fault(15)) return &tensors.back().tensor;  // one array twice
    return &tensors.emplace_back(draw, kind, wanted).tensor;
  }
  const gnomon_tensor* maybe(Kind kind, const std::vector<int64_t>& wanted) {
    return draw.one_in(2) ? nullptr : tensor(kind, wanted);
  }
  template <typename Handle>
  Handle** out(Handle*& place) {
    return draw.one_in(60) ? nullptr : &place;
  }

  Draws draw;
  std::list<Drawn> tensors;
};

// Runs 1000 calls for each of `seeds` seeds, or as many calls as GNOMON_DRAWN_CALLS says. Each
// of the functions that are declared must be called, and must succeed. Those that end handles
// are called for all handles.
template <typename Attack>
void attack(unsigned seeds, const std::set<std::string>& declared) {
  if (const char* const text = std::getenv("GNOMON_DRAWN_CALLS"))
    seeds = static_cast<unsigned>(std::max(1LL, std::atoll(text) / 1000));
  const MemoryLimit limit;
  if (__lsan_disable) __lsan_disable();  // drawn calls overwrite handles
  const std::int32_t threads = gnomon_threads();
  std::map<std::string, std::array<int, 2>> all;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    Attack one(seed);
    for (int i = 0; i < 1000; ++i) one.call();
    for (const auto& [name, counts] : one.counts)
      all[name][0] += counts[0], all[name][1] += counts[1];
  }
  gnomon_set_executor(nullptr, nullptr, 0);
  gnomon_set_threads(threads);
  if (__lsan_enable) __lsan_enable();
  int calls = 0, successes = 0;
  for (const auto& [name, counts] : all) {
    calls += counts[0], successes += counts[1];
  }
  for (const std::string& name : declared) {
    if (name.ends_with("_destroy") || name == "gnomon_free") continue;
    const std::string function = name.substr(std::string("gnomon_").size());
    EXPECT_GT(all[function][0], 25) << name;
    EXPECT_GT(all[function][1], 4) << name << " succeeds too rarely";
  }
  std::printf("%d calls of %zu functions, %d succeeded\n", calls, all.size(), successes);
}

}  // namespace drawn
}  // namespace gnomon
