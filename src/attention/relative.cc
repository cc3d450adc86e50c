#include "src/attention/relative.h"

#include <cmath>

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
PreparedRelative<A>::PreparedRelative(const RelativeForm& form, double factor)
    : shift(form.shift.begin(), form.shift.end()) {
  for (const RelativeVectors& one : form.keys) keys.emplace_back(one, 1);
  for (const RelativeVectors& one : form.queries) queries.emplace_back(one, factor);
  for (const RelativeVectors& one : form.values) values.emplace_back(one, 1);
}

template <typename A>
RelativeSums<A>::RelativeSums(const std::vector<RelativeTable<A>>& tables, int64_t count) {
  for (const RelativeTable<A>& table : tables) of_table.emplace_back(count * table.numbers());
}

template class RelativeTable<float>;
template class RelativeTable<double>;
template struct PreparedRelative<float>;
template struct PreparedRelative<double>;
template struct RelativeSums<float>;
template struct RelativeSums<double>;

}  // namespace gnomon::internal
