#include "src/attention/channel_gates.h"

#include <array>
#include <cmath>
#include <numbers>
#include <set>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/attention/tile.h"
#include "src/core/size.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr std::string_view gates_operation = "attention";

// Checks that the rows of each sequence are adjacent, and that query row i is in the sequence
// of key row i + offset: the sum of a query is that of its key row.
void check_gate_sequences(const AttentionProblem& problem, int64_t b) {
  const std::int32_t* of_key = sequences(problem.position.keys, b);
  const std::int32_t* of_query = sequences(problem.position.queries, b);
  if (!of_key) return;
  std::set<std::int32_t> seen;
  std::int32_t own = Positions::padding;
  for (int64_t j = 0; j < problem.keys; ++j) {
    if (of_key[j] == Positions::padding || of_key[j] == own) continue;
    own = of_key[j];
    if (!seen.insert(own).second)
      refuse(gates_operation,
             "with channel_gates, the rows of a sequence must be adjacent, of sequence",
             int64_t{own});
  }
  for (int64_t i = 0; i < problem.queries; ++i)
    if (of_query[i] != Positions::padding && of_query[i] != of_key[i + problem.mask.offset])
      refuse(gates_operation,
             "with channel_gates, query row i and key row i + offset must be in one sequence, "
             "of query row",
             i);
}

void check_gate_values(const AttentionProblem& problem) {
  const View<const float, 4>& gates = problem.channel_gates;
  std::vector<float> positive(to_size(problem.batch * problem.keys));
  parallel_for(problem.batch * problem.keys, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / problem.keys, j = row % problem.keys;
      const std::int32_t* sequence = sequences(problem.position.keys, b);
      if (sequence && sequence[j] == Positions::padding) continue;
      float most = 0;
      for (int64_t h = 0; h < problem.heads; ++h)
        for (int64_t n = 0; n < problem.size; ++n) {
          const float gate = gates(b, j, h, n);
          if (gate > most && std::isfinite(gate)) most = gate;
        }
      positive[to_size(row)] = most;
    }
  });
  for (const float gate : positive)
    if (gate > 0) refuse(gates_operation, "channel_gates must not be positive", double{gate});
}

}  // namespace

void check_channel_gates(const AttentionProblem& problem) {
  const std::array<int64_t, 4> wanted = {problem.batch, problem.keys, problem.heads,
                                         problem.size};
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (problem.channel_gates.extent(axis) != wanted[axis])
      refuse(gates_operation,
             "channel_gates must be [B, S, Hq, D]; axis " + std::to_string(axis) + " must be " +
                 std::to_string(wanted[axis]),
             int64_t{problem.channel_gates.extent(axis)});
  if (problem.mask.visibility != Visibility::causal)
    refuse(gates_operation, "channel_gates require a causal mask", "bidirectional");
  if (problem.mask.offset > problem.keys - problem.queries)
    refuse(gates_operation,
           "with channel_gates, offset must be at most keys - queries = " +
               std::to_string(problem.keys - problem.queries),
           problem.mask.offset);
  if (problem.position.relative)
    refuse(gates_operation, "channel_gates cannot be combined with relative vectors", "both");
  if (problem.gated())
    refuse(gates_operation, "channel_gates cannot be combined with gates of the bias", "both");
  for (int64_t b = 0; b < problem.batch; ++b) check_gate_sequences(problem, b);
  check_gate_values(problem);
}

std::vector<double> sums_of_tiles(const AttentionProblem& problem) {
  const int64_t tiles = problem.keys / tile_keys, size = problem.size;
  std::vector<double> sums(checked_size(gates_operation, "batch x heads x tiles x head_dim",
                                        {problem.batch, problem.heads, tiles, size}));
  parallel_for(problem.batch * problem.heads * tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t b = n / tiles / problem.heads, h = n / tiles % problem.heads;
      const std::int32_t* sequence = sequences(problem.position.keys, b);
      double* sum = sums.data() + n * size;
      for (int64_t j = n % tiles * tile_keys; j < (n % tiles + 1) * tile_keys; ++j) {
        if (sequence && sequence[j] == Positions::padding) continue;
        for (int64_t d = 0; d < size; ++d)
          sum[d] += static_cast<double>(problem.channel_gates(b, j, h, d));
      }
      for (int64_t d = 0; d < size; ++d) sum[d] *= std::numbers::log2e;
    }
  });
  return sums;
}

}  // namespace gnomon::internal
