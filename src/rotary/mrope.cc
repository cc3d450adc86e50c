#include "gnomon/rotary/mrope.h"

#include <cstddef>
#include <string>
#include <utility>

#include "gnomon/error.h"

namespace gnomon {
namespace {

constexpr std::int32_t t = 0, h = 1, w = 2, e = 3;

void check(MRopeOrder order, std::span<const std::int64_t> sections, std::int64_t pairs) {
  const bool four = order == MRopeOrder::ggml_interleaved && sections.size() == 4;
  if (sections.size() != 3 && !four)
    refuse("mrope", "sections must be 3", static_cast<std::int64_t>(sections.size()));
  std::int64_t left = pairs;
  for (const std::int64_t section : sections) {
    if (section < 0) refuse("mrope", "sections must not be negative", section);
    if (section > left)
      refuse("mrope",
             "sections must be " + std::to_string(pairs) + " pairs in sum, so at most " +
                 std::to_string(left) + " here",
             section);
    left -= section;
  }
  if (left != 0)
    refuse("mrope", "sections must be " + std::to_string(pairs) + " pairs in sum",
           pairs - left);
}

// Returns whether pair i is among the first sections[axis] pairs of its axis in the pattern
// t h w t h w ...
bool in_pattern(std::int64_t i, std::span<const std::int64_t> sections) {
  return i < 3 * sections[static_cast<std::size_t>(i % 3)];
}

void check_interleaved(std::span<const std::int64_t> sections, std::int64_t pairs) {
  for (const std::int32_t axis : {h, w}) {
    const std::int64_t section = sections[static_cast<std::size_t>(axis)];
    const std::int64_t most = (pairs - axis + 2) / 3;
    if (section > most)
      refuse("mrope",
             "a section of h or w must be at most " + std::to_string(most) +
                 ", every third pair of " + std::to_string(pairs),
             section);
  }
}

std::int32_t axis_of(MRopeOrder order, std::span<const std::int64_t> sections, std::int64_t i) {
  switch (order) {
    case MRopeOrder::sequential:
      return i < sections[0] ? t : i < sections[0] + sections[1] ? h : w;
    case MRopeOrder::interleaved:
      return in_pattern(i, sections) ? static_cast<std::int32_t>(i % 3) : t;
    case MRopeOrder::ernie:
      return i >= sections[0] + sections[1] ? t : i % 2 == 0 ? h : w;
    case MRopeOrder::ggml_interleaved:
      return in_pattern(i, sections) ? static_cast<std::int32_t>(i % 3) : e;
  }
  refuse("mrope", "order must be sequential (1) to ggml_interleaved (4)",
         static_cast<int>(order));
}

}  // namespace

std::vector<std::int32_t> mrope_axes(MRopeOrder order, std::span<const std::int64_t> sections,
                                     std::int64_t pairs) {
  if (pairs < 1) refuse("mrope", "pairs must be at least 1", pairs);
  check(order, sections, pairs);
  if (order == MRopeOrder::interleaved) check_interleaved(sections, pairs);
  if (order == MRopeOrder::ernie && sections[0] != sections[1])
    refuse("mrope", "ernie's sections of h and w must be alike, " + std::to_string(sections[0]),
           sections[1]);
  std::vector<std::int32_t> axes;
  for (std::int64_t i = 0; i < pairs; ++i) axes.push_back(axis_of(order, sections, i));
  return axes;
}

RotaryFrequencies lower(const MRope& mrope) {
  return with_mrope_axes(
      lower(
          Rotary{.rotary_dim = mrope.rotary_dim, .pairing = mrope.pairing, .base = mrope.base}),
      mrope.order, mrope.sections);
}

RotaryFrequencies with_mrope_axes(RotaryFrequencies frequencies, MRopeOrder order,
                                  std::span<const std::int64_t> sections) {
  frequencies.axes = mrope_axes(order, sections, frequencies.rotary_dim() / 2);
  return frequencies;
}

}  // namespace gnomon
