#include "gnomon/analysis/similarity.h"

#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/exported.h"

namespace gnomon::analysis {
namespace {

using std::int64_t;

// A contiguous copy of the table in double, with the norms of its rows.
struct NormedRows {
  int64_t count, channels;
  std::vector<double> values, lengths;

  template <typename T>
  explicit NormedRows(View<const T, 2> table)
      : count(table.extent(0)),
        channels(table.extent(1)),
        values(static_cast<std::size_t>(table.size())),
        lengths(static_cast<std::size_t>(table.extent(0))) {
    for (int64_t i = 0; i < count; ++i) {
      double* to = values.data() + i * channels;
      for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<double>(table(i, c));
      lengths[static_cast<std::size_t>(i)] = std::sqrt(dot(i, i));
    }
  }

  double dot(int64_t i, int64_t j) const {
    const double *a = values.data() + i * channels, *b = values.data() + j * channels;
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c) sum += a[c] * b[c];
    return sum;
  }
  double alike(int64_t i, int64_t j, Similarity similarity) const {
    const double product = dot(i, j);
    if (similarity == Similarity::dot) return product;
    const double scale =
        lengths[static_cast<std::size_t>(i)] * lengths[static_cast<std::size_t>(j)];
    return scale == 0 ? 0 : product / scale;
  }
};

void check(Similarity similarity) {
  if (similarity != Similarity::dot && similarity != Similarity::cosine)
    refuse("similarity", "similarity must be dot or cosine", static_cast<int>(similarity));
}

}  // namespace

template <typename T>
void similarity_matrix(View<const T, 2> table, Similarity similarity, View<double, 2> out) {
  check(similarity);
  const int64_t count = table.extent(0);
  if (out.extent(0) != count || out.extent(1) != count)
    refuse("similarity",
           "out must be [" + std::to_string(count) + ", " + std::to_string(count) + "]",
           shape_text(out.extents()));
  const NormedRows rows(table);
  parallel_for(count, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = i; j < count; ++j) out(j, i) = out(i, j) = rows.alike(i, j, similarity);
  });
}

template <typename T>
std::vector<double> similarity_to(View<const T, 2> table, int64_t row, Similarity similarity) {
  check(similarity);
  if (row < 0 || row >= table.extent(0))
    refuse("similarity", "row must be from 0 to " + std::to_string(table.extent(0) - 1), row);
  const NormedRows rows(table);
  std::vector<double> alike(static_cast<std::size_t>(rows.count));
  for (int64_t j = 0; j < rows.count; ++j)
    alike[static_cast<std::size_t>(j)] = rows.alike(row, j, similarity);
  return alike;
}

template GNOMON_EXPORTED void similarity_matrix(View<const float, 2>, Similarity,
                                                View<double, 2>);
template GNOMON_EXPORTED void similarity_matrix(View<const double, 2>, Similarity,
                                                View<double, 2>);
template GNOMON_EXPORTED std::vector<double> similarity_to(View<const float, 2>, int64_t,
                                                           Similarity);
template GNOMON_EXPORTED std::vector<double> similarity_to(View<const double, 2>, int64_t,
                                                           Similarity);

}  // namespace gnomon::analysis
