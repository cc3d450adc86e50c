// A tile of a backward pass with products of pairs of bfloat16 (multiply-inl.h). The elements
// of q, k, v and out_grad are exact; p and ds are rounded to bfloat16 before they are
// multiplied. Gradients of biases and sinks come from ds in float.
#if defined(GNOMON_ATTENTION_BACKWARD_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_BACKWARD_PAIRS_INL_H_
#undef GNOMON_ATTENTION_BACKWARD_PAIRS_INL_H_
#else
#define GNOMON_ATTENTION_BACKWARD_PAIRS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "src/attention/backward_rows-inl.h"
#include "src/attention/key_sums-inl.h"
#include "src/attention/weigh-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Rounds one vector of each of two rows of p and of ds. pairs: of the two rows; one, two: those
// of adjacent columns of a row, or null.
#if HWY_TARGET == HWY_AVX3
template <class V>
HWY_INLINE void StorePairs(V first, V second, float* HWY_RESTRICT pairs,
                           float* HWY_RESTRICT one, float* HWY_RESTRICT two) {
  alignas(64) static constexpr std::uint16_t places[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i both;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(second.raw), "v"(first.raw));
  _mm512_store_si512(pairs, _mm512_permutexvar_epi16(_mm512_load_si512(places), both));
  if (!one) return;
  _mm256_store_si256(reinterpret_cast<__m256i*>(one), _mm512_castsi512_si256(both));
  _mm256_store_si256(reinterpret_cast<__m256i*>(two), _mm512_extracti64x4_epi64(both, 1));
}
#else
template <class V>
HWY_INLINE void StorePairs(V /* first */, V /* second */, float* /* pairs */, float* /* one */,
                           float* /* two */) {}
#endif

// Computes p and ds of scores, and of dp in score_grad, and rounds them to the pairs of `to`;
// ds times `slope`, if it is not null. Both are 0 where Weigh makes them 0. keeps: whether
// score_grad becomes ds, not rounded.
template <bool keeps>
void WeighPairs(const Tile& tile, const SeenColumns& columns, const Columns& all,
                const float* HWY_RESTRICT lse, const float* HWY_RESTRICT delta,
                const float* HWY_RESTRICT scores, const float* HWY_RESTRICT slope,
                float* HWY_RESTRICT score_grad, const BackwardPairs<float>& to) {
  const hn::ScalableTag<float> tag;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto zero = hn::Zero(tag), nothing = hn::Set(tag, -HUGE_VALF);
  for (std::int64_t i = 0; i < tile.rows(); i += 2) {
    const Columns& seen = columns[i / block_rows];
    const bool none = seen.begin == seen.end, single = i + 1 == tile.rows();
    const std::int64_t begin = none ? all.end : seen.begin, end = none ? all.end : seen.end;
    float* HWY_RESTRICT weights = to.weights + i / 2 * tile_keys;
    float* HWY_RESTRICT grads = to.score_grad + i / 2 * tile_keys;
    float* HWY_RESTRICT of_keys = to.key_score_grad + i * tile_keys / 2;
    const auto clear = [&](std::int64_t from, std::int64_t past) {
      std::fill(weights + from, weights + past, 0.f);
      std::fill(grads + from, grads + past, 0.f);
      for (std::int64_t r = i; keeps && r < std::min(i + 2, tile.rows()); ++r)
        std::fill(score_grad + r * tile_keys + from, score_grad + r * tile_keys + past, 0.f);
    };
    clear(all.begin, begin), clear(end, all.end);
    for (std::int64_t j = begin; j < end; j += lanes) {
      hn::Vec<decltype(tag)> p[2] = {zero, zero}, ds[2] = {zero, zero};
#pragma GCC unroll 2
      for (std::int64_t r = 0; r < 2; ++r) {
        if (r && single) break;
        const std::int64_t n = (i + r) * tile_keys + j;
        const auto score = hn::Load(tag, scores + n);
        const auto hidden = hn::Eq(score, nothing);
        const auto weight = WeightOfScore(tag, hn::Sub(score, hn::Set(tag, lse[i + r])));
        p[r] = hn::IfThenZeroElse(hidden, weight);
        const auto change = hn::Sub(hn::Load(tag, score_grad + n), hn::Set(tag, delta[i + r]));
        ds[r] = hn::IfThenZeroElse(hidden, hn::Mul(p[r], change));
        if (keeps) hn::Store(ds[r], tag, score_grad + n);
        if (slope)
          ds[r] =
              hn::IfThenZeroElse(hn::Eq(ds[r], zero), hn::Mul(ds[r], hn::Load(tag, slope + n)));
      }
      StorePairs(p[0], p[1], weights + j, nullptr, nullptr);
      StorePairs(ds[0], ds[1], grads + j, of_keys + j / 2, of_keys + (tile_keys + j) / 2);
    }
  }
}

