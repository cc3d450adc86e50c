// Tiles of scores: their queries and keys, their visibility, and how a call is divided.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "gnomon/parallel.h"
#include "src/attention/problem.h"
#include "src/attention/sequence_units.h"

namespace gnomon::internal {

// Query rows [query, query + queries) of heads [head, head + heads), by key rows [key, key +
// keys). Row r of a tile is query r / heads of head r % heads.
struct Tile {
  std::int64_t batch = 0, head = 0, heads = 1, query = 0, queries = 0, key = 0, keys = 0;
  std::int64_t part = 0;  // part of the keys in the backward pass

  std::int64_t rows() const { return queries * heads; }
};

// Tiles start at key rows that are multiples of `tile_keys`, for all queries, so the bits of a
// row do not depend on the other queries.
constexpr std::int64_t tile_rows = 48, tile_keys = 256;
// The number of keys whose softmax is computed separately and then merged.
constexpr std::int64_t part_keys = 2048;
// The number of products in one sum of floats.
constexpr std::int64_t part_products = 64;

// Whether queries and keys of a tile have common sequences, and whether all are in one
// sequence.
enum class Meeting { never = 1, some, all };

inline Meeting meeting_of(const AttentionProblem& problem, const Tile& tile) {
  const std::int32_t* of_query = sequences(problem.position.queries, tile.batch);
  const std::int32_t* of_key = sequences(problem.position.keys, tile.batch);
  if (!of_query) return Meeting::all;
  struct Span {
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    std::int32_t most = std::numeric_limits<std::int32_t>::min();
    bool padding = false;
    Span(const std::int32_t* sequences, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        if (sequences[i] == Positions::padding) {
          padding = true;
          continue;
        }
        least = std::min(least, sequences[i]);
        most = std::max(most, sequences[i]);
      }
    }
  };
  const Span query(of_query + tile.query, tile.queries), key(of_key + tile.key, tile.keys);
  if (query.most < key.least || key.most < query.least) return Meeting::never;
  return !query.padding && !key.padding && query.least == query.most && key.least == key.most &&
                 query.least == key.least
             ? Meeting::all
             : Meeting::some;
}

// Whether the reach of some head contains some key of the tile for some query.
inline bool within_reach(const AttentionProblem& problem, const Tile& tile) {
  if (!problem.cumulative.least.empty()) {
    const std::int64_t first = tile.query + problem.offset_of(tile.batch);
    for (std::int64_t h = 0; h < tile.heads; ++h)
      if (problem.cumulative.reaches(tile.batch, tile.head + h, first, first + tile.queries,
                                     tile.key / tile_keys))
        return true;
    return false;
  }
  if (problem.reach.empty()) return true;
  const auto* of_head = problem.reach.data() + tile.batch * problem.heads + tile.head;
  const std::int64_t reach = *std::max_element(of_head, of_head + tile.heads);
  const std::int64_t first = tile.query + problem.offset_of(tile.batch);
  return tile.key + tile.keys - 1 >= first - reach &&
         tile.key <= first + tile.queries - 1 + reach;
}

// Returns the tile without the keys at its end that no query sees; keys is 0 if no key is
// visible.
inline Tile trimmed(const AttentionProblem& problem, Tile tile) {
  const std::int64_t begin = visible_keys(problem, tile.batch, tile.query).begin;
  const std::int64_t end = visible_keys(problem, tile.batch, tile.query + tile.queries - 1).end;
  tile.keys = std::min(tile.keys, end - tile.key);
  if (tile.keys <= 0 || begin >= tile.key + tile.keys || !within_reach(problem, tile) ||
      meeting_of(problem, tile) == Meeting::never)
    tile.keys = 0;
  return tile;
}

// The greatest number of rows of a key head for direct reading from a cache, and for products
// with blocks of its tokens: of any cache, and of one of at least long_cache keys. Sequences of
// at most narrow_keys keys, a tile of such products, are computed as prompts.
constexpr std::int64_t direct_rows = 8, block_rows_of_any = 48, block_rows_of_long = 96,
                       narrow_keys = 64, long_cache = 1024;
constexpr std::int64_t in_fours(std::int64_t rows) { return (rows + 3) / 4 * 4; }

// How the cache of a sequence with few query rows is read: directly, or in blocks of tokens.
enum class CacheReading { none = 1, direct, blocks };
inline CacheReading reading_of(const AttentionProblem& problem, std::int64_t b) {
  const std::int64_t rows = problem.queries_of(b) * problem.group();
  if (rows <= direct_rows) return CacheReading::direct;
  const std::int64_t keys = problem.keys_of(b);
  const std::int64_t most = keys <= narrow_keys ? 0
                            : keys < long_cache ? block_rows_of_any
                                                : block_rows_of_long;
  return rows <= most ? CacheReading::blocks : CacheReading::none;
}

// The indices of the parts of one piece of work: first, first + step, ...
struct PartIndices {
  std::int64_t first, step, count;
};

// The queries [query, query + queries) of all heads that share a key head. Each tile of keys is
// packed once for all of them.
struct ForwardPiece {
  std::int64_t batch, key_head, query, queries;
};

