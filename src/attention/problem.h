// One call of attention as the kernels receive it: checked, and without element types.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gnomon/attention/attention.h"
#include "src/attention/cumulative.h"
#include "src/attention/edges.h"
#include "src/attention/householder.h"
#include "src/attention/relative.h"
#include "src/bias/tile.h"

namespace gnomon::internal {

constexpr std::int64_t unbounded = std::numeric_limits<std::int64_t>::max() / 4;

// The indices of a row in the first two axes of a tensor.
struct Place {
  std::int64_t batch = 0, row = 0;
};

// Where the rows of the sequences of a tensor are.
class RowPlaces {
 public:
  // Row r of sequence b is row r of index b of the first axis.
  RowPlaces() = default;
  // Sequence b starts at row starts[b] of index 0.
  explicit RowPlaces(std::span<const std::int64_t> starts)
      : starts_(starts.data()), regular_(false) {}
  // Row r of sequence b is row r % page of block table[b][r / page].
  RowPlaces(View<const std::int32_t, 2> table, std::int64_t page)
      : table_(table), page_(page), regular_(false) {
    if (!(page & (page - 1)))
      while (std::int64_t{1} << (shift_ + 1) <= page) ++shift_;
  }

  Place operator()(std::int64_t b, std::int64_t row) const {
    if (regular_) return {b, row};
    if (starts_) return {0, starts_[b] + row};
    const std::int64_t block = shift_ >= 0 ? row >> shift_ : row / page_;
    return {table_(b, block), row - block * page_};
  }
  std::int64_t page() const { return page_; }  // 0: no pages
  // Returns how many rows, at most `count`, follow each other at equal distances from `row`.
  std::int64_t run(std::int64_t row, std::int64_t count) const {
    return page_ ? std::min(count, page_ - row % page_) : count;
  }

 private:
  const std::int64_t* starts_ = nullptr;
  View<const std::int32_t, 2> table_ = {};
  std::int64_t page_ = 0;
  int shift_ = -1;  // log2 of the page; -1: not a power of two
  bool regular_ = true;
};

// An input [batch, rows, heads, size] whose last axis is contiguous. Strides are in elements.
struct Operand {
  const void* data = nullptr;
  std::array<std::int64_t, 3> strides{};
  DType dtype = {};
  // If it has data, elements are int8, or E4M3, with these factors.
  View<const float, 3> scales = {};
  bool e4m3 = false;
  RowPlaces places = {};

  std::size_t bytes() const { return scales.data() ? 1 : size_of(dtype); }  // per element
};
struct Result {
  void* data = nullptr;
  std::array<std::int64_t, 3> strides{};
  DType dtype = {};
  RowPlaces places = {};
};

// An AttentionMask with an offset, which is a guess of 0 if the mask has none, although results
// depend on it: `check` refuses it.
struct KnownMask {
  Visibility visibility = {};
  std::int64_t offset = 0;
  std::optional<std::int64_t> left = {}, right = {};
  std::int64_t rate = 1;
  bool guessed = false;
};

struct AttentionProblem {
  // queries, keys: of the longest sequence of a ragged batch.
  std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0;
  std::int64_t size = 0, value_dim = 0;  // D (2 D of polar rows), Dv
  std::int64_t head_dim = 0;             // D, of the tensors q and k
  std::int64_t rows = 0;                 // T, of the tensors q and out
  KnownMask mask;
  const RaggedBatch* ragged = nullptr;  // null: all sequences have the same lengths
  // The plan of the call, borrowed.
  struct {
    double scale = 0;
    std::optional<double> cap;
    bool rounds_weights = true;
    std::span<const double> sinks;
    View<const float, 3> query_sinks;  // in place of `sinks`, if it has data
  } softmax;
  struct {
    const RotaryTable *query_rotary = nullptr, *key_rotary = nullptr;
    const BiasForm* bias = nullptr;
    const RelativeForm* relative = nullptr;  // null if the form is empty
    View<const float, 3> gates, log_gates, key_slopes;
    View<const float, 4> relative_queries;
    const CumulativeBias* cumulative = nullptr;
    const PolarForm* polar = nullptr;
    const Positions *queries = nullptr, *keys = nullptr;
  } position;
  bool needs_gates = false, needs_key_slopes = false, stick_breaking = false;
  PairProduct product = PairProduct::dot;
  bool pairs = false;  // products are those of pairs of bfloat16: multiply-inl.h
  View<const float, 4> channel_gates;  // [B, S, Hq, D]; without data if there are none
  HouseholderTerms householder;
  EdgeTerms edges;
  Operand q, k, v;
  // [B, Hq]: the greatest distance, in rows, at which a weight is not 0. Empty: no limit.
  std::vector<std::int64_t> reach;

