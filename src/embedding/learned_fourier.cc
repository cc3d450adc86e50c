#include "gnomon/embedding/learned_fourier.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/angles.h"
#include "src/core/exported.h"
#include "src/core/products.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t most_size = int64_t{1} << 24;  // limit of a layer; the product of two fits in
                                                 // int64_t
constexpr int64_t grain_units = 1 << 10;         // waves or units; minimum work of a parallel
                                                 // piece
constexpr int64_t angles_at_once = 256;          // a multiple of the vector length 8
constexpr double most_angle = 0x1p50;            // limit of the vector path; larger angles use
                                                 // the C library

void check(const LearnedFourier& spec) {
  const auto positive = [](const char* what, int64_t size) {
    if (size < 1 || size > most_size)
      refuse("learned_fourier", std::string(what) + " must be from 1 to 2^24", size);
  };
  positive("axes", spec.axes);
  positive("features", spec.features);
  positive("hidden", spec.hidden);
  positive("width", spec.width);
  if (!(spec.gamma > 0 && std::isfinite(spec.gamma)))
    refuse("learned_fourier", "gamma must be positive and finite", spec.gamma);
  if (spec.features % 2) refuse("learned_fourier", "features must be even", spec.features);
}

template <std::size_t Rank>
void check_shape(const char* what, std::array<std::int64_t, Rank> wanted,
                 std::array<std::int64_t, Rank> got) {
  if (wanted != got)
    refuse("learned_fourier", std::string(what) + " must be " + shape_text(wanted),
           shape_text(got));
}

template <typename T>
void check_parameters(const LearnedFourier& spec, const LearnedFourierParameters<T>& all) {
  check_shape<2>("frequencies", {spec.features / 2, spec.axes}, all.frequencies.extents());
  check_shape<2>("w1", {spec.features, spec.hidden}, all.w1.extents());
  check_shape<1>("b1", {spec.hidden}, all.b1.extents());
  check_shape<2>("w2", {spec.hidden, spec.width}, all.w2.extents());
  check_shape<1>("b2", {spec.width}, all.b2.extents());
}

// An owned matrix of doubles.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> values;

  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  template <typename T>
  explicit Matrix(View<const T, 2> from) : Matrix(from.extent(0), from.extent(1)) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) row(r)[c] = double{from(r, c)};
  }
  double* row(int64_t r) { return values.data() + r * columns; }
  const double* row(int64_t r) const { return values.data() + r * columns; }
  View<double, 2> view() { return {values.data(), {rows, columns}}; }
  View<const double, 2> view() const { return {values.data(), {rows, columns}}; }
  View<const double, 2> transposed() const {
    return {values.data(), {columns, rows}, {1, columns}};
  }
  int64_t grain() const { return std::max<int64_t>(1, grain_units / columns); }  // in rows
};

template <typename T>
View<const T, 2> transposed(View<const T, 2> m) {
  return {m.data(), {m.extent(1), m.extent(0)}, {m.stride(1), m.stride(0)}};
}

// features weights + bias
template <typename T>
Matrix linear(const Matrix& features, View<const T, 2> weights, View<const T, 1> bias) {
  Matrix out(features.rows, weights.extent(1));
  for (int64_t c = 0; c < out.columns; ++c)
    if (out.rows) out.row(0)[c] = double{bias(c)};
  for (int64_t t = 1; t < out.rows; ++t) std::copy_n(out.row(0), out.columns, out.row(t));
  internal::multiply_add(features.view(), internal::RightFactor(weights), out.view());
  return out;
}

