// Entry of the sinusoids of a grid. Text is read as the rows of a page.
#pragma once

#include "gnomon/embedding/grid.h"
#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/model/encodings/axial.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/sinusoidal.h"

namespace gnomon::model {

void nested_fields(Sinusoidal& s, auto&& v) { Entry<Sinusoidal>::fields(s, v); }
void nested_fields(GridAxis& s, auto&& v) {
  v("column", s.column), v("sinusoidal", s.sinusoidal);
}

template <>
struct Entry<SinusoidalGrid> : EntryOf<SinusoidalGrid> {
  static constexpr EncodingInfo infos[] = {
      {"sinusoidal-grid", "Sinusoids of a grid (MAE)", "sinusoidal 2D, 2D sinusoidal, MAE",
       Place::embeddings, Sharing::all_layers,
       "half of the channels encode the column, half the row",
       "[ sinusoid of axis a | sinusoid of axis b | ... ]", "He et al. 2021, arXiv:2111.06377",
       "embedding/grid.md", "MAE, DiT, PixArt, SD3", [](const Shape& s) -> Encoding {
         SinusoidalGrid grid = grid_mae(s.width);
         grid.grid = {page_size(s.length).height, page_size(s.length).width};
         return grid;
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::some};
  static void fields(SinusoidalGrid& s, auto&& v) {
    v("join", s.join), v("axes", s.axes), v("kept", s.kept);
    v("grid", s.grid), v("class_tokens", s.class_tokens);
  }
  static void derived(const SinusoidalGrid& s, auto&& v) {
    v("width", gnomon::width(s)), v("base", s.axes.front().sinusoidal.base);
  }
  static constexpr const char* kind(const SinusoidalGrid&) { return "grid_sinusoidal"; }
  static std::optional<std::int64_t> capacity(const SinusoidalGrid& s) {
    if (s.grid.empty()) return std::nullopt;
    return gnomon::capacity(s);
  }
  static void lower(const SinusoidalGrid& s, const Call& call, Values, LayerPlan& lowered) {
    const auto axes = call.query_axes();
    if (!s.grid.empty() && (call.line || axes.size() == 1)) {
      lowered.table = gnomon::lower(s, call.query_positions().ids);
      return;
    }
    Grid cells{.cells = call.queries(), .axes = std::ssize(axes), .coordinates = {}};
    for (std::size_t t = 0; t < axes[0].ids.size(); ++t)
      for (const Positions& axis : axes) cells.coordinates.push_back(axis.ids[t]);
    EmbeddingTable table{cells.cells, gnomon::width(s), {}};
    table.values.resize(gnomon::internal::checked_size("embedding", "tokens x width",
                                                       {table.tokens, table.width}));
    fill(s, cells, View<float, 2>(table.values.data(), {table.tokens, table.width}));
    lowered.table = std::move(table);
  }
};

void nested_fields(SinusoidalGrid& s, auto&& v) { Entry<SinusoidalGrid>::fields(s, v); }

}  // namespace gnomon::model
