// The scores of one tile, from products to what softmax sees: scale, bias, and who sees whom.
#if defined(GNOMON_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_SCORES_INL_H_
#undef GNOMON_ATTENTION_SCORES_INL_H_
#else
#define GNOMON_ATTENTION_SCORES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "src/attention/bias_tile.h"
#include "src/attention/multiply-inl.h"
#include "src/attention/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::BiasRows;
using internal::KeyRange;
using internal::Tile;

// Tiles of scores: 16 KiB of floats, a third of a first-level cache. Tiles lie at multiples of
// `tile_keys` whatever the queries, so a row's bits do not depend on the queries beside it.
constexpr std::int64_t tile_queries = 32, tile_keys = 128;

// Whether the sequences of a tile can meet, and whether all are the same one.
enum class Meeting { never = 1, some, all };

inline Meeting MeetingOf(const AttentionProblem& problem, const Tile& tile) {
  const std::int32_t* of_query = internal::sequences(problem.position.queries, tile.batch);
  const std::int32_t* of_key = internal::sequences(problem.position.keys, tile.batch);
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

// The tile of the given block, without the keys that no query of it sees; keys 0 where nothing
// is left to do.
inline Tile Trim(const AttentionProblem& problem, Tile tile) {
  const std::int64_t begin = visible_keys(problem, tile.query).begin;
  const std::int64_t end = visible_keys(problem, tile.query + tile.queries - 1).end;
  tile.keys = std::min(tile.keys, end - tile.key);
  if (tile.keys <= 0 || begin >= tile.key + tile.keys ||
      MeetingOf(problem, tile) == Meeting::never)
    tile.keys = 0;
  return tile;
}

// scores [tile.queries, tile.keys padded], rows `tile_keys` apart: from q' . k' to
// scale q' . k' + bias, -infinity where the query does not see the key.
template <typename A>
void FinishScores(const AttentionProblem& problem, const Tile& tile, A* room,
                  A* HWY_RESTRICT scores) {
  const hn::ScalableTag<A> tag;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const std::int64_t width = padded(tile.keys);
  const auto scale = hn::Set(tag, static_cast<A>(problem.scale));
  const BiasRows<A> bias = fill_bias(problem, tile, room);
  const bool sequences = MeetingOf(problem, tile) != Meeting::all;
  const std::int32_t* of_query = internal::sequences(problem.position.queries, tile.batch);
  const std::int32_t* of_key = internal::sequences(problem.position.keys, tile.batch);
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    A* HWY_RESTRICT row = scores + i * tile_keys;
    if (bias.values) {
      const A* bias_row = bias.values + i * bias.stride;
      for (std::int64_t j = 0; j < width; j += lanes)
        hn::Store(hn::MulAdd(scale, hn::Load(tag, row + j), hn::LoadU(tag, bias_row + j)), tag,
                  row + j);
    } else {
      for (std::int64_t j = 0; j < width; j += lanes)
        hn::Store(hn::Mul(scale, hn::Load(tag, row + j)), tag, row + j);
    }
    const KeyRange seen = visible_keys(problem, tile.query + i);
    const std::int64_t begin = std::clamp<std::int64_t>(seen.begin - tile.key, 0, tile.keys);
    const std::int64_t end = std::clamp<std::int64_t>(seen.end - tile.key, begin, tile.keys);
    std::fill(row, row + begin, nothing);
    std::fill(row + end, row + width, nothing);
    if (sequences) {
      const std::int32_t own = of_query[tile.query + i];
      for (std::int64_t j = begin; j < end; ++j)
        if (own == Positions::padding || of_key[tile.key + j] != own) row[j] = nothing;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
