#include "src/attention/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "src/attention/key_terms.h"
#include "src/core/overloaded.h"
#include "src/core/size.h"
#include "src/position/check.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr std::string_view operation = "attention";

void check_mask(const AttentionProblem& problem) {
  const KnownMask& mask = problem.mask;
  if (mask.visibility != Visibility::causal && mask.visibility != Visibility::bidirectional)
    refuse(operation, "visibility must be causal or bidirectional",
           static_cast<int>(mask.visibility));
  if (mask.offset < 0) refuse(operation, "offset must not be negative", mask.offset);
  if (mask.offset > std::numeric_limits<int64_t>::max() / 2 - problem.queries)
    refuse(operation, "offset must be below 2^62", mask.offset);
  if (mask.left && *mask.left < 0) refuse(operation, "left must not be negative", *mask.left);
  if (mask.right && *mask.right < 0)
    refuse(operation, "right must not be negative", *mask.right);
  if (mask.rate < 1) refuse(operation, "rate must be at least 1", mask.rate);
  if (mask.guessed)
    refuse(operation,
           "a mask without an offset requires T = S; the offset is the number of keys before "
           "the key of the first query (a cache of n tokens: n)",
           "T = " + std::to_string(problem.queries) + ", S = " + std::to_string(problem.keys));
  if (mask.rate == 1) return;
  if (mask.visibility != Visibility::causal || mask.left || mask.right)
    refuse(operation, "a rate above 1 requires a causal mask without limits", mask.rate);
  const BiasForm& bias = *problem.position.bias;
  if (problem.position.relative || problem.position.cumulative || problem.position.polar ||
      problem.needs_key_slopes || problem.edges.bias || problem.stick_breaking ||
      !(std::holds_alternative<NoBias>(bias) || std::holds_alternative<DenseBias>(bias)))
    refuse(operation, "a rate above 1 requires a plan without a bias or vectors by distance",
           mask.rate);
}

void check_positions(std::string_view name, const Positions& positions, int64_t batch,
                     int64_t tokens) {
  const std::string who(name);
  if (positions.batch != 1 && positions.batch != batch)
    refuse(operation, "positions of " + who + " must have 1 row or " + std::to_string(batch),
           positions.batch);
  if (positions.tokens != tokens)
    refuse(operation,
           "positions of " + who + " must have " + std::to_string(tokens) + " tokens",
           positions.tokens);
  check_ids_and_sequences(operation, "positions of " + who, positions);
}

void check_rotary(std::string_view name, const RotaryTable& table,
                  const AttentionProblem& problem, int64_t tokens) {
  const std::string who(name);
  if (table.tokens() != tokens)
    refuse(operation,
           "the rotary table of " + who + " must have " + std::to_string(tokens) + " tokens",
           table.tokens());
  const bool packed = problem.ragged && !problem.ragged->query_starts.empty();
  const int64_t batch = packed ? 1 : problem.batch;
  if (table.batch() != 1 && table.batch() != batch)
    refuse(operation,
           "the rotary table of " + who + " must have 1 row or " + std::to_string(batch),
           table.batch());
  if (const int64_t end =
          checked_sum(operation, "head_offset + rotary_dim",
                      {table.frequencies().head_offset, table.frequencies().rotary_dim()});
      end > problem.size)
    refuse(operation,
           "the rotary table of " + who + " must fit head_dim " + std::to_string(problem.size),
           end);
}

struct Reach {
  int64_t nearest = std::numeric_limits<int64_t>::max();  // smallest (signed) distance
  int64_t furthest = std::numeric_limits<int64_t>::min();

  void add(int64_t distance) {
    nearest = std::min(nearest, distance);
    furthest = std::max(furthest, distance);
  }
  bool within(int64_t first, int64_t distances) const {
    return nearest > furthest || contains(first, distances, nearest, furthest);
  }
};

// The distances of all pairs of ids, visible or not. Cheap, and sufficient if the strip
// contains all of them.
Reach widest(const Positions& queries, const Positions& keys) {
  Reach reach;
  if (queries.ids.empty() || keys.ids.empty()) return reach;
  const auto [least_query, most_query] =
      std::minmax_element(queries.ids.begin(), queries.ids.end());
  const auto [least_key, most_key] = std::minmax_element(keys.ids.begin(), keys.ids.end());
  reach.add(*least_key - *most_query);
  reach.add(*most_key - *least_query);
  return reach;
}

Reach seen_by_row(const AttentionProblem& problem) {
  Reach reach;
  for (int64_t b = 0; b < (problem.ragged ? problem.batch : 1); ++b)
    for (int64_t i = 0; i < problem.queries_of(b); ++i) {
      const KeyRange range = visible_keys(problem, b, i);
      if (range.begin == range.end) continue;
      const int64_t own = i + problem.offset_of(b);
      reach.add(range.begin - own);
      reach.add(range.end - 1 - own);
    }
  return reach;
}

