// Text on a terminal of 80 columns.
#pragma once

#include <string_view>

namespace gnomon::cli {

// Prints a text, wrapped at 78 columns, after `first`; later lines begin with `indent`.
void print_wrapped(std::string_view text, std::string_view first, std::string_view indent);

}  // namespace gnomon::cli
