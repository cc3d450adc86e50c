// Terms of keys that are added to the scores: log gates and slopes.
#pragma once

#include <string>
#include <vector>

#include "src/attention/problem.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon::internal {

// Returns the gradient of a term, if it is required. Throws std::invalid_argument unless it has
// the shape of the term and distinct places.
template <std::size_t Rank>
View<float, Rank> term_gradient(const std::string& name, const Tensor& tensor,
                                View<const float, Rank> term) {
  const std::string who = "the gradient of " + name;
  const auto view = write_if<float, Rank>({"attention", who}, tensor);
  if (!view.data()) return view;
  for (std::size_t axis = 0; axis < Rank; ++axis)
    if (view.extent(axis) != term.extent(axis))
      refuse("attention",
             "axis " + std::to_string(axis) + " of " + who + " must be " +
                 std::to_string(term.extent(axis)),
             std::int64_t{view.extent(axis)});
  if (!in_row_major_order(tensor)) check_own_places({"attention", who}, tensor);
  return view;
}

// Checks that the terms are given if and only if the plan requires them, with their shapes, and
// that the mask allows them. Throws std::invalid_argument.
void check_key_terms(const AttentionProblem& problem);

// The sums of the gradients of the terms over the queries, while the backward pass runs.
template <typename A>
class KeyTermSums {
 public:
  // Throws std::invalid_argument if a gradient has another shape than its term.
  KeyTermSums(const TokenTermGradients& gradients, BackwardProblem<A>& problem);
  // Writes the gradients.
  void finish() const;

 private:
  const BackwardProblem<A>& problem_;
  View<float, 3> log_gates_, key_slopes_;
  std::vector<double> column_sums_, slope_sums_;  // [B, Hq, parts, S]
};

}  // namespace gnomon::internal