Reach seen_by_position(const AttentionProblem& problem) {
  const Positions &queries = *problem.position.queries, &keys = *problem.position.keys;
  Reach reach;
  for (int64_t b = 0; b < std::max(queries.batch, keys.batch); ++b) {
    const std::int32_t* of_query = sequences(&queries, b);
    const std::int32_t* of_key = sequences(&keys, b);
    for (int64_t i = 0; i < problem.queries; ++i) {
      if (of_query[i] == Positions::padding) continue;
      const KeyRange range = visible_keys(problem, b, i);
      const int64_t query = query_id(problem, b, i);
      for (int64_t j = range.begin; j < range.end; ++j)
        if (of_key[j] == of_query[i]) reach.add(key_id(problem, b, j) - query);
    }
  }
  return reach;
}

// Checks that a strip of `distances` distances from `first` contains all visible distances.
void check_reach(std::string_view who, const AttentionProblem& problem, int64_t first,
                 int64_t distances) {
  const auto& position = problem.position;
  if (position.queries && widest(*position.queries, *position.keys).within(first, distances))
    return;
  const Reach reach = position.queries ? seen_by_position(problem) : seen_by_row(problem);
  if (reach.within(first, distances)) return;
  refuse(operation,
         std::string(who) + " must cover distances " + std::to_string(reach.nearest) + " to " +
             std::to_string(reach.furthest),
         range_text(first, distances));
}

void check_strip(const AttentionProblem& problem, const StripBias& strip) {
  if (strip.heads < 1 || strip.values.size() % static_cast<std::size_t>(strip.heads))
    refuse(operation, "the strip must hold heads x distances numbers",
           static_cast<int64_t>(strip.values.size()));
  check_reach("the strip", problem, strip.min_distance, strip.distances());
}

// Checks the positions, with a grid or coordinates, of all rows that are not padding.
void check_places(const AttentionProblem& problem) {
  const BiasForm& bias = *problem.position.bias;
  if (!problem.position.queries) {
    if (problem.queries)
      check_ids(bias, {problem.mask.offset, problem.mask.offset + problem.queries - 1});
    if (problem.keys) check_ids(bias, {0, problem.keys - 1});
    return;
  }
  for (const Positions* positions : {problem.position.queries, problem.position.keys})
    for (std::size_t i = 0; i < positions->ids.size(); ++i)
      if (positions->sequences[i] != Positions::padding)
        check_ids(bias, {positions->ids[i], positions->ids[i]});
}

void check_dense(const AttentionProblem& problem, const DenseBias& dense) {
  const std::array<std::int64_t, 4> wanted = {problem.batch, problem.heads, problem.queries,
                                              problem.keys};
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (dense.values.extent(axis) != wanted[axis])
      refuse(operation,
             "the dense bias must be [B, Hq, T, S]; axis " + std::to_string(axis) +
                 " must be " + std::to_string(wanted[axis]),
             std::int64_t{dense.values.extent(axis)});
}

void check_axes(const AttentionProblem& problem, const AxesBias& axes) {
  check_places(problem);
  for (std::size_t a = 0; a < axes.axes.size(); ++a)
    if (axes.axes[a].coordinates.empty())
      check_reach("the strip of an axis", problem, axes.axes[a].min_distance,
                  axes.distances(a));
}

void check_bias(const AttentionProblem& problem) {
  const BiasForm& bias = *problem.position.bias;
  if (!std::holds_alternative<NoBias>(bias) && heads(bias) != problem.heads)
    refuse(operation, "the bias must have " + std::to_string(problem.heads) + " heads",
           heads(bias));
  if (const auto* strip = std::get_if<StripBias>(&bias)) check_strip(problem, *strip);
  check_form(bias);
  std::visit(Overloaded{[](const NoBias&) {}, [](const SlopeBias&) {}, [](const StripBias&) {},
                        [](const PiecewiseLogBias&) {},
                        [&](const GridBias&) { check_places(problem); },
                        [&](const AxesBias& axes) { check_axes(problem, axes); },
                        [&](const DenseBias& dense) { check_dense(problem, dense); }},
             bias);
}

