// The header of a `.safetensors` file, from bytes that may be anything: memory below nine
// times the header's size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/io/safetensors.h"
#include "src/core/text.h"

namespace gnomon::io::internal {

using gnomon::internal::shown;

// What the reference implementation reads, too.
inline constexpr std::uint64_t max_header = 100'000'000;

struct SafeTensorsHeader {
  std::vector<TensorEntry> tensors;
  std::vector<std::uint64_t> entry_bytes;  // where the entry of each begins in the file
  std::vector<std::size_t> by_name;        // indices of tensors, sorted by their names
  Metadata metadata;
  std::uint64_t data = 0;  // where the header ends
};

// The JSON alone: `text` begins at byte `begin` of `file`; tensors as they are written. Leaves
// by_name and data empty. Throws FormatError.
SafeTensorsHeader parse_header(const std::string& file, std::string_view text,
                               std::uint64_t begin);

// `text`: the whole file, of which only the header is read. Tensors in the order of their
// bytes, which are found to fill the rest of the file. Throws FormatError.
SafeTensorsHeader read_header(const std::string& file, std::string_view text);

// Bits of one element of a safetensors dtype; 0 for one that is not known.
std::uint64_t bits_of(std::string_view dtype) noexcept;

}  // namespace gnomon::io::internal
