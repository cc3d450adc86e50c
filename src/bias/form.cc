#include "gnomon/bias/form.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/bias/form.h"
#include "src/bias/tile.h"
#include "src/core/overloaded.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t form_grain = 16;  // least number of queries in a piece of work

// Throws unless the form has a bias for queries at offset + [0, Q) and keys at [0, K).
template <typename T>
void check(const BiasForm& form, int64_t offset, View<T, 3> matrix) {
  const int64_t of_form = heads(form), queries = matrix.extent(1), keys = matrix.extent(2);
  if (!std::holds_alternative<NoBias>(form) && of_form != matrix.extent(0))
    refuse("bias", "the matrix must have the heads of the bias, " + std::to_string(of_form),
           matrix.extent(0));
  internal::check_form(form);
  if (matrix.size() == 0) return;
  if (!internal::subtractable(offset))
    refuse("bias", "offset must be at most 2^61 in magnitude", offset);
  internal::check_ids(form, {offset, offset + queries - 1});
  internal::check_ids(form, {0, keys - 1});
  const auto check_reach = [&](int64_t first, int64_t distances) {
    const int64_t nearest = -(offset + queries - 1), furthest = keys - 1 - offset;
    if (!internal::contains(first, distances, nearest, furthest))
      refuse("bias",
             "the strip must cover distances " + std::to_string(nearest) + " to " +
                 std::to_string(furthest),
             internal::range_text(first, distances));
  };
  std::visit(
      internal::Overloaded{
          [](const NoBias&) {}, [](const SlopeBias&) {}, [](const GridBias&) {},
          [](const PiecewiseLogBias&) {},
          [&](const StripBias& strip) { check_reach(strip.min_distance, strip.distances()); },
          [&](const AxesBias& axes) {
            for (std::size_t a = 0; a < axes.axes.size(); ++a)
              if (axes.axes[a].coordinates.empty())
                check_reach(axes.axes[a].min_distance, axes.distances(a));
          },
          [&](const DenseBias& dense) {
            if (dense.values.extent(0) < 1 || dense.values.extent(2) != queries ||
                dense.values.extent(3) != keys)
              refuse("bias",
                     "the dense bias must be [B, H, " + std::to_string(queries) + ", " +
                         std::to_string(keys) + "]",
                     shape_text(dense.values.extents()));
          }},
      form);
}

constexpr int64_t most_rows = 64, most_columns = 2048;  // block; its strip is on the stack
constexpr int64_t block_elements = 1 << 15;

// Visits blocks of rows of one head: body(h, q, rows, k, columns).
template <typename T, typename Body>
void for_blocks(View<T, 3> matrix, const Body& body) {
  const int64_t queries = matrix.extent(1), keys = matrix.extent(2);
  if (matrix.size() == 0) return;
  const int64_t rows =
      std::min(queries, std::clamp<int64_t>(block_elements / keys, form_grain, most_rows));
  const int64_t blocks = (queries - 1) / rows + 1;
  // With few queries, a piece of work has several heads.
  const int64_t together = std::max<int64_t>(1, form_grain / rows);
  parallel_for(matrix.extent(0) * blocks, together, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t q = i % blocks * rows;
      for (int64_t k = 0; k < keys; k += most_columns)
        body(i / blocks, q, std::min(rows, queries - q), k, std::min(most_columns, keys - k));
    }
  });
}

// Biases that depend only on the distance: each row of a block is a window of one strip.
// make(h, distance, count, to) writes the strip from a distance on. row(values, count, to,
// stride) applies it to a row `to` of the matrix.
template <typename T, typename Value, typename Make, typename Row>
void for_windows(int64_t offset, View<T, 3> matrix, const Make& make, const Row& row) {
  for_blocks(matrix, [&](int64_t h, int64_t q, int64_t rows, int64_t k, int64_t columns) {
    Value strip[most_columns + most_rows];
    const int64_t last = q + rows - 1;
    make(h, k - last - offset, columns + rows - 1, strip);
    for (int64_t i = 0; i < rows; ++i)
      row(strip + rows - 1 - i, columns, &matrix(h, q + i, k), matrix.stride(2));
  });
}

// values(h, distance, count, buffer) returns the values from a distance on, either computed
// into `buffer` or as a pointer into the form.
auto values_of(const SlopeBias& slope) {
  return [&slope](int64_t h, int64_t distance, int64_t count, double* buffer) -> const double* {
    const double factor = -slope.slopes[static_cast<std::size_t>(h)];
    const auto first = static_cast<double>(distance);
    for (int i = 0; i < static_cast<int>(count); ++i)
      buffer[i] = factor * std::fabs(first + static_cast<double>(i));
    return buffer;
  };
}
auto values_of(const StripBias& strip) {
  return [&strip](int64_t h, int64_t distance, int64_t, double*) -> const double* {
    return strip.values.data() + h * strip.distances() + distance - strip.min_distance;
  };
}

