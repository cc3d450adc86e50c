// Decoding: a few queries and many keys. Products are computed directly from the elements of
// the cache, without packing, because the time is that of reading the cache.
#if defined(GNOMON_ATTENTION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_DECODE_INL_H_
#undef GNOMON_ATTENTION_DECODE_INL_H_
#else
#define GNOMON_ATTENTION_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "src/attention/online-inl.h"
#include "src/attention/pack-inl.h"
#include "src/attention/tile.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::tile_keys;

// Query rows computed together; missing rows are filled with zeros. One row is computed alone.
constexpr std::int64_t decode_rows = 4;

// Computes scores [rows, tile_keys] of `count` keys of one head, from row `first` of the cache:
// columns 0 to `count`, rounded up to a multiple of 4. q: `rows` rows (1, or a multiple of
// decode_rows), `stride` elements apart. size: a multiple of the vector length.
void MultiplyCachedKeys(const Operand& keys, std::int64_t b, std::int64_t first,
                        std::int64_t head, std::int64_t count, std::int64_t size,
                        const float* q, std::int64_t stride, std::int64_t rows, float* scores);

// Computes out [rows, values] += weights [rows, count] values [count, values]. weights:
// tile_keys elements apart; out: `stride` elements apart. factors: those of the weights.
void AddCachedValues(const Operand& values, std::int64_t b, std::int64_t first,
                     std::int64_t head, std::int64_t count, std::int64_t size,
                     const float* weights, Factors factors, std::int64_t rows, float* out,
                     std::int64_t stride);

// Multiplies columns 0 to count of rows [decode_rows, tile_keys] by the scales of int8 heads. A
// zero remains zero.
inline void TimesScales(const Operand& of, std::int64_t b, std::int64_t first,
                        std::int64_t count, std::int64_t head, float* HWY_RESTRICT rows) {
  if (!of.scales.data()) return;
  for (std::int64_t j = 0; j < count; ++j) {
    const float scale = of.scales(b, first + j, head);
    for (std::int64_t r = 0; r < decode_rows; ++r) {
      float& one = rows[r * tile_keys + j];
      one = one == 0 ? 0 : one * scale;
    }
  }
}

struct DirectScratch {
  internal::Carve<float> carve;
  float *q, *scores, *bias;

  // Buffers for `heads` key heads.
  DirectScratch(const AttentionProblem& problem, std::int64_t heads, float* block)
      : carve(block),
        q(carve.take(heads * internal::in_fours(problem.queries * problem.group()) *
                     row_stride(problem.size))),
        scores(carve.take(heads * internal::in_fours(problem.queries * problem.group()) *
                          tile_keys)),
        bias(carve.take(BiasScratchSize(problem))) {}
};

// Returns the factors of weights [rows, tile_keys] of `count` keys; keys may be hidden.
inline Factors FactorsOfWeights(const float* HWY_RESTRICT weights, std::int64_t rows,
                                std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto zero = hn::Zero(d);
  auto found = hn::Ne(zero, zero);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t j = 0; j < count; j += static_cast<std::int64_t>(hn::Lanes(d)))
      found = hn::Or(found, hn::Eq(hn::LoadU(d, weights + row * tile_keys + j), zero));
  return hn::AllFalse(d, found) ? Factors::all : Factors::nonzero;
}

// Converts the scores of a tile of one key head to weights. Returns whether a key is hidden.
inline bool WeighDirectly(const ForwardProblem<float>& problem, const Tile& tile,
                          std::int64_t key_head, float* HWY_RESTRICT bias_scratch,
                          float* HWY_RESTRICT scores, const State<float>& state) {
  const std::int64_t rows = tile.rows(), width = padded(tile.keys);
  for (std::int64_t row = 0; row < rows; row += decode_rows)
    TimesScales(problem.k, tile.batch, tile.key, tile.keys, key_head, scores + row * tile_keys);
  SeenColumns columns;
  FindColumns<float>(problem, tile, columns);
  const bool hides = FinishScores(problem, tile, columns, bias_scratch, scores);
  TakeScores(tile, columns, problem.value_dim, scores, state, 0);
  for (std::int64_t row = 0; row < internal::in_fours(rows); ++row) {
    const Columns seen = row < rows ? columns[row / block_rows] : Columns{};
    float* at = scores + row * tile_keys;
    std::fill(at, at + seen.begin, 0.f);
    std::fill(at + seen.end, at + width, 0.f);
  }
  for (std::int64_t row = 0; row < rows; row += decode_rows)
    TimesScales(problem.v, tile.batch, tile.key, tile.keys, key_head, scores + row * tile_keys);
  return hides;
}

// Adds the keys of a range to the states of the piece's heads. Keys and values are read in
// memory order, so that hardware prefetching is effective.
template <typename StateOf>
void RunDirectly(const ForwardProblem<float>& problem, const internal::DirectPlan::Piece& piece,
                 const internal::KeyRange& range, const DirectScratch& at,
                 const StateOf& state_of) {
  constexpr std::int64_t length = internal::direct_keys, few = 16;
  const std::int64_t group = problem.group(), heads = piece.heads;
  const std::int64_t rows = internal::in_fours(problem.queries * group);
  const std::int64_t computed = problem.queries * group == 1 ? 1 : rows;
  const std::int64_t stride = row_stride(problem.size);
  for (std::int64_t h = 0; h < heads; ++h) state_of(piece.first + h).Clear();
  const auto scores_of = [&](std::int64_t h) { return at.scores + h * rows * tile_keys; };
  for (std::int64_t key = range.begin / length * length; key < range.end; key += length) {
    const Tile tile =
        trimmed(problem, Tile{piece.batch, piece.first * group, group, 0, problem.queries, key,
                              std::min(length, range.end - key)});
    // Calls body(first column, columns, h) for `few` tokens at a time: all heads, then the
    // next tokens; or, in a cache [B, H, S, D], all tokens of a head, then of the next head.
    const auto in_order = [&](const Operand& cache, const auto& body) {
      const bool by_heads = cache.strides[2] > cache.strides[1];
      const std::int64_t parts = (tile.keys + few - 1) / few;
      for (std::int64_t i = 0; i < parts * heads; ++i) {
        const std::int64_t j = few * (by_heads ? i % parts : i / heads);
        body(j, std::min(few, tile.keys - j), by_heads ? i / parts : i % heads);
      }
    };
    in_order(problem.k, [&](std::int64_t j, std::int64_t count, std::int64_t h) {
      MultiplyCachedKeys(problem.k, piece.batch, key + j, piece.first + h, count, problem.size,
                         at.q + h * rows * stride, stride, computed, scores_of(h) + j);
    });
    bool hides = false;
    for (std::int64_t h = 0; h < heads && tile.keys; ++h) {
      Tile own = tile;
      own.head += h * group;
      hides = WeighDirectly(problem, own, piece.first + h, at.bias, scores_of(h),
                            state_of(piece.first + h)) ||
              hides;
    }
    in_order(problem.v, [&](std::int64_t j, std::int64_t count, std::int64_t h) {
      const State<float> state = state_of(piece.first + h);
      const Factors factors =
          hides ? FactorsOfWeights(scores_of(h) + j, tile.rows(), count) : Factors::all;
      AddCachedValues(problem.v, piece.batch, key + j, piece.first + h, count,
                      problem.value_dim, scores_of(h) + j, factors, computed, state.out,
                      state.width);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