  CumulativeSums cumulative;

  std::int64_t queries_of(std::int64_t b) const {
    return ragged ? length(ragged->query_starts, ragged->query_lengths, b, queries) : queries;
  }
  std::int64_t keys_of(std::int64_t b) const {
    return ragged ? length(ragged->key_starts, ragged->key_lengths, b, keys) : keys;
  }
  // Query row i of sequence b corresponds to key row i + offset_of(b).
  std::int64_t offset_of(std::int64_t b) const {
    if (!ragged) return mask.offset;
    return ragged->offsets.empty() ? keys_of(b) - queries_of(b)
                                   : ragged->offsets[static_cast<std::size_t>(b)];
  }
  std::int64_t group() const { return heads / key_heads; }
  // Whether a tile contains a single head: heads have vectors or products of their own.
  bool single_heads() const {
    return relative_vectors() || product != PairProduct::dot || edges.bias;
  }
  bool relative_vectors() const {
    const RelativeForm* form = position.relative;
    return form && !(form->keys.empty() && form->queries.empty() && form->values.empty() &&
                     form->projected.empty());
  }
  bool has_sinks() const { return softmax.query_sinks.data() || !softmax.sinks.empty(); }
  double sink(std::int64_t b, std::int64_t head, std::int64_t query) const {
    if (!softmax.query_sinks.data()) return softmax.sinks[static_cast<std::size_t>(head)];
    return static_cast<double>(softmax.query_sinks(b, head, query));
  }
  bool gated() const { return position.gates.data(); }
  std::int64_t contextual_positions() const {  // 0 without contextual vectors
    const RelativeForm* form = position.relative;
    return form && form->contextual ? form->contextual->positions() : 0;
  }
  // Whether scores depend on the keys between a key and the query: src/attention/walk-inl.h.
  // Whether products may be those of bfloat16 elements, as they are in memory.
  bool takes_bfloat16() const {
    const auto all = [](DType of_q, DType of_k, DType of_v) {
      return of_q == DType::bf16 && of_k == DType::bf16 && of_v == DType::bf16;
    };
    return softmax.rounds_weights && all(q.dtype, k.dtype, v.dtype) &&
           product == PairProduct::dot && !position.query_rotary && !position.key_rotary &&
           !position.relative && !position.polar && !gated() && !walks();
  }
  bool walks() const { return stick_breaking || contextual_positions() || edges.bias; }
  // The number of elements that are loaded and then expanded to polar form; 0: none.
  std::int64_t polar_dim() const { return position.polar ? head_dim : 0; }
  float gate(std::int64_t b, std::int64_t head, std::int64_t query) const {
    return position.gates(position.gates.extent(0) == 1 ? 0 : b, head, query);
  }

 private:
  static std::int64_t length(std::span<const std::int64_t> starts,
                             std::span<const std::int64_t> lengths, std::int64_t b,
                             std::int64_t all) {
    const auto n = static_cast<std::size_t>(b);
    if (!starts.empty()) return starts[n + 1] - starts[n];
    return lengths.empty() ? all : lengths[n];
  }
};

// The problem with prepared biases and relative vectors in the accumulator type.
template <typename A>
struct TypedProblem : AttentionProblem {
  PreparedGrid<A> grid;
  PreparedPiecewiseLog<A> piecewise_log;
  PreparedRelative<A> relative;
  PreparedAxes<A> axes;
  std::vector<double> gate_tiles;       // sums_of_tiles, if there are channel_gates
  std::vector<A> phase_cos, phase_sin;  // [Hq, D], of the polar form
  std::optional<HouseholderRows<A>> householder_rows;
  std::optional<EdgeRows<A>> edge_rows;
  // Positions of all rows, [T] and [S], for forms that need them if the plan has none.
  std::vector<std::int64_t> query_ids, key_ids;
};

template <typename A>
struct ForwardProblem : TypedProblem<A> {
  Result out;
  View<A, 3> lse;
};

template <typename A>
struct BackwardProblem : TypedProblem<A> {
  Operand out, out_grad;
  View<const A, 3> lse;
  Result q_grad, k_grad, v_grad;
  // Sums of the gradient of the bias, if it is required: [B, Hq, parts, N], initially zero.
  double* bias_sums = nullptr;
  std::int64_t bias_numbers = 0;  // N
  double* sink_sums = nullptr;    // [B, Hq, parts], initially zero, or null
  double* phase_sums = nullptr;   // [B, Hq, parts, D], initially zero, or null
  std::int64_t parts = 1;         // parts of the queries with separate sums: BackwardPlan