// Dispatches on how a form is applied: by distance, by tiles, from a given matrix, or not at
// all.
template <typename None, typename Distance, typename Tiles, typename Given>
void visit_ways(const BiasForm& form, const None& none, const Distance& by_distance,
                const Tiles& by_tiles, const Given& given) {
  std::visit(internal::Overloaded{[&](const NoBias&) { none(); },
                                  [&](const SlopeBias& one) { by_distance(one); },
                                  [&](const StripBias& one) { by_distance(one); },
                                  [&](const DenseBias& one) { given(one); },
                                  [&](const GridBias& one) { by_tiles(one); },
                                  [&](const PiecewiseLogBias& one) { by_tiles(one); },
                                  [&](const AxesBias& one) { by_tiles(one); }},
             form);
}

// Biases that are computed in tiles: calls row(values, count, to, stride) for each row of a
// block.
template <typename Form, typename T, typename Row>
void fill_tiles(const Form& form, int64_t offset, View<T, 3> matrix, const Row& row) {
  const auto prepared = internal::prepare<double>(form, {offset, offset + matrix.extent(1) - 1},
                                                  {0, matrix.extent(2) - 1});
  for_blocks(matrix, [&](int64_t h, int64_t q, int64_t rows, int64_t k, int64_t columns) {
    int64_t ids[most_columns];
    double values[most_columns];
    std::iota(ids, ids + columns, k);
    const internal::Ids key_ids(ids, static_cast<std::size_t>(columns));
    for (int64_t i = q; i < q + rows; ++i) {
      const int64_t query = offset + i;
      internal::fill(form, prepared, h, internal::Ids(&query, 1), key_ids, values, columns);
      row(values, columns, &matrix(h, i, k), matrix.stride(2));
    }
  });
}

// A given matrix: calls whole(values, count, to) for contiguous rows, and write(element, value)
// for each element of other rows.
template <typename T, typename Whole, typename Write>
void for_given(const DenseBias& given, View<T, 3> matrix, const Whole& whole,
               const Write& write) {
  for_blocks(matrix, [&](int64_t h, int64_t q, int64_t rows, int64_t k, int64_t columns) {
    for (int64_t i = q; i < q + rows; ++i) {
      const float* const from = &given.values(0, h, i, k);
      T* const to = &matrix(h, i, k);
      const std::int64_t step = given.values.stride(3), stride = matrix.stride(2);
      if (step == 1 && stride == 1)
        whole(from, columns, to);
      else
        for (int64_t j = 0; j < columns; ++j) write(to[j * stride], from[j * step]);
    }
  });
}

// Sums in double, one row of scores at a time.
template <typename Form>
void add_tiles_gradient(const Form& form, int64_t offset, View<const float, 3> grad,
                        int64_t width, double* sums) {
  const int64_t keys = grad.extent(2);
  const auto prepared =
      internal::prepare<double>(form, {offset, offset + grad.extent(1) - 1}, {0, keys - 1});
  std::vector<int64_t> ids(static_cast<std::size_t>(keys));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<double> row(ids.size());
  for (int64_t h = 0; h < grad.extent(0); ++h)
    for (int64_t q = 0; q < grad.extent(1); ++q) {
      const int64_t query = offset + q;
      for (int64_t k = 0; k < keys; ++k)
        row[static_cast<std::size_t>(k)] = static_cast<double>(grad(h, q, k));
      internal::add_gradient(form, prepared, h, internal::Ids(&query, 1), internal::Ids(ids),
                             row.data(), keys, sums + h * width);
    }
}

void add_number(const SlopeBias&, int64_t distance, double grad, double* sums) {
  *sums -= grad * std::fabs(static_cast<double>(distance));
}
void add_number(const StripBias& strip, int64_t distance, double grad, double* sums) {
  sums[distance - strip.min_distance] += grad;
}

