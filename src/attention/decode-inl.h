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
#include <cstring>
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
  for (std::int64_t j = 0, run; j < count; j += run) {
    run = of.places.run(first + j, count - j);
    const internal::Place at = of.places(b, first + j);
    for (std::int64_t i = 0; i < run; ++i) {
      const float scale = of.scales(at.batch, at.row + i, head);
      for (std::int64_t r = 0; r < decode_rows; ++r) {
        float& one = rows[r * tile_keys + j + i];
        one = one == 0 ? 0 : one * scale;
      }
    }
  }
}

// The number of tokens whose rows are read for all heads, before the next tokens.
constexpr std::int64_t direct_tokens = 16;

// Whether the rows of direct_tokens tokens may be in several pages.
inline bool CrossesPages(const Operand& of) { return of.places.page() % direct_tokens; }

// Calls body(operand, batch, first) for `count` rows of a head, at most direct_tokens, with an
// operand whose rows are at equal distances: a copy in `scratch` if they are in several pages.
template <typename Body>
void WithRun(const Operand& of, std::int64_t b, std::int64_t first, std::int64_t head,
             std::int64_t count, std::int64_t size, float* scratch, const Body& body) {
  if (of.places.run(first, count) == count) return body(of, b, first, head);
  const std::int64_t bytes = size * static_cast<std::int64_t>(of.bytes());
  char* to = reinterpret_cast<char*>(scratch);
  for (std::int64_t j = 0, run; j < count; j += run) {
    run = of.places.run(first + j, count - j);
    const char* from = static_cast<const char*>(of.data) +
                       OffsetOf(of, b, first + j, head) * static_cast<std::int64_t>(of.bytes());
    const std::int64_t step = of.strides[1] * static_cast<std::int64_t>(of.bytes());
    for (std::int64_t i = 0; i < run; ++i, to += bytes)
      std::memcpy(to, from + i * step, static_cast<std::size_t>(bytes));
  }
  Operand copy = of;
  copy.data = scratch, copy.strides = {0, size, 0}, copy.places = {};
  body(copy, 0, 0, 0);
}

struct DirectScratch {
  internal::Carve<float> carve;
  float *q, *scores, *bias, *rows;

  // Buffers for `heads` key heads of `row_count` rows each.
  DirectScratch(const AttentionProblem& problem, std::int64_t heads, std::int64_t row_count,
                float* block)
      : carve(block),
        q(carve.take(heads * row_count * row_stride(problem.size))),
        scores(carve.take(heads * row_count * tile_keys)),
        bias(carve.take(BiasScratchSize(problem))),
        rows(carve.take(CrossesPages(problem.k)
                            ? direct_tokens * std::max(problem.size, problem.value_dim)
                            : 0)) {}
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
  constexpr std::int64_t length = internal::direct_keys, few = direct_tokens;
  const std::int64_t group = problem.group(), heads = piece.heads;
  const std::int64_t queries = problem.queries_of(piece.batch);
  const std::int64_t rows = internal::in_fours(queries * group);
  const std::int64_t computed = queries * group == 1 ? 1 : rows;
  const std::int64_t stride = row_stride(problem.size);
  for (std::int64_t h = 0; h < heads; ++h) state_of(piece.first + h).Clear();
  const auto scores_of = [&](std::int64_t h) { return at.scores + h * rows * tile_keys; };
  for (std::int64_t key = range.begin / length * length; key < range.end; key += length) {
    const Tile tile = trimmed(problem, Tile{piece.batch, piece.first * group, group, 0, queries,
                                            key, std::min(length, range.end - key)});
    // Calls body(first column, columns, h) for `few` tokens at a time: all heads, then the
    // next tokens; or, in a cache [B, H, S, D], all tokens of a head, then of the next head.
    const auto in_order = [&](const Operand& cache, const auto& body) {
      const std::int64_t page = cache.places.page();
      const bool by_heads = cache.strides[2] > cache.strides[1] && (!page || page >= length);
      const std::int64_t parts = (tile.keys + few - 1) / few;
      for (std::int64_t i = 0; i < parts * heads; ++i) {
        const std::int64_t j = few * (by_heads ? i % parts : i / heads);
        body(j, std::min(few, tile.keys - j), by_heads ? i / parts : i % heads);
      }
    };
    in_order(problem.k, [&](std::int64_t j, std::int64_t count, std::int64_t h) {
      WithRun(problem.k, piece.batch, key + j, piece.first + h, count, problem.size, at.rows,
              [&](const Operand& of, std::int64_t b, std::int64_t first, std::int64_t head) {
                MultiplyCachedKeys(of, b, first, head, count, problem.size,
                                   at.q + h * rows * stride, stride, computed,
                                   scores_of(h) + j);
              });
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
      WithRun(problem.v, piece.batch, key + j, piece.first + h, count, problem.value_dim,
              at.rows,
              [&](const Operand& of, std::int64_t b, std::int64_t first, std::int64_t head) {
                AddCachedValues(of, b, first, head, count, problem.value_dim, scores_of(h) + j,
                                factors, computed, state.out, state.width);
              });
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
