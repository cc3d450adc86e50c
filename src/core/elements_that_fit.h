// The size of an array, refused if it exceeds the memory of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gnomon::internal {

// Returns the product of the extents. Throws std::invalid_argument if the bytes exceed the
// memory of the machine.
std::size_t elements_that_fit(const std::vector<std::int64_t>& shape, std::size_t bytes);

}  // namespace gnomon::internal
