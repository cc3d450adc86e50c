// A model's layers in words: what `gnomon inspect` prints and writes into its page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gnomon/model/description.h"

namespace gnomon::cli {

// A line of a list: "softmax", "x 0.25".
struct Fact {
  std::string name, text;
};

// "0-4, 6-10".
std::string layers_text(const std::vector<std::int64_t>& layers);
// "rotary, halves, 128 of 128 elements, base 500000": an encoding of heads of `head_dim`.
std::string encoding_text(const model::Encoding& encoding, std::int64_t head_dim);
// The same of a group without encodings: "none (NoPE)", "none: no attention".
std::string none_text(const model::LayerGroup& group);
// "llama3: factor 8, original length 8192, ..."; lists of factors as their range.
std::string scaling_text(const RopeScaling& scaling);
// The scaling of a rotary encoding; none where the spec has none.
RopeScaling scaling_of(const model::Encoding& encoding);

// What the layers of a group do besides position: heads, mask, scores, norms, the final scale
// of the softmax at a declared length, the tensors of a checkpoint.
std::vector<Fact> attention_facts(const model::LayerGroup& group, std::int64_t length);
// How an image becomes tokens.
std::string image_text(const model::ImageTokens& image);

}  // namespace gnomon::cli
