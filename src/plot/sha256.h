// SHA-256 (FIPS 180-4), with which a Content-Security-Policy names the scripts of a page, and
// base64 (RFC 4648).
#pragma once

#include <string>
#include <string_view>

namespace gnomon::plot::internal {

std::string base64(std::string_view bytes);
// The hash of the bytes in base64, or as 64 hexadecimal digits.
std::string sha256_base64(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);

}  // namespace gnomon::plot::internal
