// A hash of a text, for recordings (tests/model/recorded).
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace gnomon::testing {

// FNV-1a, in hexadecimal digits.
inline std::string hash(const std::string& text) {
  std::uint64_t value = 14695981039346656037u;
  for (const char one : text)
    value = (value ^ static_cast<unsigned char>(one)) * 1099511628211u;
  std::ostringstream out;
  out << std::hex << value;
  return out.str();
}

}  // namespace gnomon::testing
