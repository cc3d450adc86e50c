// Text that comes from a file, and so may be anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gnomon::internal {

// Where the first ill-formed sequence of UTF-8 begins (Unicode, table 3-7: no overlong forms,
// no surrogates, nothing beyond U+10FFFF); npos where there is none.
std::size_t ill_formed_utf8(std::string_view text) noexcept;

// At most about `most` bytes of a text, fit for a message: what is no printable UTF-8 replaced
// by question marks, the rest by three dots.
std::string printable(std::string_view text, std::size_t most);

// A name from a file, fit for a message: printable and in quotes.
std::string shown(std::string_view name);

}  // namespace gnomon::internal
