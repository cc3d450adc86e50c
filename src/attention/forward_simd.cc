// Attention forward: online softmax over tiles of keys.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gnomon/parallel.h"
#include "src/attention/problem.h"
#include "src/attention/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/forward_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/multiply-inl.h"
#include "src/attention/pack-inl.h"
#include "src/attention/scores-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::ForwardProblem;

// One piece of work: the queries [query, query + queries) of all heads that share a key head,
// so that each tile of keys is packed once for all of them. A piece's row g * queries + i is
// query i of the group's head g.
struct ForwardPiece {
  std::int64_t batch, key_head, query, queries;
};

template <typename A>
struct ForwardScratch {
  A *q, *key, *key_transposed, *value, *scores, *bias, *most, *sum, *out;
  std::int64_t used;

  ForwardScratch(const AttentionProblem& problem, std::int64_t queries, A* block) {
    internal::Carve<A> carve(block);
    const std::int64_t rows = problem.group() * queries;
    q = carve.take(rows * padded(problem.size));
    key = carve.take(tile_keys * padded(problem.size));
    key_transposed = carve.take(problem.size * tile_keys);
    value = carve.take(tile_keys * padded(problem.value_size));
    scores = carve.take(tile_queries * tile_keys);
    bias = carve.take(internal::bias_room(tile_queries, tile_keys));
    most = carve.take(rows);
    sum = carve.take(rows);
    out = carve.take(rows * padded(problem.value_size));
    used = carve.used();
  }
};

// Takes a tile of scores into the rows' running maxima, sums and outputs: scores become
// exp(score - maximum).
template <typename A>
void Online(const Tile& tile, std::int64_t value_width, A* HWY_RESTRICT scores,
            A* HWY_RESTRICT most, A* HWY_RESTRICT sum, A* HWY_RESTRICT out) {
  const hn::ScalableTag<A> tag;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const std::int64_t width = padded(tile.keys);
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    A* HWY_RESTRICT row = scores + i * tile_keys;
    auto greatest = hn::Set(tag, most[i]);
    for (std::int64_t j = 0; j < width; j += lanes)
      greatest = hn::Max(greatest, hn::Load(tag, row + j));
    const A now = hn::GetLane(hn::MaxOfLanes(tag, greatest));
    // While nothing is seen any finite number will do: exp(-infinity - 0) is 0.
    const A reference = now == nothing ? A(0) : now;
    const auto shift = hn::Set(tag, reference);
    auto part = hn::Zero(tag);
    for (std::int64_t j = 0; j < width; j += lanes) {
      const auto weight = ExpOfScore(tag, hn::Sub(hn::Load(tag, row + j), shift));
      part = hn::Add(part, weight);
      hn::Store(weight, tag, row + j);
    }
    const A added = hn::GetLane(hn::SumOfLanes(tag, part));
    if (now != most[i]) {
      const auto factor = ExpOfScore(tag, hn::Set(tag, most[i] - reference));
      sum[i] *= hn::GetLane(factor);
      A* HWY_RESTRICT to = out + i * value_width;
      for (std::int64_t d = 0; d < value_width; d += lanes)
        hn::Store(hn::Mul(factor, hn::Load(tag, to + d)), tag, to + d);
      most[i] = now;
    }
    sum[i] += added;
  }
}

