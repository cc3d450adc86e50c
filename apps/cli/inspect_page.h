// The position encoding of a model as an HTML page, for `gnomon inspect -o F.html`.
#pragma once

#include <cstdint>
#include <string>

#include "gnomon/model/description.h"

namespace gnomon::cli {

// The page as HTML, at a declared length.
std::string inspect_page(const model::ModelDescription& model, std::int64_t length);

}  // namespace gnomon::cli
