// Sizes that come from a file, and so may be anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gnomon::io::internal {

// Axes beyond this are refused; NumPy allows 64.
inline constexpr std::size_t max_rank = 64;

// The product of the extents; nothing where one is negative or a product leaves int64.
std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape);

// The bytes that they take; nothing where they overflow or do not fill whole bytes.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape,
                                        std::uint64_t bits_per_element);

// Whether elements of `size` bytes (a power of two) may be read at `data`.
bool aligned(const std::byte* data, std::size_t size);

}  // namespace gnomon::io::internal