template <typename A>
void Forward(const ForwardProblem<A>& problem, const ForwardPiece& piece,
             const ForwardScratch<A>& at) {
  const std::int64_t group = problem.group(), first_head = piece.key_head * group;
  const std::int64_t size = problem.size, width = padded(size);
  const std::int64_t value_width = padded(problem.value_size);
  const std::int64_t rows = group * piece.queries;
  const Positions *of_queries = problem.position.queries, *of_keys = problem.position.keys;
  for (std::int64_t g = 0; g < group; ++g)
    for (std::int64_t i = 0; i < piece.queries; ++i) {
      A* row = at.q + (g * piece.queries + i) * width;
      LoadRow(problem, problem.q, of_queries, piece.batch, piece.query + i, first_head + g,
              size, row);
      RotateRow(problem.position.query_rotary, piece.batch, piece.query + i, Turn::forward,
                row);
    }
  std::fill_n(at.most, rows, -std::numeric_limits<A>::infinity());
  std::fill_n(at.sum, rows, A(0));
  std::fill_n(at.out, rows * value_width, A(0));

  const std::int64_t begin = visible_keys(problem, piece.query).begin / tile_keys * tile_keys;
  const std::int64_t end = visible_keys(problem, piece.query + piece.queries - 1).end;
  for (std::int64_t key = begin; key < end; key += tile_keys) {
    const std::int64_t keys = std::min(tile_keys, end - key);
    for (std::int64_t j = 0; j < keys; ++j) {
      A* row = at.key + j * width;
      LoadRow(problem, problem.k, of_keys, piece.batch, key + j, piece.key_head, size, row);
      RotateRow(problem.position.key_rotary, piece.batch, key + j, Turn::forward, row);
      LoadRow(problem, problem.v, of_keys, piece.batch, key + j, piece.key_head,
              problem.value_size, at.value + j * value_width);
    }
    Transpose(at.key, width, keys, size, at.key_transposed, tile_keys);
    for (std::int64_t i = 0; i < piece.queries; i += tile_queries) {
      const std::int64_t queries = std::min(tile_queries, piece.queries - i);
      const Tile block =
          Trim(problem, Tile{piece.batch, first_head, piece.query + i, queries, key, keys});
      if (!block.keys) continue;
      for (std::int64_t g = 0; g < group; ++g) {
        Tile tile = block;
        tile.head += g;
        const std::int64_t row = g * piece.queries + i;
        Multiply(queries, padded(tile.keys), size, Factor<A>{at.q + row * width, width, 1},
                 Packed<const A>{at.key_transposed, tile_keys}, Packed<A>{at.scores, tile_keys},
                 Into::store);
        FinishScores(problem, tile, at.bias, at.scores);
        A* out = at.out + row * value_width;
        Online(tile, value_width, at.scores, at.most + row, at.sum + row, out);
        Multiply(queries, value_width, tile.keys, Factor<A>{at.scores, tile_keys, 1},
                 Packed<const A>{at.value, value_width}, Packed<A>{out, value_width},
                 Into::add);
      }
    }
  }

  for (std::int64_t g = 0; g < group; ++g)
    for (std::int64_t i = 0; i < piece.queries; ++i) {
      const std::int64_t row = g * piece.queries + i, query = piece.query + i;
      const A sum = at.sum[row];
      StoreRow(problem, problem.out, piece.batch, query, first_head + g, problem.value_size,
               sum == 0 ? A(0) : A(1) / sum, at.out + row * value_width);
      if (problem.lse.data())
        problem.lse(piece.batch, first_head + g, query) =
            sum == 0 ? -std::numeric_limits<A>::infinity()
                     : static_cast<A>(static_cast<double>(at.most[row]) +
                                      std::log(static_cast<double>(sum)));
    }
}

template <typename A>
void ForwardAll(const ForwardProblem<A>& problem) {
  if (!problem.batch || !problem.queries || !problem.heads) return;
  // About 128 rows in a piece: packing keys is then one part in a hundred.
  const std::int64_t fair =
      std::max<std::int64_t>(tile_queries, 128 / problem.group() / tile_queries * tile_queries);
  const std::int64_t queries = std::min(fair, problem.queries);
  const std::int64_t chunks = (problem.queries - 1) / queries + 1;
  const std::int64_t count = problem.batch * problem.key_heads * chunks;
  // Multiplications in one piece; 200'000 are worth a thread.
  const std::int64_t work =
      1 + queries * problem.group() * problem.keys * (problem.size + problem.value_size);
  const std::int64_t grain = std::max<std::int64_t>(1, 200'000 / work);
  internal::ScratchPool<A> pool((count - 1) / grain + 1,
                                ForwardScratch<A>(problem, queries, nullptr).used);
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    A* block = pool.take();
    const ForwardScratch<A> scratch(problem, queries, block);
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t query = n % chunks * queries, pair = n / chunks;
      Forward(problem,
              ForwardPiece{pair / problem.key_heads, pair % problem.key_heads, query,
                           std::min(queries, problem.queries - query)},
              scratch);
    }
    pool.give(block);
  });
}

void ForwardFloat(const ForwardProblem<float>& problem) { ForwardAll(problem); }
void ForwardDouble(const ForwardProblem<double>& problem) { ForwardAll(problem); }

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardDouble);

void internal::run_forward(const ForwardProblem<float>& problem) {
  GNOMON_DISPATCH(ForwardFloat)(problem);
}
void internal::run_forward(const ForwardProblem<double>& problem) {
  GNOMON_DISPATCH(ForwardDouble)(problem);
}

}  // namespace gnomon
#endif  // HWY_ONCE
