#include "gnomon/cuda/device_bias.h"

#include <limits>
#include <vector>

#include "gnomon/error.h"
#include "src/bias/tile.h"

namespace gnomon::cuda {
namespace {

using std::int32_t;
using std::int64_t;

// Appends the values, rounded to float. Returns the index of the first.
std::size_t append(std::vector<float>& all, const std::vector<double>& values) {
  const std::size_t first = all.size();
  for (const double value : values) all.push_back(static_cast<float>(value));
  return first;
}

}  // namespace

DeviceBias::DeviceBias(const BiasForm& form, int device)
    : heads_(gnomon::heads(form)), gradient_size_(gnomon::gradient_size(form)) {
  internal::check_form(form);
  if (gradient_size_ > std::numeric_limits<int32_t>::max() ||
      heads_ > std::numeric_limits<int32_t>::max())
    refuse("device_bias", "heads and values of a head must be fewer than 2^31",
           std::max(heads_, gradient_size_));
  std::vector<float> all;
  const auto copy = [&] { values_ = Array<float>(all, device); };
  const auto heads = static_cast<int32_t>(heads_);
  if (const auto* const slope = std::get_if<SlopeBias>(&form)) {
    append(all, slope->slopes);
    copy();
    view_ = SlopeView{values_.data(), heads};
  } else if (const auto* const strip = std::get_if<StripBias>(&form)) {
    append(all, strip->values);
    copy();
    view_ = StripView{values_.data(), strip->min_distance,
                      static_cast<int32_t>(strip->distances()), heads};
  } else if (const auto* const grid = std::get_if<GridBias>(&form)) {
    append(all, grid->values);
    copy();
    view_ =
        GridView{values_.data(), static_cast<int32_t>(grid->height),
                 static_cast<int32_t>(grid->width), static_cast<int32_t>(grid->leading), heads};
  } else if (const auto* const pieces = std::get_if<PiecewiseLogBias>(&form)) {
    const std::size_t knots = append(all, pieces->knots),
                      offsets = append(all, pieces->offsets),
                      slopes = append(all, pieces->slopes);
    copy();
    view_ = PiecewiseLogView{values_.data() + knots,
                             values_.data() + offsets,
                             values_.data() + slopes,
                             static_cast<int32_t>(pieces->pieces()),
                             static_cast<float>(pieces->c),
                             static_cast<float>(pieces->threshold),
                             static_cast<float>(pieces->epsilon),
                             heads};
  } else {
    constexpr const char* names[] = {"NoBias",   "SlopeBias",        "StripBias", "DenseBias",
                                     "GridBias", "PiecewiseLogBias", "AxesBias"};
    refuse("device_bias", "the form must be a slope, a strip, a grid or piecewise logarithmic",
           names[form.index()]);
  }
}

}  // namespace gnomon::cuda
