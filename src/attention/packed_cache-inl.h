// Some queries and many keys: too many rows for reading the cache directly, too few to divide
// the time of transposing keys among them. A tile of the cache is copied for all heads of a
// piece, in memory order. Then keys are multiplied by transposed queries, and the scores are
// transposed instead.
#if defined(GNOMON_ATTENTION_PACKED_CACHE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_PACKED_CACHE_INL_H_
#undef GNOMON_ATTENTION_PACKED_CACHE_INL_H_
#else
#define GNOMON_ATTENTION_PACKED_CACHE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "src/attention/online-inl.h"
#include "src/attention/pack-inl.h"
#include "src/attention/tile.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Keys of a tile. The scores of several heads lie side by side in rows of tile_keys.
constexpr std::int64_t packed_keys = 64, packed_beside = tile_keys / packed_keys;
constexpr std::int64_t packed_ahead = 8;  // rows, the distance of prefetching

struct PackedScratch {
  std::int64_t rows, columns, key_stride, value_stride;
  std::int64_t head_stride;  // of packed tiles: heads begin in different sets of a cache
  float *q, *q_columns, *cached, *products, *scores, *pairs, *bias;

  // Buffers for `heads` key heads of `count` rows each.
  PackedScratch(const AttentionProblem& problem, std::int64_t heads, std::int64_t count,
                float* block)
      : rows(count),
        columns(padded(rows)),
        key_stride(QueryStride(problem)),
        value_stride(row_stride(problem.value_dim)),
        head_stride(packed_keys * std::max(key_stride, value_stride) + 9 * 16) {
    internal::Carve<float> carve(block);
    const std::int64_t most = (heads + packed_beside - 1) / packed_beside;
    q = carve.take(heads * columns * key_stride);
    q_columns = carve.take(heads * key_stride * columns);
    cached = carve.take(heads * head_stride + 2 * row_stride(problem.value_dim));
    products = carve.take(packed_keys * columns);
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
    return scores + head / packed_beside * rows * tile_keys +
           head % packed_beside * packed_keys;
  }
  float* pairs_of_head(std::int64_t head) const {
    return pairs + (scores_of(head) - scores) / 2;
  }

 private:
  std::int64_t used_;
};

// The scores of the keys of a tile that are packed at `keys`.
inline void MultiplyPackedKeys(const ForwardProblem<float>& problem, const PackedScratch& at,
                               std::int64_t count, const float* keys, const float* q_columns,
                               float* scores) {
  Product<float> product;
  product.b_row = product.c_row = at.columns;
  product.a_stride = at.key_stride;
  product.a = keys, product.b = q_columns, product.c = at.products;
  const std::int64_t lanes = State<float>::lanes,
                     keys_of_tile = (count + lanes - 1) / lanes * lanes;
  if (problem.pairs) {
    product.depth = pairs_of(problem.size);
    product.factor = static_cast<float>(QueryFactor(problem));
    MultiplyPairs<Left::by_row, Into::store>(product, keys_of_tile, at.columns / lanes);
  } else {
    for (std::int64_t l = 0; l < problem.size; l += part_products) {
      product.depth = std::min(part_products, problem.size - l);
      if (l)
        Multiply<Left::by_row, Into::add>(product, keys_of_tile, at.columns);
      else
        Multiply<Left::by_row, Into::store>(product, keys_of_tile, at.columns);
      product.a += part_products, product.b += part_products * at.columns;
    }
  }
  for (std::int64_t j = 0; j < count; j += lanes)
    Transpose(at.products + j * at.columns, at.columns, at.rows, scores + j, tile_keys);
}

// A row of several heads, the first of which is at `offset`.
struct RowOfHeads {
  const Operand* of;
  std::int64_t offset, size;

  std::int64_t at(std::int64_t head) const { return offset + head * of->strides[2]; }
};

// The rows of a tile that ends at row `end`, and then the rows of what is read next.
struct RowsAhead {
  const Operand *of, *next;
  std::int64_t end, next_row, size, next_size, last;  // last: of the sequence

  RowOfHeads operator()(const internal::DirectPlan::Piece& piece, std::int64_t row) const {
    if (row < end) return {of, OffsetOf(*of, piece.batch, row, piece.first), size};
    row = std::min(next_row + row - end, last);
    return {next, OffsetOf(*next, piece.batch, row, piece.first), next_size};
  }
};

// Copies the rows of a tile for all heads of a piece, to [heads, packed_keys, stride].
inline void PackRowsOfHeads(const ForwardProblem<float>& problem, const Operand& of,
                            const internal::DirectPlan::Piece& piece, const Tile& tile,
                            std::int64_t size, std::int64_t stride, const RowsAhead& ahead,
                            const PackedScratch& at) {
  for (std::int64_t j = 0; j < padded(tile.keys); ++j) {
    const std::int64_t row = tile.key + j;
    float* HWY_RESTRICT to = at.cached + j * stride;
    if (j >= tile.keys) {
      for (std::int64_t h = 0; h < piece.heads; ++h)
        std::fill_n(to + h * at.head_stride, stride, 0.f);
      continue;
    }
    const RowOfHeads own{&of, OffsetOf(of, piece.batch, row, piece.first), size};
    const RowOfHeads later = ahead(piece, row + packed_ahead);
    for (std::int64_t h = 0; h < piece.heads; ++h, to += at.head_stride) {
      PrefetchRowAt(*later.of, later.at(h), later.size);
      if (problem.pairs)
        LoadPairsAt(of, own.at(h), size, to);
      else
        LoadRowAt(of, problem.position.keys, piece.batch, row, piece.first + h, own.at(h), size,
                  to);
    }
  }
}