double phi(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
double phi_slope(double x) { return std::exp(-0.5 * x * x) * (0.5 * M_2_SQRTPI * M_SQRT1_2); }

// Fills scale cos and scale sin of angles [waves]. waves: a multiple of the vector length 8.
void fill_waves(internal::CosSinRow cos_sin, const double* angles, int64_t waves, double scale,
                double* cosines, double* sines) {
  static_assert(angles_at_once % 8 == 0);
  if (std::all_of(angles, angles + waves,
                  [](double angle) { return std::fabs(angle) <= most_angle; }))
    return cos_sin(1, angles, waves, scale, cosines, sines);
  for (int64_t n = 0; n < waves; ++n)
    cosines[n] = scale * std::cos(angles[n]), sines[n] = scale * std::sin(angles[n]);
}

// Slopes of the units are kept for `fill_backward`.
enum class Keep { hidden = 1, slopes };

struct Forward {
  Matrix waves, hidden, slopes;  // [T, D], [T, H], and the derivative of gelu [T, H]

  template <typename T>
  Forward(const LearnedFourier& spec, const LearnedFourierParameters<const T>& all,
          View<const double, 2> at, Keep keep)
      : waves(at.extent(0), spec.features), hidden(0, 0), slopes(0, 0) {
    const int64_t half = spec.features / 2;
    const double scale = 1 / std::sqrt(static_cast<double>(spec.features));
    const Matrix frequencies(all.frequencies);
    const internal::CosSinRow cos_sin = internal::cos_sin_row();
    parallel_for(waves.rows, waves.grain(), [&](int64_t begin, int64_t end) {
      alignas(64) double angles[angles_at_once], cosines[angles_at_once], sines[angles_at_once];
      for (int64_t t = begin; t < end; ++t)
        for (int64_t first = 0; first < half; first += angles_at_once) {
          const int64_t here = std::min(angles_at_once, half - first);
          std::fill(std::begin(angles), std::end(angles), 0.0);
          for (int64_t k = 0; k < here; ++k)
            for (int64_t m = 0; m < spec.axes; ++m)
              angles[k] += at(t, m) * frequencies.row(first + k)[m];
          fill_waves(cos_sin, angles, (here + 7) / 8 * 8, scale, cosines, sines);
          std::copy_n(cosines, here, waves.row(t) + first);
          std::copy_n(sines, here, waves.row(t) + half + first);
        }
    });
    hidden = linear(waves, all.w1, all.b1);
    if (keep == Keep::slopes) slopes = Matrix(hidden.rows, hidden.columns);
    parallel_for(hidden.rows, hidden.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin * hidden.columns; n < end * hidden.columns; ++n) {
        double& unit = hidden.values[static_cast<std::size_t>(n)];
        const double x = unit, share = phi(x);
        unit = x * share;
        if (keep == Keep::slopes)
          slopes.values[static_cast<std::size_t>(n)] = share + x * phi_slope(x);
      }
    });
  }
};

template <typename T>
void check_call(const LearnedFourier& spec, const LearnedFourierParameters<const T>& parameters,
                View<const double, 2> at, const char* what, std::array<std::int64_t, 2> shape) {
  check(spec);
  check_parameters(spec, parameters);
  if (at.extent(1) != spec.axes)
    refuse("learned_fourier",
           "coordinates must be [T, M] with M = " + std::to_string(spec.axes),
           shape_text(at.extents()));
  for (int64_t t = 0; t < at.extent(0); ++t)
    for (int64_t m = 0; m < spec.axes; ++m)
      if (!std::isfinite(at(t, m)))
        refuse("learned_fourier", "a coordinate must be finite", at(t, m));
  check_shape<2>(what, {at.extent(0), spec.width}, shape);
}

// grad += sums over the rows
template <typename T>
void add_columns(const Matrix& rows, View<T, 1> grad) {
  std::vector<double> sums(static_cast<std::size_t>(rows.columns));
  for (int64_t t = 0; t < rows.rows; ++t)
    for (int64_t c = 0; c < rows.columns; ++c)
      sums[static_cast<std::size_t>(c)] += rows.row(t)[c];
  for (int64_t c = 0; c < rows.columns; ++c)
    grad(c) = static_cast<T>(double{grad(c)} + sums[static_cast<std::size_t>(c)]);
}

