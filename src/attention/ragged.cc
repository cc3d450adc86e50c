#include "src/attention/ragged.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "src/bias/tile.h"
#include "src/core/tensor.h"

namespace gnomon::internal {
namespace {

using std::int64_t;
using Numbers64 = std::span<const int64_t>;

constexpr std::string_view operation = "attention";

int64_t size_of(Numbers64 numbers) { return static_cast<int64_t>(numbers.size()); }

// The number of sequences, which all arrays must have in common.
class SequenceCount {
 public:
  void take(std::string_view name, int64_t sequences) {
    if (!first_.empty() && sequences != count_)
      refuse(operation,
             "the sequences of " + std::string(name) + " must be " + std::to_string(count_) +
                 ", as those of " + std::string(first_),
             sequences);
    if (first_.empty()) first_ = name;
    count_ = sequences;
  }
  int64_t count() const { return count_; }

 private:
  std::string_view first_;
  int64_t count_ = 0;
};

std::string of_sequence(std::string_view name, std::size_t b) {
  return std::string(name) + "[" + std::to_string(b) + "]";
}

// Checks starts, and returns the length of the longest sequence.
int64_t check_starts(std::string_view name, Numbers64 starts, int64_t rows) {
  if (starts.front() < 0)
    refuse(operation, of_sequence(name, 0) + " must not be negative", starts.front());
  int64_t longest = 0;
  for (std::size_t b = 1; b < starts.size(); ++b) {
    if (starts[b] < starts[b - 1])
      refuse(operation,
             of_sequence(name, b) + " must not be below the start before it, " +
                 std::to_string(starts[b - 1]),
             starts[b]);
    longest = std::max(longest, starts[b] - starts[b - 1]);
  }
  if (starts.back() > rows)
    refuse(operation,
           of_sequence(name, starts.size() - 1) + " must be at most the rows of the tensor, " +
               std::to_string(rows),
           starts.back());
  return longest;
}

// Checks lengths, and returns the longest one.
int64_t check_lengths(std::string_view name, Numbers64 lengths, int64_t rows) {
  int64_t longest = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] < 0 || lengths[b] > rows)
      refuse(operation, of_sequence(name, b) + " must be 0 to " + std::to_string(rows),
             lengths[b]);
    longest = std::max(longest, lengths[b]);
  }
  return longest;
}

// Checks the first axis of a tensor.
void check_first_axis(std::string_view name, const ConstTensor& tensor, int64_t wanted) {
  if (tensor.extent(0) != wanted)
    refuse(operation, "axis 0 of " + std::string(name) + " must be " + std::to_string(wanted),
           tensor.extent(0));
}

// Checks the blocks that hold rows of the sequences.
View<const std::int32_t, 2> check_blocks(const ConstTensor& table, Numbers64 lengths,
                                         int64_t blocks, int64_t page) {
  const auto view = read<std::int32_t, 2>({operation, "block_table"}, table);
  if (view.extent(0) != size_of(lengths))
    refuse(operation,
           "axis 0 of block_table must be the sequences, " + std::to_string(lengths.size()),
           int64_t{view.extent(0)});
  if (page < 1) refuse(operation, "a page must have at least 1 row", page);
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const int64_t used = lengths[b] > 0 ? (lengths[b] - 1) / page + 1 : 0;
    if (lengths[b] < 0 || used > view.extent(1))
      refuse(operation,
             of_sequence("key_lengths", b) + " must be 0 to the rows of " +
                 std::to_string(view.extent(1)) + " blocks of " + std::to_string(page),
             lengths[b]);
    for (int64_t m = 0; m < used; ++m) {
      const std::int32_t block = view(static_cast<int64_t>(b), m);
      if (block < 0 || block >= blocks)
        refuse(operation,
               of_sequence("block_table", b) + "[" + std::to_string(m) +
                   "] must be a block of the cache, 0 to " + std::to_string(blocks - 1),
               int64_t{block});
    }
  }
  return view;
}

void check_offsets(const AttentionProblem& problem) {
  for (int64_t b = 0; b < problem.batch; ++b) {
    const int64_t offset = problem.offset_of(b);
    if (offset >= 0 && offset <= std::numeric_limits<int64_t>::max() / 2 - problem.queries)
      continue;
    const auto n = static_cast<std::size_t>(b);
    if (problem.ragged->offsets.empty())
      refuse(
          operation,
          "without offsets, a sequence must have at least as many keys as queries; sequence " +
              std::to_string(b) + " has " + std::to_string(problem.queries_of(b)) +
              " queries and keys:",
          problem.keys_of(b));
    refuse(operation, of_sequence("offsets", n) + " must be 0 to 2^62", offset);
  }
}

}  // namespace