// The same for values in pairs: two rows become one.
inline void PackPairsOfHeads(const ForwardProblem<float>& problem,
                             const internal::DirectPlan::Piece& piece, const Tile& tile,
                             std::int64_t stride, const RowsAhead& ahead,
                             const PackedScratch& at) {
  float* zeros = at.cached + piece.heads * at.head_stride;
  std::fill_n(zeros, padded(problem.value_dim), 0.f);
  const auto pairs_at = [&](std::int64_t offset) {
    return reinterpret_cast<const float*>(static_cast<const char*>(problem.v.data) +
                                          2 * offset);
  };
  for (std::int64_t j = 0; j < padded(tile.keys); j += 2) {
    const std::int64_t row = tile.key + j;
    RowOfHeads own[2], later[2];
    const std::int64_t count = std::clamp<std::int64_t>(tile.keys - j, 0, 2);
    for (std::int64_t i = 0; i < count; ++i) {
      own[i] = {&problem.v, OffsetOf(problem.v, piece.batch, row + i, piece.first), 0};
      later[i] = ahead(piece, row + i + packed_ahead);
    }
    for (std::int64_t h = 0; h < piece.heads; ++h) {
      for (std::int64_t i = 0; i < count; ++i)
        PrefetchRowAt(*later[i].of, later[i].at(h), later[i].size);
      InterleaveRows(count > 0 ? pairs_at(own[0].at(h)) : zeros,
                     count > 1 ? pairs_at(own[1].at(h)) : zeros, problem.value_dim,
                     at.cached + h * at.head_stride + j / 2 * stride);
    }
  }
}

// Adds the keys of a range to the states of the piece's heads.
template <typename StateOf>
void Run(const ForwardProblem<float>& problem, const internal::DirectPlan::Piece& piece,
         const internal::KeyRange& range, const PackedScratch& at, const StateOf& state_of) {
  const std::int64_t group = problem.group(), heads = piece.heads;
  const std::int64_t queries = problem.queries_of(piece.batch);
  for (std::int64_t h = 0; h < heads; ++h) state_of(piece.first + h).Clear();
  for (std::int64_t key = range.begin / packed_keys * packed_keys; key < range.end;
       key += packed_keys) {
    const Tile tile = trimmed(problem, Tile{piece.batch, piece.first * group, group, 0, queries,
                                            key, std::min(packed_keys, range.end - key)});
    if (!tile.keys) continue;
    SeenColumns columns;
    FindColumns<float>(problem, tile, columns);
    const std::int64_t end = key + tile.keys, last = problem.keys_of(piece.batch) - 1;
    const RowsAhead of_keys{&problem.k,   &problem.v,        end, key,
                            problem.size, problem.value_dim, last};
    PackRowsOfHeads(problem, problem.k, piece, tile, problem.size, at.key_stride, of_keys, at);
    bool hides = false;
    for (std::int64_t h = 0; h < heads; ++h) {
      float* scores = at.scores_of(h);
      MultiplyPackedKeys(problem, at, tile.keys, at.cached + h * at.head_stride,
                         at.q_columns + h * at.key_stride * at.columns, scores);
      Tile own = tile;
      own.head += h * group;
      hides = FinishScores(problem, own, columns, at.bias, scores) || hides;
      TakeScores(own, columns, problem.value_dim, scores, state_of(piece.first + h), 0);
      if (problem.pairs)
        for (std::int64_t r = 0; r < at.rows; ++r) {
          const Columns& seen = columns[r / block_rows];
          RoundToPairs(scores + r * tile_keys + seen.begin, seen.end - seen.begin,
                       at.pairs_of_head(h) + (r * tile_keys + seen.begin) / 2);
        }
    }
    hides = hides || tile.keys % 16;
    const RowsAhead of_values{&problem.v,        &problem.k,   end, end,
                              problem.value_dim, problem.size, last};
    if (problem.pairs)
      PackPairsOfHeads(problem, piece, tile, at.value_stride, of_values, at);
    else
      PackRowsOfHeads(problem, problem.v, piece, tile, problem.value_dim, at.value_stride,
                      of_values, at);
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* values = at.cached + h * at.head_stride;
      const State<float> state = state_of(piece.first + h);
      if (problem.pairs)
        MultiplyPairWeights(
            tile, columns, problem.value_dim, at.pairs_of_head(h), values,
            hides ? FactorsOfPairs(values, tile.keys, problem.value_dim) : Factors::all,
            state.out);
      else
        MultiplyWeights(tile, columns, problem.value_dim, at.scores_of(h), values,
                        hides ? FactorsOf(values, tile.keys, problem.value_dim) : Factors::all,
                        state.out);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