template <typename T>
void add(const Matrix& from, View<T, 2> grad) {
  for (int64_t r = 0; r < from.rows; ++r)
    for (int64_t c = 0; c < from.columns; ++c)
      grad(r, c) = static_cast<T>(double{grad(r, c)} + from.row(r)[c]);
}

// grad += features^T of_out, summed in double
template <typename T>
void add_product(const Matrix& features, View<const double, 2> of_out, View<T, 2> grad) {
  Matrix sum(features.columns, of_out.extent(1));
  internal::multiply(features.transposed(), internal::RightFactor(of_out), sum.view());
  add(sum, grad);
}

}  // namespace

template <typename T>
void fill(const LearnedFourier& spec, const LearnedFourierParameters<const T>& parameters,
          View<const double, 2> coordinates, View<T, 2> out) {
  check_call(spec, parameters, coordinates, "out", out.extents());
  const Forward forward(spec, parameters, coordinates, Keep::hidden);
  const Matrix result = linear(forward.hidden, parameters.w2, parameters.b2);
  parallel_for(result.rows, result.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t c = 0; c < result.columns; ++c) out(t, c) = static_cast<T>(result.row(t)[c]);
  });
}

EmbeddingTable lower(const LearnedFourier& spec,
                     const LearnedFourierParameters<const float>& parameters,
                     View<const double, 2> coordinates) {
  check(spec);
  EmbeddingTable table{coordinates.extent(0), spec.width, {}};
  table.values.resize(
      internal::checked_size("embedding", "tokens x width", {table.tokens, table.width}));
  fill(spec, parameters, coordinates,
       View<float, 2>(table.values.data(), {table.tokens, table.width}));
  return table;
}

template <typename T>
void fill_backward(const LearnedFourier& spec,
                   const LearnedFourierParameters<const T>& parameters,
                   View<const double, 2> coordinates, View<const T, 2> grad,
                   const LearnedFourierParameters<T>& grads) {
  check_call(spec, parameters, coordinates, "grad", grad.extents());
  check_parameters(spec, grads);
  const Forward forward(spec, parameters, coordinates, Keep::slopes);
  const Matrix of_out(grad);
  add_product(forward.hidden, of_out.view(), grads.w2);
  add_columns(of_out, grads.b2);

  Matrix of_hidden(grad.extent(0), spec.hidden);
  internal::multiply(of_out.view(), internal::RightFactor(transposed(parameters.w2)),
                     of_hidden.view());
  for (std::size_t i = 0; i < of_hidden.values.size(); ++i)
    of_hidden.values[i] *= forward.slopes.values[i];
  add_product(forward.waves, of_hidden.view(), grads.w1);
  add_columns(of_hidden, grads.b1);

  Matrix of_waves(grad.extent(0), spec.features);
  internal::multiply(of_hidden.view(), internal::RightFactor(transposed(parameters.w1)),
                     of_waves.view());
  const int64_t half = spec.features / 2;
  Matrix of_angles(grad.extent(0), half);
  for (int64_t t = 0; t < grad.extent(0); ++t) {
    const double *wave = forward.waves.row(t), *of_wave = of_waves.row(t);
    for (int64_t k = 0; k < half; ++k)
      of_angles.row(t)[k] = wave[k] * of_wave[half + k] - wave[half + k] * of_wave[k];
  }
  add_product(of_angles, coordinates, grads.frequencies);
}

#define GNOMON_INSTANTIATE(T)                                                                 \
  template GNOMON_EXPORTED void fill(const LearnedFourier&,                                   \
                                     const LearnedFourierParameters<const T>&,                \
                                     View<const double, 2>, View<T, 2>);                      \
  template GNOMON_EXPORTED void fill_backward(                                                \
      const LearnedFourier&, const LearnedFourierParameters<const T>&, View<const double, 2>, \
      View<const T, 2>, const LearnedFourierParameters<T>&);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
