// Reading `config.json`, the configuration that Hugging Face checkpoints carry.
//
//   const auto model = gnomon::model::read_config(text, {.name = "llama/config.json"});
//   const auto& group = gnomon::model::group_of(model, layer);
//   const gnomon::RotaryTable table(resolve(group, 131072).schedule, positions);
//
// Every spelling of 4.x and 5.x is read: `rope_theta` and `rope_scaling` beside the sizes,
// `rope_parameters`, and those by layer type. Which pairing, which share of the head, which
// softmax scale a family has stands in no config: it is known here, by `model_type`. A family
// that is not known is read by its keys, and the notes say so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gnomon/model/description.h"

namespace gnomon::model {

// Whether YaRN's `factor`, or max_position_embeddings / original_max_position_embeddings, is
// the factor where a config has both. Transformers changed its mind (issue 38224).
enum class YarnFactor {
  as_written = 1,  // 2026, and before 2025
  by_lengths,      // 2025: 4.5x
};

struct ConfigOptions {
  std::string name = "config.json";  // what messages call it
  YarnFactor yarn_factor = YarnFactor::as_written;
  // Of a config that has others inside: the one to describe ("vision_config", or
  // "thinker_config.vision_config"). Empty: the language model.
  std::string part = {};
};

// Throws FormatError (file, byte, reason) when the text is not JSON, lacks a size, or holds a
// value of the wrong type or one that cannot be (rope_theta 0, factors of the wrong length, a
// scaling that is not known), or has no such part: then the reason lists those it has. Memory:
// less than ten times the text.
ModelDescription read_config(std::string_view json, const ConfigOptions& options = {});

// A family that is known by name, with the defaults of its configuration class, as text: for
// the docs and for tests.
struct FamilyInfo {
  std::string model_type;
  std::string position;  // "rotary, halves"; "learned"; ...
  std::string base;      // rope_theta where a config does not give it
  std::string turning;   // the share of a head that turns
  std::string head_dim;  // "128"; "hidden / heads"
  std::string layers;    // what sets layers apart, or empty
};
// In the order of their names.
std::vector<FamilyInfo> families();

}  // namespace gnomon::model
