#include "src/attention/relative.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gnomon::internal {

using std::int64_t;

template <typename A>
RelativeTable<A>::RelativeTable(const RelativeVectors& from, double factor)
    : from_(&from),
      vectors_(from.vectors()),
      size_(from.head_dim),
      rotated_(from.rows.front() > from.rows.back()),
      row_of_(from.rows),
      rows_(from.heads * vectors_ * row_stride(size_)),
      columns_(from.heads * size_ * row_stride(vectors_)) {
  if (rotated_)
    for (std::int32_t& row : row_of_) row = static_cast<std::int32_t>(vectors_ - 1) - row;
  for (int64_t h = 0; h < from.heads; ++h) {
    A* of_rows = rows_.data() + h * vectors_ * row_stride(size_);
    A* of_columns = columns_.data() + h * size_ * row_stride(vectors_);
    for (int64_t r = 0; r < vectors_; ++r) {
      const int64_t given = rotated_ ? vectors_ - 1 - r : r;
      const double* vector = from.values.data() + (h * vectors_ + given) * size_;
      for (int64_t d = 0; d < size_; ++d) {
        const A value = static_cast<A>(factor * vector[d]);
        finite_ = finite_ && std::isfinite(value);
        of_rows[r * row_stride(size_) + d] = value;
        of_columns[d * row_stride(vectors_) + r] = value;
      }
    }
  }
}

template <typename A>
std::vector<double> RelativeTable<A>::total(const A* sums, int64_t count, int64_t parts,
                                            int64_t heads, double factor) const {
  std::vector<double> result(from_->values.size());
  for (int64_t n = 0; n < count; ++n, sums += numbers()) {
    const int64_t head = from_->heads == 1 ? 0 : n / parts % heads;
    for (int64_t r = 0; r < vectors_; ++r) {
      const int64_t given = rotated_ ? vectors_ - 1 - r : r;
      double* to = result.data() + (head * vectors_ + given) * size_;
      for (int64_t d = 0; d < size_; ++d)
        to[d] += static_cast<double>(sums[r * row_stride(size_) + d]);
    }
  }
  for (double& number : result) number *= factor;
  return result;
}

template <typename A>
ContextualTable<A>::ContextualTable(const ContextualVectors& from, double factor)
    : heads_(from.heads), size_(from.head_dim), positions_(from.positions()) {
  tables_.emplace_back(heads_ * numbers());
  tables_.emplace_back(heads_ * size_ * width());
  for (int64_t h = 0; h < heads_; ++h) {
    A* of_rows = tables_[0].data() + h * numbers();
    A* of_columns = tables_[1].data() + h * size_ * width();
    for (int64_t p = 0; p <= positions_; ++p) {
      const int64_t given = std::min(p, positions_ - 1);
      const double* vector = from.values.data() + (h * positions_ + given) * size_;
      for (int64_t d = 0; d < size_; ++d) {
        const A value = static_cast<A>(factor * vector[d]);
        if (p < positions_) of_rows[p * row_stride(size_) + d] = value;
        of_columns[d * width() + p] = value;
      }
    }
  }
}

template <typename A>
std::vector<double> ContextualTable<A>::total(const A* sums, int64_t count, int64_t parts,
                                              int64_t heads, double factor) const {
  std::vector<double> result(static_cast<std::size_t>(heads_ * positions_ * size_));
  for (int64_t n = 0; n < count; ++n, sums += numbers()) {
    const int64_t head = heads_ == 1 ? 0 : n / parts % heads;
    for (int64_t p = 0; p < positions_; ++p)
      for (int64_t d = 0; d < size_; ++d)
        result[static_cast<std::size_t>((head * positions_ + p) * size_ + d)] +=
            factor * static_cast<double>(sums[p * row_stride(size_) + d]);
  }
  return result;
}

template <typename A>
PreparedRelative<A>::PreparedRelative(const RelativeForm& form, double factor)
    : shift(form.shift.begin(), form.shift.end()) {
  for (const RelativeVectors& one : form.keys) keys.emplace_back(one, 1);
  for (const RelativeVectors& one : form.queries) queries.emplace_back(one, factor);
  for (const RelativeVectors& one : form.values) values.emplace_back(one, 1);
  if (form.contextual)
    contextual = ContextualTable<A>(*form.contextual, std::numbers::log2e / factor);
}

template <typename A>
RelativeSums<A>::RelativeSums(const std::vector<RelativeTable<A>>& tables, int64_t count) {
  for (const RelativeTable<A>& table : tables) of_table.emplace_back(count * table.numbers());
}

template class RelativeTable<float>;
template class RelativeTable<double>;
template class ContextualTable<float>;
template class ContextualTable<double>;
template struct PreparedRelative<float>;
template struct PreparedRelative<double>;
template struct RelativeSums<float>;
template struct RelativeSums<double>;

}  // namespace gnomon::internal
