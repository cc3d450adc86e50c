// Many drawn calls of the C interface by several threads of one process: results agree with the
// formulas in double, and the memory of the process stays the same. GNOMON_SOAK_CALLS: the
// number of calls; default 10000.
#include <gnomon_paged_cache.h>
#include <gnomon_ragged.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "gnomon/parallel.h"
#include "src/core/blocks.h"

namespace gnomon {
namespace attention_soak_test {

using std::int64_t;

constexpr int64_t heads = 2, head_dim = 16, block_size = 4, blocks = 24;
constexpr int64_t row = heads * head_dim;
constexpr double base = 10'000;

// A float32 or integer tensor that owns its memory.
template <typename T>
struct Array {
  std::vector<int64_t> shape;
  std::vector<T> values;
  gnomon_tensor tensor = {};
  explicit Array(std::vector<int64_t> extents) : shape(std::move(extents)) {
    int64_t count = 1;
    for (const int64_t one : shape) count *= one;
    values.resize(static_cast<std::size_t>(count));
    tensor.data = values.data();
    tensor.device = {1, 0};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = {std::is_integral_v<T> ? std::uint8_t{0} : std::uint8_t{2},
                    static_cast<std::uint8_t>(8 * sizeof(T)), 1};
    tensor.shape = shape.data();
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
};
using Floats = Array<float>;
using Integers = Array<int64_t>;

int64_t megabytes_resident() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE) >> 20;
}

// x [tokens, H, D] rotated at positions, pairs (i, i + D/2).
std::vector<double> rotated(const float* x, const std::vector<int64_t>& positions) {
  std::vector<double> out;
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t d = 0; d < head_dim; ++d) {
        const float* const head = x + static_cast<int64_t>(t) * row + h * head_dim;
        const int64_t half = head_dim / 2, i = d % half;
        const double angle = static_cast<double>(positions[t]) *
                             std::pow(base, -2.0 * static_cast<double>(i) / head_dim);
        out.push_back(d < half ? head[i] * std::cos(angle) - head[i + half] * std::sin(angle)
                               : head[i] * std::sin(angle) + head[i + half] * std::cos(angle));
      }
  return out;
}

// Causal attention of the queries q [tokens, H, D], the last of the keys, with slopes.
template <typename K>
std::vector<double> attended(const float* q, int64_t tokens, const std::vector<K>& k,
                             const std::vector<float>& v, const double* slopes) {
  const auto keys = static_cast<int64_t>(k.size()) / row;
  std::vector<double> out(static_cast<std::size_t>(tokens * row));
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t place = keys - tokens + t;
      std::vector<double> weights;
      double most = -1e300, sum = 0;
      for (int64_t s = 0; s <= place; ++s) {
        double score = 0;
        for (int64_t d = 0; d < head_dim; ++d)
          score += double{q[t * row + h * head_dim + d]} *
                   static_cast<double>(k[static_cast<std::size_t>(s * row + h * head_dim + d)]);
        score = score / std::sqrt(head_dim) - slopes[h] * static_cast<double>(place - s);
        weights.push_back(score);
        most = std::max(most, score);
      }
      for (double& one : weights) sum += one = std::exp(one - most);
      for (int64_t s = 0; s <= place; ++s)
        for (int64_t d = 0; d < head_dim; ++d)
          out[static_cast<std::size_t>(t * row + h * head_dim + d)] +=
              weights[static_cast<std::size_t>(s)] / sum *
              double{v[static_cast<std::size_t>(s * row + h * head_dim + d)]};
    }
  return out;
}

void expect_near(const float* got, const std::vector<double>& want) {
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::fabs(double{got[i]} - want[i]));
  EXPECT_LT(worst, 2e-5);
}

#define OK(call) ASSERT_EQ(call, GNOMON_OK) << gnomon_error_message()

