#include "gnomon/bias/form.h"

#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t grain = 16;  // queries in one piece of work

// Refuses what a form cannot give for queries at offset + [0, Q) and keys at [0, K).
template <typename T>
void check(const BiasForm& form, int64_t offset, View<T, 3> matrix) {
  const int64_t of_form = heads(form), queries = matrix.extent(1), keys = matrix.extent(2);
  if (of_form && of_form != matrix.extent(0))
    refuse("bias", "the matrix must have the heads of the bias, " + std::to_string(of_form),
           matrix.extent(0));
  if (matrix.size() == 0) return;
  if (const auto* strip = std::get_if<StripBias>(&form)) {
    const int64_t nearest = -(offset + queries - 1), furthest = keys - 1 - offset;
    const int64_t last = strip->first + strip->distances() - 1;
    if (nearest < strip->first || furthest > last)
      refuse("bias",
             "the strip must reach distances " + std::to_string(nearest) + " to " +
                 std::to_string(furthest),
             std::to_string(strip->first) + " to " + std::to_string(last));
  }
  if (const auto* dense = std::get_if<DenseBias>(&form))
    if (dense->values.extent(0) < 1 || dense->values.extent(2) != queries ||
        dense->values.extent(3) != keys)
      refuse("bias",
             "the dense bias must be [B, H, " + std::to_string(queries) + ", " +
                 std::to_string(keys) + "]",
             shape_text(dense->values.extents()));
}

// write(element, value) for each element of a matrix [H, Q, K].
template <typename T, typename Write>
void for_each(const BiasForm& form, int64_t offset, View<T, 3> matrix, Write write) {
  const int64_t queries = matrix.extent(1), keys = matrix.extent(2);
  const auto rows = [&](auto value) {
    parallel_for(matrix.extent(0) * queries, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        for (int64_t k = 0; k < keys; ++k) {
          const int64_t h = row / queries, q = row % queries;
          write(matrix(h, q, k), value(h, q, k));
        }
    });
  };
  if (const auto* slope = std::get_if<SlopeBias>(&form)) {
    rows([&](int64_t h, int64_t q, int64_t k) {
      return -slope->slopes[static_cast<std::size_t>(h)] *
             std::fabs(static_cast<double>(k - q - offset));
    });
  } else if (const auto* strip = std::get_if<StripBias>(&form)) {
    const int64_t width = strip->distances();
    rows([&](int64_t h, int64_t q, int64_t k) {
      return strip->values[static_cast<std::size_t>(h * width + k - q - offset - strip->first)];
    });
  } else if (const auto* dense = std::get_if<DenseBias>(&form)) {
    rows([&](int64_t h, int64_t q, int64_t k) {
      return static_cast<double>(dense->values(0, h, q, k));
    });
  } else {
    rows([](int64_t, int64_t, int64_t) { return 0.0; });
  }
}

template <typename T>
void fill_dense(const BiasForm& form, int64_t offset, View<T, 3> out) {
  check(form, offset, out);
  for_each(form, offset, out,
           [](T& element, double value) { element = static_cast<T>(value); });
}

}  // namespace

int64_t heads(const BiasForm& form) noexcept {
  if (const auto* slope = std::get_if<SlopeBias>(&form))
    return static_cast<int64_t>(slope->slopes.size());
  if (const auto* strip = std::get_if<StripBias>(&form)) return strip->heads;
  if (const auto* dense = std::get_if<DenseBias>(&form)) return dense->values.extent(1);
  return 0;
}

void dense(const BiasForm& form, int64_t offset, View<float, 3> out) {
  fill_dense(form, offset, out);
}
void dense(const BiasForm& form, int64_t offset, View<double, 3> out) {
  fill_dense(form, offset, out);
}

void add_bias(View<float, 3> scores, const BiasForm& form, int64_t offset) {
  check(form, offset, scores);
  if (std::holds_alternative<NoBias>(form)) return;
  for_each(form, offset, scores, [](float& score, double value) {
    score = static_cast<float>(double{score} + value);
  });
}

BiasGradient add_bias_backward(View<const float, 3> grad, const BiasForm& form,
                               int64_t offset) {
  check(form, offset, grad);
  BiasGradient gradient;
  if (const auto* slope = std::get_if<SlopeBias>(&form))
    gradient.values.resize(slope->slopes.size());
  else if (const auto* strip = std::get_if<StripBias>(&form))
    gradient.values.resize(strip->values.size());
  else
    return gradient;  // a dense bias's gradient is grad itself
  const auto* strip = std::get_if<StripBias>(&form);
  const int64_t width = strip ? strip->distances() : 1;
  for (int64_t h = 0; h < grad.extent(0); ++h) {
    double* sums = gradient.values.data() + h * width;
    for (int64_t q = 0; q < grad.extent(1); ++q)
      for (int64_t k = 0; k < grad.extent(2); ++k) {
        const int64_t distance = k - q - offset;
        const double g = grad(h, q, k);
        if (strip)
          sums[distance - strip->first] += g;
        else
          *sums -= g * std::fabs(static_cast<double>(distance));
      }
  }
  return gradient;
}

}  // namespace gnomon
