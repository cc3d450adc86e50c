// Reader of `config.json`, the configuration file of Hugging Face checkpoints.
//
//   const auto model = gnomon::model::read_config(text, {.name = "llama/config.json"});
//   const auto& group = gnomon::model::group_of(model, layer);
//   const gnomon::RotaryTable table(resolve(group, 131072).frequencies, positions);
//
// All spellings of transformers 4.x and 5.x are supported: `rope_theta` and `rope_scaling` at
// the top level, `rope_parameters`, and `rope_parameters` by layer type. A config does not
// contain the pairing, the rotated share of a head or the softmax scale of a family. The reader
// knows them by `model_type`. An unknown family is read from its keys alone, and a note says
// so. If it rotates, its pairing must be given.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/model/description.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::model {

// The YaRN factor of a config that has both `factor` and max_position_embeddings /
// original_max_position_embeddings. Versions of transformers differ (issue 38224).
enum class YarnFactor {
  as_written = 1,  // `factor`: transformers before 2025 and in 2026
  by_lengths,      // the ratio of the lengths: transformers 4.5x, 2025
};

struct ConfigOptions {
  std::string name = "config.json";  // file name in error messages
  YarnFactor yarn_factor = YarnFactor::as_written;
  // The nested config to describe ("vision_config", or "thinker_config.vision_config"). Empty:
  // the language model.
  std::string part = {};
  // The pairing of a family that is not known, which no key of a config contains.
  std::optional<Pairing> assume_pairing = {};
};

// Returns the description of the model.
//
// Throws FormatError (file, byte, reason) if the text is not JSON, if a size is missing, if a
// value has the wrong type or is out of range (rope_theta 0, factors of the wrong length,
// unknown scaling), if an unknown family rotates and assume_pairing is not given, or if `part`
// does not exist. The reason then lists the existing parts. Throws std::invalid_argument if
// assume_pairing is given for another model.
// Memory: less than ten times the text.
ModelDescription read_config(std::string_view json, const ConfigOptions& options = {});

// A family known by `model_type`, with the defaults of its configuration class as text. Used by
// the docs and tests.
struct FamilyInfo {
  std::string model_type;
  std::string position;  // "rotary, halves"; "learned"; ...
  std::string base;      // default rope_theta
  std::string rotated;   // rotated share of a head
  std::string head_dim;  // "128"; "hidden / heads"
  std::string layers;    // differences between layers, or empty
};
// All known families, sorted by name.
std::vector<FamilyInfo> families();

}  // namespace gnomon::model
