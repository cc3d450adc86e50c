#include "gnomon/embedding/detr.h"

#include <cmath>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr double epsilon = 1e-6;  // as in DETR

// Converts the counts of a line to coordinates. Element i is at first[i step].
void scale_line(double* first, int64_t count, int64_t step, DetrScale scale) {
  const double last = first[(count - 1) * step] + epsilon;
  const double back = scale == DetrScale::centred ? 0.5 : 0.0;
  for (int64_t i = 0; i < count; ++i)
    first[i * step] = (first[i * step] - back) / last * (2 * M_PI);
}

}  // namespace

std::vector<double> detr_coordinates(View<const std::uint8_t, 2> mask, DetrScale scale) {
  if (scale < DetrScale::cells || scale > DetrScale::centred)
    refuse("detr", "scale must be cells, normalised or centred", static_cast<int>(scale));
  const int64_t height = mask.extent(0), width = mask.extent(1);
  if (height < 1 || width < 1)
    refuse("detr", "every extent of a mask must be at least 1", shape_text(mask.extents()));
  std::vector<double> at(
      internal::checked_size("detr", "height x width x 2", {height, width, 2}));
  double* cell = at.data();
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j, cell += 2) {
      const double real = mask(i, j) ? 1.0 : 0.0;
      cell[0] = real + (i ? cell[-2 * width] : 0.0);
      cell[1] = real + (j ? cell[-1] : 0.0);
    }
  if (scale == DetrScale::cells) return at;
  for (int64_t j = 0; j < width; ++j) scale_line(at.data() + 2 * j, height, 2 * width, scale);
  for (int64_t i = 0; i < height; ++i)
    scale_line(at.data() + 2 * width * i + 1, width, 2, scale);
  return at;
}

std::vector<double> detr_coordinates(int64_t height, int64_t width, DetrScale scale) {
  const std::uint8_t real = 1;
  return detr_coordinates(View<const std::uint8_t, 2>(&real, {height, width}, {0, 0}), scale);
}

EmbeddingTable lower(const SinusoidalGrid& spec, View<const std::uint8_t, 2> mask,
                     DetrScale scale) {
  const std::vector<double> at = detr_coordinates(mask, scale);
  EmbeddingTable table{static_cast<int64_t>(at.size() / 2), width(spec), {}};
  table.values.resize(
      internal::checked_size("embedding", "tokens x width", {table.tokens, table.width}));
  fill(spec, View<const double, 2>(at.data(), {table.tokens, 2}),
       View<float, 2>(table.values.data(), {table.tokens, table.width}));
  return table;
}

}  // namespace gnomon
