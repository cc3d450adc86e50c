// What a released model does with position, layer by layer: what config.h and gguf files are
// read into, and what `gnomon inspect` prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/model/encoding.h"
#include "gnomon/rotary/scaling.h"
#include "gnomon/rotary/temperature.h"

namespace gnomon::model {

// Layers that do the same with position. A layer is in two groups where it meets position twice
// (a learned table and a rotation).
struct LayerGroup {
  std::vector<std::int64_t> layers;  // ascending, from 0
  // "rotary", "none", "alibi", "t5", "learned", "sinusoidal"; or one that has no Encoding yet
  // ("shaw", "deberta", "transformer_xl", "swin"; of images "grid_sinusoidal", "grid_bias",
  // "rows_and_columns", "vjepa2"), described by `facts` alone.
  std::string kind;
  std::string part = {};             // "encoder" or "decoder" of a model that has both
  Encoding encoding = NoPosition{};  // rotary: a ScaledRotary
  // Rotary over a grid: the frequencies and the axis of each pair, at any length; `encoding`
  // has its sizes and base. Axes: 0 = y (the row), 1 = x (the column); with three, 0 = t, 1 =
  // y, 2 = x. What a position is (a cell, counted from 0 or 1, or a coordinate) the notes say.
  std::optional<RotarySchedule> fixed = {};
  std::int64_t head_dim = 0;  // width of one q.k product; 0: layers without attention
  double softmax_scale = 0;   // the attention's own, before a scaling's
  std::optional<QueryTemperature> temperature = {};
  std::vector<std::pair<std::string, double>> facts = {};

  bool operator==(const LayerGroup&) const = default;
};

struct ModelDescription {
  std::string source;      // what was read: a path
  std::string model_type;  // `model_type` of a config, `general.architecture` of a GGUF
  std::int64_t layers = 0;
  // The context it was trained for; 0: not said. Of an image tower that turns: the cells along
  // the longer side of the image it was trained for.
  std::int64_t length = 0;
  std::vector<LayerGroup> groups;
  // What was assumed, what looks like a known mistake, which keys were not understood.
  std::vector<std::string> notes;
};

// A rotary group at a declared length.
struct ResolvedRotary {
  RotarySchedule schedule;
  double softmax_scale = 1;  // with the scaling's
};
// Throws std::invalid_argument when the group has no rotary encoding, or as scaled_frequencies.
// A `fixed` one is the same at every length.
ResolvedRotary resolve(const LayerGroup& group, std::int64_t length);

// The group of a layer; throws std::invalid_argument when there is none. `part` as above.
const LayerGroup& group_of(const ModelDescription& model, std::int64_t layer,
                           std::string_view part = {});

// {"source": ..., "model_type": ..., "layers": n, "length": L, "notes": [...],
//  "groups": [{"layers": [...], "kind": "rotary", "inv_freq": [...], ...}]}, at `length`, or
// the trained one. The whole contract: docs/model/description.md.
std::string to_json(const ModelDescription& model, std::optional<std::int64_t> length = {});

}  // namespace gnomon::model