template <typename T>
void fill_dense(const BiasForm& form, int64_t offset, View<T, 3> out) {
  check(form, offset, out);
  const auto copy = [](const T* values, int64_t count, T* to, std::int64_t stride) {
    if (stride == 1)
      std::copy(values, values + count, to);
    else
      for (int64_t i = 0; i < count; ++i) to[i * stride] = values[i];
  };
  const auto none = [&] {
    const T zeros[most_columns] = {};
    for_blocks(out, [&](int64_t h, int64_t q, int64_t rows, int64_t k, int64_t columns) {
      for (int64_t i = q; i < q + rows; ++i) copy(zeros, columns, &out(h, i, k), out.stride(2));
    });
  };
  const auto by_distance = [&](const auto& one) {
    const auto values = values_of(one);
    const auto round = internal::round_row();
    for_windows<T, T>(
        offset, out,
        [&](int64_t h, int64_t distance, int64_t count, T* to) {
          double buffer[most_columns + most_rows];
          const double* const from = values(h, distance, count, buffer);
          if constexpr (std::is_same_v<T, float>)
            round(from, count, to);
          else
            std::copy(from, from + count, to);
        },
        copy);
  };
  const auto by_tiles = [&](const auto& one) {
    fill_tiles(one, offset, out,
               [](const double* values, int64_t count, T* to, std::int64_t stride) {
                 for (int64_t i = 0; i < count; ++i) to[i * stride] = static_cast<T>(values[i]);
               });
  };
  const auto given = [&](const DenseBias& one) {
    for_given(
        one, out,
        [](const float* values, int64_t count, T* to) {
          std::copy(values, values + count, to);
        },
        [](T& element, float value) { element = value; });
  };
  visit_ways(form, none, by_distance, by_tiles, given);
}

constexpr internal::Argument named(std::string_view name) { return {"bias", name}; }

}  // namespace

int64_t heads(const BiasForm& form) noexcept {
  return std::visit(
      internal::Overloaded{
          [](const NoBias&) -> int64_t { return 0; },
          [](const SlopeBias& one) { return static_cast<int64_t>(one.slopes.size()); },
          [](const DenseBias& one) -> int64_t { return one.values.extent(1); },
          [](const StripBias& one) { return one.heads; },
          [](const GridBias& one) { return one.heads; },
          [](const PiecewiseLogBias& one) { return one.heads; },
          [](const AxesBias& one) { return one.heads; }},
      form);
}

int64_t gradient_size(const BiasForm& form) noexcept {
  return std::visit(
      internal::Overloaded{[](const NoBias&) -> int64_t { return 0; },
                           [](const DenseBias&) -> int64_t { return 0; },
                           [](const SlopeBias&) -> int64_t { return 1; },
                           [](const StripBias& one) { return one.distances(); },
                           [](const GridBias& one) { return one.offsets(); },
                           [](const PiecewiseLogBias& one) { return 2 * one.pieces() + 2; },
                           [](const AxesBias& one) { return one.distances(); }},
      form);
}

void dense(const BiasForm& form, int64_t offset, const Tensor& out) {
  if (out.holds<double>())
    fill_dense(form, offset, internal::write<double, 3>(named("out"), out));
  else
    fill_dense(form, offset, internal::write<float, 3>(named("out"), out));
}

void add_bias(const Tensor& scores, const BiasForm& form, int64_t offset) {
  const auto to = internal::write<float, 3>(named("scores"), scores);
  check(form, offset, to);
  const auto add = internal::add_row();
  const auto add_strided = [add](const double* values, int64_t count, float* row,
                                 std::int64_t stride) {
    if (stride == 1) return add(values, count, row);
    for (int64_t i = 0; i < count; ++i) {
      float& score = row[i * stride];
      score = static_cast<float>(double{score} + values[i]);
    }
  };
  const auto by_distance = [&](const auto& one) {
    const auto values = values_of(one);
    for_windows<float, double>(
        offset, to,
        [&](int64_t h, int64_t distance, int64_t count, double* buffer) {
          const double* const from = values(h, distance, count, buffer);
          if (from != buffer) std::copy(from, from + count, buffer);
        },
        add_strided);
  };
  // The sum of two floats, computed in double and rounded, equals their float sum.
  visit_ways(
      form, [] {}, by_distance,
      [&](const auto& one) { fill_tiles(one, offset, to, add_strided); },
      [&](const DenseBias& one) {
        for_given(one, to, internal::add_floats(),
                  [](float& score, float value) { score += value; });
      });
}

BiasGradient add_bias_backward(const ConstTensor& grad, const BiasForm& form, int64_t offset) {
  const auto from = internal::read<float, 3>(named("grad"), grad);
  check(form, offset, from);
  BiasGradient gradient;
  const int64_t width = gradient_size(form);
  gradient.values.resize(
      internal::checked_size("bias", "heads x values", {heads(form), width}));
  const auto by_distance = [&](const auto& one) {
    for (int64_t h = 0; h < from.extent(0); ++h)
      for (int64_t q = 0; q < from.extent(1); ++q)
        for (int64_t k = 0; k < from.extent(2); ++k)
          add_number(one, k - q - offset, double{from(h, q, k)},
                     gradient.values.data() + h * width);
  };
  visit_ways(
      form, [] {}, by_distance,
      [&](const auto& one) {
        add_tiles_gradient(one, offset, from, width, gradient.values.data());
      },
      [](const DenseBias&) {});  // its gradient is `grad` itself
  return gradient;
}

}  // namespace gnomon
