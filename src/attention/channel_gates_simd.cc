// Products of queries and keys whose channels decay.

#include <numbers>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/channel_gates_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/channel_gates-inl.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Decays below this are 0, so that a product of two does not become denormal.
template <typename A>
constexpr A LeastDecayExponent() {
  return LeastExponent<A>() / 2;
}

// Computes 2^x for x <= 0; 0 below LeastDecayExponent().
template <class Tag, class V>
HWY_INLINE V DecayOf(Tag tag, V x) {
  const auto least = hn::Set(tag, LeastDecayExponent<hn::TFromD<Tag>>());
  return hn::IfThenZeroElse(hn::Lt(x, least), WeightOfScore(tag, x));
}

// Calls body(tag, i) for the vectors of a padded row.
template <typename A, typename Body>
HWY_INLINE void ForRow(std::int64_t size, const Body& body) {
  const hn::ScalableTag<A> tag;
  const std::int64_t width = padded(size);
  for (std::int64_t i = 0; i < width; i += static_cast<std::int64_t>(hn::Lanes(tag)))
    body(tag, i);
}

// Loads the gates of a key row in units of ln 2, with zeros up to the padding. The gates of
// padding tokens are 0.
template <typename A>
void LoadGates(const AttentionProblem& problem, std::int64_t b, std::int64_t row,
               std::int64_t head, A* HWY_RESTRICT to) {
  const std::int64_t size = problem.size;
  std::fill(to + size, to + padded(size), A(0));
  if (IsPadding(problem.position.keys, b, row)) {
    std::fill_n(to, size, A(0));
    return;
  }
  const float* HWY_RESTRICT from = &problem.channel_gates(b, row, head, 0);
  const std::int64_t step = problem.channel_gates.stride(3);
  if (step == 1)
    for (std::int64_t n = 0; n < size; ++n)
      to[n] = static_cast<A>(log2_of_e) * static_cast<A>(from[n]);
  else
    for (std::int64_t n = 0; n < size; ++n)
      to[n] = static_cast<A>(log2_of_e) * static_cast<A>(from[n * step]);
}

template <typename A>
void FindDecays(const AttentionProblem& problem, std::int64_t b, std::int64_t head,
                std::int64_t query, std::int64_t queries, std::int64_t first,
                const ChannelScratch<A>& at) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  const std::int64_t begin = query + problem.mask.offset, end = begin + queries;
  A* HWY_RESTRICT exponents = at.exponents;
  A* HWY_RESTRICT gates = at.factors;
  for (std::int64_t row = begin / tile_keys * tile_keys; row < end; ++row) {
    if (row % tile_keys == 0) std::fill_n(at.sum, size, 0.0);
    if (row % gate_block == 0) {
      if (row + gate_block > begin) {
        A* before = at.before_of(problem, head, row);
        for (std::int64_t n = 0; n < size; ++n) before[n] = static_cast<A>(at.sum[n]);
        std::fill(before + size, before + padded(size), A(0));
      }
      std::fill_n(exponents, padded(size), A(0));
    }
    LoadGates(problem, b, row, head, gates);
    for (std::int64_t n = 0; n < size; ++n) at.sum[n] += static_cast<double>(gates[n]);
    ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
      hn::Store(hn::Add(hn::Load(tag, exponents + i), hn::Load(tag, gates + i)), tag,
                exponents + i);
    });
    if (row < begin) continue;
    A* HWY_RESTRICT to = at.decays + (first + row - begin) * stride;
    ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
      hn::Store(DecayOf(tag, hn::Load(tag, exponents + i)), tag, to + i);
    });
  }
}

