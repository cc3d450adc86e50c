// Attention backward: the scores again, tile by tile, from the saved logarithms of their sums.
//
//   p = exp(score - lse)     dp = do . v     ds = p (dp - do . out)
//   dq' = scale ds k'        dk' = scale ds q'        dv = p do        dbias = ds
#include <algorithm>
#include <cstdint>
#include <limits>

#include "gnomon/parallel.h"
#include "src/attention/problem.h"
#include "src/attention/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/backward_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/multiply-inl.h"
#include "src/attention/pack-inl.h"
#include "src/attention/scores-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::BackwardProblem;

// One piece of work is a key head of a batch row with all its query heads: every sum over
// queries or keys is then made by one thread, in one order.
template <typename A>
struct BackwardScratch {
  // Of all S keys; transposed ones tile by tile, [size, tile_keys] each.
  A *key, *key_transposed, *value_transposed, *key_grad, *value_grad;
  // Of one tile of queries or scores.
  A *value, *q, *out, *out_grad, *q_grad, *scores, *score_grad, *bias, *lse, *delta;
  std::int64_t used;

  BackwardScratch(const AttentionProblem& problem, A* block) {
    internal::Carve<A> carve(block);
    const std::int64_t keys = problem.keys, size = problem.size, values = problem.value_size;
    const std::int64_t tiles = (keys + tile_keys - 1) / tile_keys;
    key = carve.take(keys * padded(size));
    key_transposed = carve.take(tiles * size * tile_keys);
    value_transposed = carve.take(tiles * values * tile_keys);
    key_grad = carve.take(keys * padded(size));
    value_grad = carve.take(keys * padded(values));
    value = carve.take(tile_keys * padded(values));
    q = carve.take(tile_queries * padded(size));
    out = carve.take(padded(values));
    out_grad = carve.take(tile_queries * padded(values));
    q_grad = carve.take(tile_queries * padded(size));
    scores = carve.take(tile_queries * tile_keys);
    score_grad = carve.take(tile_queries * tile_keys);
    bias = carve.take(internal::bias_room(tile_queries, tile_keys));
    lse = carve.take(tile_queries);
    delta = carve.take(tile_queries);
    used = carve.used();
  }
};

// scores become p, score_grad from dp to ds.
template <typename A>
void Weigh(const Tile& tile, const A* lse, const A* delta, A* HWY_RESTRICT scores,
           A* HWY_RESTRICT score_grad) {
  const hn::ScalableTag<A> tag;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const std::int64_t width = padded(tile.keys);
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    A* HWY_RESTRICT row = scores + i * tile_keys;
    A* HWY_RESTRICT grad = score_grad + i * tile_keys;
    const auto shift = hn::Set(tag, lse[i]), mean = hn::Set(tag, delta[i]);
    for (std::int64_t j = 0; j < width; j += lanes) {
      const auto p = ExpOfScore(tag, hn::Sub(hn::Load(tag, row + j), shift));
      hn::Store(p, tag, row + j);
      hn::Store(hn::Mul(p, hn::Sub(hn::Load(tag, grad + j), mean)), tag, grad + j);
    }
  }
}

template <typename A>
void PackKeys(const BackwardProblem<A>& problem, std::int64_t b, std::int64_t key_head,
              const BackwardScratch<A>& at) {
  const std::int64_t size = problem.size, values = problem.value_size;
  const Positions* of_keys = problem.position.keys;
  for (std::int64_t key = 0; key < problem.keys; key += tile_keys) {
    const std::int64_t keys = std::min(tile_keys, problem.keys - key), n = key / tile_keys;
    for (std::int64_t j = 0; j < keys; ++j) {
      A* row = at.key + (key + j) * padded(size);
      LoadRow(problem, problem.k, of_keys, b, key + j, key_head, size, row);
      RotateRow(problem.position.key_rotary, b, key + j, Turn::forward, row);
      LoadRow(problem, problem.v, of_keys, b, key + j, key_head, values,
              at.value + j * padded(values));
    }
    Transpose(at.key + key * padded(size), padded(size), keys, size,
              at.key_transposed + n * size * tile_keys, tile_keys);
    Transpose(at.value, padded(values), keys, values,
              at.value_transposed + n * values * tile_keys, tile_keys);
  }
  std::fill_n(at.key_grad, problem.keys * padded(size), A(0));
  std::fill_n(at.value_grad, problem.keys * padded(values), A(0));
}

// The queries [query, query + queries) of one head.
template <typename A>
void PackQueries(const BackwardProblem<A>& problem, const Tile& rows,
                 const BackwardScratch<A>& at) {
  const std::int64_t size = problem.size, values = problem.value_size;
  const Positions* of_queries = problem.position.queries;
  for (std::int64_t i = 0; i < rows.queries; ++i) {
    const std::int64_t query = rows.query + i;
    A* q = at.q + i * padded(size);
    A* out_grad = at.out_grad + i * padded(values);
    LoadRow(problem, problem.q, of_queries, rows.batch, query, rows.head, size, q);
    RotateRow(problem.position.query_rotary, rows.batch, query, Turn::forward, q);
    LoadRow(problem, problem.out, of_queries, rows.batch, query, rows.head, values, at.out);
    LoadRow(problem, problem.out_grad, of_queries, rows.batch, query, rows.head, values,
            out_grad);
    A delta = 0;
    for (std::int64_t d = 0; d < values; ++d) delta += at.out[d] * out_grad[d];
    at.delta[i] = delta;
    // A row that saw nothing must weigh everything with 0.
    const A lse = problem.lse(rows.batch, rows.head, query);
    constexpr A infinity = std::numeric_limits<A>::infinity();
    at.lse[i] = lse == -infinity ? infinity : lse;
  }
  std::fill_n(at.q_grad, rows.queries * padded(size), A(0));
}

