#include "gnomon/embedding/projection.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/exported.h"
#include "src/core/products.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t grain = 1 << 14;  // rounded values; minimum work of a parallel piece

void check(const char* what, const std::string& letters, std::array<std::int64_t, 2> wanted,
           std::array<std::int64_t, 2> got) {
  if (wanted != got)
    refuse("projection", std::string(what) + " must be " + letters + " = " + shape_text(wanted),
           shape_text(got));
}

// Sums in double, [rows, channels], before they are rounded.
class Sums {
 public:
  Sums(int64_t rows, int64_t channels)
      : channels_(channels), values_(static_cast<std::size_t>(rows * channels)) {}
  View<double, 2> view(int64_t rows) { return {values_.data(), {rows, channels_}}; }
  // Sets each entry of `to` to round(entry, sum).
  template <typename T, typename Round>
  void into(View<T, 2> to, Round round) const {
    const int64_t rows_at_once = grain / std::max<int64_t>(1, channels_) + 1;
    parallel_for(to.extent(0), rows_at_once, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const double* const from = values_.data() + t * channels_;
        T* const row = to.data() + t * to.stride(0);
        if (const auto step = to.stride(1); step == 1)
          for (int64_t c = 0; c < channels_; ++c) row[c] = round(row[c], from[c]);
        else
          for (int64_t c = 0; c < channels_; ++c) row[c * step] = round(row[c * step], from[c]);
      }
    });
  }

 private:
  int64_t channels_;
  std::vector<double> values_;
};

}  // namespace

template <typename T>
void project(View<const double, 2> features, View<const T, 2> weights, View<T, 2> out) {
  const int64_t tokens = features.extent(0), count = features.extent(1);
  const int64_t channels = weights.extent(1);
  check("weights", "[F, C]", {count, channels}, weights.extents());
  check("out", "[T, C]", {tokens, channels}, out.extents());
  Sums sums(tokens, channels);
  internal::multiply(features, internal::RightFactor(weights), sums.view(tokens));
  sums.into(out, [](T, double sum) { return static_cast<T>(sum); });
}

EmbeddingTable projected(View<const double, 2> features, View<const float, 2> weights) {
  EmbeddingTable table{features.extent(0), weights.extent(1), {}};
  table.values.resize(
      internal::checked_size("embedding", "tokens x width", {table.tokens, table.width}));
  project(features, weights, View<float, 2>(table.values.data(), {table.tokens, table.width}));
  return table;
}

template <typename T>
void project_backward(View<const double, 2> features, View<const T, 2> grad,
                      View<T, 2> weights_grad) {
  const int64_t tokens = features.extent(0), count = features.extent(1);
  const int64_t channels = grad.extent(1);
  check("grad", "[T, C]", {tokens, channels}, grad.extents());
  check("weights_grad", "[F, C]", {count, channels}, weights_grad.extents());
  Sums sums(count, channels);
  const View<const double, 2> by_feature(features.data(), {count, tokens},
                                         {features.stride(1), features.stride(0)});
  internal::multiply(by_feature, internal::RightFactor(grad), sums.view(count));
  sums.into(weights_grad, [](T before, double sum) { return static_cast<T>(before + sum); });
}

#define GNOMON_INSTANTIATE(T)                                                                 \
  template GNOMON_EXPORTED void project(View<const double, 2>, View<const T, 2>, View<T, 2>); \
  template GNOMON_EXPORTED void project_backward(View<const double, 2>, View<const T, 2>,     \
                                                 View<T, 2>);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
