// Memory for long tables.
#pragma once

#include <cstddef>

namespace gnomon::internal {

// Asks for huge pages for what lies in [begin, begin + bytes), where the system has them and it
// is long: before it is first touched, since page faults are nine tenths of writing it once.
void advise_huge_pages(void* begin, std::size_t bytes) noexcept;

// Uninitialised, whole cache lines, in huge pages where long; to be freed with std::free.
// Throws std::bad_alloc.
void* allocate_long(std::size_t bytes);

}  // namespace gnomon::internal
