// A model's position encoding as a page: what `gnomon inspect -o F.html` writes.
#pragma once

#include <cstdint>
#include <string>

#include "gnomon/model/description.h"

namespace gnomon::cli {

// HTML, at a declared length.
std::string inspect_page(const model::ModelDescription& model, std::int64_t length);

// "0-4, 6-10": layers as people list them.
std::string layers_text(const std::vector<std::int64_t>& layers);
// "halves, 128 of 128 elements from 0, base 500000": a group in a line, without its layers.
std::string group_text(const model::LayerGroup& group);
// "llama3: factor 8, original length 8192, ..."; lists of factors as their range.
std::string scaling_text(const RopeScaling& scaling);

}  // namespace gnomon::cli
