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

// Layers that do the same with position.
struct LayerGroup {
  std::vector<std::int64_t> layers;  // ascending, from 0
  // "rotary", "none", "alibi", "t5", "learned", "sinusoidal"; or one that has no Encoding yet
  // ("shaw", "deberta", "transformer_xl"), described by `facts` alone.
  std::string kind;
  std::string part = {};             // "encoder" or "decoder" of a model that has both
  Encoding encoding = NoPosition{};  // rotary: a ScaledRotary
  std::int64_t head_dim = 0;         // width of one q.k product; 0: layers without attention
  double softmax_scale = 0;          // the attention's own, before a scaling's
  std::optional<QueryTemperature> temperature = {};
  std::vector<std::pair<std::string, double>> facts = {};

  bool operator==(const LayerGroup&) const = default;
};

struct ModelDescription {
  std::string source;      // what was read: a path
  std::string model_type;  // `model_type` of a config, `general.architecture` of a GGUF
  std::int64_t layers = 0;
  std::int64_t length = 0;  // the context it was trained for; 0: not said
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
ResolvedRotary resolve(const LayerGroup& group, std::int64_t length);

// The group of a layer; throws std::invalid_argument when there is none. `part` as above.
const LayerGroup& group_of(const ModelDescription& model, std::int64_t layer,
                           std::string_view part = {});

// {"source": ..., "model_type": ..., "layers": n, "length": L, "notes": [...],
//  "groups": [{"layers": [...], "kind": "rotary", "inv_freq": [...], ...}]}, at `length`, or
// the trained one. The whole contract: docs/model/description.md.
std::string to_json(const ModelDescription& model, std::optional<std::int64_t> length = {});

}  // namespace gnomon::model
