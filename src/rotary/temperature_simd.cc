// Multiplies queries by the factor of their position.
#include "gnomon/rotary/temperature.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/temperature_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"
#include "src/core/overflow.h"
#include "src/core/tensor.h"
#include "src/position/check.h"

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
auto kernel(const float*) { return GNOMON_DISPATCH(ScaleF32); }
auto kernel(const double*) { return GNOMON_DISPATCH(ScaleF64); }
auto kernel(const Half*) { return GNOMON_DISPATCH(ScaleF16); }
auto kernel(const BFloat16*) { return GNOMON_DISPATCH(ScaleBF16); }

constexpr std::int64_t temperature_grain = 1 << 15;  // least elements per thread

bool by_head(const QueryTemperature& temperature) {
  return temperature.form == TemperatureForm::head_log;
}

void check(const QueryTemperature& temperature) {
  const auto form = static_cast<int>(temperature.form);
  if (form < 1 || form > static_cast<int>(TemperatureForm::head_log))
    refuse("temperature", "form must be floored_log, clipped_log, power or head_log",
           std::int64_t{form});
  if (temperature.slopes.size() != temperature.offsets.size() ||
      by_head(temperature) == temperature.slopes.empty())
    refuse("temperature",
           by_head(temperature) ? "head_log must have a slope and an offset for each head"
                                : "slopes and offsets must be empty, except of head_log",
           static_cast<std::int64_t>(temperature.slopes.size()));
  for (const auto* list : {&temperature.slopes, &temperature.offsets})
    for (const double one : *list)
      if (!std::isfinite(one)) refuse("temperature", "slopes and offsets must be finite", one);
  if (!std::isfinite(temperature.beta) || temperature.beta < 0)
    refuse("temperature", "beta must be finite and not negative", temperature.beta);
  if (temperature.length < 1 && !by_head(temperature))
    refuse("temperature", "length must be at least 1", temperature.length);
}

// position + shift.
std::int64_t shifted_unchecked(const QueryTemperature& temperature, std::int64_t position) {
  std::int64_t shifted = 0;
  if (internal::add_overflow(position, temperature.shift, &shifted))
    refuse("temperature", "position + shift must fit in 64 bits; position", position);
  if (shifted < 0) refuse("temperature", "position + shift must not be negative", shifted);
  if (shifted == 0 && by_head(temperature))
    refuse("temperature", "position + shift must be at least 1", shifted);
  return shifted;
}

double factor_unchecked(const QueryTemperature& temperature, std::int64_t position,
                        std::size_t head = 0) {
  const std::int64_t shifted = shifted_unchecked(temperature, position);
  const auto n = static_cast<double>(shifted);
  if (by_head(temperature))
    return temperature.slopes[head] * std::log(n) + temperature.offsets[head];
  const auto length = static_cast<double>(temperature.length);
  if (temperature.form == TemperatureForm::power)
    return std::exp(temperature.beta * std::log1p(n / length));
  if (temperature.form == TemperatureForm::clipped_log)
    return 1 + temperature.beta * std::log(std::max(n / length, 1.0));
  return 1 + temperature.beta * std::log1p(static_cast<double>(shifted / temperature.length));
}

// Returns the factors of each token, [rows, T], or [rows, T, H] of head_log; 1 for padding.
std::vector<double> factors(const QueryTemperature& temperature, const Positions& positions) {
  check(temperature);
  const std::size_t heads = std::max<std::size_t>(1, temperature.slopes.size());
  std::vector<double> all;
  all.reserve(positions.ids.size() * heads);
  for (std::size_t at = 0; at < positions.ids.size(); ++at)
    for (std::size_t head = 0; head < heads; ++head)
      all.push_back(positions.sequences[at] == Positions::padding
                        ? 1.0
                        : factor_unchecked(temperature, positions.ids[at], head));
  return all;
}

template <typename T>
void check_queries(View<T, 4> q, const QueryTemperature& temperature,
                   const Positions& positions) {
  const std::int64_t rows = q.extent(0), tokens = q.extent(1);
  if (by_head(temperature) && q.extent(2) != std::ssize(temperature.slopes))
    refuse("temperature",
           "q must have the heads of the spec, " + std::to_string(temperature.slopes.size()),
           std::int64_t{q.extent(2)});
  if (tokens != positions.tokens)
    refuse(
        "temperature",
        "q must have the number of positions, " + std::to_string(positions.tokens) + " tokens",
        tokens);
  if (positions.batch != 1 && rows != positions.batch)
    refuse("temperature",
           "q must have the number of positions, " + std::to_string(positions.batch) + " rows",
           rows);
  internal::check_ids_and_sequences("temperature", "positions", positions);
  if (q.stride(3) != 1)
    refuse("temperature", "the elements of a head must be contiguous: stride 1",
           std::int64_t{q.stride(3)});
}

