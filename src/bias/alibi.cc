#include "gnomon/bias/alibi.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "src/bias/strip.h"
#include "src/core/memory.h"

namespace gnomon {

using std::int64_t;

std::vector<double> slopes(const Alibi& alibi) {
  if (alibi.heads < 1) refuse("alibi", "heads must be at least 1", alibi.heads);
  if (!(alibi.max_bias > 0 && std::isfinite(alibi.max_bias)))
    refuse("alibi", "max_bias must be positive and finite", alibi.max_bias);
  if (alibi.head_offset < 0 || alibi.head_offset >= alibi.heads)
    refuse("alibi",
           "head_offset must be from 0 to heads - 1, " + std::to_string(alibi.heads - 1),
           alibi.head_offset);
  const int64_t rest = alibi.heads - alibi.head_offset;
  if (alibi.local_heads < 0 || alibi.local_heads > rest)
    refuse("alibi",
           "local_heads must be from 0 to heads - head_offset, " + std::to_string(rest),
           alibi.local_heads);

  if (!(alibi.bias_scale > 0 && std::isfinite(alibi.bias_scale)))
    refuse("alibi", "bias_scale must be positive and finite", alibi.bias_scale);
  if (alibi.rounding != AlibiRounding::none && alibi.rounding != AlibiRounding::bfloat16)
    refuse("alibi", "rounding must be none or bfloat16", static_cast<int>(alibi.rounding));

  // c is the largest power of two not above H. The first c heads use the slopes of c heads; the
  // others use every other slope of 2c heads.
  const auto c = static_cast<int64_t>(std::bit_floor(static_cast<std::uint64_t>(alibi.heads)));
  const int64_t local = alibi.local_heads ? alibi.local_heads : rest;
  std::vector<double> slopes(static_cast<std::size_t>(local));
  for (int64_t i = 0; i < local; ++i) {
    const int64_t h = alibi.head_offset + i;
    const double step = alibi.max_bias / (static_cast<double>(c) * (h < c ? 1 : 2));
    const int64_t power = h < c ? h + 1 : 2 * (h - c) + 1;
    slopes[static_cast<std::size_t>(i)] = std::exp2(-step * static_cast<double>(power));
  }
  return slopes;
}

namespace {

void refuse_rounded(const Alibi& alibi) {
  if (alibi.rounding != AlibiRounding::none)
    refuse("alibi", "rounding must be none for a slope or a strip (use key_biases)",
           "bfloat16");
}

double rounded(double x) {
  return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(x))));
}

}  // namespace

SlopeBias lower(const Alibi& alibi) {
  SlopeBias bias{.slopes = slopes(alibi)};
  refuse_rounded(alibi);
  for (double& slope : bias.slopes) slope *= alibi.bias_scale;
  return bias;
}

std::vector<float> key_biases(const Alibi& alibi, std::span<const int64_t> positions) {
  std::vector<float> values;
  for (const double slope : slopes(alibi))
    for (const int64_t position : positions)
      values.push_back(static_cast<float>(
          alibi.bias_scale * rounded(rounded(slope) * rounded(static_cast<double>(position)))));
  return values;
}

StripBias lower(const Alibi& alibi, int64_t min_distance, int64_t count) {
  internal::check_distances("alibi", min_distance, count);
  const std::vector<double> slope = lower(alibi).slopes;
  StripBias strip{
      .heads = static_cast<int64_t>(slope.size()), .min_distance = min_distance, .values = {}};
  strip.values.reserve(
      internal::checked_size("alibi", "heads x distances", {strip.heads, count}));
  internal::advise_huge_pages(strip.values.data(), strip.values.capacity() * sizeof(double));
  constexpr int64_t block = 512;
  for (double m : slope)
    for (int64_t n = 0; n < count; n += block) {
      double values[block];
      const auto start = static_cast<double>(min_distance + n);
      const int size = static_cast<int>(std::min(block, count - n));
      for (int i = 0; i < size; ++i) values[i] = -m * std::fabs(start + i);
      strip.values.insert(strip.values.end(), values, values + size);
    }
  return strip;
}

}  // namespace gnomon
