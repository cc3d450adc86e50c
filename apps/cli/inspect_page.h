// A model's position encoding as a page: what `gnomon inspect -o F.html` writes.
#pragma once

#include <cstdint>
#include <string>

#include "gnomon/model/description.h"

namespace gnomon::cli {

// HTML, at a declared length.
std::string inspect_page(const model::ModelDescription& model, std::int64_t length);

}  // namespace gnomon::cli