// The calls of one thread, with its own caches. Every eighth result is checked.
class Worker {
 public:
  explicit Worker(unsigned seed) : random_(seed) {
    gnomon_rotary_spec spec = {};
    spec.size = sizeof spec;
    spec.rotary_dim = head_dim;
    spec.pairing = GNOMON_HALVES;
    spec.base = base;
    EXPECT_EQ(gnomon_frequencies_create(&spec, &frequencies_), GNOMON_OK);
  }
  ~Worker() {
    gnomon_paged_kv_cache_destroy(paged_);
    gnomon_frequencies_destroy(frequencies_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void call() {
    switch (up_to(4)) {
      case 1:
        return rotate();
      case 2:
        return attend();
      case 3:
        return decode();
      default:
        return page();
    }
  }
  int64_t checked() const { return checked_; }

 private:
  int64_t up_to(int64_t most) {
    return 1 + static_cast<int64_t>(random_() % static_cast<std::uint64_t>(most));
  }
  void fill(Floats& x) {
    for (float& one : x.values) one = std::uniform_real_distribution<float>(-1, 1)(random_);
  }
  bool is_checked() {
    const bool is = up_to(8) == 1;
    checked_ += is;
    return is;
  }

  void rotate() {
    const int64_t tokens = up_to(40);
    Integers positions({tokens});
    for (int64_t& one : positions.values) one = up_to(1 << 17);
    Floats x({1, tokens, heads, head_dim}), k({1, tokens, heads, head_dim});
    fill(x), fill(k);
    const std::vector<float> before = x.values;
    gnomon_rotary_table* table = nullptr;
    OK(gnomon_rotary_table_create(frequencies_, &positions.tensor, &table));
    OK(gnomon_rotate(&x.tensor, &k.tensor, table, GNOMON_FORWARD));
    gnomon_rotary_table_destroy(table);
    if (is_checked()) expect_near(x.values.data(), rotated(before.data(), positions.values));
  }

  void run(gnomon_layer_plan* plan, const Floats& q, const gnomon_tensor& k,
           const gnomon_tensor& v, int64_t cached, const Floats& out) {
    OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, cached, -1, -1));
    gnomon_attention_input input = {};
    input.size = sizeof input;
    input.q = &q.tensor;
    input.k = &k;
    input.v = &v;
    OK(gnomon_attention(&input, plan, &out.tensor, nullptr));
  }

  void attend() {
    const int64_t tokens = up_to(50), cached = up_to(20);
    Floats q({1, tokens, heads, head_dim}), k({1, tokens + cached, heads, head_dim}),
        v({1, tokens + cached, heads, head_dim}), out({1, tokens, heads, head_dim});
    fill(q), fill(k), fill(v);
    Array<double> slopes({heads});
    gnomon_layer_plan* plan = nullptr;
    OK(gnomon_layer_plan_create(&plan));
    OK(gnomon_alibi_slopes(heads, 0, &slopes.tensor));
    OK(gnomon_layer_plan_set_slopes(plan, &slopes.tensor));
    run(plan, q, k.tensor, v.tensor, cached, out);
    gnomon_layer_plan_destroy(plan);
    if (is_checked())
      expect_near(out.values.data(),
                  attended(q.values.data(), tokens, k.values, v.values, slopes.values.data()));
  }

