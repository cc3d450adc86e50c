#include "gnomon/embedding/resize.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"

namespace gnomon {
namespace {

using std::int64_t;

double linear(double x) { return std::max(0.0, 1 - std::fabs(x)); }

// Keys 1981, equation 4.
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// One output sample: the sum of weights[i] source[rows[i]].
struct Taps {
  std::vector<int64_t> rows;
  std::vector<double> weights;
};

Taps taps_plain(const TableResize& resize, double at, int64_t count) {
  Taps taps;
  const auto below = static_cast<int64_t>(std::floor(at));
  const double past = at - static_cast<double>(below);
  const bool is_linear = resize.kernel == ResizeKernel::linear;
  for (int64_t k = is_linear ? 0 : -1; k <= (is_linear ? 1 : 2); ++k) {
    const double x = past - static_cast<double>(k);
    taps.rows.push_back(std::clamp<int64_t>(below + k, 0, count - 1));
    taps.weights.push_back(is_linear ? linear(x) : cubic(x, -0.75));
  }
  return taps;
}

// Antialiased kernels of PyTorch: widened by the scale, truncated at the borders, normalised.
Taps taps_antialiased(const TableResize& resize, int64_t out, double scale, int64_t count) {
  Taps taps;
  const bool is_linear = resize.kernel == ResizeKernel::linear;
  const double wide = std::max(scale, 1.0), support = (is_linear ? 1.0 : 2.0) * wide;
  const double centre = scale * (static_cast<double>(out) + 0.5);
  const auto begin = std::max<int64_t>(0, static_cast<int64_t>(centre - support + 0.5));
  const auto end = std::min<int64_t>(count, static_cast<int64_t>(centre + support + 0.5));
  double sum = 0;
  for (int64_t row = begin; row < end; ++row) {
    const double x = (static_cast<double>(row) - centre + 0.5) / wide;
    taps.rows.push_back(row);
    taps.weights.push_back(is_linear ? linear(x) : cubic(x, -0.5));
    sum += taps.weights.back();
  }
  if (sum != 0)
    for (double& weight : taps.weights) weight /= sum;
  return taps;
}

// Source rows and weights of each of the `to` samples of an axis.
std::vector<Taps> axis_taps(const TableResize& resize, int64_t from, int64_t to) {
  std::vector<Taps> all;
  const auto in = static_cast<double>(from), out = static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const auto index = static_cast<double>(i);
    if (resize.corners == ResizeCorners::aligned) {
      all.push_back(taps_plain(resize, to > 1 ? index * (in - 1) / (out - 1) : 0.0, from));
      continue;
    }
    const double scale = in / (out + resize.size_offset);
    if (resize.antialias == Antialias::on) {
      all.push_back(taps_antialiased(resize, i, scale, from));
      continue;
    }
    all.push_back(taps_plain(resize, scale * (index + 0.5) - 0.5, from));
  }
  return all;
}

void check_size(const char* what, GridSize size) {
  if (size.height < 1 || size.width < 1)
    refuse("resize", std::string(what) + " must be at least 1 x 1",
           std::to_string(size.height) + " x " + std::to_string(size.width));
}

void check_rows(const char* what, int64_t rows, int64_t extra, GridSize size) {
  // Compare by division, because the product of values from the caller may overflow.
  const int64_t cells = rows - extra;
  if (cells < 1 || cells % size.height || cells / size.height != size.width)
    refuse("resize",
           std::string(what) + " must have " + std::to_string(extra) + " + " +
               std::to_string(size.height) + " x " + std::to_string(size.width) + " rows",
           rows);
}

void check(const TableResize& resize) {
  if (resize.kernel != ResizeKernel::linear && resize.kernel != ResizeKernel::cubic)
    refuse("resize", "kernel must be linear or cubic", static_cast<int>(resize.kernel));
  if (resize.corners != ResizeCorners::half_pixel && resize.corners != ResizeCorners::aligned)
    refuse("resize", "corners must be half_pixel or aligned", static_cast<int>(resize.corners));
  if (resize.antialias != Antialias::off && resize.antialias != Antialias::on)
    refuse("resize", "antialias must be off or on", static_cast<int>(resize.antialias));
  if (resize.antialias == Antialias::on && resize.corners == ResizeCorners::aligned)
    refuse("resize", "antialias must be off with aligned corners", "on");
  if (resize.extra_rows < 0)
    refuse("resize", "extra_rows must not be negative", resize.extra_rows);
  if (!(std::isfinite(resize.size_offset) && resize.size_offset >= 0))
    refuse("resize", "size_offset must be finite and not negative", resize.size_offset);
}

template <typename T>
void resize_grid(const TableResize& resize, View<const T, 2> table, GridSize from,
                 View<T, 2> out, GridSize to) {
  check(resize);
  check_size("the old grid", from);
  check_size("the new grid", to);
  check_rows("table", table.extent(0), resize.extra_rows, from);
  check_rows("out", out.extent(0), resize.extra_rows, to);
  const int64_t channels = table.extent(1), extra = resize.extra_rows;
  if (out.extent(1) != channels)
    refuse("resize", "out must have the table's " + std::to_string(channels) + " channels",
           int64_t{out.extent(1)});
  if (channels == 0) return;  // no elements, but possibly 2^31 rows
  const auto rows = axis_taps(resize, from.height, to.height);
  const auto columns = axis_taps(resize, from.width, to.width);
  for (int64_t row = 0; row < extra; ++row)
    for (int64_t c = 0; c < channels; ++c) out(row, c) = table(row, c);
  parallel_for(to.height * to.width, 16, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<std::size_t>(channels));
    for (int64_t cell = begin; cell < end; ++cell) {
      const Taps& y = rows[static_cast<std::size_t>(cell / to.width)];
      const Taps& x = columns[static_cast<std::size_t>(cell % to.width)];
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::size_t i = 0; i < y.rows.size(); ++i)
        for (std::size_t j = 0; j < x.rows.size(); ++j) {
          const double weight = y.weights[i] * x.weights[j];
          const int64_t source = extra + y.rows[i] * from.width + x.rows[j];
          for (int64_t c = 0; c < channels; ++c)
            sums[static_cast<std::size_t>(c)] += weight * double{table(source, c)};
        }
      for (int64_t c = 0; c < channels; ++c)
        out(extra + cell, c) = static_cast<T>(sums[static_cast<std::size_t>(c)]);
    }
  });
}

