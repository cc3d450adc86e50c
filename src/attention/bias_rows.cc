#include "src/attention/bias_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <variant>

#include "src/core/overloaded.h"
#include "src/core/size.h"

namespace gnomon::internal {

using std::int64_t;

BiasRows::BiasRows(const AttentionProblem& problem) : problem_(problem) {
  if (problem.position.keys) {
    ids_ = problem.position.keys->ids;
  } else {
    ids_.resize(to_size(problem.keys));
    std::iota(ids_.begin(), ids_.end(), int64_t{0});
  }
  const auto range = [](const std::vector<int64_t>& ids) -> IdRange {
    if (ids.empty()) return {};
    const auto [least, most] = std::minmax_element(ids.begin(), ids.end());
    return {*least, *most};
  };
  const IdRange keys = range(ids_);
  const IdRange queries =
      problem.position.queries
          ? range(problem.position.queries->ids)
          : IdRange{problem.mask.offset, problem.mask.offset + problem.queries - 1};
  std::visit(
      Overloaded{[](const auto&) {},
                 [&](const GridBias& form) { grid_ = prepare<float>(form, queries, keys); },
                 [&](const AxesBias& form) { axes_ = prepare<float>(form, queries, keys); },
                 [&](const PiecewiseLogBias& form) {
                   piecewise_log_ = prepare<float>(form, queries, keys);
                 }},
      *problem.position.bias);
}

bool BiasRows::any() const { return !std::holds_alternative<NoBias>(*problem_.position.bias); }

Ids BiasRows::key_ids(int64_t b, int64_t key, int64_t count) const {
  const int64_t row = to_size(problem_.keys) == ids_.size() ? 0 : b;
  return {ids_.data() + row * problem_.keys + key, to_size(count)};
}

void BiasRows::fill(int64_t b, int64_t head, int64_t query, int64_t key, int64_t count,
                    float* to) const {
  const int64_t own = query_id(problem_, b, query);
  const Ids keys = key_ids(b, key, count), queries(&own, 1);
  std::visit(Overloaded{[&](const NoBias&) { std::fill_n(to, count, 0.0F); },
                        [&](const DenseBias& form) {
                          for (int64_t j = 0; j < count; ++j)
                            to[j] = form.values(b, head, query, key + j);
                        },
                        [&](const SlopeBias& form) {
                          const double slope = -form.slopes[to_size(head)];
                          for (int64_t j = 0; j < count; ++j)
                            to[j] = static_cast<float>(
                                slope * std::fabs(static_cast<double>(keys[to_size(j)] - own)));
                        },
                        [&](const StripBias& form) {
                          const int64_t distances = form.distances();
                          const double* values = form.values.data() + head * distances;
                          for (int64_t j = 0; j < count; ++j) {
                            const int64_t at = keys[to_size(j)] - own - form.min_distance;
                            to[j] = at >= 0 && at < distances ? static_cast<float>(values[at])
                                                              : 0.0F;
                          }
                        },
                        [&](const GridBias& form) {
                          internal::fill(form, grid_, head, queries, keys, to, count);
                        },
                        [&](const AxesBias& form) {
                          internal::fill(form, axes_, head, queries, keys, to, count);
                        },
                        [&](const PiecewiseLogBias& form) {
                          internal::fill(form, piecewise_log_, head, queries, keys, to, count);
                        }},
             *problem_.position.bias);
}

void BiasRows::add_gradient(int64_t b, int64_t head, int64_t query, int64_t key, int64_t count,
                            const float* grad, double* sums) const {
  const int64_t own = query_id(problem_, b, query);
  const Ids keys = key_ids(b, key, count), queries(&own, 1);
  std::visit(
      Overloaded{[](const NoBias&) {}, [](const DenseBias&) {},
                 [&](const SlopeBias&) {
                   for (int64_t j = 0; j < count; ++j)
                     *sums -= double{grad[j]} *
                              std::fabs(static_cast<double>(keys[to_size(j)] - own));
                 },
                 [&](const StripBias& form) {
                   for (int64_t j = 0; j < count; ++j) {
                     const int64_t at = keys[to_size(j)] - own - form.min_distance;
                     if (at >= 0 && at < form.distances()) sums[at] += double{grad[j]};
                   }
                 },
                 [&](const GridBias& form) {
                   internal::add_gradient(form, grid_, head, queries, keys, grad, count, sums);
                 },
                 [&](const AxesBias& form) {
                   internal::add_gradient(form, axes_, head, queries, keys, grad, count, sums);
                 },
                 [&](const PiecewiseLogBias& form) {
                   internal::add_gradient(form, piecewise_log_, head, queries, keys, grad,
                                          count, sums);
                 }},
      *problem_.position.bias);
}

}  // namespace gnomon::internal
