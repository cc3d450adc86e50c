// Parser of the header of a `.safetensors` file, for untrusted input. Memory: below nine times
// the size of the header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/io/safetensors.h"
#include "src/core/text.h"

namespace gnomon::io::internal {

using gnomon::internal::shown;

// The limit of the reference implementation.
inline constexpr std::uint64_t max_header = 100'000'000;

struct SafeTensorsHeader {
  std::vector<TensorEntry> tensors;
  std::vector<std::uint64_t> entry_bytes;  // offset of the header entry of each tensor in the
                                           // file
  std::vector<std::size_t> by_name;        // indices of tensors, sorted by their names
  Metadata metadata;
  std::uint64_t data = 0;  // end of the header, in bytes
};

// Parses the JSON only: `text` begins at byte `begin` of `file`. Tensors are in the order of
// the JSON. by_name and data stay empty. Throws FormatError.
SafeTensorsHeader parse_header(const std::string& file, std::string_view text,
                               std::uint64_t begin);

// `text`: the whole file, of which only the header is read. Sorts the tensors by offset and
// checks that they fill the rest of the file. Throws FormatError.
SafeTensorsHeader read_header(const std::string& file, std::string_view text);

// Returns the bits per element of a safetensors dtype; 0 if it is unknown.
std::uint64_t bits_of(std::string_view dtype) noexcept;

}  // namespace gnomon::io::internal
