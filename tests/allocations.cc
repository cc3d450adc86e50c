#include "allocations.h"

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> allocated = 0;
std::atomic<std::int64_t> left = -1;  // allocations before the failing one; below 0: none fails
std::atomic<bool> later = false, failed = false;

bool fails() {
  if (left.load(std::memory_order_relaxed) < 0) return false;
  const std::int64_t before = left.fetch_sub(1);
  if (before > 0) return false;
  if (later) left = 0;  // the next one fails, too
  if (before < 0 && !later) return false;
  failed = true;
  return true;
}

void* aligned(std::size_t alignment, std::size_t bytes) noexcept {
  void* data = nullptr;
  return ::posix_memalign(&data, std::max(alignment, sizeof(void*)), bytes) ? nullptr : data;
}
void* counted(std::size_t bytes, std::size_t alignment) {
  if (fails()) throw std::bad_alloc();
  allocated += bytes;
  if (void* const data = aligned(alignment, bytes ? bytes : alignment)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void release(void* data) noexcept { std::free(data); }

}  // namespace

// Working memory is allocated by this function.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return fails() ? nullptr : aligned(alignment, bytes);
}

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
// std::stable_sort uses this one, which sanitizers define themselves.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* data) noexcept { release(data); }
void operator delete(void* data, std::size_t) noexcept { release(data); }
void operator delete(void* data, std::align_val_t) noexcept { release(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { release(data); }

namespace gnomon::testing {

std::size_t allocated_bytes() { return allocated; }

void fail_allocations(std::int64_t n, Failing failing) {
  failed = false;
  later = failing == Failing::all_later;
  left = n;
}
bool end_failures() {
  left = -1;
  later = false;
  return failed.exchange(false);
}

}  // namespace gnomon::testing