void check_ragged_plan(const AttentionPlan& plan, const RaggedBatch& ragged,
                       const TokenTerms& terms) {
  if (ragged.empty()) return;
  const BiasForm& bias = plan.bias;
  const bool by_distance =
      std::holds_alternative<NoBias>(bias) || std::holds_alternative<SlopeBias>(bias) ||
      std::holds_alternative<StripBias>(bias) || std::holds_alternative<PiecewiseLogBias>(bias);
  const std::pair<bool, const char*> parts[] = {
      {plan.mask.offset.value_or(0) != 0, "an offset of the mask"},
      {plan.mask.rate != 1, "a rate above 1"},
      {plan.product != PairProduct::dot || plan.polar, "another product"},
      {plan.key_rotary.has_value(), "key_rotary"},
      {plan.token_rotation.has_value(), "token_rotation"},
      {!by_distance, "a bias that is not by distance"},
      {!plan.relative.empty(), "relative vectors"},
      {plan.cumulative.has_value(), "a cumulative bias"},
      {plan.edges || plan.edge_rotary, "edges"},
      {plan.queries || plan.keys, "positions"},
      {plan.gated, "gates"},
      {plan.key_slopes, "key_slopes"},
      {plan.stick_breaking.has_value(), "stick-breaking"}};
  for (const auto& [has, name] : parts)
    if (has)
      refuse(operation,
             "a ragged batch requires a plan with a window, a bias by distance, a softmax and "
             "query_rotary only",
             name);
  for (const auto& term : named_terms<ConstTensor>)
    if ((terms.*term.member).has_data())
      refuse(operation, "a ragged batch cannot be combined with terms of the tokens",
             term.name);
}

void refuse_ragged(std::string_view of, const AttentionPlan& plan) {
  if (!plan.ragged.empty())
    refuse(of, "all sequences must have the same lengths", "a ragged batch");
}

void take_ragged(const AttentionInput& input, const RaggedBatch& ragged,
                 AttentionProblem& problem) {
  const ConstTensor &q = input.q, &k = input.k, &v = input.v;
  const bool paged = ragged.block_table.has_data();
  if (!ragged.query_starts.empty() && !ragged.query_lengths.empty())
    refuse(operation, "query_starts or query_lengths must be given, not both", "both");
  if (!ragged.key_starts.empty() && !ragged.key_lengths.empty())
    refuse(operation, "key_starts or key_lengths must be given, not both", "both");
  if (paged && ragged.key_lengths.empty() && q.extent(0))
    refuse(operation, "a block_table requires key_lengths", "none");
  SequenceCount sequences;
  if (!ragged.query_starts.empty())
    sequences.take("query_starts", size_of(ragged.query_starts) - 1);
  else
    sequences.take("q", q.extent(0));
  if (!ragged.query_lengths.empty())
    sequences.take("query_lengths", size_of(ragged.query_lengths));
  if (!ragged.key_starts.empty())
    sequences.take("key_starts", size_of(ragged.key_starts) - 1);
  else if (!paged)
    sequences.take("k", k.extent(0));
  if (!ragged.key_lengths.empty()) sequences.take("key_lengths", size_of(ragged.key_lengths));
  if (!ragged.offsets.empty()) sequences.take("offsets", size_of(ragged.offsets));
  problem.ragged = &ragged;
  problem.batch = sequences.count();

  if (!ragged.query_starts.empty()) {
    check_first_axis("q", q, 1);
    problem.queries = check_starts("query_starts", ragged.query_starts, q.extent(1));
    problem.q.places = RowPlaces(ragged.query_starts);
  } else if (!ragged.query_lengths.empty()) {
    problem.queries = check_lengths("query_lengths", ragged.query_lengths, q.extent(1));
  }
  check_first_axis("v", v, k.extent(0));
  if (!ragged.key_starts.empty()) {
    check_first_axis("k", k, 1);
    problem.keys = check_starts("key_starts", ragged.key_starts, k.extent(1));
    problem.k.places = problem.v.places = RowPlaces(ragged.key_starts);
  } else if (paged) {
    const auto table =
        check_blocks(ragged.block_table, ragged.key_lengths, k.extent(0), k.extent(1));
    problem.keys = 0;
    for (const int64_t length : ragged.key_lengths)
      problem.keys = std::max(problem.keys, length);
    problem.k.places = problem.v.places = RowPlaces(table, k.extent(1));
  } else if (!ragged.key_lengths.empty()) {
    problem.keys = check_lengths("key_lengths", ragged.key_lengths, k.extent(1));
  }
  check_offsets(problem);
}

// Returns the positions of the queries of a ragged batch.
IdRange query_range(const AttentionProblem& problem) {
  IdRange range{std::numeric_limits<int64_t>::max(), 0};
  for (int64_t b = 0; b < problem.batch; ++b) {
    if (!problem.queries_of(b)) continue;
    range.least = std::min(range.least, problem.offset_of(b));
    range.most = std::max(range.most, problem.offset_of(b) + problem.queries_of(b) - 1);
  }
  return range.least > range.most ? IdRange{} : range;
}

}  // namespace gnomon::internal
