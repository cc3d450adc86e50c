// Allocation of long tables.
#pragma once

#include <cstddef>

namespace gnomon::internal {

// Requests huge pages for [begin, begin + bytes), if the system supports them and the range is
// long. Call it before the first write: page faults take nine tenths of the time of writing the
// range once.
void advise_huge_pages(void* begin, std::size_t bytes) noexcept;

// Allocates uninitialised memory in whole cache lines, in huge pages if long. Free it with
// free_long. Throws std::bad_alloc.
void* allocate_long(std::size_t bytes);
void free_long(void* memory) noexcept;

}  // namespace gnomon::internal