// Checks that every position that is not padding has a coordinate, and that the distances of
// the coordinates have rows.
void check_coordinates(const AttentionProblem& problem, const RelativeVectors& table) {
  const auto count = static_cast<int64_t>(table.coordinates.size());
  const auto ends = [&](const Positions* positions, int64_t first, int64_t rows) {
    int64_t least = std::numeric_limits<int64_t>::max();
    int64_t most = std::numeric_limits<int64_t>::min();
    const auto take = [&](int64_t id) {
      if (id < 0 || id >= count)
        refuse(
            operation,
            "relative coordinates must be given for all positions, of " + std::to_string(count),
            id);
      const int64_t coordinate = table.coordinates[static_cast<std::size_t>(id)];
      if (!subtractable(coordinate))
        refuse(operation, "relative coordinates must be at most 2^61 in magnitude", coordinate);
      least = std::min(least, coordinate);
      most = std::max(most, coordinate);
    };
    if (!positions)
      for (int64_t i = 0; i < rows; ++i) take(first + i);
    else
      for (std::size_t i = 0; i < positions->ids.size(); ++i)
        if (positions->sequences[i] != Positions::padding) take(positions->ids[i]);
    return std::pair(least, most);
  };
  const auto [early, late] =
      ends(problem.position.queries, problem.mask.offset, problem.queries);
  const auto [nearest, furthest] = ends(problem.position.keys, 0, problem.keys);
  if (early > late || nearest > furthest) return;
  if (contains(table.min_distance, table.distances(), nearest - late, furthest - early)) return;
  refuse(operation,
         "relative vectors must cover distances " + std::to_string(nearest - late) + " to " +
             std::to_string(furthest - early),
         range_text(table.min_distance, table.distances()));
}

void check_distances(const AttentionProblem& problem, const RelativeVectors& table) {
  if (!table.coordinates.empty()) return check_coordinates(problem, table);
  check_reach("relative vectors", problem, table.min_distance, table.distances());
}

// Checks that the ids of all rows, padding included, can be subtracted.
void check_ids_of_distances(const AttentionProblem& problem) {
  const auto& position = problem.position;
  const BiasForm& bias = *position.bias;
  const bool by_distance =
      std::holds_alternative<SlopeBias>(bias) || std::holds_alternative<StripBias>(bias) ||
      std::holds_alternative<AxesBias>(bias) || position.relative || problem.needs_key_slopes;
  if (!position.queries || !by_distance) return;
  for (const Positions* positions : {position.queries, position.keys})
    for (const int64_t id : positions->ids)
      if (!subtractable(id))
        refuse(operation, "positions must be at most 2^61 in magnitude, for a bias by distance",
               id);
}

template <std::size_t Rank>
void check_term(std::string_view name, View<const float, Rank> term,
                const std::array<std::int64_t, Rank>& wanted) {
  if (term.extents() != wanted)
    refuse(operation, std::string(name) + " must be " + gnomon::shape_text(wanted),
           gnomon::shape_text(term.extents()));
}

void check_relative(const AttentionProblem& problem) {
  const auto& position = problem.position;
  if (problem.needs_gates && !position.gates.data())
    refuse(operation, "gates must be given, because the bias of the plan is gated", "none");
  if (position.gates.data()) {
    const auto& extents = position.gates.extents();
    if ((extents[0] != 1 && extents[0] != problem.batch) || extents[1] != problem.heads ||
        extents[2] != problem.queries)
      refuse(operation,
             "gates must be [1 or B, Hq, T], " + std::to_string(problem.batch) + " x " +
                 std::to_string(problem.heads) + " x " + std::to_string(problem.queries),
             gnomon::shape_text(extents));
  }
  check_key_terms(problem);
  const auto& r = position.relative_queries;
  const bool projects = position.relative && !position.relative->projected.empty();
  if (projects != (r.data() != nullptr))
    refuse(operation,
           "relative_queries must be given if and only if the plan has projected vectors",
           projects ? "none" : "relative_queries alone");
  if (!position.relative) return;
  const RelativeForm& form = *position.relative;
  if (problem.softmax.cap)
    refuse(operation, "a softmax cap cannot be combined with relative vectors",
           *problem.softmax.cap);
  gnomon::check(form, problem.heads, problem.size, problem.value_dim);
  if (projects)
    check_term("relative_queries", r,
               {problem.batch, problem.queries, problem.heads, form.projected[0].head_dim});
  for (const auto* tables : {&form.keys, &form.queries, &form.values})
    for (const RelativeVectors& table : *tables) check_distances(problem, table);
  if (!form.shift.empty() && position.query_rotary)
    refuse(operation, "a relative shift cannot be combined with query_rotary", "both");
}

