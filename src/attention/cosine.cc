#include "gnomon/attention/cosine.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t grain = 512;  // head vectors in a piece: about 20 us
constexpr int64_t lanes = 8;    // parallel sums, for vectors of doubles

template <typename T, typename U>
void check(View<T, 4> x, std::span<const double> scales, const char* name, View<U, 4> other) {
  if (other.extents() != x.extents())
    refuse("cosine", std::string(name) + " must be shaped as x, " + shape_text(x.extents()),
           shape_text(other.extents()));
  if (!scales.empty() && static_cast<int64_t>(scales.size()) != x.extent(2))
    refuse("cosine",
           "scales must have one element for each head, " + std::to_string(x.extent(2)),
           static_cast<int64_t>(scales.size()));
}

template <typename T>
void load(const T* from, std::int64_t stride, int64_t size, double* to) {
  for (int64_t d = 0; d < size; ++d)
    if constexpr (std::is_same_v<T, double>)
      to[d] = from[d * stride];
    else
      to[d] = static_cast<double>(static_cast<float>(from[d * stride]));
}
template <typename T>
void store(const double* from, int64_t size, T* to, std::int64_t stride) {
  for (int64_t d = 0; d < size; ++d) to[d * stride] = static_cast<T>(from[d]);
}

double dot(const double* a, const double* b, int64_t size) {
  double sums[lanes] = {};
  int64_t d = 0;
  for (; d + lanes <= size; d += lanes)
    for (int64_t l = 0; l < lanes; ++l) sums[l] += a[d + l] * b[d + l];
  for (; d < size; ++d) sums[d % lanes] += a[d] * b[d];
  double sum = 0;
  for (const double one : sums) sum += one;
  return sum;
}

// Returns the vector of row i of [B, T, H], and its head.
template <typename T>
T* row(const View<T, 4>& view, int64_t i, int64_t& head) {
  head = i % view.extent(2);
  const int64_t token = i / view.extent(2);
  return &view(token / view.extent(1), token % view.extent(1), head, 0);
}

template <typename T>
void forward(View<const T, 4> x, std::span<const double> scales, View<T, 4> out) {
  check(x, scales, "out", out);
  if (x.size() == 0) return;
  const int64_t size = x.extent(3);
  parallel_for(x.size() / size, grain, [&](int64_t begin, int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(size));
    int64_t head = 0;
    for (int64_t i = begin; i < end; ++i) {
      load(row(x, i, head), x.stride(3), size, values.data());
      const double norm = std::sqrt(dot(values.data(), values.data(), size));
      const double scale = scales.empty() ? 1 : scales[static_cast<std::size_t>(head)];
      const double factor = scale / std::max(norm, least_norm);
      for (double& value : values) value *= factor;
      store(values.data(), size, row(out, i, head), out.stride(3));
    }
  });
}

template <typename T>
void backward(View<const T, 4> x, View<const T, 4> out_grad, std::span<const double> scales,
              View<T, 4> x_grad, std::span<double> scale_grad) {
  check(x, scales, "out_grad", out_grad);
  check(x, scales, "x_grad", x_grad);
  if (!scale_grad.empty() && static_cast<int64_t>(scale_grad.size()) != x.extent(2))
    refuse("cosine", "scale_grad must be one for each head, " + std::to_string(x.extent(2)),
           static_cast<int64_t>(scale_grad.size()));
  std::fill(scale_grad.begin(), scale_grad.end(), 0.0);
  if (x.size() == 0) return;
  const int64_t size = x.extent(3), rows = x.size() / size, heads = x.extent(2);
  // Each piece of rows has separate sums, which are added in the order of the pieces.
  std::vector<double> sums(scale_grad.empty()
                               ? 0
                               : static_cast<std::size_t>((rows - 1) / grain + 1) *
                                     static_cast<std::size_t>(heads));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(size)), grad(values.size());
    int64_t head = 0;
    for (int64_t i = begin; i < end; ++i) {
      load(row(x, i, head), x.stride(3), size, values.data());
      load(row(out_grad, i, head), out_grad.stride(3), size, grad.data());
      const double norm = std::sqrt(dot(values.data(), values.data(), size));
      const double inverse = 1 / std::max(norm, least_norm);
      const double along = dot(values.data(), grad.data(), size) * inverse;  // u . g
      const double scale = scales.empty() ? 1 : scales[static_cast<std::size_t>(head)];
      if (!sums.empty()) sums[static_cast<std::size_t>(begin / grain * heads + head)] += along;
      // The divisor depends on x unless it is below least_norm.
      const double back = norm < least_norm ? 0 : along * inverse;
      for (int64_t d = 0; d < size; ++d) {
        double& one = grad[static_cast<std::size_t>(d)];
        one = scale * inverse * (one - values[static_cast<std::size_t>(d)] * back);
      }
      store(grad.data(), size, row(x_grad, i, head), x_grad.stride(3));
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i)
    scale_grad[i % static_cast<std::size_t>(heads)] += sums[i];
}

constexpr internal::Argument cosine_argument(std::string_view name) { return {"cosine", name}; }

}  // namespace

void normalise(const ConstTensor& x, std::span<const double> scales, const Tensor& out) {
  internal::by_type(cosine_argument("x"), x, [&]<typename T>(T) {
    forward(internal::read_batch<T, 4>(cosine_argument("x"), x), scales,
            internal::write_batch<T, 4>(cosine_argument("out"), out));
  });
}

void normalise_backward(const ConstTensor& x, const ConstTensor& out_grad,
                        std::span<const double> scales, const Tensor& x_grad,
                        std::span<double> scale_grad) {
  internal::by_type(cosine_argument("x"), x, [&]<typename T>(T) {
    backward(internal::read_batch<T, 4>(cosine_argument("x"), x),
             internal::read_batch<T, 4>(cosine_argument("out_grad"), out_grad), scales,
             internal::write_batch<T, 4>(cosine_argument("x_grad"), x_grad), scale_grad);
  });
}

}  // namespace gnomon
