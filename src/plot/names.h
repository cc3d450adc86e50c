// The colours and symbols of names, shared by charts of lines and of bars.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/plot/spec.h"

namespace gnomon::plot::internal {

// The names of `names` that `wanted` contains, in the order of `names`.
Json chosen(const Json& names, std::span<const std::string> wanted);

// Colour channel of names. The order of `names` selects the colours; names of `used` that it
// does not contain follow. The legend shows the names of `used`.
Json name_channel(std::span<const std::string> used, std::vector<std::string> names);

// Shape channel with the names of a colour channel.
Json shapes(const Json& colour);

// Stores the length of the longest name. A page uses it for the number of names per line of the
// legend.
void note_names(Json& spec, std::span<const std::string> names);

}  // namespace gnomon::plot::internal