  // Returns the index of a tile in [B, Hq, parts].
  template <typename Tile>
  std::int64_t sums_at(const Tile& tile) const {
    return (tile.batch * this->heads + tile.head) * parts + tile.part;
  }
  View<float, 4> dense_grad;
  View<float, 4> channel_gates_grad, householder_grad;
  View<float, 3> betas_grad;
  // Empty if not required.
  RelativeSums<A> key_vectors, query_vectors, value_vectors, projected_vectors;
  A* contextual_sums = nullptr;  // [B, Hq, parts, P, row_stride(D)], initially zero, or null
  double* gate_sums = nullptr;   // [B, Hq, T], initially zero
  View<float, 4> relative_query_grad, edge_query_grad;
  A* edge_key_sums = nullptr;  // [B, Hq, parts, S, row_stride(P)], initially zero, or null
  View<float, 3> query_sink_grad;
  // Sums of the gradients of scores by key, less the sums by query: [B, Hq, parts, S],
  // initially zero, or null.
  double* column_sums = nullptr;
  // Sums of the gradients of the slopes of keys: [B, Hq, parts, S], initially zero, or null.
  double* key_slope_sums = nullptr;
};

// Key rows [begin, end).
struct KeyRange {
  std::int64_t begin = 0, end = 0;
};

// Returns the keys that query row i of sequence b sees by the mask alone. Both ends grow with
// i.
inline KeyRange visible_keys(const AttentionProblem& problem, std::int64_t b, std::int64_t i) {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const std::int64_t keys = problem.keys_of(b);
  std::int64_t own = i + problem.offset_of(b);
  if (problem.mask.rate > 1) own = (own + 1) / problem.mask.rate - 1;  // -1: none
  const std::int64_t before = problem.mask.left.value_or(none);
  std::int64_t after = problem.mask.right.value_or(none);
  if (problem.mask.visibility == Visibility::causal) after = 0;
  KeyRange range;
  range.begin = before < own ? (own - before < keys ? own - before : keys) : 0;
  range.end = after < keys && own < keys - after ? own + after + 1 : keys;
  if (range.begin > range.end) range.begin = range.end;
  return range;
}

inline std::int64_t query_id(const AttentionProblem& problem, std::int64_t b, std::int64_t i) {
  const Positions* positions = problem.position.queries;
  if (!positions) return i + problem.offset_of(b);
  const std::int64_t row = positions->batch == 1 ? 0 : b;
  return positions->ids[static_cast<std::size_t>(row * positions->tokens + i)];
}
inline std::int64_t key_id(const AttentionProblem& problem, std::int64_t b, std::int64_t j) {
  const Positions* positions = problem.position.keys;
  if (!positions) return j;
  const std::int64_t row = positions->batch == 1 ? 0 : b;
  return positions->ids[static_cast<std::size_t>(row * positions->tokens + j)];
}

// Returns the sequences of row b of the batch; null if there are no positions.
inline const std::int32_t* sequences(const Positions* positions, std::int64_t b) {
  if (!positions) return nullptr;
  return positions->sequences.data() + (positions->batch == 1 ? 0 : b * positions->tokens);
}

// How the forward pass of a problem is computed.
struct ForwardChoice {
  std::int64_t direct = 0, blocks = 0, others = 0;  // numbers of sequences with queries
  bool by_parts = false;                            // the others: several threads share a row
  std::int64_t queries = 0;                         // of a piece, of the others
  bool pairs_over_cache = false, pairs = false;     // products of bfloat16: of the others
};
ForwardChoice choose_forward(ForwardProblem<float>& problem);
ForwardChoice choose_forward(ForwardProblem<double>& problem);
// The text of explain_attention.
std::string explain(ForwardProblem<float>& problem);
std::string explain(ForwardProblem<double>& problem);

// The kernels, one for each accumulator type.
void run_forward(ForwardProblem<float>& problem);
void run_forward(ForwardProblem<double>& problem);
void run_backward(BackwardProblem<float>& problem);
void run_backward(BackwardProblem<double>& problem);

}  // namespace gnomon::internal