  // A cache in memory of the caller: appends keys, and decodes.
  void decode() {
    if (kept_ + 3 > capacity) kept_ = 0, k_.clear(), v_.clear();
    const int64_t tokens = up_to(3);
    Floats k({1, tokens, heads, head_dim}), v({1, tokens, heads, head_dim}),
        q({1, 1, heads, head_dim}), out({1, 1, heads, head_dim});
    fill(k), fill(v), fill(q);
    Integers positions({tokens});
    for (int64_t t = 0; t < tokens; ++t)
      positions.values[static_cast<std::size_t>(t)] = kept_ + t;
    gnomon_rotary_table* table = nullptr;
    OK(gnomon_rotary_table_create(frequencies_, &positions.tensor, &table));
    const auto slot = [&](Floats& of, int64_t first, int64_t count) {
      gnomon_tensor part = of.tensor;
      part.data = of.values.data() + first * row;
      part.shape = count == tokens ? k.shape.data() : part.shape;
      return part;
    };
    const gnomon_tensor k_slot = slot(keys_, kept_, tokens),
                        v_slot = slot(values_, kept_, tokens);
    OK(gnomon_append(&k.tensor, table, &k_slot, nullptr));
    OK(gnomon_append(&v.tensor, nullptr, &v_slot, nullptr));
    gnomon_rotary_table_destroy(table);
    const std::vector<double> turned = rotated(k.values.data(), positions.values);
    k_.insert(k_.end(), turned.begin(), turned.end());
    v_.insert(v_.end(), v.values.begin(), v.values.end());
    kept_ += tokens;
    gnomon_layer_plan* plan = nullptr;
    OK(gnomon_layer_plan_create(&plan));
    int64_t extents[] = {1, kept_, heads, head_dim};
    gnomon_tensor all_keys = keys_.tensor, all_values = values_.tensor;
    all_keys.shape = all_values.shape = extents;
    run(plan, q, all_keys, all_values, kept_ - 1, out);
    gnomon_layer_plan_destroy(plan);
    const double none[heads] = {};
    if (is_checked())
      expect_near(out.values.data(), attended(q.values.data(), 1, k_, v_, none));
  }

  // A paged cache: sequences start, grow, fork, shrink and end.
  void page() {
    if (!paged_ || up_to(200) == 1) {
      gnomon_paged_kv_cache_destroy(paged_);
      paged_ = nullptr, held_.clear();
      gnomon_paged_kv_cache_spec spec = {};
      spec.size = sizeof spec;
      spec.blocks = blocks;
      spec.block_size = block_size;
      spec.heads = heads;
      spec.head_dim = head_dim;
      spec.value_dim = head_dim;
      spec.type = GNOMON_CACHE_F32;
      OK(gnomon_paged_kv_cache_create(&spec, frequencies_, &paged_));
    }
    int64_t number = 0;
    if (held_.empty() || (held_.size() < 5 && up_to(8) == 1)) {
      OK(gnomon_paged_kv_cache_start(paged_, &number));
      held_[number];
    }
    auto one = std::next(held_.begin(), up_to(static_cast<int64_t>(held_.size())) - 1);
    const int64_t step = up_to(12), tokens = static_cast<int64_t>(one->second.v.size()) / row;
    if (step == 1) {
      OK(gnomon_paged_kv_cache_end(paged_, one->first));
      held_.erase(one);
      return;
    }
    if (step == 2 && held_.size() < 6) {
      OK(gnomon_paged_kv_cache_fork(paged_, one->first, -1, &number));
      held_[number] = one->second;
      return;
    }
    if (step == 3) {
      const int64_t left = up_to(tokens + 1) - 1;
      OK(gnomon_paged_kv_cache_truncate(paged_, one->first, left));
      one->second.k.resize(static_cast<std::size_t>(left * row));
      one->second.v.resize(static_cast<std::size_t>(left * row));
      return;
    }
    append_page(one->first, one->second, tokens);
  }

  struct Held {
    std::vector<double> k;
    std::vector<float> v;
  };

