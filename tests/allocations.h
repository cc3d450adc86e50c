// The operator new of the test program: it counts bytes, and fails on request.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>

namespace gnomon::testing {

// Bytes that all threads have allocated.
std::size_t allocated_bytes();

enum class Failing { one = 1, all_later };
// Makes allocation `n`, from 0, of all threads together throw std::bad_alloc, or all from it
// on.
void fail_allocations(std::int64_t n, Failing failing);
// Ends that, and returns whether an allocation has failed.
bool end_failures();

// Calls an operation while its first allocation fails, its second, and so on, until it meets no
// failure. After the first 40 only some, unless GNOMON_LONG_TESTS is set. It may throw
// std::bad_alloc, or do without the memory. Returns the number of failures.
inline std::int64_t exhaust(const char* name, const std::function<void()>& operation) {
  std::int64_t failures = 0;
  const bool all = std::getenv("GNOMON_LONG_TESTS") != nullptr;
  for (const Failing failing : {Failing::one, Failing::all_later})
    for (std::int64_t n = 0;; n += all ? 1 : 1 + n / 40, ++failures) {
      fail_allocations(n, failing);
      try {
        operation();
      } catch (const std::bad_alloc&) {
      } catch (const std::exception& error) {
        end_failures();
        ADD_FAILURE() << name << ", allocation " << n << ": " << error.what();
        return failures;
      }
      if (!end_failures()) break;
    }
  return failures;
}

}  // namespace gnomon::testing
