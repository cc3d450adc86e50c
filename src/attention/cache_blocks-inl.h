// Some queries and many keys: too many rows for reading the cache directly, too few to divide
// the time of transposing keys among them. Keys are multiplied by transposed queries where they
// are, and the scores are transposed instead. What follows is prefetched during the products.
#if defined(GNOMON_ATTENTION_CACHE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_CACHE_BLOCKS_INL_H_
#undef GNOMON_ATTENTION_CACHE_BLOCKS_INL_H_
#else
#define GNOMON_ATTENTION_CACHE_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "src/attention/online-inl.h"
#include "src/attention/pack-inl.h"
#include "src/attention/tile.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::narrow_keys;

// The scores of several heads lie side by side in rows of tile_keys.
constexpr std::int64_t narrow_beside = tile_keys / narrow_keys;
// Tokens of a block, whose heads are read in memory order; as many are prefetched. More of them
// load and store sums less often. The lines of more floats where they are, at a distance of a
// power of two, would compete for the same sets of a cache.
constexpr std::int64_t keys_of_block = 16, floats_of_block = 16, values_of_block = 32;

struct BlockScratch {
  std::int64_t rows, columns, key_stride, value_stride;
  float *q, *q_columns, *copy, *zeros, *products, *scores, *pairs, *bias;

  // Buffers for `heads` key heads of `count` rows each.
  BlockScratch(const AttentionProblem& problem, std::int64_t heads, std::int64_t count,
               float* block)
      : rows(count),
        columns(padded(rows)),
        key_stride(QueryStride(problem)),
        value_stride(row_stride(problem.value_dim)) {
    internal::Carve<float> carve(block);
    const std::int64_t most = (heads + narrow_beside - 1) / narrow_beside;
    q = carve.take(heads * columns * key_stride);
    q_columns = carve.take(heads * key_stride * columns);
    copy = carve.take(std::max(keys_of_block * key_stride, values_of_block * value_stride));
    zeros = carve.take(value_stride);
    products = carve.take(keys_of_block * columns);
    scores = carve.take(most * rows * tile_keys);
    pairs = carve.take(problem.pairs ? most * rows * tile_keys / 2 : 0);
    bias = carve.take(BiasScratchSize(problem));
    used_ = carve.used();
  }
  std::int64_t used() const { return used_; }
  float* queries_of(std::int64_t head) const { return q + head * columns * key_stride; }
  // Transposes the queries of a head.
  void FinishQueries(std::int64_t head) const {
    float* from = queries_of(head);
    std::fill(from + rows * key_stride, from + columns * key_stride, 0.f);
    float* to = q_columns + head * key_stride * columns;
    for (std::int64_t r = 0; r < columns; r += State<float>::lanes)
      Transpose(from + r * key_stride, key_stride, key_stride, to + r, columns);
  }
  float* scores_of(std::int64_t head) const {
    return scores + head / narrow_beside * rows * tile_keys +
           head % narrow_beside * narrow_keys;
  }
  float* pairs_of_head(std::int64_t head) const {
    return pairs + (scores_of(head) - scores) / 2;
  }

 private:
  std::int64_t used_;
};

// The tokens [token, token + count) of a tile in one head. offsets: of their rows.
struct TokenBlock {
  std::int64_t token, count, head;
  const std::int64_t* offsets;
  bool adjacent;  // whether the rows are at equal distances
};

// Rows of floats or pairs, at equal distances.
struct Rows {
  const float* begin;
  std::int64_t stride;
};

// Calls body(block, rows ahead) for all tokens of a tile and all heads of a piece, in memory
// order.
template <std::int64_t block_tokens, typename Body>
HWY_INLINE void ForTokenBlocks(const ForwardProblem<float>& problem, const Operand& of,
                               const internal::DirectPlan::Piece& piece, const Tile& tile,
                               std::int64_t size, const Body& body) {
  const auto each = static_cast<std::int64_t>(of.bytes());
  const std::int64_t last = problem.keys_of(piece.batch) - 1, next_head = of.strides[2];
  const bool by_heads = next_head > of.strides[1] && !of.places.page();
  const std::int64_t outer = by_heads ? piece.heads : 1, inner = piece.heads / outer;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t j = 0; j < tile.keys; j += block_tokens) {
      const std::int64_t row = tile.key + j, count = std::min(block_tokens, tile.keys - j);
      std::int64_t offsets[block_tokens], later[block_tokens];
      for (std::int64_t k = 0; k < block_tokens; ++k) {
        offsets[k] = OffsetOf(of, piece.batch, std::min(row + k, last), piece.first + o);
        later[k] =
            OffsetOf(of, piece.batch, std::min(row + block_tokens + k, last), piece.first + o);
      }
      std::int64_t token_ahead = 0, head_ahead = 0;
      for (std::int64_t h = 0; h < inner; ++h) {
        RowsAhead ahead(size * each);
        for (std::int64_t n = 0; n < block_tokens; ++n) {
          ahead.Add(static_cast<const char*>(of.data) +
                    each * (later[token_ahead] + head_ahead * next_head));
          if (++head_ahead == inner) head_ahead = 0, ++token_ahead;
        }
        body(TokenBlock{j, count, o + h, offsets, of.places.run(row, count) == count}, ahead);
        ahead.Finish();
        for (std::int64_t& offset : offsets) offset += next_head;
      }
    }
}

