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
  if (part.dim % 2) refuse("axial", "dim of a part must be even", part.dim);
  if (part.dim < 2) refuse("axial", "dim of a part must be at least 2", part.dim);
  if (!part.inv_freq.empty() && std::ssize(part.inv_freq) != part.dim / 2)
    refuse(
        "axial",
        "inv_freq must be empty or one for each of " + std::to_string(part.dim / 2) + " pairs",
        std::ssize(part.inv_freq));
}

std::vector<double> frequencies(const AxialPart& part, Pairing pairing, double base) {
  if (!part.inv_freq.empty()) return part.inv_freq;
  return inverse_frequencies({.dim = part.dim, .pairing = pairing, .base = base});
}

void check_quarters(std::int64_t head_size) {
  if (head_size < 4 || head_size % 4)
    refuse("axial", "the head size must be a multiple of 4", head_size);
}

// Half of the head for each of two axes, with equal frequencies.
AxialRotary two_axes(std::int64_t head_size, std::int32_t left, std::int32_t right,
                     Pairing pairing, AxialOrder order, double base) {
  check_quarters(head_size);
  return {
      .parts = {{.axis = left, .dim = head_size / 2}, {.axis = right, .dim = head_size / 2}},
      .pairing = pairing,
      .order = order,
      .base = base};
}

constexpr std::int32_t y = 0, x = 1;

}  // namespace

RotarySchedule schedule(const AxialRotary& axial) {
  if (axial.parts.empty()) refuse("axial", "there must be at least one part", 0);
  // What is wrong with the pairing, the base or `first` is said once, by plain rotary.
  RotarySchedule schedule = gnomon::schedule(
      Rotary{.dim = 2, .pairing = axial.pairing, .base = axial.base, .first = axial.first});
  schedule.inv_freq.clear();
  std::vector<std::vector<double>> all;
  for (const AxialPart& part : axial.parts) {
    check_part(part);
    all.push_back(frequencies(part, axial.pairing, axial.base));
  }
  switch (axial.order) {
    case AxialOrder::blocks:
      for (std::size_t part = 0; part < all.size(); ++part) {
        schedule.inv_freq.insert(schedule.inv_freq.end(), all[part].begin(), all[part].end());
        schedule.axes.insert(schedule.axes.end(), all[part].size(), axial.parts[part].axis);
      }
      return schedule;
    case AxialOrder::interleaved:
      for (const AxialPart& part : axial.parts)
        if (part.dim != axial.parts[0].dim)
          refuse("axial",
                 "interleaved parts must be of one size, " +
                     std::to_string(axial.parts[0].dim) + " elements",
                 part.dim);
      for (std::size_t j = 0; j < all[0].size(); ++j)
        for (std::size_t part = 0; part < all.size(); ++part) {
          schedule.inv_freq.push_back(all[part][j]);
          schedule.axes.push_back(axial.parts[part].axis);
        }
      return schedule;
  }
  refuse("axial", "order must be blocks (1) or interleaved (2)", static_cast<int>(axial.order));
}

AxialRotary axial(std::vector<std::int64_t> dims, Pairing pairing, double base) {
  AxialRotary spec{.pairing = pairing, .order = AxialOrder::blocks, .base = base};
  for (const std::int64_t dim : dims)
    spec.parts.push_back({.axis = static_cast<std::int32_t>(spec.parts.size()), .dim = dim});
  return spec;
}

AxialRotary pixtral_vision(std::int64_t head_size, double base) {
  AxialRotary spec = two_axes(head_size, y, x, Pairing::halves, AxialOrder::blocks, base);
  const std::vector<double> all =
      inverse_frequencies({.dim = head_size, .pairing = Pairing::halves, .base = base});
  for (std::size_t i = 0; i < all.size(); ++i) spec.parts[i % 2].inv_freq.push_back(all[i]);
  return spec;
}

AxialRotary qwen_vl_vision(std::int64_t head_size, double base) {
  return two_axes(head_size, y, x, Pairing::halves, AxialOrder::blocks, base);
}

AxialRotary llama4_vision(std::int64_t head_size, double base) {
  return two_axes(head_size, x, y, Pairing::adjacent, AxialOrder::blocks, base);
}

AxialRotary dinov3_vision(std::int64_t head_size, double base) {
  AxialRotary spec = two_axes(head_size, y, x, Pairing::halves, AxialOrder::blocks, base);
  std::vector<double> turned =
      inverse_frequencies({.dim = head_size / 2, .pairing = Pairing::halves, .base = base});
  for (double& frequency : turned) frequency *= 2 * std::numbers::pi;
  for (AxialPart& part : spec.parts) part.inv_freq = turned;
  return spec;
}

AxialRotary sam2_memory(std::int64_t head_size, double base) {
  return two_axes(head_size, x, y, Pairing::adjacent, AxialOrder::blocks, base);
}

std::array<RotarySchedule, 2> gemma4_vision(std::int64_t head_size, double base) {
  check_quarters(head_size);
  const auto part = [&](std::int32_t axis, std::int64_t first) {
    return schedule(AxialRotary{.parts = {{.axis = axis, .dim = head_size / 2}},
                                .pairing = Pairing::halves,
                                .order = AxialOrder::blocks,
                                .base = base,
                                .first = first});
  };
  return {part(x, 0), part(y, head_size / 2)};
}

AxialRotary hunyuan_dit(std::int64_t head_size, double base) {
  return two_axes(head_size, x, y, Pairing::adjacent, AxialOrder::blocks, base);
}

AxialRotary lumina(std::int64_t head_size, double base) {
  return two_axes(head_size, y, x, Pairing::adjacent, AxialOrder::interleaved, base);
}

AxialRotary flux(double base) { return axial({16, 56, 56}, Pairing::adjacent, base); }

AxialRotary qwen_image(double base) { return axial({16, 56, 56}, Pairing::adjacent, base); }

AxialRotary wan(std::int64_t head_size, double base) {
  if (head_size < 6 || head_size % 2)
    refuse("axial", "Wan's head size must be even and at least 6", head_size);
  const std::int64_t side = 2 * (head_size / 6);
  return axial({head_size - 2 * side, side, side}, Pairing::adjacent, base);
}

AxialRotary cogvideox(std::int64_t head_size, double base) {
  if (head_size < 16 || head_size % 16)
    refuse("axial", "CogVideoX's head size must be a multiple of 16", head_size);
  return axial({head_size / 4, head_size / 8 * 3, head_size / 8 * 3}, Pairing::adjacent, base);
}

}  // namespace gnomon
