// Checks of the results of drawn calls: the status, every element that the call may write
// against an oracle in double or wider, and every other byte against its value before the call.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "c/drawn.h"
#include "c/placed.h"
#include "gnomon.h"

namespace gnomon {
namespace drawn {

enum class Role { read = 1, written, in_place };

// A tensor of a call.
struct Argument {
  Placed* tensor;
  Role role = Role::read;
  bool optional = false;  // without data, it is not given
  bool copied = false;    // before anything is written, so an output may overlap it
};

struct Exact {
  double value, bound;
};

class Results {
 public:
  explicit Results(unsigned seed) : draw(seed), seed_(seed) {}
  virtual ~Results() = default;
  // Draws and checks one call.
  virtual void call() = 0;
  // Calls by function: all, and those that were sound.
  std::map<std::string, std::array<std::int64_t, 2>> counts;

 protected:
  // Makes a tensor that lives until the next call.
  Placed& place(Type type, std::vector<std::int64_t> shape, Layout layout,
                const Placed::Element& element) {
    return tensors_.emplace_back(draw, type, std::move(shape), layout, element);
  }
  Placed& heads(Type type, std::vector<std::int64_t> shape, bool written) {
    return place(type, std::move(shape), {.written = written, .last_contiguous = true},
                 numbers());
  }
  Placed::Element numbers() {
    return [this] { return static_cast<double>(draw.below(4001) - 2000) / 1000; };
  }
  Placed::Element positions(std::int64_t greatest = 2000) {
    return [this, greatest] {
      return static_cast<double>(draw.one_in(20) && greatest > 1000000
                                     ? draw.of<std::int64_t>({1LL << 31, -(1LL << 31), 0})
                                     : draw.below(2 * greatest + 1) - greatest);
    };
  }
  void begin() { tensors_.clear(); }

  // Runs a call, of which one tensor has a fault in one of three. `compare` is called after a
  // sound call.
  void check(const char* name, const std::vector<Argument>& arguments,
             const std::function<gnomon_status()>& run, const std::function<void()>& compare) {
    name_ = name;
    std::string fault;
    if (draw.one_in(3)) fault = spoil(arguments);
    const gnomon_status status = run();
    ++counts[name][0];
    if (!fault.empty()) {
      EXPECT_EQ(status, GNOMON_INVALID_ARGUMENT) << where() << ": " << fault;
      for (const Argument& one : arguments)
        EXPECT_TRUE(one.tensor->is_unchanged()) << where() << ": written although " << fault;
      return;
    }
    ++counts[name][1];
    EXPECT_EQ(status, GNOMON_OK) << where() << ": " << gnomon_error_message();
    for (const Argument& one : arguments)
      EXPECT_TRUE(one.role == Role::read ? one.tensor->is_unchanged()
                                         : one.tensor->has_guards())
          << where() << ": a byte was written that belongs to no output";
    if (status == GNOMON_OK) compare();
  }
  // Compares all elements of a tensor with the exact ones, in row-major order.
  void expect(const char* what, const std::vector<double>& got,
              const std::vector<Exact>& exact) {
    ASSERT_EQ(got.size(), exact.size()) << where() << ' ' << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto [value, bound] = exact[i];
      const bool equal = got[i] == value || (std::isnan(got[i]) && std::isnan(value));
      if (equal || std::isinf(bound) || std::abs(got[i] - value) <= bound) continue;
      ADD_FAILURE() << where() << ' ' << what << '[' << i << "] is " << got[i] << ", must be "
                    << value << " within " << bound;
      return;
    }
  }
  std::string where() const { return std::string(name_) + ", seed " + std::to_string(seed_); }

  Draws draw;

