// Entry of the sinusoids of video models. Text is read as small frames.
#pragma once

#include <algorithm>
#include <cmath>

#include "gnomon/embedding/video.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<VideoRecipe> spellings<VideoRecipe>[] = {
    {VideoRecipe::cogvideox, "cogvideox"},
    {VideoRecipe::vjepa, "vjepa"},
    {VideoRecipe::videomae, "videomae"}};

template <>
struct Entry<SinusoidalVideo> : EntryOf<SinusoidalVideo> {
  static constexpr EncodingInfo infos[] = {
      {"video", "Sinusoidal of video", "sinusoidal video", Place::embeddings,
       Sharing::all_layers, "sinusoids of the frame, the column and the row",
       "position p: frame p / (h w), row p / w % h, column p % w\n"
       "[ frame C/4 | column 3C/8 | row 3C/8 ]",
       "Yang et al. 2024, arXiv:2408.06072", "embedding/video.md", "CogVideoX-2B",
       [](const Shape& s) -> Encoding {
         const auto side = std::max<std::int64_t>(
             1, static_cast<std::int64_t>(std::cbrt(static_cast<double>(s.length)) + 1e-9));
         // CogVideoX's shares require a width that is a multiple of 16.
         return SinusoidalVideo{
             .recipe = s.width % 16 ? VideoRecipe::vjepa : VideoRecipe::cogvideox,
             .width = s.width,
             .grid_height = side,
             .grid_width = side};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::some};
  static void fields(SinusoidalVideo& s, auto&& v) {
    v("recipe", s.recipe), v("width", s.width);
    v("grid_height", s.grid_height), v("grid_width", s.grid_width);
  }
  static void lower(const SinusoidalVideo& s, const Call& call, Values, LayerPlan& lowered) {
    lowered.table = gnomon::lower(s, call.query_positions().ids);
  }
};

}  // namespace gnomon::model
