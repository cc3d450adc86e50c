#include "src/core/memory.h"

#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#elif defined(_WIN32)
#include <malloc.h>
#endif

namespace gnomon::internal {

namespace {
constexpr std::size_t line = 64, page = 4096, huge = std::size_t{1} << 21;
}  // namespace

void advise_huge_pages(void* begin, std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  if (bytes < 2 * huge) return;
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t from = (first + page - 1) / page * page;
  const std::uintptr_t to = (first + bytes) / page * page;
  // This is a hint: a failure is ignored.
  (void)madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#else
  (void)begin, (void)bytes;
#endif
}

void* allocate_long(std::size_t bytes) {
  const std::size_t unit = bytes < 2 * huge ? line : huge;
  const std::size_t whole = (bytes + unit - 1) / unit * unit;
  if (whole < bytes) throw std::bad_alloc();
#ifdef _WIN32  // has no std::aligned_alloc, because std::free frees no aligned memory
  void* const begin = _aligned_malloc(whole ? whole : unit, unit);
#else
  void* const begin = std::aligned_alloc(unit, whole ? whole : unit);
#endif
  if (!begin) throw std::bad_alloc();
  advise_huge_pages(begin, whole);
  return begin;
}

void free_long(void* memory) noexcept {
#ifdef _WIN32
  _aligned_free(memory);
#else
  std::free(memory);
#endif
}

}  // namespace gnomon::internal
