// SHA-256 (FIPS 180-4), with which a Content-Security-Policy names the scripts of a page.
#pragma once

#include <string>
#include <string_view>

namespace gnomon::plot::internal {

// The hash of the bytes in base64.
std::string sha256_base64(std::string_view bytes);

}  // namespace gnomon::plot::internal