inline bool IsFloats(const Operand& of) { return of.dtype == DType::f32 && !of.scales.data(); }

// Returns the rows of a block as floats or pairs of keys: where they are, or copied.
HWY_INLINE Rows RowsOf(const ForwardProblem<float>& problem, const Operand& of,
                       const internal::DirectPlan::Piece& piece, const Tile& tile,
                       const TokenBlock& block, std::int64_t size, std::int64_t stride,
                       float* HWY_RESTRICT copy) {
  const bool pairs = problem.pairs;
  if (block.adjacent && IsFloats(of))
    return {static_cast<const float*>(of.data) + block.offsets[0], of.strides[1]};
  if (block.adjacent && pairs && of.strides[1] % 2 == 0)
    return {reinterpret_cast<const float*>(static_cast<const std::uint16_t*>(of.data) +
                                           block.offsets[0]),
            of.strides[1] / 2};
  for (std::int64_t k = 0; k < block.count; ++k) {
    float* to = copy + k * stride;
    if (pairs)
      LoadPairsAt(of, block.offsets[k], size, to);
    else
      LoadRowAt(of, problem.position.keys, piece.batch, tile.key + block.token + k,
                piece.first + block.head, block.offsets[k], size, to);
  }
  return {copy, stride};
}

// Returns the rows of a block of values in pairs: two rows become one.
HWY_INLINE Rows PairsOfValues(const Operand& of, const TokenBlock& block, std::int64_t size,
                              const BlockScratch& at) {
  const auto row = [&](std::int64_t k) {
    return k < block.count ? reinterpret_cast<const float*>(
                                 static_cast<const std::uint16_t*>(of.data) + block.offsets[k])
                           : at.zeros;
  };
  for (std::int64_t k = 0; k < block.count; k += 2)
    InterleaveRows(row(k), row(k + 1), size, at.copy + k / 2 * at.value_stride);
  return {at.copy, at.value_stride};
}

// The scores of the keys of a block.
HWY_INLINE void MultiplyKeyRows(const ForwardProblem<float>& problem, const BlockScratch& at,
                                const TokenBlock& block, const Rows& keys, RowsAhead& ahead) {
  constexpr std::int64_t lanes = State<float>::lanes;
  Product<float> product;
  product.b_row = product.c_row = at.columns, product.c = at.products;
  product.a = keys.begin, product.a_stride = keys.stride;
  product.b = at.q_columns + block.head * at.key_stride * at.columns, product.ahead = &ahead;
  const std::int64_t depth = problem.pairs ? pairs_of(problem.size) : problem.size;
  const std::int64_t at_once = at.columns <= 2 * lanes ? 8 : block_rows;
  ahead.Spread((block.count + at_once - 1) / at_once * depth *
               ((at.columns + Panel<float>() - 1) / Panel<float>()));
  if (problem.pairs) {
    product.depth = depth;
    product.factor = static_cast<float>(QueryFactor(problem));
    Multiply<Left::by_row, Into::store>(product, block.count, at.columns, true);
  } else {
    for (std::int64_t l = 0; l < depth; l += part_products) {
      product.depth = std::min(part_products, depth - l);
      if (l)
        Multiply<Left::by_row, Into::add>(product, block.count, at.columns);
      else
        Multiply<Left::by_row, Into::store>(product, block.count, at.columns);
      product.a += part_products, product.b += part_products * at.columns;
    }
  }
  float* scores = at.scores_of(block.head) + block.token;
  for (std::int64_t j = 0; j < block.count; j += lanes)
    Transpose(at.products + j * at.columns, at.columns, at.rows, scores + j, tile_keys);
}

