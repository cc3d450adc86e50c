#include "src/attention/relative.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>

#include "src/attention/tile.h"

namespace gnomon::internal {

using std::int64_t;

template <typename A>
RelativeTable<A>::RelativeTable(const RelativeVectors& from, double factor, int64_t margin)
    : from_(&from),
      margin_(margin),
      vectors_(from.vectors() + 2 * margin),
      size_(from.head_dim),
      rotated_(from.rows.front() > from.rows.back()),
      row_of_(from.rows),
      rows_(from.heads * vectors_ * row_stride(size_)),
      columns_(from.heads * size_ * row_stride(vectors_)) {
  for (std::int32_t& row : row_of_)
    row = static_cast<std::int32_t>(rotated_ ? end() - 1 - row : begin() + row);
  if (margin) {  // distances of the margins have rows of their own: all rows are consecutive
    std::vector<std::int32_t> outside(static_cast<std::size_t>(margin));
    std::iota(outside.begin(), outside.end(), 0);
    row_of_.insert(row_of_.begin(), outside.begin(), outside.end());
    std::iota(outside.begin(), outside.end(), static_cast<std::int32_t>(end()));
    row_of_.insert(row_of_.end(), outside.begin(), outside.end());
  }
  for (int64_t h = 0; h < from.heads; ++h) {
    A* of_rows = rows_.data() + h * vectors_ * row_stride(size_);
    A* of_columns = columns_.data() + h * size_ * row_stride(vectors_);
    for (int64_t r = begin(); r < end(); ++r) {
      const int64_t given = rotated_ ? end() - 1 - r : r - begin();
      const double* vector = from.values.data() + (h * from.vectors() + given) * size_;
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
    for (int64_t r = begin(); r < end(); ++r) {
      const int64_t given = rotated_ ? end() - 1 - r : r - begin();
      double* to = result.data() + (head * from_->vectors() + given) * size_;
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
  // A tile that meets a vector of the table does not reach beyond these margins.
  constexpr int64_t margin = tile_rows + tile_keys;
  static_assert(margin % 16 == 0);  // so the columns of the vectors are aligned
  for (const RelativeVectors& one : form.projected) projected.emplace_back(one, 1, margin);
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
