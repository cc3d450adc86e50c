// Multiplies queries by the factor of their position.
#include "gnomon/rotary/temperature.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/temperature_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"
#include "src/core/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

constexpr std::int64_t chunk = 256;  // elements converted to float at a time

// For float and double, the product is computed in double and rounded once.
template <typename T>
void ScaleRow(T* HWY_RESTRICT x, double by, std::int64_t size) {
  if constexpr (std::is_same_v<T, Accumulator<T>>) {
    for (std::int64_t d = 0; d < size; ++d)
      x[d] = static_cast<T>(static_cast<double>(x[d]) * by);
  } else {
    HWY_ALIGN float wide[chunk];
    for (std::int64_t begin = 0; begin < size; begin += chunk) {
      const std::int64_t count = HWY_MIN(chunk, size - begin);
      FromElements(x + begin, count, wide);
      ToElements(wide, static_cast<float>(by), count, x + begin);
    }
  }
}

#define GNOMON_SCALE(T, Name) \
  void Scale##Name(T* x, double by, std::int64_t size) { ScaleRow(x, by, size); }
GNOMON_SCALE(float, F32)
GNOMON_SCALE(double, F64)
GNOMON_SCALE(Half, F16)
GNOMON_SCALE(BFloat16, BF16)
#undef GNOMON_SCALE

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {
namespace {

HWY_EXPORT(ScaleF32);
HWY_EXPORT(ScaleF64);
HWY_EXPORT(ScaleF16);
HWY_EXPORT(ScaleBF16);
auto kernel(const float*) { return &GNOMON_DISPATCH(ScaleF32); }
auto kernel(const double*) { return &GNOMON_DISPATCH(ScaleF64); }
auto kernel(const Half*) { return &GNOMON_DISPATCH(ScaleF16); }
auto kernel(const BFloat16*) { return &GNOMON_DISPATCH(ScaleBF16); }

constexpr std::int64_t temperature_grain = 1 << 15;  // least elements per thread

void check(const QueryTemperature& temperature) {
  if (!std::isfinite(temperature.beta) || temperature.beta < 0)
    refuse("temperature", "beta must be finite and not negative", temperature.beta);
  if (temperature.length < 1)
    refuse("temperature", "length must be at least 1", temperature.length);
}

double factor_unchecked(const QueryTemperature& temperature, std::int64_t position) {
  std::int64_t shifted = 0;
  if (__builtin_add_overflow(position, temperature.shift, &shifted))
    refuse("temperature", "position + shift must fit in 64 bits; position", position);
  if (shifted < 0) refuse("temperature", "position + shift must not be negative", shifted);
  const auto steps = static_cast<double>(shifted / temperature.length);
  return 1 + temperature.beta * std::log1p(steps);
}

// Returns the factor of each token, [rows, T]; 1 for padding.
std::vector<double> factors(const QueryTemperature& temperature, const Positions& positions) {
  check(temperature);
  std::vector<double> all;
  all.reserve(positions.ids.size());
  for (std::size_t at = 0; at < positions.ids.size(); ++at)
    all.push_back(positions.sequences[at] == Positions::padding
                      ? 1.0
                      : factor_unchecked(temperature, positions.ids[at]));
  return all;
}

template <typename T>
void scale(View<T, 4> q, const QueryTemperature& temperature, const Positions& positions) {
  const std::int64_t rows = q.extent(0), tokens = q.extent(1), heads = q.extent(2),
                     size = q.extent(3);
  if (tokens != positions.tokens)
    refuse(
        "temperature",
        "q must have the number of positions, " + std::to_string(positions.tokens) + " tokens",
        tokens);
  if (positions.batch != 1 && rows != positions.batch)
    refuse("temperature",
           "q must have the number of positions, " + std::to_string(positions.batch) + " rows",
           rows);
  if (!internal::holds(positions.ids.size(), positions.batch, positions.tokens) ||
      positions.sequences.size() != positions.ids.size())
    refuse("temperature", "positions must have batch x tokens ids and sequences",
           static_cast<std::int64_t>(positions.ids.size()));
  if (q.stride(3) != 1)
    refuse("temperature", "the elements of a head must be contiguous: stride 1",
           std::int64_t{q.stride(3)});
  const std::vector<double> all = factors(temperature, positions);
  const auto scale_row = kernel(q.data());
  const std::int64_t grain =
      std::max<std::int64_t>(1, temperature_grain / std::max<std::int64_t>(1, heads * size));
  parallel_for(rows * tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t b = token / tokens, t = token % tokens;
      const double by =
          all[static_cast<std::size_t>((positions.batch == 1 ? 0 : token - t) + t)];
      if (by == 1) continue;
      for (std::int64_t h = 0; h < heads; ++h) scale_row(&q(b, t, h, 0), by, size);
    }
  });
}

}  // namespace

QueryTemperature llama4_temperature(double attn_scale, std::int64_t floor_scale) {
  return {.beta = attn_scale, .length = floor_scale, .shift = 1};
}

QueryTemperature ministral3_temperature(double llama_4_scaling_beta,
                                        std::int64_t original_max_position_embeddings) {
  return {.beta = llama_4_scaling_beta, .length = original_max_position_embeddings, .shift = 0};
}

double query_scale(const QueryTemperature& temperature, std::int64_t position) {
  check(temperature);
  return factor_unchecked(temperature, position);
}

void scale_queries(const Tensor& q, const QueryTemperature& temperature,
                   const Positions& positions) {
  internal::by_type({"temperature", "q"}, q, [&]<typename T>(T) {
    scale(internal::write_batch<T, 4>({"temperature", "q"}, q), temperature, positions);
  });
}

}  // namespace gnomon
#endif  // HWY_ONCE