// Adds the values of a block, times their weights, to the state of its head.
HWY_INLINE void AddValueRows(const ForwardProblem<float>& problem, const BlockScratch& at,
                             const TokenBlock& block, const Rows& values, bool hides,
                             RowsAhead& ahead, const State<float>& state) {
  const std::int64_t size = problem.value_dim, panels = (size - 1) / Panel<float>() + 1;
  Product<float> product;
  product.b = values.begin, product.b_row = values.stride;
  product.c = state.out, product.c_row = state.width, product.ahead = &ahead;
  if (problem.pairs) {
    product.depth = (block.count + 1) / 2;
    product.a = at.pairs_of_head(block.head) + block.token / 2;
    product.a_stride = tile_keys / 2;
    if (hides) product.factors = FactorsOfPairs(values.begin, block.count, size);
  } else {
    product.depth = block.count;
    product.a = at.scores_of(block.head) + block.token, product.a_stride = tile_keys;
    if (hides) product.factors = FactorsOf(values.begin, block.count, size, values.stride);
  }
  ahead.Spread((at.rows + block_rows - 1) / block_rows * panels * product.depth);
  Multiply<Left::by_row, Into::add>(product, at.rows, size, problem.pairs);
}

// Converts the scores of some queries of a tile to weights. row: the first one of the tile.
// Returns whether a key is hidden.
inline bool WeighBlocks(const ForwardProblem<float>& problem, const Tile& tile,
                        const BlockScratch& at, std::int64_t head, std::int64_t row,
                        const State<float>& state) {
  float* scores = at.scores_of(head) + row * tile_keys;
  float* pairs = at.pairs_of_head(head) + row * tile_keys / 2;
  SeenColumns columns;
  FindColumns<float>(problem, tile, columns);
  const bool hides = FinishScores(problem, tile, columns, at.bias, scores);
  TakeScores(tile, columns, problem.value_dim, scores, state, row);
  for (std::int64_t r = 0; r < tile.rows(); ++r) {
    const Columns& seen = columns[r / block_rows];
    float* own = scores + r * tile_keys;
    std::fill(own, own + seen.begin, 0.f);
    std::fill(own + seen.end, own + padded(tile.keys), 0.f);
    if (problem.pairs) RoundToPairs(own, padded(tile.keys), pairs + r * tile_keys / 2);
  }
  return hides;
}

// Adds the keys of a range to the states of the piece's heads.
template <typename StateOf>
void Run(const ForwardProblem<float>& problem, const internal::DirectPlan::Piece& piece,
         const internal::KeyRange& range, const BlockScratch& at, const StateOf& state_of) {
  const std::int64_t group = problem.group(), heads = piece.heads;
  const std::int64_t queries = problem.queries_of(piece.batch);
  std::fill_n(at.zeros, at.value_stride, 0.f);
  for (std::int64_t h = 0; h < heads; ++h) state_of(piece.first + h).Clear();
  for (std::int64_t key = range.begin / narrow_keys * narrow_keys; key < range.end;
       key += narrow_keys) {
    const Tile tile = trimmed(problem, Tile{piece.batch, piece.first * group, group, 0, queries,
                                            key, std::min(narrow_keys, range.end - key)});
    if (!tile.keys) continue;
    ForTokenBlocks<keys_of_block>(problem, problem.k, piece, tile, problem.size,
                                  [&](const TokenBlock& block, RowsAhead& ahead) {
                                    MultiplyKeyRows(
                                        problem, at, block,
                                        RowsOf(problem, problem.k, piece, tile, block,
                                               problem.size, at.key_stride, at.copy),
                                        ahead);
                                  });
    bool hides = false;
    // At most tile_rows rows: several queries, or some query heads of one.
    const std::int64_t most = std::max<std::int64_t>(1, tile_rows / group);
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < queries; i += most)
        for (std::int64_t g = 0; g < group; g += tile_rows) {
          Tile own = tile;
          own.head += h * group + g, own.heads = std::min(tile_rows, group - g);
          own.query = i, own.queries = std::min(most, queries - i);
          const State<float> state = state_of(piece.first + h);
          hides = WeighBlocks(problem, own, at, h, i * group + g, state) || hides;
        }
    const auto add = [&](const TokenBlock& block, RowsAhead& ahead) {
      const std::int64_t size = problem.value_dim;
      const Rows values = problem.pairs ? PairsOfValues(problem.v, block, size, at)
                                        : RowsOf(problem, problem.v, piece, tile, block, size,
                                                 at.value_stride, at.copy);
      AddValueRows(problem, at, block, values, hides, ahead,
                   state_of(piece.first + block.head));
    };
    if (IsFloats(problem.v))
      ForTokenBlocks<floats_of_block>(problem, problem.v, piece, tile, problem.value_dim, add);
    else
      ForTokenBlocks<values_of_block>(problem, problem.v, piece, tile, problem.value_dim, add);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
