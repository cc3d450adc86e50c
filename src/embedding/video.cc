#include "gnomon/embedding/video.h"

#include <limits>

#include "gnomon/embedding/grid.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {

EmbeddingTable lower(const SinusoidalVideo& video, std::span<const std::int64_t> positions) {
  if (video.recipe < VideoRecipe::cogvideox || video.recipe > VideoRecipe::videomae)
    refuse("video", "recipe must be cogvideox, vjepa or videomae",
           static_cast<int>(video.recipe));
  if (video.grid_height < 1)
    refuse("video", "grid_height must be at least 1", video.grid_height);
  if (video.grid_width < 1) refuse("video", "grid_width must be at least 1", video.grid_width);
  if (video.grid_width > std::numeric_limits<std::int64_t>::max() / video.grid_height)
    refuse("video", "a frame must have fewer than 2^63 tokens: width", video.grid_width);
  for (const std::int64_t position : positions)
    if (position < 0) refuse("video", "position must not be negative", position);
  if (video.recipe == VideoRecipe::videomae)
    return gnomon::lower(
        Sinusoidal{.width = video.width, .recipe = SinusoidalRecipe::interleaved}, positions);
  const SinusoidalGrid spec = video.recipe == VideoRecipe::cogvideox
                                  ? grid_cogvideox(video.width)
                                  : grid_vjepa(video.width, VideoShares::thirds);
  Grid cells{
      .cells = static_cast<std::int64_t>(positions.size()), .axes = 3, .coordinates = {}};
  cells.coordinates.reserve(3 * positions.size());
  for (const std::int64_t position : positions) {
    cells.coordinates.push_back(position / (video.grid_height * video.grid_width));
    cells.coordinates.push_back(position / video.grid_width % video.grid_height);
    cells.coordinates.push_back(position % video.grid_width);
  }
  EmbeddingTable table{cells.cells, width(spec), {}};
  table.values.resize(
      internal::checked_size("embedding", "tokens x width", {table.tokens, table.width}));
  fill(spec, cells, View<float, 2>(table.values.data(), {table.tokens, table.width}));
  return table;
}

}  // namespace gnomon
