// Entry of DETR's sine. Text is read as the rows of a page.
#pragma once

#include <numbers>

#include "gnomon/model/text_readings.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<DetrScale> spellings<DetrScale>[] = {
    {DetrScale::cells, "cells"},
    {DetrScale::normalised, "normalised"},
    {DetrScale::centred, "centred"}};

template <>
struct Entry<DetrPage> : EntryOf<DetrPage> {
  static constexpr EncodingInfo infos[] = {
      {"detr", "DETR's sine", "", Place::embeddings, Sharing::all_layers,
       "sinusoids of the row and the column, relative to the size of the page",
       "y(i, j) = real pixels in column j down to row i\n"
       "x(i, j) = real pixels in row i up to column j\n"
       "2 pi y / (y_last + 1e-6)\n"
       "P = [ interleaved sinusoid of y, C/2 | interleaved sinusoid of x, C/2 ]",
       "Carion et al. 2020, arXiv:2005.12872", "embedding/detr.md",
       "DETR, Conditional DETR, MaskFormer, Mask2Former; with another scale Deformable DETR, "
       "DINO",
       [](const Shape& s) -> Encoding {
         return DetrPage{.width = s.width,
                         .grid_height = page_size(s.length).height,
                         .grid_width = page_size(s.length).width};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::some};
  static void fields(DetrPage& s, auto&& v) {
    v("width", s.width), v("grid_height", s.grid_height), v("grid_width", s.grid_width),
        v("scale", s.scale);
    v("temperature", s.temperature);
  }
  // The coordinate that the last cell of a side is scaled to.
  static void derived(const DetrPage&, auto&& v) { v("turn", 2 * std::numbers::pi); }
  static std::optional<std::int64_t> capacity(const DetrPage& s) {
    if (s.grid_height == 0 && s.grid_width == 0)
      return std::nullopt;  // extents come from the image
    return model::capacity(s);
  }
  static void lower(const DetrPage& s, const Call& call, Values, LayerPlan& lowered) {
    DetrPage page = s;
    if (s.grid_height == 0 && call.image.size() == 3)
      page.grid_height = call.image[1], page.grid_width = call.image[2];
    lowered.table = model::lower(page, call.query_positions().ids);
  }
};

}  // namespace gnomon::model