template <typename T>
void scale(View<T, 4> q, const QueryTemperature& temperature, const Positions& positions) {
  const std::int64_t rows = q.extent(0), tokens = q.extent(1), heads = q.extent(2),
                     size = q.extent(3);
  check(temperature);
  check_queries(q, temperature, positions);
  const std::vector<double> all = factors(temperature, positions);
  const std::int64_t own = by_head(temperature) ? heads : 1;
  const auto scale_row = kernel(q.data());
  const std::int64_t grain =
      std::max<std::int64_t>(1, temperature_grain / std::max<std::int64_t>(1, heads * size));
  parallel_for(rows * tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t b = token / tokens, t = token % tokens;
      const std::int64_t at = (positions.batch == 1 ? t : token) * own;
      for (std::int64_t h = 0; h < heads; ++h) {
        const double by = all[static_cast<std::size_t>(own == 1 ? at : at + h)];
        if (by != 1) scale_row(&q(b, t, h, 0), by, size);
      }
    }
  });
}

template <typename T>
void backward(View<const T, 4> q, View<const T, 4> grad, const QueryTemperature& temperature,
              const Positions& positions, std::span<double> slopes, std::span<double> offsets) {
  check_queries(q, temperature, positions);
  const std::int64_t tokens = q.extent(1);
  parallel_for(q.extent(2), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      double with_log = 0, alone = 0;
      for (std::int64_t b = 0; b < q.extent(0); ++b)
        for (std::int64_t t = 0; t < tokens; ++t) {
          const auto at = static_cast<std::size_t>(positions.batch == 1 ? t : b * tokens + t);
          if (positions.sequences[at] == Positions::padding) continue;
          double product = 0;
          for (std::int64_t d = 0; d < q.extent(3); ++d)
            product += static_cast<double>(static_cast<Accumulator<T>>(q(b, t, h, d))) *
                       static_cast<double>(static_cast<Accumulator<T>>(grad(b, t, h, d)));
          alone += product;
          with_log +=
              product *
              std::log(static_cast<double>(shifted_unchecked(temperature, positions.ids[at])));
        }
      slopes[static_cast<std::size_t>(h)] += with_log;
      offsets[static_cast<std::size_t>(h)] += alone;
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

QueryTemperature inkling_temperature(std::int64_t length, double beta) {
  return {.beta = beta, .length = length, .shift = 1, .form = TemperatureForm::clipped_log};
}

QueryTemperature beam_temperature(double beta, std::int64_t length) {
  return {.beta = beta, .length = length, .shift = 1, .form = TemperatureForm::power};
}

QueryTemperature mistral_large4_temperature(std::vector<double> slopes,
                                            std::vector<double> offsets) {
  return {.beta = 0,
          .length = 0,
          .shift = 1,
          .form = TemperatureForm::head_log,
          .slopes = std::move(slopes),
          .offsets = std::move(offsets)};
}

double query_scale(const QueryTemperature& temperature, std::int64_t position,
                   std::int64_t head) {
  check(temperature);
  if (by_head(temperature) && (head < 0 || head >= std::ssize(temperature.slopes)))
    refuse("temperature", "head must be one of " + std::to_string(temperature.slopes.size()),
           head);
  return factor_unchecked(temperature, position, static_cast<std::size_t>(head));
}

void query_scale_backward(const ConstTensor& q, const ConstTensor& grad,
                          const QueryTemperature& temperature, const Positions& positions,
                          std::span<double> slopes, std::span<double> offsets) {
  check(temperature);
  if (!by_head(temperature))
    refuse("temperature", "form must be head_log to have a gradient",
           static_cast<std::int64_t>(temperature.form));
  for (const auto& one : {slopes, offsets})
    if (one.size() != temperature.slopes.size())
      refuse("temperature",
             "gradients must have " + std::to_string(temperature.slopes.size()) + " heads",
             static_cast<std::int64_t>(one.size()));
  internal::by_type({"temperature", "q"}, q, [&]<typename T>(T) {
    const auto x = internal::read_batch<T, 4>({"temperature", "q"}, q);
    const auto dx = internal::read_batch<T, 4>({"temperature", "grad"}, grad);
    if (x.extents() != dx.extents())
      refuse("temperature", "grad must have the shape of q", "another");
    backward(x, dx, temperature, positions, slopes, offsets);
  });
}

void scale_queries(const Tensor& q, const QueryTemperature& temperature,
                   const Positions& positions) {
  internal::by_type({"temperature", "q"}, q, [&]<typename T>(T) {
    scale(internal::write_batch<T, 4>({"temperature", "q"}, q), temperature, positions);
  });
}

}  // namespace gnomon
#endif  // HWY_ONCE