template <typename A>
void ScaleKeys(const AttentionProblem& problem, const Tile& tile, const ChannelScratch<A>& at) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  A* HWY_RESTRICT exponents = at.exponents;
  A* HWY_RESTRICT later = at.factors;  // sums of the later blocks
  std::fill_n(at.sum, size, 0.0);
  std::fill_n(later, padded(size), A(0));
  for (std::int64_t u = (tile.keys - 1) / gate_block; u >= 0; --u) {
    std::fill_n(exponents, padded(size), A(0));
    for (std::int64_t j = std::min((u + 1) * gate_block, tile.keys) - 1; j >= u * gate_block;
         --j) {
      A* HWY_RESTRICT gates = at.gates + j * stride;
      LoadGates(problem, tile.batch, tile.key + j, tile.head, gates);
      const A* HWY_RESTRICT key = at.keys + j * stride;
      ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
        const auto x = hn::Load(tag, exponents + i), k = hn::Load(tag, key + i);
        const auto of_block = DecayOf(tag, x);
        const auto of_tile = DecayOf(tag, hn::Add(x, hn::Load(tag, later + i)));
        hn::Store(hn::Mul(of_block, k), tag, at.of_block + j * stride + i);
        hn::Store(hn::Mul(of_tile, k), tag, at.of_tile + j * stride + i);
        if (at.block_decays) {
          hn::Store(of_block, tag, at.block_decays + j * stride + i);
          hn::Store(of_tile, tag, at.tile_decays + j * stride + i);
        }
        hn::Store(hn::Add(x, hn::Load(tag, gates + i)), tag, exponents + i);
      });
    }
    double* HWY_RESTRICT block = at.block_sums + u * stride;
    for (std::int64_t n = 0; n < size; ++n) {
      block[n] = static_cast<double>(exponents[n]);
      at.sum[n] += block[n];
      later[n] = static_cast<A>(at.sum[n]);
    }
  }
  for (A* rows : {at.of_block, at.of_tile})
    std::fill(rows + tile.keys * stride, rows + padded(tile.keys) * stride, A(0));
  MakePanels(at.of_block, tile.keys, size, at.block_panels);
  MakePanels(at.of_tile, tile.keys, size, at.tile_panels);
  if (at.direct_sums)
    for (A* sums : {at.tile_sums, at.own_block_sums, at.direct_sums})
      std::fill_n(sums, tile_keys * stride, A(0));
}

// Computes scaled and factors of `count` rows, which are in one block: the decay of a row times
// the decay of the exponents at.sum.
template <typename A>
void ScaleQueries(std::int64_t size, std::int64_t count, const A* HWY_RESTRICT q,
                  const A* HWY_RESTRICT decays, const ChannelScratch<A>& at, std::int64_t to) {
  const std::int64_t stride = row_stride(size);
  A* HWY_RESTRICT common = at.exponents;
  for (std::int64_t n = 0; n < size; ++n) common[n] = static_cast<A>(at.sum[n]);
  std::fill(common + size, common + padded(size), A(0));
  const A least = sizeof(A) == 4 ? A(0x1p-50) : A(0x1p-480);
  ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
    hn::Store(DecayOf(tag, hn::Load(tag, common + i)), tag, common + i);
  });
  for (std::int64_t r = 0; r < count; ++r)
    ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
      const auto both =
          hn::Mul(hn::Load(tag, common + i), hn::Load(tag, decays + r * stride + i));
      const auto factor = hn::IfThenZeroElse(hn::Lt(both, hn::Set(tag, least)), both);
      hn::Store(factor, tag, at.factors + (to + r) * stride + i);
      hn::Store(hn::Mul(factor, hn::Load(tag, q + r * stride + i)), tag,
                at.scaled + (to + r) * stride + i);
    });
}

// Calls body(rows of one block, its index in the tile's rows) for the rows of a tile.
template <typename Body>
HWY_INLINE void ForBlocksOfQueries(const AttentionProblem& problem, const Tile& tile,
                                   const Body& body) {
  for (std::int64_t r = 0, count; r < tile.queries; r += count) {
    const std::int64_t own = tile.query + r + problem.mask.offset;
    count = std::min(gate_block - own % gate_block, tile.queries - r);
    Tile part = tile;
    part.query += r, part.queries = count;
    body(part, r);
  }
}

// Scales the queries of a tile of which all keys are in an earlier tile of key rows.
template <typename A>
void ScaleLaterQueries(const internal::TypedProblem<A>& problem, const Tile& tile,
                       std::int64_t first, const A* q, const ChannelScratch<A>& at) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  const std::int64_t tiles = problem.keys / tile_keys;
  const std::int64_t own = (tile.query + problem.mask.offset) / tile_keys;
  const double* of_head =
      problem.gate_tiles.data() + (tile.batch * problem.heads + tile.head) * tiles * size;
  double* HWY_RESTRICT between = at.between;
  std::fill_n(between, size, 0.0);
  for (std::int64_t t = own - 1; t > tile.key / tile_keys; --t)
    for (std::int64_t n = 0; n < size; ++n) between[n] += of_head[t * size + n];
  ForBlocksOfQueries(problem, tile, [&](const Tile& part, std::int64_t r) {
    const A* before = at.before_of(problem, tile.head, part.query + problem.mask.offset);
    for (std::int64_t n = 0; n < size; ++n)
      at.sum[n] = between[n] + static_cast<double>(before[n]);
    ScaleQueries(size, part.queries, q + r * stride, at.decays + (first + r) * stride, at, r);
  });
}