// Contextual positions, edges and stick-breaking look from a query to the left, at plain
// scores.
void check_walk(const AttentionProblem& problem) {
  if (!problem.walks()) return;
  const bool edges = problem.edges.bias;
  const std::string who = problem.stick_breaking ? "stick-breaking attention"
                          : edges                ? "edges"
                                                 : "contextual vectors";
  const auto unless = [&](bool holds, const char* rule, std::string_view value) {
    if (!holds) refuse(operation, who + " " + rule, value);
  };
  unless(problem.mask.visibility == Visibility::causal, "must be causal", "bidirectional");
  unless(std::holds_alternative<NoBias>(*problem.position.bias),
         "cannot be combined with a bias", "both");
  unless(!problem.position.cumulative, "cannot be combined with a cumulative bias", "both");
  unless(!problem.needs_key_slopes, "cannot be combined with slopes of keys", "both");
  unless(!problem.softmax.cap, "cannot be combined with a softmax cap", "both");
  unless(!problem.gated(), "cannot be combined with gates", "both");
  unless(problem.mask.rate == 1, "cannot be combined with a rate above 1", "both");
  if (edges && problem.stick_breaking)
    refuse(operation, "edges cannot be combined with stick-breaking", "both");
  if (edges) {
    unless(!problem.position.relative, "cannot be combined with relative vectors", "both");
  } else if (problem.stick_breaking) {
    unless(!problem.has_sinks(), "cannot be combined with sinks", "both");
    unless(!problem.position.relative, "cannot be combined with relative vectors", "both");
  } else {
    unless(problem.softmax.scale != 0, "require a softmax scale other than 0", "0");
  }
}

// Whether the result depends on the offset: which keys are seen, or at which distance.
bool depends_on_offset(const AttentionPlan& plan) {
  const AttentionMask& mask = plan.mask;
  if (mask.visibility != Visibility::bidirectional || mask.left || mask.right ||
      plan.token_rotation)
    return true;
  const bool by_distance = !(std::holds_alternative<NoBias>(plan.bias) ||
                             std::holds_alternative<DenseBias>(plan.bias)) ||
                           !plan.relative.empty();
  return by_distance && !plan.queries;
}

}  // namespace

KnownMask known_mask(const AttentionPlan& plan, std::int64_t queries, std::int64_t keys) {
  const AttentionMask& mask = plan.mask;
  // The queries are all tokens: each has a key, or each `rate` of them a compressed key.
  const bool is_whole =
      queries == 0 || keys == 0 || (mask.rate < 2 ? queries : queries / mask.rate) == keys;
  return {.visibility = mask.visibility,
          .offset = mask.offset.value_or(0),
          .left = mask.left,
          .right = mask.right,
          .rate = mask.rate,
          .guessed = !mask.offset && !is_whole && depends_on_offset(plan)};
}

void check(const AttentionProblem& problem) {
  if (problem.size < 1) refuse(operation, "the head_dim of q must be at least 1", problem.size);
  if (problem.value_dim < 1)
    refuse(operation, "the head_dim of v must be at least 1", problem.value_dim);
  if (problem.key_heads < 1)
    refuse(operation, "k must have at least 1 head", problem.key_heads);
  if (problem.heads < 1 || problem.heads % problem.key_heads)
    refuse(
        operation,
        "the heads of q must be a multiple of those of k, " + std::to_string(problem.key_heads),
        problem.heads);
  const auto& softmax = problem.softmax;
  if (!std::isfinite(softmax.scale))
    refuse(operation, "the softmax scale must be finite", softmax.scale);
  if (softmax.cap && !(*softmax.cap > 0 && std::isfinite(*softmax.cap)))
    refuse(operation, "the cap must be positive and finite", *softmax.cap);
  if (!softmax.sinks.empty() && static_cast<int64_t>(softmax.sinks.size()) != problem.heads)
    refuse(
        operation,
        "sinks must have one element for each of " + std::to_string(problem.heads) + " heads",
        static_cast<int64_t>(softmax.sinks.size()));
  for (const double sink : softmax.sinks)
    if (!std::isfinite(sink)) refuse(operation, "sinks must be finite", sink);
  if (softmax.query_sinks.data()) {
    if (!softmax.sinks.empty())
      refuse(operation, "sinks must be given for each head or for each query, not both",
             "both");
    check_term("sinks", softmax.query_sinks, {problem.batch, problem.heads, problem.queries});
  }
  check_mask(problem);
  const auto& position = problem.position;
  if (position.queries || position.keys) {
    if (!position.queries || !position.keys)
      refuse(operation, "positions must be given for queries and keys together",
             position.queries ? "queries alone" : "keys alone");
    check_positions("queries", *position.queries, problem.batch, problem.queries);
    check_positions("keys", *position.keys, problem.batch, problem.keys);
  }
  if (position.query_rotary)
    check_rotary("queries", *position.query_rotary, problem, problem.rows);
  if (position.key_rotary) check_rotary("keys", *position.key_rotary, problem, problem.keys);
  check_ids_of_distances(problem);
  check_bias(problem);
  check_relative(problem);
  check_walk(problem);
}

}  // namespace gnomon::internal
