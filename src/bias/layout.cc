#include "gnomon/bias/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

void check(const LayoutBias& layout, const WordBoxes& page) {
  constexpr int64_t most = int64_t{1} << 31;
  if (layout.heads < 1) refuse("layout", "heads must be at least 1", layout.heads);
  if (!std::isfinite(layout.scale)) refuse("layout", "scale must be finite", layout.scale);
  if (page.x.empty()) refuse("layout", "a page must have at least 1 position", 0);
  if (page.y.size() != page.x.size())
    refuse("layout", "a page must have as many y as x, " + std::to_string(page.x.size()),
           static_cast<int64_t>(page.y.size()));
  for (const auto* axis : {&page.x, &page.y})
    for (const int64_t coordinate : *axis)
      if (coordinate < -most || coordinate > most)
        refuse("layout", "coordinates must be at most 2^31 in magnitude", coordinate);
}

// One of the three terms: its buckets and its largest distance.
struct Axis {
  T5Bias t5;
  int64_t widest;

  int64_t min_distance() const { return -widest; }
  int64_t count() const { return 2 * widest + 1; }
};

std::array<Axis, 3> axes_of(const LayoutBias& layout, const WordBoxes& page) {
  check(layout, page);
  const auto buckets = [&](int64_t count, int64_t distance) {
    return T5Bias{layout.heads, T5Direction::bidirectional, count, distance};
  };
  const auto widest = [](const std::vector<int64_t>& of) {
    const auto [least, most] = std::minmax_element(of.begin(), of.end());
    constexpr int64_t limit = 1 << 20;  // so that its strip fits in memory
    if (*most - *least > limit)
      refuse("layout", "a page must be at most 2^20 wide and high", *most - *least);
    return *most - *least;
  };
  const T5Bias on_page = buckets(layout.page_buckets, layout.page_distance);
  return {Axis{buckets(layout.text_buckets, layout.text_distance),
               static_cast<int64_t>(page.x.size()) - 1},
          Axis{on_page, widest(page.x)}, Axis{on_page, widest(page.y)}};
}

template <typename T>
std::array<View<T, 2>, 3> tables(const LayoutParameters<T>& parameters) {
  return {parameters.text, parameters.x, parameters.y};
}

}  // namespace

LayoutBias bias::layoutlm_v2(int64_t heads) { return {.heads = heads}; }

LayoutBias bias::layoutlm_v3(int64_t heads, int64_t head_dim) {
  if (head_dim < 1) refuse("layout", "head_dim must be at least 1", head_dim);
  return {.heads = heads, .scale = 1 / std::sqrt(static_cast<double>(head_dim))};
}

WordBoxes boxes_of_text(int64_t positions, int64_t columns) {
  if (positions < 0) refuse("layout", "positions must not be negative", positions);
  if (columns < 1) refuse("layout", "columns must be at least 1", columns);
  WordBoxes page;
  for (int64_t p = 0; p < positions; ++p) {
    page.x.push_back(p % columns);
    page.y.push_back(p / columns);
  }
  return page;
}

AxesBias lower(const LayoutBias& layout, const LayoutParameters<const float>& parameters,
               const WordBoxes& page) {
  const auto axes = axes_of(layout, page);
  const auto from = tables(parameters);
  AxesBias bias{.heads = layout.heads, .axes = {}};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    StripBias of_axis = lower(axes[a].t5, from[a], axes[a].min_distance(), axes[a].count());
    for (double& value : of_axis.values) value *= layout.scale;
    bias.axes.push_back({of_axis.min_distance, std::move(of_axis.values), {}});
  }
  bias.axes[1].coordinates = page.x;
  bias.axes[2].coordinates = page.y;
  return bias;
}

void lower_backward(const LayoutBias& layout, const WordBoxes& page,
                    std::span<const double> bias_grad, const LayoutParameters<float>& grads) {
  const auto axes = axes_of(layout, page);
  const auto to = tables(grads);
  int64_t width = 0, before = 0;
  for (const Axis& axis : axes) width += axis.count();
  if (const auto wanted =
          internal::checked_size("layout", "heads x distances", {layout.heads, width});
      bias_grad.size() != wanted)
    refuse("layout",
           "the gradient of the bias must have heads x distances of all axes, " +
               std::to_string(wanted),
           static_cast<int64_t>(bias_grad.size()));
  for (std::size_t a = 0; a < axes.size(); before += axes[a++].count()) {
    std::vector<double> of_axis;
    of_axis.reserve(static_cast<std::size_t>(layout.heads * axes[a].count()));
    for (int64_t h = 0; h < layout.heads; ++h)
      for (int64_t n = 0; n < axes[a].count(); ++n)
        of_axis.push_back(layout.scale *
                          bias_grad[static_cast<std::size_t>(h * width + before + n)]);
    lower_backward(axes[a].t5, of_axis, axes[a].min_distance(), axes[a].count(), to[a]);
  }
}

}  // namespace gnomon