inline bool IsLater(const AttentionProblem& problem, const Tile& tile) {
  return (tile.query + problem.mask.offset) / tile_keys > tile.key / tile_keys;
}

// Calls body(columns) for the earlier blocks of keys of the rows of one block, after scaling
// the rows for them.
template <typename A, typename Body>
void ForEarlierBlocks(const AttentionProblem& problem, const Tile& part, std::int64_t begin,
                      const A* q, const A* decays, const ChannelScratch<A>& at,
                      const Body& body) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  const std::int64_t own = (part.query + problem.mask.offset - part.key) / gate_block;
  std::fill_n(at.sum, size, 0.0);
  for (std::int64_t u = own - 1; u >= begin / gate_block; --u) {
    ScaleQueries(size, part.queries, q, decays, at, 0);
    SeenColumns columns;
    std::fill(columns, columns + std::size(columns),
              Columns{std::max(u * gate_block, begin), (u + 1) * gate_block});
    body(columns);
    const double* HWY_RESTRICT block = at.block_sums + u * stride;
    for (std::int64_t n = 0; n < size; ++n) at.sum[n] += block[n];
  }
}

// Calls body(row of the block, key) for the pairs within one block, from each query leftwards
// to the key `begin`, with the exponents of their decays in the buffer.
template <typename A, typename Body>
HWY_INLINE void ForPairs(const AttentionProblem& problem, const Tile& part, std::int64_t begin,
                         const ChannelScratch<A>& at, const Body& body) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  for (std::int64_t r = 0; r < part.queries; ++r) {
    const std::int64_t own = part.query + r + problem.mask.offset - part.key;
    std::fill_n(at.exponents, padded(size), A(0));
    for (std::int64_t j = own; j >= std::max(begin, own / gate_block * gate_block); --j) {
      body(r, j);
      ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
        hn::Store(
            hn::Add(hn::Load(tag, at.exponents + i), hn::Load(tag, at.gates + j * stride + i)),
            tag, at.exponents + i);
      });
    }
  }
}

// Returns the first visible column of a tile.
inline std::int64_t FirstColumn(const Tile& tile, const SeenColumns& columns) {
  std::int64_t first = tile.keys;
  for (std::int64_t row = 0; row < tile.rows(); row += block_rows)
    if (columns[row / block_rows].begin < columns[row / block_rows].end)
      first = std::min(first, columns[row / block_rows].begin);
  return first;
}

template <typename A>
bool MakeGatedScores(const internal::TypedProblem<A>& problem, const Tile& tile,
                     const SeenColumns& columns, std::int64_t first, const A* q,
                     A* bias_scratch, const ChannelScratch<A>& at, A* scores, A* slope) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  if (IsLater(problem, tile)) {
    ScaleLaterQueries(problem, tile, first, q, at);
    MultiplyPanels<A>(tile, columns, size, at.scaled, at.tile_panels, nullptr, scores);
  } else {
    const std::int64_t begin = FirstColumn(tile, columns);
    ForBlocksOfQueries(problem, tile, [&](const Tile& part, std::int64_t row) {
      const A* of_part = q + row * stride;
      A* to = scores + row * tile_keys;
      ForEarlierBlocks(problem, part, begin, of_part, at.decays + (first + row) * stride, at,
                       [&](const SeenColumns& block) {
                         MultiplyPanels<A>(part, block, size, at.scaled, at.block_panels,
                                           nullptr, to);
                       });
      ForPairs(problem, part, begin, at, [&](std::int64_t r, std::int64_t j) HWY_ATTR {
        const A* HWY_RESTRICT query = of_part + r * stride;
        const A* HWY_RESTRICT key = at.keys + j * stride;
        const hn::ScalableTag<A> d;
        auto sum = hn::Zero(d);
        ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
          const auto decay = DecayOf(tag, hn::Load(tag, at.exponents + i));
          sum =
              hn::MulAdd(hn::Mul(decay, hn::Load(tag, query + i)), hn::Load(tag, key + i), sum);
        });
        to[r * tile_keys + j] = SumLanes(d, sum);
      });
    });
  }
  return FinishScores(problem, tile, columns, bias_scratch, scores, slope) || tile.keys % 16;
}