// The division of a forward pass into pieces. Results do not depend on it.
struct ForwardPlan {
  std::int64_t queries;  // queries per piece
  std::int64_t chunks;   // pieces of one key head
  std::int64_t pieces, grain;
  std::int64_t parts;  // parts of the keys

  explicit ForwardPlan(const AttentionProblem& problem) : ForwardPlan(problem, false) {}
  // directly: whether sequences of a ragged batch with few rows are left out.
  ForwardPlan(const AttentionProblem& problem, bool directly) {
    // Enough rows that packing the keys takes about 1 % of the time, but few enough that their
    // queries and outputs stay in the L2 cache.
    const std::int64_t size =
        std::max({problem.size, problem.value_dim, problem.contextual_positions()});
    std::int64_t rows = std::clamp<std::int64_t>(131072 / size, 96, 2048);
    const std::int64_t pairs = problem.batch * problem.key_heads;
    const auto of = [&](std::int64_t count) {
      return std::clamp<std::int64_t>(count / problem.group(), 1, problem.queries);
    };
    const auto chunks_of = [&](std::int64_t count) {
      return (problem.queries - 1) / of(count) + 1;
    };
    // The pieces of sequence b of a ragged batch.
    const auto pieces_of = [&](std::int64_t b, std::int64_t count) -> std::int64_t {
      const std::int64_t own = problem.queries_of(b);
      if (!own || (directly && reading_of(problem, b) != CacheReading::none)) return 0;
      return ((own - 1) / of(count) + 1) * problem.key_heads;
    };
    const auto pieces_with = [&](std::int64_t count) {
      if (!problem.ragged) return pairs * chunks_of(count);
      std::int64_t sum = 0;
      for (std::int64_t b = 0; b < problem.batch; ++b) sum += pieces_of(b, count);
      return sum;
    };
    // Enough pieces that all threads end at about the same time.
    while (rows > 2 * tile_rows && pieces_with(rows) < 4 * threads()) rows /= 2;
    queries = of(rows), chunks = chunks_of(rows), pieces = pieces_with(rows);
    std::int64_t keys = problem.keys;
    if (problem.ragged) {
      of_sequences.set(problem.batch, [&](std::int64_t b) { return pieces_of(b, rows); });
      keys = 0;  // the mean of the pieces
      for (std::int64_t b = 0; b < problem.batch; ++b)
        keys += pieces_of(b, rows) * problem.keys_of(b) / std::max<std::int64_t>(pieces, 1);
      of_parts.set(problem.batch, [&](std::int64_t b) {
        return of_sequences.count(b) * parts_of(problem.keys_of(b));
      });
    }
    // Multiplications in one piece. A thread should have at least 200'000.
    const std::int64_t work =
        1 + queries * problem.group() * keys * (problem.size + problem.value_dim);
    // Pieces that follow each other prefetch for each other, so a thread takes many at once.
    grain = std::max({std::int64_t{1}, 200'000 / work, pieces / (32 * threads())});
    parts = (problem.keys + part_keys - 1) / part_keys;
  }

  // Returns piece n: the last queries of all heads come first, because they see the most keys.
  ForwardPiece piece(const AttentionProblem& problem, std::int64_t n) const {
    if (problem.ragged) {
      const auto [b, index] = of_sequences.unit(n);
      const std::int64_t of_head = of_sequences.count(b) / problem.key_heads;
      const std::int64_t query = (of_head - 1 - index / problem.key_heads) * queries;
      return {b, index % problem.key_heads, query,
              std::min(queries, problem.queries_of(b) - query)};
    }
    const std::int64_t pairs = problem.batch * problem.key_heads, pair = n % pairs;
    const std::int64_t query = (chunks - 1 - n / pairs) * queries;
    return {pair / problem.key_heads, pair % problem.key_heads, query,
            std::min(queries, problem.queries - query)};
  }

  // The parts of the keys of all pieces. Pieces with the same part of the keys follow each
  // other, because heads are adjacent in memory.
  std::int64_t all_parts(const AttentionProblem& problem) const {
    return problem.ragged ? of_parts.total() : pieces * parts;
  }
  // Returns the piece and the part of the keys with index n.
  std::pair<std::int64_t, std::int64_t> piece_and_part(const AttentionProblem& problem,
                                                       std::int64_t n) const {
    if (!problem.ragged) return {n % pieces, n / pieces};
    const auto [b, index] = of_parts.unit(n);
    const std::int64_t own = of_sequences.count(b);
    return {of_sequences.first(b) + index % own, index / own};
  }
  // Returns the indices of the parts of piece n.
  PartIndices parts_of_piece(const AttentionProblem& problem, std::int64_t n) const {
    if (!problem.ragged) return {n, pieces, parts};
    const auto [b, index] = of_sequences.unit(n);
    return {of_parts.first(b) + index, of_sequences.count(b), parts_of(problem.keys_of(b))};
  }

 private:
  static std::int64_t parts_of(std::int64_t keys) {
    return std::max<std::int64_t>(1, (keys + part_keys - 1) / part_keys);
  }
  SequenceUnits of_sequences, of_parts;  // of a ragged batch: pieces, pieces x parts
};

// Whether keys and values can be read without packing.
inline bool can_read_directly(const AttentionProblem& problem) {
  if (problem.position.key_rotary || problem.relative_vectors() || problem.gated() ||
      problem.product != PairProduct::dot || problem.position.polar || problem.walks())
    return false;
  if (problem.size % 16 || problem.value_dim % 16) return false;
  const Positions* keys = problem.position.keys;
  return !keys || std::find(keys->sequences.begin(), keys->sequences.end(),
                            Positions::padding) == keys->sequences.end();
}

// The division of the sequences whose caches are read in one way: parts of the keys, and groups
// of adjacent heads if there is enough work for all threads. Results do not depend on it.
struct DirectPlan {
  struct Piece {
    std::int64_t batch, part, first, heads;  // `first`, `heads`: key heads
    std::int64_t unit;                       // of the part of the keys, in all sequences
  };
  std::int64_t rows = 0;  // of a key head, rounded up to a multiple of 4
  std::int64_t heads, chunks, pieces, grain;
  std::int64_t parts = 0;  // of the longest sequence

  DirectPlan(const AttentionProblem& problem, CacheReading reading) {
    std::int64_t longest = 0, queries = 0;
    const auto units_of = [&](std::int64_t b) -> std::int64_t {
      const std::int64_t own = problem.queries_of(b), keys = problem.keys_of(b);
      if (!own || reading_of(problem, b) != reading) return 0;
      longest = std::max(longest, keys), queries = std::max(queries, own);
      const std::int64_t count = std::max<std::int64_t>(1, (keys + part_keys - 1) / part_keys);
      parts = std::max(parts, count);
      return count;
    };
    if (problem.ragged)
      units_.set(problem.batch, units_of);
    else
      units_.set(problem.batch, units_of(0));
    rows = in_fours(queries * problem.group());
    const std::int64_t units = units_.total();
    const std::int64_t spans = std::clamp<std::int64_t>(
        2 * threads() / std::max<std::int64_t>(units, 1), 1, problem.key_heads);
    heads = (problem.key_heads - 1) / spans + 1;
    chunks = (problem.key_heads - 1) / heads + 1;
    pieces = units * chunks;
    const std::int64_t work = 1 + queries * problem.group() * heads *
                                      std::min(longest, part_keys) *
                                      (problem.size + problem.value_dim);
    grain = std::max<std::int64_t>(1, 200'000 / work);
  }
  Piece piece(const AttentionProblem& problem, std::int64_t n) const {
    const std::int64_t first = n % chunks * heads, unit = n / chunks;
    const auto [b, part] = units_.unit(unit);
    return {b, part, first, std::min(heads, problem.key_heads - first), unit};
  }
  std::int64_t units() const { return units_.total(); }
  // Returns the indices of the units of sequence b.
  PartIndices units_of(std::int64_t b) const { return {units_.first(b), 1, units_.count(b)}; }

 private:
  SequenceUnits units_;
};

// The division of a backward pass: the queries of a key head are divided into parts, whose sums
// are computed separately and added in order. It depends on shapes only, not on threads,
// because the results depend on it.
struct BackwardPlan {
  std::int64_t queries;  // processed at a time, for all heads of a group
  std::int64_t parts;
  std::int64_t grain;

  explicit BackwardPlan(const AttentionProblem& problem) {
    std::int64_t size = problem.size + problem.value_dim + problem.contextual_positions();
    const std::int64_t rows = std::clamp<std::int64_t>(65536 / size, 2 * tile_rows, 512);
    queries = std::max(rows / problem.group() / tile_rows * tile_rows, tile_rows);
    if (problem.product == PairProduct::householder)  // queries are kept for each tile of keys
      queries = std::max(2 * tile_rows / problem.group() / tile_rows * tile_rows, tile_rows);
    queries = std::min(queries, std::max<std::int64_t>(problem.queries, 1));
    if (problem.product == PairProduct::channel_gates) size += problem.group() * problem.size;
    if (problem.product == PairProduct::householder) size += 3 * problem.size;
    // 16 pieces of work, or fewer if their sums exceed 32 MB.
    const std::int64_t pairs = std::max<std::int64_t>(problem.batch * problem.key_heads, 1);
    const std::int64_t most_parts = 8'000'000 / (pairs * (problem.keys + 1) * size);
    const std::int64_t chunks = (problem.queries - 1) / queries + 1;
    parts = std::max<std::int64_t>(1, std::min({16 / pairs, most_parts, chunks}));
    const std::int64_t work = 1 + problem.queries * problem.group() * problem.keys * size;
    grain = parts > 1 ? 1 : std::max<std::int64_t>(1, 100'000 / work);
  }

  // Returns the part of the queries from chunk * queries on: 0, 1, ..., 1, 0, 0, 1, ..., so
  // that the parts of a causal call have about the same work.
  std::int64_t part_of(std::int64_t chunk) const {
    const std::int64_t place = chunk % (2 * parts);
    return std::min(place, 2 * parts - 1 - place);
  }
};

}  // namespace gnomon::internal
