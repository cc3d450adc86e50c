// Text from a file, which may contain any bytes, and numbers as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gnomon::internal {

// Returns the offset of the first ill-formed sequence of UTF-8 (Unicode, table 3-7: no overlong
// forms, no surrogates, nothing above U+10FFFF); npos if there is none.
std::size_t ill_formed_utf8(std::string_view text) noexcept;

// Returns a text from outside for a message or a terminal, with visible escapes: \x1b for bytes
// that are control characters or ill-formed UTF-8, \u202e for control characters of two bytes,
// line separators and the controls of bidirectional text. After about `most` bytes of the
// result, the rest of the text is replaced by three dots. A text without such characters is
// returned unchanged.
std::string printable(std::string_view text, std::size_t most = std::string_view::npos);
// The same, but line feeds are kept.
std::string printable_lines(std::string_view text);

// Returns a name from a file for a message: printable and in quotes.
std::string shown(std::string_view name);

// Returns a number in a format of printf without other text, such as "%.3g". The locale and the
// rounding mode of the caller have no effect.
std::string printed(const char* format, double value);

}  // namespace gnomon::internal