// q_grad += factors product. An element without a gradient adds nothing: its factor may be NaN.
template <typename A>
void AddScaled(std::int64_t size, std::int64_t count, const ChannelScratch<A>& at,
               A* HWY_RESTRICT q_grad) {
  const std::int64_t stride = row_stride(size);
  for (std::int64_t r = 0; r < count; ++r)
    ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
      const std::int64_t n = r * stride + i;
      const auto product = hn::Load(tag, at.product + n), to = hn::Load(tag, q_grad + n);
      const auto sum = hn::MulAdd(hn::Load(tag, at.factors + n), product, to);
      hn::Store(hn::IfThenElse(hn::Eq(product, hn::Zero(tag)), to, sum), tag, q_grad + n);
    });
}

// The products of a tile, or of one block of keys, with scaled rows. all: its columns.
template <typename A>
void ScaledBackward(const Tile& tile, const SeenColumns& columns, const Columns& all,
                    std::int64_t size, const A* score_grad, const A* keys, A* key_sums,
                    const ChannelScratch<A>& at, A* q_grad) {
  const std::int64_t stride = row_stride(size);
  Product<A> product;
  product.depth = tile.queries, product.factors = FactorsOf(at.scaled, tile.queries, size);
  product.a = score_grad + all.begin, product.a_stride = tile_keys;
  product.b = at.scaled, product.b_row = stride;
  product.c = key_sums + all.begin * stride, product.c_row = stride;
  Multiply<Left::by_column, Into::add>(product, std::min(all.end, tile.keys) - all.begin,
                                       padded(size));
  std::fill_n(at.product, tile.queries * stride, A(0));
  const Factors of_keys =
      FactorsOf(keys + all.begin * stride, std::min(all.end, tile.keys) - all.begin, size);
  MultiplyWeights(tile, columns, size, score_grad, keys, of_keys, at.product);
  AddScaled(size, tile.queries, at, q_grad);
}

template <typename A>
void GatedProductsBackward(const internal::TypedProblem<A>& problem, const Tile& tile,
                           const SeenColumns& columns, const Columns& all, std::int64_t first,
                           const A* q, const A* score_grad, const ChannelScratch<A>& at,
                           A* q_grad) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  if (IsLater(problem, tile))  // the rows are still scaled
    return ScaledBackward(tile, columns, all, size, score_grad, at.of_tile, at.tile_sums, at,
                          q_grad);
  ForBlocksOfQueries(problem, tile, [&](const Tile& part, std::int64_t row) {
    const A* of_part = q + row * stride;
    const A* grad = score_grad + row * tile_keys;
    A* to = q_grad + row * stride;
    ForEarlierBlocks(problem, part, all.begin, of_part, at.decays + (first + row) * stride, at,
                     [&](const SeenColumns& block) {
                       ScaledBackward(part, block, block[0], size, grad, at.of_block,
                                      at.own_block_sums, at, to);
                     });
    ForPairs(problem, part, all.begin, at, [&](std::int64_t r, std::int64_t j) HWY_ATTR {
      const A ds = grad[r * tile_keys + j];
      if (ds == A(0)) return;  // a hidden key may be NaN
      const A* HWY_RESTRICT query = of_part + r * stride;
      const A* HWY_RESTRICT key = at.keys + j * stride;
      A* HWY_RESTRICT of_query = to + r * stride;
      A* HWY_RESTRICT of_key = at.direct_sums + j * stride;
      ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
        const auto by =
            hn::Mul(hn::Set(tag, ds), DecayOf(tag, hn::Load(tag, at.exponents + i)));
        hn::Store(hn::MulAdd(by, hn::Load(tag, key + i), hn::Load(tag, of_query + i)), tag,
                  of_query + i);
        hn::Store(hn::MulAdd(by, hn::Load(tag, query + i), hn::Load(tag, of_key + i)), tag,
                  of_key + i);
      });
    });
  });
}