 private:
  // Gives one of the tensors a fault, and returns it as text; "" if none fits.
  std::string spoil(const std::vector<Argument>& arguments) {
    const Argument& one = draw.of(arguments);
    Placed& of = *one.tensor;
    gnomon_tensor& tensor = of.tensor();
    if (of.size() == 0) return {};
    fault_shape_ = of.shape();
    const auto axes = std::ssize(fault_shape_);
    const auto axis = static_cast<std::size_t>(draw.below(axes));
    const auto of_shape = [&](std::int64_t extent) {
      fault_shape_[axis] = extent;
      tensor.shape = fault_shape_.data();
    };
    switch (draw.below(11)) {
      case 0:
        tensor.device.device_type = draw.of<std::int32_t>({0, 2, 13, -5});
        return "a tensor is on another device";
      case 1:
        if (one.optional) return {};
        tensor.data = nullptr, tensor.byte_offset = 0;
        return "a tensor has no data";
      case 2:
        if (of.bytes() == 1) return {};
        tensor.byte_offset += 1;
        return "a tensor is not aligned";
      case 3:
        tensor.dtype = draw.of<gnomon_data_type>({{0, 16, 1}, {2, 32, 2}, {5, 64, 1}});
        return "a tensor has another type";
      case 4:
        fault_shape_.resize(5, 1);  // the message has the extents of 5 axes
        tensor.shape = fault_shape_.data();
        tensor.ndim = draw.of<std::int32_t>({-1, 0, 5, 1000000, INT32_MIN});
        return "a tensor has another rank";
      case 5:
        of_shape(draw.of<std::int64_t>({-1, least}));
        return "an extent is negative";
      case 6:
        of_shape(draw.of<std::int64_t>({1LL << 62, most, 1LL << 60}));
        return "an extent is greater than any memory";
      case 7:
        tensor.shape = nullptr;
        return "a tensor has no shape";
      case 8:
        if (of.shape()[axis] < 2) return {};
        fault_strides_.assign(fault_shape_.size(), 1);
        fault_strides_[axis] = draw.of<std::int64_t>({1LL << 62, most, least});
        tensor.strides = fault_strides_.data();
        return "a stride is greater than any memory";
      case 9:
        if (one.role == Role::read || of.shape()[axis] < 2) return {};
        fault_strides_.assign(fault_shape_.size(), 1);
        fault_strides_[axis] = 0;
        tensor.strides = fault_strides_.data();
        return "an output overlaps itself";
      default:
        for (const Argument& other : arguments) {
          if (one.role == Role::read || other.tensor == one.tensor || other.copied ||
              !other.tensor->size() || other.tensor->bytes() % of.bytes())
            continue;
          // Not at its first element: an output may be the input itself.
          if (other.tensor->size() < 2) continue;
          tensor.data = other.tensor->address(1 + draw.below(other.tensor->size() - 1));
          tensor.byte_offset = 0;
          return "an output overlaps another argument";
        }
        return {};
    }
  }

  unsigned seed_;
  const char* name_ = "";
  std::list<Placed> tensors_;
  std::vector<std::int64_t> fault_shape_, fault_strides_;
};

// Checks `calls` drawn calls, or as many as GNOMON_DRAWN_CALLS says. Each function must be
// called, and be sound, in its share of them.
template <typename Checked>
void check_results(std::int64_t calls, std::size_t functions) {
  if (const char* const text = std::getenv("GNOMON_DRAWN_CALLS")) calls = std::atoll(text);
  std::map<std::string, std::array<std::int64_t, 2>> all;
  std::int64_t sound = 0, done = 0;
  for (unsigned seed = 0; done < calls; ++seed) {
    Checked one(seed);
    one.call();
    for (const auto& [name, counts] : one.counts) {
      done += counts[0], sound += counts[1];
      all[name][0] += counts[0], all[name][1] += counts[1];
    }
  }
  for (const auto& [name, counts] : all)
    EXPECT_GT(counts[1], calls / std::ssize(all) / 10) << name << " is sound too rarely";
  EXPECT_EQ(all.size(), functions);
  std::printf("%lld calls of %zu functions compared with their oracles, %lld refused\n",
              static_cast<long long>(sound), all.size(), static_cast<long long>(done - sound));
}

// The greatest length of a head vector.
inline double longest(const std::vector<double>& values, std::int64_t size) {
  double most = 0;
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(size)) {
    double square = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(size); ++d)
      square += values[i + d] * values[i + d];
    most = std::max(most, std::sqrt(square));
  }
  return most;
}

// Cos and sin of position x frequency: the product in two doubles, then long double.
struct Cis {
  long double cos, sin;
};
inline Cis cis(double position, double frequency) {
  const double high = position * frequency, low = std::fma(position, frequency, -high);
  const long double a = high, b = low;
  return {std::cos(a) * std::cos(b) - std::sin(a) * std::sin(b),
          std::sin(a) * std::cos(b) + std::cos(a) * std::sin(b)};
}

}  // namespace drawn
}  // namespace gnomon