template <typename A>
void BackwardTile(const BackwardProblem<A>& problem, const Tile& tile,
                  const BackwardScratch<A>& at) {
  const std::int64_t size = problem.size, values = problem.value_size;
  const std::int64_t width = padded(size), value_width = padded(values);
  const std::int64_t n = tile.key / tile_keys, columns = padded(tile.keys);
  const Packed<A> scores{at.scores, tile_keys}, score_grad{at.score_grad, tile_keys};
  Multiply(tile.queries, columns, size, Factor<A>{at.q, width, 1},
           Packed<const A>{at.key_transposed + n * size * tile_keys, tile_keys}, scores,
           Into::store);
  Multiply(tile.queries, columns, values, Factor<A>{at.out_grad, value_width, 1},
           Packed<const A>{at.value_transposed + n * values * tile_keys, tile_keys}, score_grad,
           Into::store);
  FinishScores(problem, tile, at.bias, at.scores);
  Weigh(tile, at.lse, at.delta, at.scores, at.score_grad);
  add_bias_gradient(problem, tile, at.score_grad, tile_keys);
  Multiply(tile.keys, value_width, tile.queries, Factor<A>{at.scores, 1, tile_keys},
           Packed<const A>{at.out_grad, value_width},
           Packed<A>{at.value_grad + tile.key * value_width, value_width}, Into::add);
  Multiply(tile.keys, width, tile.queries, Factor<A>{at.score_grad, 1, tile_keys},
           Packed<const A>{at.q, width}, Packed<A>{at.key_grad + tile.key * width, width},
           Into::add);
  Multiply(tile.queries, width, tile.keys, Factor<A>{at.score_grad, tile_keys, 1},
           Packed<const A>{at.key + tile.key * width, width}, Packed<A>{at.q_grad, width},
           Into::add);
}

template <typename A>
void Backward(const BackwardProblem<A>& problem, std::int64_t b, std::int64_t key_head,
              const BackwardScratch<A>& at) {
  const std::int64_t size = problem.size, width = padded(size);
  const A scale = static_cast<A>(problem.scale);
  PackKeys(problem, b, key_head, at);
  for (std::int64_t g = 0; g < problem.group(); ++g)
    for (std::int64_t query = 0; query < problem.queries; query += tile_queries) {
      const Tile rows{b,     key_head * problem.group() + g,
                      query, std::min(tile_queries, problem.queries - query),
                      0,     0};
      PackQueries(problem, rows, at);
      const std::int64_t begin = visible_keys(problem, query).begin / tile_keys * tile_keys;
      const std::int64_t end = visible_keys(problem, query + rows.queries - 1).end;
      for (std::int64_t key = begin; key < end; key += tile_keys) {
        Tile tile = rows;
        tile.key = key;
        tile.keys = std::min(tile_keys, problem.keys - key);
        tile = Trim(problem, tile);
        if (tile.keys) BackwardTile(problem, tile, at);
      }
      for (std::int64_t i = 0; i < rows.queries; ++i) {
        A* row = at.q_grad + i * width;
        RotateRow(problem.position.query_rotary, b, query + i, Turn::back, row);
        StoreRow(problem, problem.q_grad, b, query + i, rows.head, size, scale, row);
      }
    }
  for (std::int64_t j = 0; j < problem.keys; ++j) {
    A* row = at.key_grad + j * width;
    RotateRow(problem.position.key_rotary, b, j, Turn::back, row);
    StoreRow(problem, problem.k_grad, b, j, key_head, size, scale, row);
    StoreRow(problem, problem.v_grad, b, j, key_head, problem.value_size, A(1),
             at.value_grad + j * padded(problem.value_size));
  }
}

template <typename A>
void BackwardAll(const BackwardProblem<A>& problem) {
  const std::int64_t count = problem.batch * problem.key_heads;
  if (!count) return;
  const std::int64_t work = 1 + problem.queries * problem.group() * problem.keys *
                                    (problem.size + problem.value_size);
  const std::int64_t grain = std::max<std::int64_t>(1, 100'000 / work);
  internal::ScratchPool<A> pool((count - 1) / grain + 1,
                                BackwardScratch<A>(problem, nullptr).used);
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    A* block = pool.take();
    const BackwardScratch<A> scratch(problem, block);
    for (std::int64_t n = begin; n < end; ++n)
      Backward(problem, n / problem.key_heads, n % problem.key_heads, scratch);
    pool.give(block);
  });
}

void BackwardFloat(const BackwardProblem<float>& problem) { BackwardAll(problem); }
void BackwardDouble(const BackwardProblem<double>& problem) { BackwardAll(problem); }

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(BackwardFloat);
HWY_EXPORT(BackwardDouble);

void internal::run_backward(const BackwardProblem<float>& problem) {
  GNOMON_DISPATCH(BackwardFloat)(problem);
}
void internal::run_backward(const BackwardProblem<double>& problem) {
  GNOMON_DISPATCH(BackwardDouble)(problem);
}

}  // namespace gnomon
#endif  // HWY_ONCE