template <typename A>
void TakeKeySums(const AttentionProblem& problem, const Tile& tile, A factor,
                 const ChannelScratch<A>& at, A* key_sums, A* gate_sums, std::int64_t step) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  for (std::int64_t j = 0; j < tile.keys; ++j)
    ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
      const std::int64_t n = j * stride + i;
      const auto zero = hn::Zero(tag);
      // A sum of 0 is not multiplied: a decay of hidden keys, or a hidden key, may be NaN.
      const auto product = [&](const A* sums, const A* factors) HWY_ATTR {
        const auto sum = hn::Load(tag, sums + n);
        return hn::IfThenZeroElse(hn::Eq(sum, zero), hn::Mul(sum, hn::Load(tag, factors + n)));
      };
      const auto grad = hn::Add(hn::Add(product(at.tile_sums, at.tile_decays),
                                        product(at.own_block_sums, at.block_decays)),
                                hn::Load(tag, at.direct_sums + n));
      hn::Store(hn::Add(hn::Load(tag, key_sums + n), grad), tag, key_sums + n);
      const auto of_gate =
          hn::Mul(hn::Set(tag, factor), hn::Mul(grad, hn::Load(tag, at.keys + n)));
      A* to = gate_sums + j * step + i;
      hn::Store(hn::Sub(hn::Load(tag, to), hn::IfThenZeroElse(hn::Eq(grad, zero), of_gate)),
                tag, to);
    });
}

template <typename A>
void TakeQuerySums(std::int64_t size, A factor, const A* q, const A* q_grad, A* gate_sums) {
  ForRow<A>(size, [&](auto tag, std::int64_t i) HWY_ATTR {
    const auto grad = hn::Load(tag, q_grad + i);
    const auto of_gate = hn::Mul(hn::Set(tag, factor), hn::Mul(grad, hn::Load(tag, q + i)));
    hn::Store(hn::Add(hn::Load(tag, gate_sums + i),
                      hn::IfThenZeroElse(hn::Eq(grad, hn::Zero(tag)), of_gate)),
              tag, gate_sums + i);
  });
}

template <typename A>
void StoreGateGradient(const BackwardProblem<A>& problem, std::int64_t b, std::int64_t head,
                       const A* gate_sums, std::int64_t step) {
  const std::int32_t* sequences = internal::sequences(problem.position.keys, b);
  std::int32_t own = Positions::padding;
  for (std::int64_t n = 0; n < problem.size; ++n) {
    double sum = 0;
    for (std::int64_t j = problem.keys - 1; j >= 0; --j) {
      float& to = problem.channel_gates_grad(b, j, head, n);
      if (sequences && sequences[j] == Positions::padding) {
        to = 0;
        continue;
      }
      if (sequences && sequences[j] != own) own = sequences[j], sum = 0;
      sum += static_cast<double>(gate_sums[j * step + n]);
      to = static_cast<float>(sum);
    }
  }
}

#define GNOMON_CHANNEL_GATES(A)                                                                \
  template void FindDecays(const AttentionProblem&, std::int64_t, std::int64_t, std::int64_t,  \
                           std::int64_t, std::int64_t, const ChannelScratch<A>&);              \
  template void ScaleKeys(const AttentionProblem&, const Tile&, const ChannelScratch<A>&);     \
  template bool MakeGatedScores(const internal::TypedProblem<A>&, const Tile&,                 \
                                const SeenColumns&, std::int64_t, const A*, A*,                \
                                const ChannelScratch<A>&, A*, A*);                             \
  template void GatedProductsBackward(const internal::TypedProblem<A>&, const Tile&,           \
                                      const SeenColumns&, const Columns&, std::int64_t,        \
                                      const A*, const A*, const ChannelScratch<A>&, A*);       \
  template void TakeKeySums(const AttentionProblem&, const Tile&, A, const ChannelScratch<A>&, \
                            A*, A*, std::int64_t);                                             \
  template void TakeQuerySums(std::int64_t, A, const A*, const A*, A*);                        \
  template void StoreGateGradient(const BackwardProblem<A>&, std::int64_t, std::int64_t,       \
                                  const A*, std::int64_t);
GNOMON_CHANNEL_GATES(float)
GNOMON_CHANNEL_GATES(double)
#undef GNOMON_CHANNEL_GATES

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