template <typename T>
void resize_line(const TableResize& resize, View<const T, 2> table, View<T, 2> out) {
  // A line is a grid of width 1. Along an axis of one cell every kernel returns the sample
  // unchanged.
  check(resize);
  const auto check_line = [&](const char* what, int64_t rows) {
    if (rows <= resize.extra_rows)
      refuse("resize",
             std::string(what) + " must have more rows than the " +
                 std::to_string(resize.extra_rows) + " extra ones",
             rows);
  };
  check_line("table", table.extent(0));
  check_line("out", out.extent(0));
  resize_grid(resize, table, {table.extent(0) - resize.extra_rows, 1}, out,
              {out.extent(0) - resize.extra_rows, 1});
}

}  // namespace

TableResize resize_linear() {
  return {.kernel = ResizeKernel::linear, .corners = ResizeCorners::half_pixel};
}
TableResize resize_vit(int64_t extra_rows) {
  return {.kernel = ResizeKernel::cubic,
          .corners = ResizeCorners::half_pixel,
          .extra_rows = extra_rows};
}
TableResize resize_dinov2_original(int64_t extra_rows) {
  return {.kernel = ResizeKernel::cubic,
          .corners = ResizeCorners::half_pixel,
          .extra_rows = extra_rows,
          .size_offset = 0.1};
}
TableResize resize_dinov2_registers(int64_t extra_rows) {
  return {.kernel = ResizeKernel::cubic,
          .corners = ResizeCorners::half_pixel,
          .antialias = Antialias::on,
          .extra_rows = extra_rows};
}
TableResize resize_siglip2() {
  return {.kernel = ResizeKernel::linear,
          .corners = ResizeCorners::half_pixel,
          .antialias = Antialias::on};
}
TableResize resize_qwen3_vl() {
  return {.kernel = ResizeKernel::linear, .corners = ResizeCorners::aligned};
}

void resize_table(const TableResize& resize, View<const float, 2> table, GridSize from,
                  View<float, 2> out, GridSize to) {
  resize_grid(resize, table, from, out, to);
}
void resize_table(const TableResize& resize, View<const float, 2> table, View<float, 2> out) {
  resize_line(resize, table, out);
}
void resize_table(const TableResize& resize, View<const double, 2> table, GridSize from,
                  View<double, 2> out, GridSize to) {
  resize_grid(resize, table, from, out, to);
}
void resize_table(const TableResize& resize, View<const double, 2> table, View<double, 2> out) {
  resize_line(resize, table, out);
}

}  // namespace gnomon
