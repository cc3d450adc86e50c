// Readers of untrusted bytes, one in each tests/fuzz/NAME_fuzz.cc. libFuzzer runs each on
// random input (`make test-long`); the ordinary tests run all of them on the seeds in
// corpus/NAME/.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::fuzz {

// Reads the whole input. Returns true if the bytes have the format. An exception is a finding,
// and so is any report of a sanitizer.
using Reader = bool (*)(std::span<const std::byte> bytes);

struct Target {
  std::string_view name;
  Reader reader;
};
inline std::vector<Target>& targets() {
  static std::vector<Target> list;
  return list;
}
// Registers a reader, if defined at namespace scope.
struct Register {
  Register(std::string_view name, Reader reader) { targets().push_back({name, reader}); }
};

// Returns true if `read` accepts its input of `size` bytes. A FormatError is a valid result if
// its offset is at most the file size and its message is printable.
template <typename Read>
bool taken(std::size_t size, Read read) {
  try {
    read();
    return true;
  } catch (const FormatError& error) {
    const std::string_view message = error.what();
    bool good = error.offset() <= size && internal::ill_formed_utf8(message) == message.npos;
    for (const char c : message) good &= static_cast<unsigned char>(c) >= 32 && c != 127;
    if (good) return false;
    std::fprintf(stderr, "a message that is not fit to be shown: %s\n", error.what());
    std::abort();
  }
}

inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace gnomon::fuzz
