// The header of a `.safetensors` file, read event by event: memory and depth stay bounded
// whatever the file says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/io/safetensors.h"

namespace gnomon::io::internal {

struct SafeTensorsHeader {
  std::vector<TensorEntry> tensors;        // as they are written
  std::vector<std::uint64_t> entry_bytes;  // where each entry ends in the file
  Metadata metadata;
};

// `text`: the JSON, which begins at byte `begin` of `file`. Throws FormatError.
SafeTensorsHeader parse_header(const std::string& file, std::string_view text,
                               std::uint64_t begin);

// Bits of one element of a safetensors dtype; 0 for one that is not known.
std::uint64_t bits_of(std::string_view dtype) noexcept;

// A name from a file, fit for a message: quoted, clipped, control characters replaced.
std::string shown(std::string_view name);

}  // namespace gnomon::io::internal