  void append_page(int64_t number, Held& held, int64_t tokens) {
    int64_t had = 0, room = 0;
    OK(gnomon_paged_kv_cache_tokens(paged_, number, &had, &room));
    ASSERT_EQ(had, tokens);
    const int64_t count = std::min(room, up_to(5));
    if (count == 0) {
      OK(gnomon_paged_kv_cache_truncate(paged_, number, 0));
      held = {};
      return;
    }
    Floats k({count, heads, head_dim}), v({count, heads, head_dim}), q({1, 1, heads, head_dim}),
        out({1, 1, heads, head_dim});
    fill(k), fill(v), fill(q);
    Integers sequences({1}), starts({2});
    sequences.values[0] = number, starts.values[1] = count;
    OK(gnomon_paged_kv_cache_append(paged_, &k.tensor, &v.tensor, &sequences.tensor,
                                    &starts.tensor, nullptr, nullptr));
    std::vector<int64_t> positions;
    for (int64_t t = 0; t < count; ++t) positions.push_back(tokens + t);
    const std::vector<double> turned = rotated(k.values.data(), positions);
    held.k.insert(held.k.end(), turned.begin(), turned.end());
    held.v.insert(held.v.end(), v.values.begin(), v.values.end());
    gnomon_tensor keys, values, table, lengths;
    OK(gnomon_paged_kv_cache_tensors(paged_, &keys, &values, nullptr, nullptr));
    OK(gnomon_paged_kv_cache_block_table(paged_, &sequences.tensor, &table, &lengths));
    Integers query_lengths({1});
    query_lengths.values[0] = 1;
    gnomon_ragged_batch batch = {};
    batch.size = sizeof batch;
    batch.query_lengths = &query_lengths.tensor;
    batch.key_lengths = &lengths;
    batch.block_table = &table;
    gnomon_layer_plan* plan = nullptr;
    OK(gnomon_layer_plan_create(&plan));
    OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -1, -1, -1));
    gnomon_attention_input input = {};
    input.size = sizeof input;
    input.q = &q.tensor;
    input.k = &keys;
    input.v = &values;
    OK(gnomon_attention_ragged(&input, &batch, plan, &out.tensor, nullptr));
    gnomon_layer_plan_destroy(plan);
    const double none[heads] = {};
    if (is_checked())
      expect_near(out.values.data(), attended(q.values.data(), 1, held.k, held.v, none));
  }

  static constexpr int64_t capacity = 64;
  std::mt19937_64 random_;
  gnomon_frequencies* frequencies_ = nullptr;
  gnomon_paged_kv_cache* paged_ = nullptr;
  std::map<int64_t, Held> held_;
  Floats keys_{{1, capacity, heads, head_dim}}, values_{{1, capacity, heads, head_dim}};
  int64_t kept_ = 0, checked_ = 0;
  std::vector<double> k_;
  std::vector<float> v_;
};

// The process keeps two blocks of working memory for each thread: the largest of those that
// calls give back. Until all are as large as the largest call requires, the memory grows with
// the number of calls at the same time. This fills the list with larger blocks than that.
void fill_kept_blocks() {
  std::thread([] {
    internal::BlockList(2 * static_cast<std::size_t>(gnomon::threads()), std::size_t{1} << 20);
  }).join();
}

TEST(Soak, MemoryStaysAndResultsAreRight) {
  const char* const text = std::getenv("GNOMON_SOAK_CALLS");
  const int64_t calls = text ? std::atoll(text) : 10'000;
  constexpr int64_t threads = 4, tenths = 10;
  // Memory after each tenth; threads start and end in each, as those of a server do.
  std::vector<int64_t> resident, allocated;
  fill_kept_blocks();
  std::atomic<int64_t> checked{0}, done{0};
  for (int64_t tenth = 0; tenth < tenths; ++tenth) {
    std::vector<std::thread> all;
    for (int64_t thread = 0; thread < threads; ++thread)
      all.emplace_back([&, seed = static_cast<unsigned>(tenth * threads + thread)] {
        Worker worker(seed);
        for (int64_t i = 0; i < calls / (threads * tenths); ++i) {
          worker.call();
          ++done;
          if (::testing::Test::HasFailure()) break;
        }
        checked += worker.checked();
      });
    for (std::thread& one : all) one.join();
    if (HasFailure()) return;
    resident.push_back(megabytes_resident());
    allocated.push_back(static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd) >> 10);
  }
  std::printf("%lld calls, %lld checked; MB resident:", static_cast<long long>(done),
              static_cast<long long>(checked));
  for (const int64_t one : resident) std::printf(" %lld", static_cast<long long>(one));
  std::printf("; KiB allocated:");
  for (const int64_t one : allocated) std::printf(" %lld", static_cast<long long>(one));
  std::printf("\n");
  EXPECT_GT(checked, done / 16);
  // The first tenth warms up the allocator and the pools of threads. The pages that a heap
  // takes depend on what other tests left in it.
  EXPECT_LE(allocated.back(), allocated[1] + 64) << "KiB";
  EXPECT_LE(resident.back(), resident[1] + 16) << "MB";
}

}  // namespace attention_soak_test
}  // namespace gnomon
