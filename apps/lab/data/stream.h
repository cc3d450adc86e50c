// Reads whole streams.
#pragma once

#include <istream>
#include <string>

namespace gnomon::lab {

// Returns the rest of the stream. After an error of the file system, stream.bad() is true and
// errno has the reason. (std::istreambuf_iterator throws std::ios_base::failure without the
// name of the file.)
inline std::string rest_of(std::istream& stream) {
  std::string text;
  constexpr std::size_t block = 1 << 16;
  for (std::size_t size = 0;; text.resize(size)) {
    text.resize(size + block);
    stream.read(text.data() + size, block);
    size += static_cast<std::size_t>(stream.gcount());
    if (stream) continue;
    text.resize(size);
    return text;
  }
}

}  // namespace gnomon::lab
