// Attention over a PagedKvCache in ragged batches, against a call for each sequence with its
// entries in one contiguous array.
#include <gtest/gtest.h>

#include <cstring>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/paged_kv_cache.h"
#include "testing.h"

namespace gnomon {
namespace paged_kv_cache_decoding_test {

using std::int64_t;
using testing::random_tensor;
using testing::Tensor;
using Numbers = std::vector<int64_t>;

constexpr int64_t query_heads = 4, heads = 2, size = 16, value_dim = 8;

// The first `tokens` rows of a sequence in a pool [P, S, ...], and a tensor of them.
class Gathered {
 public:
  Gathered(const ConstTensor& pool, const View<const std::int32_t, 2>& table, int64_t tokens)
      : tensor_(pool) {
    if (pool.rank < 3) return;  // scales of E4M3: the same for all
    const int64_t block_size = pool.shape[1];
    std::size_t row = pool.dtype.bits / 8;
    shape_ = {1, tokens, pool.shape[2], 1};
    for (std::int32_t axis = 2; axis < pool.rank; ++axis) {
      shape_[static_cast<std::size_t>(axis)] = pool.shape[axis];
      row *= static_cast<std::size_t>(pool.shape[axis]);
    }
    bytes_.resize(static_cast<std::size_t>(tokens) * row + 1);
    for (int64_t j = 0; j < tokens; ++j) {
      const int64_t entry = table(0, j / block_size) * block_size + j % block_size;
      std::memcpy(
          bytes_.data() + static_cast<std::size_t>(j) * row,
          static_cast<const std::byte*>(pool.data) + static_cast<std::size_t>(entry) * row,
          row);
    }
    tensor_.data = bytes_.data();
    tensor_.shape = shape_.data();
  }
  Gathered(const Gathered&) = delete;
  const ConstTensor& tensor() const { return tensor_; }

 private:
  std::vector<std::byte> bytes_;
  std::array<int64_t, 4> shape_{};
  ConstTensor tensor_;
};

struct Step {
  Numbers sequences, counts;
};

// One step of an engine: append, and attention over all sequences of the step.
void check(PagedKvCache& cache, const Step& step, unsigned seed) {
  Numbers starts = {0}, cached;
  for (std::size_t n = 0; n < step.counts.size(); ++n) {
    starts.push_back(starts.back() + step.counts[n]);
    cached.push_back(cache.tokens(step.sequences[n]));
  }
  const int64_t rows = starts.back();
  const auto q = random_tensor<float, 4>({1, rows, query_heads, size}, seed),
             k = random_tensor<float, 4>({1, rows, heads, size}, seed + 1),
             v = random_tensor<float, 4>({1, rows, heads, value_dim}, seed + 2);
  const Positions positions = ragged_positions({.starts = starts, .offsets = cached});
  const RotaryTable table(*cache.frequencies(), positions);
  cache.append(k.view(), v.view(), step.sequences, starts, {}, &table);
  AttentionPlan plan{.mask = {.visibility = Visibility::causal, .left = 20},
                     .query_rotary = table};
  const auto blocks = cache.block_table(step.sequences);
  plan.ragged = {.query_starts = starts,
                 .key_lengths = cache.key_lengths(step.sequences),
                 .block_table = blocks};
  Tensor<float, 4> out({1, rows, query_heads, value_dim});
  attention({.q = q.view(),
             .k = cache.keys(),
             .v = cache.values(),
             .k_scales = cache.key_scales(),
             .v_scales = cache.value_scales()},
            plan, out.view());
  for (std::size_t n = 0; n < step.sequences.size(); ++n) {
    const int64_t count = step.counts[n], tokens = cached[n] + count;
    const auto own = View<const std::int32_t, 2>(blocks).slice(0, static_cast<int64_t>(n), 1);
    const Gathered keys(cache.keys(), own, tokens), values(cache.values(), own, tokens),
        key_scales(cache.key_scales(), own, tokens),
        value_scales(cache.value_scales(), own, tokens);
    Tensor<float, 4> want({1, count, query_heads, value_dim});
    const RotaryTable of_queries(*cache.frequencies(), consecutive(count, cached[n]));
    attention({.q = q.view().slice(1, starts[n], count),
               .k = keys.tensor(),
               .v = values.tensor(),
               .k_scales = key_scales.tensor(),
               .v_scales = value_scales.tensor()},
              {.mask = {.visibility = Visibility::causal, .offset = cached[n], .left = 20},
               .query_rotary = of_queries},
              want.view());
    const auto got = out.view().slice(1, starts[n], count);
    for (int64_t t = 0; t < count; ++t)
      for (int64_t h = 0; h < query_heads; ++h)
        for (int64_t d = 0; d < value_dim; ++d)
          ASSERT_EQ(got(0, t, h, d), want.view()(0, t, h, d)) << n << " " << t;
  }
}

TEST(PagedKvCacheDecoding, HasTheBitsOfSeparateCalls) {
  for (const CacheType type :
       {CacheType::f32, CacheType::f16, CacheType::bf16, CacheType::int8, CacheType::e4m3})
    for (const int64_t block_size : {3, 16}) {
      SCOPED_TRACE(static_cast<int>(type));
      PagedKvCacheShape shape;
      shape.blocks = 60;
      shape.block_size = block_size;
      shape.heads = heads;
      shape.head_dim = size;
      shape.value_dim = value_dim;
      shape.type = type;
      if (type == CacheType::e4m3)
        shape.key_scales = {0.02f, 0.01f}, shape.value_scales = {0.5f};
      PagedKvCache cache(shape, lower(Rotary{.rotary_dim = 16, .pairing = Pairing::adjacent}));
      const int64_t a = cache.start(), b = cache.start();
      check(cache, {{a, b}, {37, 1}}, 1);
      const int64_t c = cache.fork(a), d = cache.fork(a, 20);
      check(cache, {{b, c, a, d}, {5, 4, 1, 1}}, 10);  // a draft of 4 tokens in c
      cache.truncate(c, 38);
      check(cache, {{a, b, c, d}, {1, 1, 1, 1}}, 20);
      cache.end(b);
      const int64_t e = cache.start();
      check(cache, {{e, c}, {23, 1}}, 30);
    }
}

}  // namespace paged_kv_cache_decoding_test
}  // namespace gnomon
