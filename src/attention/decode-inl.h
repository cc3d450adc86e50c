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
// Keys whose scores are added together; and values of one head that are read together, as
// elements and as pairs.
constexpr std::int64_t keys_together = 4, pair_values_together = 8;
template <typename E>
constexpr std::int64_t values_together = sizeof(E) == 1 ? 8 : 4;

// Rows [row, row + count) of heads [head, head + heads) of a cache. There are no rows from
// `end`.
struct CachedRows {
  const Operand& of;
  std::int64_t batch, row, count, head, heads, end;

  // In a cache [B, H, S, D] a head is read as a whole, otherwise all heads of a token.
  // Likewise in pages [P, H, page, D] that hold a tile.
  bool by_heads() const {
    const std::int64_t page = of.places.page();
    return of.strides[2] > of.strides[1] && (!page || page >= tile_keys);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

GNOMON_BEFORE_PAIRS();
namespace gnomon {
namespace HWY_NAMESPACE {

// Computes the scores [heads, rows, tile_keys] of the rows. q [heads, rows, stride]; rows: 1,
// or a multiple of decode_rows. The columns are computed up to a multiple of keys_together.
// size: a multiple of the vector length.
void MultiplyCachedKeys(const CachedRows& keys, std::int64_t size, const float* q,
                        std::int64_t stride, std::int64_t rows, float* scores);

// Computes out [heads, rows, stride] = weights [heads, rows, tile_keys] times the rows of
// values. factors: those of the weights.
void AddCachedValues(const CachedRows& values, std::int64_t size, const float* weights,
                     Factors factors, std::int64_t rows, float* out, std::int64_t stride);

// The same with pairs of bfloat16 (multiply-inl.h). size: a multiple of 32; q and weights in
// pairs, weights tile_keys / 2 apart. factor: of the scores.
void MultiplyCachedPairs(const CachedRows& keys, std::int64_t size, const float* q,
                         std::int64_t stride, float factor, std::int64_t rows, float* scores);
void AddCachedPairs(const CachedRows& values, std::int64_t size, const float* weights,
                    Factors factors, std::int64_t rows, float* out, std::int64_t stride);

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Multiplies columns 0 to count of rows [rows_together, tile_keys] by the scales of int8 heads.
// A zero remains zero.
template <std::int64_t rows_together>
void TimesScales(const Operand& of, std::int64_t b, std::int64_t first, std::int64_t count,
                 std::int64_t head, float* HWY_RESTRICT rows) {
  if (!of.scales.data()) return;
  for (std::int64_t j = 0, run; j < count; j += run) {
    run = of.places.run(first + j, count - j);
    const internal::Place at = of.places(b, first + j);
    for (std::int64_t i = 0; i < run; ++i) {
      const float scale = of.scales(at.batch, at.row + i, head);
      for (std::int64_t r = 0; r < rows_together; ++r) {
        float& one = rows[r * tile_keys + j + i];
        one = one == 0 ? 0 : one * scale;
      }
    }
  }
}

class DirectScratch {
 public:
  std::int64_t rows, stride;  // rows: of a key head, rounded up to a multiple of decode_rows
  float *q, *scores, *pairs, *out, *bias;

  // Buffers for `heads` key heads of `count` rows each.
  DirectScratch(const AttentionProblem& problem, std::int64_t heads, std::int64_t count,
                float* block)
      : rows(internal::in_fours(count)), stride(QueryStride(problem)) {
    internal::Carve<float> carve(block);
    q = carve.take(heads * rows * stride);
    scores = carve.take(heads * rows * tile_keys);
    pairs = carve.take(problem.pairs ? heads * rows * tile_keys / 2 : 0);
    out = carve.take(heads * rows * row_stride(problem.value_dim));
    bias = carve.take(BiasScratchSize(problem));
    used_ = carve.used();
  }
  std::int64_t used() const { return used_; }
  float* queries_of(std::int64_t head) const { return q + head * rows * stride; }
  void FinishQueries(std::int64_t /* head */) const {}

 private:
  std::int64_t used_;
};

// Converts the scores of a tile of one key head to weights. Returns whether a key is hidden.
inline bool WeighDirectly(const ForwardProblem<float>& problem, const Tile& tile,
                          std::int64_t key_head, float* HWY_RESTRICT bias_scratch,
                          float* HWY_RESTRICT scores, const State<float>& state) {
  const std::int64_t rows = tile.rows(), width = padded(tile.keys);
  const auto times_scales = [&](const Operand& of) {
    if (rows == 1)  // the others were not computed
      return TimesScales<1>(of, tile.batch, tile.key, tile.keys, key_head, scores);
    for (std::int64_t row = 0; row < rows; row += decode_rows)
      TimesScales<decode_rows>(of, tile.batch, tile.key, tile.keys, key_head,
                               scores + row * tile_keys);
  };
  times_scales(problem.k);
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
  times_scales(problem.v);
  return hides;
}

// Adds the keys of a range to the states of the piece's heads. Keys and values are read in
// memory order, so that prefetching is effective.
template <typename StateOf>
void Run(const ForwardProblem<float>& problem, const internal::DirectPlan::Piece& piece,
         const internal::KeyRange& range, const DirectScratch& at, const StateOf& state_of) {
  const std::int64_t group = problem.group(), heads = piece.heads, rows = at.rows;
  const std::int64_t queries = problem.queries_of(piece.batch);
  const std::int64_t computed = queries * group == 1 ? 1 : rows, stride = at.stride;
  const float factor = static_cast<float>(QueryFactor(problem));
  for (std::int64_t h = 0; h < heads; ++h) state_of(piece.first + h).Clear();
  for (std::int64_t key = range.begin / tile_keys * tile_keys; key < range.end;
       key += tile_keys) {
    const Tile tile = trimmed(problem, Tile{piece.batch, piece.first * group, group, 0, queries,
                                            key, std::min(tile_keys, range.end - key)});
    if (!tile.keys) continue;
    const auto cached = [&](const Operand& of) {
      return CachedRows{
          of, piece.batch, key, tile.keys, piece.first, heads, problem.keys_of(piece.batch)};
    };
    if (problem.pairs)
      MultiplyCachedPairs(cached(problem.k), problem.size, at.q, stride, factor, computed,
                          at.scores);
    else
      MultiplyCachedKeys(cached(problem.k), problem.size, at.q, stride, computed, at.scores);
    bool hides = false;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t j = 0; j < std::min(tile.keys, keys_together); ++j)
        PrefetchRow(problem.v, piece.batch, key + j, piece.first + h, problem.value_dim);
      Tile own = tile;
      own.head += h * group;
      float* scores = at.scores + h * rows * tile_keys;
      hides = WeighDirectly(problem, own, piece.first + h, at.bias, scores,
                            state_of(piece.first + h)) ||
              hides;
    }
    const Factors factors = hides ? Factors::nonzero : Factors::all;
    const std::int64_t width = row_stride(problem.value_dim);
    if (problem.pairs) {
      for (std::int64_t r = 0; r < heads * rows; ++r)
        RoundToPairs(at.scores + r * tile_keys, padded(tile.keys),
                     at.pairs + r * tile_keys / 2);
      AddCachedPairs(cached(problem.v), problem.value_dim, at.pairs, factors, computed, at.out,
                     width);
    } else {
      AddCachedValues(cached(problem.v), problem.value_dim, at.scores, factors, computed,
                      at.out, width);
    }
    const hn::ScalableTag<float> d;
    for (std::int64_t h = 0; h < heads; ++h) {
      const State<float> state = state_of(piece.first + h);
      const float* HWY_RESTRICT from = at.out + h * rows * state.width;
      for (std::int64_t i = 0; i < computed * state.width; i += State<float>::lanes)
        hn::Store(hn::Add(hn::Load(d, state.out + i), hn::Load(d, from + i)), d, state.out + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
