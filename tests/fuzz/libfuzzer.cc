// The entry points of libFuzzer: calls the one reader that this program is linked with.
#include <gtest/gtest.h>

#include <cstdint>

#include "fuzz/target.h"

// An expectation of a reader that fails ends the process, which libFuzzer reports.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  GTEST_FLAG_SET(break_on_failure, true);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gnomon::fuzz::targets().front().reader(std::as_bytes(std::span(data, size)));
  return 0;
}
