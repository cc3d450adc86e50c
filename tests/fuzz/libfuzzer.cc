// The entry point of libFuzzer: calls the one reader that this program is linked with.
#include <cstdint>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gnomon::fuzz::targets().front().reader(std::as_bytes(std::span(data, size)));
  return 0;
}
