// Relative vectors as the kernels read them, prepared once for each call, in memory
// proportional to the tables; and the sums of their gradients.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gnomon/relative/form.h"
#include "src/attention/scratch.h"

namespace gnomon::internal {

// One table. Its vectors are ordered so that the index never decreases with the distance. It is
// stored by rows and by columns, with zeros up to the padding.
template <typename A>
class RelativeTable {
 public:
  // Multiplies all elements by `factor`. Adds `margin` vectors of zeros at both ends: those of
  // the distances outside the table.
  RelativeTable(const RelativeVectors& from, double factor, std::int64_t margin = 0);

  std::int64_t vectors() const { return vectors_; }  // R, with both margins
  // The vectors [begin, end) of the form.
  std::int64_t begin() const { return margin_; }
  std::int64_t end() const { return vectors_ - margin_; }
  std::int64_t size() const { return size_; }
  bool finite() const { return finite_; }  // whether all elements are finite
  bool by_coordinates() const { return !from_->coordinates.empty(); }
  // Returns the coordinate of a position along the table's axis; 0 for a position without one.
  std::int64_t place(std::int64_t id) const {
    const auto& places = from_->coordinates;
    if (places.empty()) return id;
    return id >= 0 && id < static_cast<std::int64_t>(places.size())
               ? places[static_cast<std::size_t>(id)]
               : 0;
  }
  // Returns the row of a distance. Distances outside the table are clamped: no score at such a
  // distance is visible, or the vector at the end of the margin is zero.
  std::int32_t row(std::int64_t distance) const {
    const std::int64_t last = static_cast<std::int64_t>(row_of_.size()) - 1;
    return row_of_[static_cast<std::size_t>(
        std::clamp<std::int64_t>(distance - from_->min_distance + margin_, 0, last))];
  }
  const A* rows(std::int64_t head) const {  // [R, row_stride(size)]
    return rows_.data() + (from_->heads == 1 ? 0 : head) * vectors_ * row_stride(size_);
  }
  const A* columns(std::int64_t head) const {  // [size, row_stride(R)]
    return columns_.data() + (from_->heads == 1 ? 0 : head) * size_ * row_stride(vectors_);
  }
  // Returns the number of elements of the gradient of one head.
  std::int64_t numbers() const { return vectors_ * row_stride(size_); }
  // Adds sums [count, numbers()] in order, over `parts` and over all entries of a head, times
  // `factor`. The result has the shape of the form, [heads, R, size].
  std::vector<double> total(const A* sums, std::int64_t count, std::int64_t parts,
                            std::int64_t heads, double factor) const;

 private:
  const RelativeVectors* from_;
  std::int64_t margin_, vectors_, size_;
  bool rotated_;  // whether the order of rows is reversed
  bool finite_ = true;
  std::vector<std::int32_t> row_of_;
  Numbers<A> rows_, columns_;
};

// Contextual vectors: by rows, divided by the softmax scale, which packed queries include; and
// by columns, where the last vector is stored twice.
template <typename A>
class ContextualTable {
 public:
  ContextualTable() = default;
  ContextualTable(const ContextualVectors& from, double factor);

  bool empty() const { return !positions_; }
  std::int64_t positions() const { return positions_; }  // P
  // Elements of a row of products with all vectors, and the last once more.
  std::int64_t width() const { return positions_ ? row_stride(positions_ + 1) : 0; }
  const A* rows(std::int64_t head) const {  // [P, row_stride(D)]
    return tables_[0].data() + (heads_ == 1 ? 0 : head) * numbers();
  }
  const A* columns(std::int64_t head) const {  // [D, width()]
    return tables_[1].data() + (heads_ == 1 ? 0 : head) * size_ * width();
  }
  std::int64_t numbers() const { return positions_ * row_stride(size_); }
  // The same as that of RelativeTable.
  std::vector<double> total(const A* sums, std::int64_t count, std::int64_t parts,
                            std::int64_t heads, double factor) const;

 private:
  std::int64_t heads_ = 0, size_ = 0, positions_ = 0;
  std::vector<Numbers<A>> tables_;  // rows and columns
};

// All tables of a form. Tables that are multiplied by keys include the factor of the scores, as
// packed queries do.
template <typename A>
struct PreparedRelative {
  std::vector<RelativeTable<A>> keys, queries, values, projected;
  std::vector<A> shift;  // [H, D]
  ContextualTable<A> contextual;

  PreparedRelative() = default;
  PreparedRelative(const RelativeForm& form, double factor);
  bool empty() const {
    return keys.empty() && queries.empty() && values.empty() && projected.empty();
  }
};

// Sums of the gradient of each table of one kind, [B, H, parts, R, row_stride(size)], initially
// zero.
template <typename A>
struct RelativeSums {
  std::vector<Numbers<A>> of_table;

  RelativeSums() = default;
  RelativeSums(const std::vector<RelativeTable<A>>& tables, std::int64_t count);
};

}  // namespace gnomon::internal
