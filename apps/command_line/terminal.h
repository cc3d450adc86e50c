// The terminal that standard output is, if it is one: its width, and whether text has colour.
#pragma once

#include <string>
#include <string_view>

namespace gnomon {

// Columns of the terminal, at least 40; 80 if standard output is not a terminal.
int terminal_width();

enum class Style { bold = 1, good, bad };
// Returns the text with the codes of the style if standard output is a terminal and the
// variable NO_COLOR is not set (no-color.org), otherwise the text.
std::string styled(Style style, std::string_view text);

// Returns the lines of `text`, of at most `width` columns: the first begins with `first`, the
// later ones with `indent`. A word that is longer than a line has a line of its own.
std::string wrapped(std::string_view text, std::string_view first, std::string_view indent,
                    int width);
// Prints the lines for the width of the terminal, `first` in bold.
void print_wrapped(std::string_view text, std::string_view first, std::string_view indent);

}  // namespace gnomon
