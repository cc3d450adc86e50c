// Text from a file, which may contain any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gnomon::internal {

// Returns the offset of the first ill-formed sequence of UTF-8 (Unicode, table 3-7: no overlong
// forms, no surrogates, nothing above U+10FFFF); npos if there is none.
std::size_t ill_formed_utf8(std::string_view text) noexcept;

// Returns at most about `most` bytes of a text for a message. Bytes that are not printable
// UTF-8 are replaced by question marks, the rest of a longer text by three dots.
std::string printable(std::string_view text, std::size_t most);

// Returns a name from a file for a message: printable and in quotes.
std::string shown(std::string_view name);

}  // namespace gnomon::internal
