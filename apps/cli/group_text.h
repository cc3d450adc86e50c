// The layers of a model as text, for the output and the page of `gnomon inspect`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/model/description.h"

namespace gnomon::cli {

// A line of a list: "softmax", "x 0.25".
struct Fact {
  std::string name, text;
};

// Returns for example "1 layer", "2 layers".
std::string plural(std::int64_t count, std::string_view one);
// Returns for example "0-4, 6-10".
std::string layers_text(const std::vector<std::int64_t>& layers);
// Returns for example "rotary, halves, 128 of 128 elements, base 500000". `head_dim`: that of
// the layers.
std::string encoding_text(const model::Encoding& encoding, std::int64_t head_dim);
// The text for a group without encodings: "none (NoPE)", "none: no attention".
std::string none_text(const model::LayerGroup& group);
// Returns for example "llama3: factor 8, original length 8192, ...". Lists of factors are given
// by their range.
std::string scaling_text(const RopeScaling& scaling);
// The scaling of a rotary encoding; NoScaling if the spec has none.
RopeScaling scaling_of(const model::Encoding& encoding);

// Properties of the layers of a group besides position: heads, mask, scores, norms, the final
// softmax scale at a declared length, the checkpoint tensors.
std::vector<Fact> attention_facts(const model::LayerGroup& group, std::int64_t length);
// How an image is split into tokens.
std::string image_text(const model::ImageTokens& image);

}  // namespace gnomon::cli
