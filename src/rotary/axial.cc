#include "gnomon/rotary/axial.h"

#include <cstddef>
#include <numbers>
#include <string>
#include <utility>

#include "gnomon/error.h"

namespace gnomon {
namespace {

void check_part(const AxialPart& part) {
  if (part.axis < 0) refuse("axial", "axis must not be negative", std::int64_t{part.axis});
  if (part.rotary_dim % 2)
    refuse("axial", "rotary_dim of a part must be even", part.rotary_dim);
  if (part.rotary_dim < 2)
    refuse("axial", "rotary_dim of a part must be at least 2", part.rotary_dim);
  if (!part.inv_freq.empty() && std::ssize(part.inv_freq) != part.rotary_dim / 2)
    refuse("axial",
           "inv_freq must be empty or have one element for each of " +
               std::to_string(part.rotary_dim / 2) + " pairs",
           std::ssize(part.inv_freq));
}

std::vector<double> part_frequencies(const AxialPart& part, Pairing pairing, double base) {
  if (!part.inv_freq.empty()) return part.inv_freq;
  return inverse_frequencies({.rotary_dim = part.rotary_dim, .pairing = pairing, .base = base});
}

void check_quarters(std::int64_t head_dim) {
  if (head_dim < 4 || head_dim % 4)
    refuse("axial", "head_dim must be a multiple of 4", head_dim);
}

// Two axes with half of the head each and equal frequencies.
AxialRotary two_axes(std::int64_t head_dim, std::int32_t left, std::int32_t right,
                     Pairing pairing, AxialOrder order, double base) {
  check_quarters(head_dim);
  return {.parts = {{.axis = left, .rotary_dim = head_dim / 2},
                    {.axis = right, .rotary_dim = head_dim / 2}},
          .pairing = pairing,
          .order = order,
          .base = base};
}

constexpr std::int32_t y = 0, x = 1;

}  // namespace

RotaryFrequencies lower(const AxialRotary& axial) {
  if (axial.parts.empty()) refuse("axial", "there must be at least one part", 0);
  // Plain rotary checks the pairing, the base and `head_offset`.
  RotaryFrequencies frequencies = gnomon::lower(Rotary{.rotary_dim = 2,
                                                       .pairing = axial.pairing,
                                                       .base = axial.base,
                                                       .head_offset = axial.head_offset});
  frequencies.inv_freq.clear();
  std::vector<std::vector<double>> all;
  for (const AxialPart& part : axial.parts) {
    check_part(part);
    all.push_back(part_frequencies(part, axial.pairing, axial.base));
  }
  switch (axial.order) {
    case AxialOrder::blocks:
      for (std::size_t part = 0; part < all.size(); ++part) {
        frequencies.inv_freq.insert(frequencies.inv_freq.end(), all[part].begin(),
                                    all[part].end());
        frequencies.axes.insert(frequencies.axes.end(), all[part].size(),
                                axial.parts[part].axis);
      }
      return frequencies;
    case AxialOrder::interleaved:
      for (const AxialPart& part : axial.parts)
        if (part.rotary_dim != axial.parts[0].rotary_dim)
          refuse("axial",
                 "interleaved parts must all have one rotary_dim, " +
                     std::to_string(axial.parts[0].rotary_dim) + " elements",
                 part.rotary_dim);
      for (std::size_t j = 0; j < all[0].size(); ++j)
        for (std::size_t part = 0; part < all.size(); ++part) {
          frequencies.inv_freq.push_back(all[part][j]);
          frequencies.axes.push_back(axial.parts[part].axis);
        }
      return frequencies;
  }
  refuse("axial", "order must be blocks (1) or interleaved (2)", static_cast<int>(axial.order));
}

namespace rotary {

AxialRotary axial(std::vector<std::int64_t> dims, Pairing pairing, double base) {
  AxialRotary spec{.pairing = pairing, .order = AxialOrder::blocks, .base = base};
  for (const std::int64_t dim : dims)
    spec.parts.push_back(
        {.axis = static_cast<std::int32_t>(spec.parts.size()), .rotary_dim = dim});
  return spec;
}

AxialRotary pixtral_vision(std::int64_t head_dim, double base) {
  AxialRotary spec = two_axes(head_dim, y, x, Pairing::halves, AxialOrder::blocks, base);
  const std::vector<double> all =
      inverse_frequencies({.rotary_dim = head_dim, .pairing = Pairing::halves, .base = base});
  for (std::size_t i = 0; i < all.size(); ++i) spec.parts[i % 2].inv_freq.push_back(all[i]);
  return spec;
}

AxialRotary qwen_vl_vision(std::int64_t head_dim, double base) {
  return two_axes(head_dim, y, x, Pairing::halves, AxialOrder::blocks, base);
}

AxialRotary llama4_vision(std::int64_t head_dim, double base) {
  return two_axes(head_dim, x, y, Pairing::adjacent, AxialOrder::blocks, base);
}

AxialRotary dinov3_vision(std::int64_t head_dim, double base) {
  AxialRotary spec = two_axes(head_dim, y, x, Pairing::halves, AxialOrder::blocks, base);
  std::vector<double> scaled = inverse_frequencies(
      {.rotary_dim = head_dim / 2, .pairing = Pairing::halves, .base = base});
  for (double& frequency : scaled) frequency *= 2 * std::numbers::pi;
  for (AxialPart& part : spec.parts) part.inv_freq = scaled;
  return spec;
}

AxialRotary sam2_memory(std::int64_t head_dim, double base) {
  return two_axes(head_dim, x, y, Pairing::adjacent, AxialOrder::blocks, base);
}

std::array<RotaryFrequencies, 2> gemma4_vision(std::int64_t head_dim, double base) {
  check_quarters(head_dim);
  const auto part = [&](std::int32_t axis, std::int64_t head_offset) {
    return lower(AxialRotary{.parts = {{.axis = axis, .rotary_dim = head_dim / 2}},
                             .pairing = Pairing::halves,
                             .order = AxialOrder::blocks,
                             .base = base,
                             .head_offset = head_offset});
  };
  return {part(x, 0), part(y, head_dim / 2)};
}

AxialRotary hunyuan_dit(std::int64_t head_dim, double base) {
  return two_axes(head_dim, x, y, Pairing::adjacent, AxialOrder::blocks, base);
}

AxialRotary lumina(std::int64_t head_dim, double base) {
  return two_axes(head_dim, y, x, Pairing::adjacent, AxialOrder::interleaved, base);
}

AxialRotary flux(double base) { return axial({16, 56, 56}, Pairing::adjacent, base); }

AxialRotary qwen_image(double base) { return axial({16, 56, 56}, Pairing::adjacent, base); }

AxialRotary wan(std::int64_t head_dim, double base) {
  if (head_dim < 6 || head_dim % 2)
    refuse("axial", "the head_dim of Wan must be even and at least 6", head_dim);
  const std::int64_t side = 2 * (head_dim / 6);
  return axial({head_dim - 2 * side, side, side}, Pairing::adjacent, base);
}

AxialRotary cogvideox(std::int64_t head_dim, double base) {
  if (head_dim < 16 || head_dim % 16)
    refuse("axial", "the head_dim of CogVideoX must be a multiple of 16", head_dim);
  return axial({head_dim / 4, head_dim / 8 * 3, head_dim / 8 * 3}, Pairing::adjacent, base);
}

}  // namespace rotary
}  // namespace gnomon
