#include "src/attention/key_terms.h"

#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr const char* key_operation = "attention";

void check_cumulative(const AttentionProblem& problem) {
  const auto& position = problem.position;
  const View<const float, 3>& gates = position.log_gates;
  if (!position.cumulative) {
    if (gates.data())
      refuse(key_operation,
             "log_gates must not be given, because the plan has no cumulative bias",
             gnomon::shape_text(gates.extents()));
    return;
  }
  const double lost = position.cumulative->lost_weight;
  if (!(lost >= 0 && lost < 1))
    refuse(key_operation, "the lost weight of a cumulative bias must be at least 0 and below 1",
           lost);
  if (problem.mask.visibility != Visibility::causal)
    refuse(key_operation, "a cumulative bias requires causal visibility", "bidirectional");
  if (problem.mask.offset > problem.keys - problem.queries)
    refuse(key_operation,
           "a cumulative bias requires a key row for each query row, so the offset "
           "must be at most " +
               std::to_string(problem.keys - problem.queries),
           problem.mask.offset);
  if (!gates.data() && problem.keys)
    refuse(key_operation, "log_gates must be given, because the plan has a cumulative bias",
           "none");
  if (gates.extent(0) != problem.batch || gates.extent(1) != problem.heads ||
      gates.extent(2) != problem.keys)
    refuse(key_operation,
           "log_gates must be [B, Hq, S], " + std::to_string(problem.batch) + " x " +
               std::to_string(problem.heads) + " x " + std::to_string(problem.keys),
           gnomon::shape_text(gates.extents()));
  if (problem.needs_gates || position.gates.data())
    refuse(key_operation, "a cumulative bias cannot be combined with gates of the bias",
           "both");
}

void check_key_slopes(const AttentionProblem& problem) {
  const View<const float, 3>& slopes = problem.position.key_slopes;
  if (problem.needs_key_slopes != (slopes.data() != nullptr) && (slopes.data() || problem.keys))
    refuse(key_operation, "key_slopes must be given if and only if the plan requires them",
           slopes.data() ? "a tensor" : "none");
  if (!slopes.data()) return;
  check_shape<3>(key_operation, "key_slopes", slopes.extents(),
                 {problem.batch, problem.heads, problem.keys});
  if (problem.needs_gates)
    refuse(key_operation, "slopes of keys cannot be combined with gates of the bias", "both");
}

}  // namespace

void check_key_terms(const AttentionProblem& problem) {
  check_cumulative(problem);
  check_key_slopes(problem);
}

template <typename A>
KeyTermSums<A>::KeyTermSums(const TokenTermGradients& gradients, BackwardProblem<A>& problem)
    : problem_(problem),
      log_gates_(term_gradient("log_gates", gradients.log_gates, problem.position.log_gates)),
      key_slopes_(
          term_gradient("key_slopes", gradients.key_slopes, problem.position.key_slopes)) {
  const auto sums = [&](std::vector<double>& all) {
    all.resize(checked_size(key_operation, "batch x heads x parts x keys",
                            {problem.batch, problem.heads, problem.parts, problem.keys}));
    return all.data();
  };
  if (log_gates_.data()) problem.column_sums = sums(column_sums_);
  if (key_slopes_.data()) problem.key_slope_sums = sums(slope_sums_);
}

template <typename A>
void KeyTermSums<A>::finish() const {
  const int64_t parts = problem_.parts, keys = problem_.keys;
  if (log_gates_.data())
    cumulative_backward(column_sums_, parts, problem_.position.keys, log_gates_);
  if (!key_slopes_.data()) return;
  for (int64_t row = 0; row < problem_.batch * problem_.heads; ++row)
    for (int64_t j = 0; j < keys; ++j) {
      double sum = 0;
      for (int64_t part = 0; part < parts; ++part)
        sum += slope_sums_[to_size((row * parts + part) * keys + j)];
      key_slopes_(row / problem_.heads, row % problem_.heads, j) = static_cast<float>(sum);
    }
}

template class KeyTermSums<float>;
template class KeyTermSums<double>;

}  // namespace gnomon::internal
