// Scheme: the position encodings of each layer of a model. Some models rotate queries and keys
// in three of four layers and have no position encoding in the fourth (Llama 4, SmolLM3,
// Command R7B). Some use a rotation and a bias together.
//
// A scheme can be written as text. Names of `encodings()` at their usual settings are joined:
// `+` within a layer, `*N` for N equal layers, `/` before the next layers. The pattern is
// repeated up to the last layer:
//
//   rotary                    in every layer
//   rotary+alibi              both in every layer
//   rotary*3/none             three layers with rotary, then one without
//   learned+rotary/learned    a table, and rotary in every other layer
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/model/encoding.h"

namespace gnomon::model {

struct Scheme {
  std::vector<Mixture> layers;
  bool operator==(const Scheme&) const = default;
};

// Returns a scheme with the same mixture in all layers.
Scheme every_layer(const Mixture& mixture, std::int64_t layers);

// Parses a scheme. Throws std::invalid_argument if a name is not in the list, if the text does
// not have the form above, if it names more layers than the model has, or as `check`.
Scheme parse_scheme(std::string_view text, const Shape& shape, std::int64_t layers);

// Throws std::invalid_argument if there are no layers, if two encodings of a layer enter at the
// same place, or if layers name different tables for the embeddings. The table is added once,
// before the first layer, so all layers must name the same one.
void check(const Scheme& scheme);

// Returns the encodings that only add a table to the embeddings. They enter once, before the
// first layer.
Mixture before_layers(const Scheme& scheme);
// Returns the other encodings of a layer.
Mixture within_layer(const Scheme& scheme, std::int64_t layer);

// Returns each_layer if any encoding of the mixture has separate parameters in each layer.
// Layers with that mixture then share none of their parameters. Otherwise they share all.
Sharing sharing(const Mixture& mixture);

std::optional<std::int64_t> capacity(const Scheme& scheme);  // smallest of its encodings

// Returns the scheme as the shortest text, with the first name of each spec: "rotary*3/none".
std::string names(const Scheme& scheme);

// JSON of a scheme: {"layers": [[{"kind": "rotary", ...}, ...], ...]}. `scheme_from_json`
// throws as encoding_from_json and `check`.
std::string to_json(const Scheme& scheme);
Scheme scheme_from_json(std::string_view json);

}  // namespace gnomon::model