// Adds the products of pairs of queries of a tile: sums [keys, size] += a^T b. a: of_tile pairs
// of BackwardPairs, b: packed pairs of queries.
inline void AddPairProducts(const Tile& tile, const Columns& all, std::int64_t size,
                            Factors factors, const float* a, const float* b, float* sums) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const std::int64_t stride = row_stride(size), keys = std::min(all.end, tile.keys) - all.begin;
  Product<float> product;
  product.depth = pairs_of(tile.rows()), product.factors = factors;
  product.a = a + all.begin, product.a_stride = tile_keys;
  product.b_row = product.c_row = stride;
  for (std::int64_t j = 0; j < padded(size); j += Panel<float>()) {
    product.b = b + j, product.c = sums + (tile.key + all.begin) * stride + j;
    MultiplyPairs<Left::by_column, Into::add>(
        product, keys, std::min(padded(size) - j, Panel<float>()) / lanes);
  }
}

// As BackwardTile.
inline void BackwardPairTile(const BackwardProblem<float>& problem, const Tile& tile,
                             std::int64_t first, const BackwardScratch<float>& at,
                             std::int64_t packed, std::optional<Factors>& of_keys,
                             const KeySums<float>& sums) {
  const std::int64_t size = problem.size, values = problem.value_dim;
  const std::int64_t stride = row_stride(size), value_stride = row_stride(values);
  SeenColumns columns;
  FindColumns<float>(problem, tile, columns);
  const Columns all = Together(tile, columns);
  if (all.begin >= all.end) return;
  const std::int64_t pairs = PairRow(problem, tile, first);
  const float *q = at.pairs.q + pairs * stride,
              *out_grad = at.pairs.out_grad + pairs * value_stride;
  float* slope = problem.softmax.cap ? at.slope : nullptr;
  const bool hides =
      MakePairScores(problem, tile, columns, at.q + first * row_stride(pairs_of(size)),
                     at.key_panels, at.added.bias, at.scores, slope);
  Factors of_q = Factors::all, of_out_grad = Factors::all;
  if (hides) {
    if (!of_keys) of_keys = FactorsOfPairs(at.pairs.key, packed, size);
    of_q = FactorsOfPairs(q, tile.rows(), size);
    of_out_grad = FactorsOfPairs(out_grad, tile.rows(), values);
  }
  MultiplyPairPanels(tile, columns, values, at.out_grad + first * row_stride(pairs_of(values)),
                     at.value_panels, 1, at.score_grad);
  const bool keeps = problem.bias_sums || problem.dense_grad.data() || problem.column_sums ||
                     problem.key_slope_sums;
  const auto weigh = keeps ? WeighPairs<true> : WeighPairs<false>;
  weigh(tile, columns, all, at.lse + first, at.delta + first, at.scores, slope, at.score_grad,
        at.pairs);
  AddBiasGradient(problem, tile, all, columns, at.score_grad, at.added.bias);
  if (problem.column_sums) AddColumnSums(problem, tile, columns, at.score_grad);
  if (problem.key_slope_sums) AddKeySlopeSums(problem, tile, columns, at.score_grad);
  AddPairProducts(tile, all, values, of_out_grad, at.pairs.weights, out_grad, sums.value);
  AddPairProducts(tile, all, size, of_q, at.pairs.score_grad, q, sums.key);
  MultiplyPairWeights(tile, columns, size, at.pairs.key_score_grad, at.pairs.key,
                      hides ? *of_keys : Factors::all, at.q_grad + first * stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
