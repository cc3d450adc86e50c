// Sizes of untrusted shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gnomon::io::internal {

// More axes are refused, as in NumPy.
inline constexpr std::size_t max_rank = 64;

// Returns the product of the extents, or nothing if one is negative or a product overflows
// int64.
std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape);

// Returns the number of bytes, or nothing if it overflows or is not a whole number.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape,
                                        std::uint64_t bits_per_element);

// Whether `data` is aligned for elements of `size` bytes (a power of two).
bool aligned(const std::byte* data, std::size_t size);

}  // namespace gnomon::io::internal
