// Readers of untrusted bytes, one in each tests/fuzz/NAME_fuzz.cc. libFuzzer runs each on
// random input (`make test-long`); the ordinary tests run all of them on the seeds in
// corpus/NAME/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <span>
#include <stdexcept>
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

// Ends the process unless the message is well-formed UTF-8 without control characters.
inline void require_printable(std::string_view message) {
  bool good = internal::ill_formed_utf8(message) == message.npos;
  for (const char c : message) good &= static_cast<unsigned char>(c) >= 32 && c != 127;
  if (good) return;
  std::fprintf(stderr, "a message that is not fit to be shown: %.*s\n",
               static_cast<int>(message.size()), message.data());
  std::abort();
}

// Returns true if `read` accepts its input of `size` bytes. A FormatError is a valid result if
// its offset is at most the file size and its message is printable.
template <typename Read>
bool taken(std::size_t size, Read read) {
  try {
    read();
    return true;
  } catch (const FormatError& error) {
    require_printable(error.what());
    if (error.offset() > size) std::abort();
    return false;
  }
}

// The same for readers that also refuse values, by std::invalid_argument.
template <typename Read>
bool answered(Read read, std::size_t size = ~std::size_t{0}) {
  try {
    return taken(size, read);
  } catch (const std::invalid_argument& error) {
    require_printable(error.what());
    return false;
  }
}

// The number of the drawn input that is read, or -1.
inline std::int64_t drawn_input = -1;

inline void require(bool holds) {
  if (holds) return;
  if (drawn_input >= 0)
    std::fprintf(stderr, "drawn input %lld\n", static_cast<long long>(drawn_input));
  std::abort();
}

inline std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The bytes of an input as choices, two for each. All choices after the last byte are 0.
class Choices {
 public:
  explicit Choices(std::span<const std::byte> bytes) : left_(bytes) {}
  bool more() const { return !left_.empty(); }
  std::int64_t below(std::int64_t count) {  // count: at most 65536
    std::int64_t value = 0;
    for (int i = 0; i < 2 && more(); ++i, left_ = left_.subspan(1))
      value = value << 8 | std::to_integer<std::int64_t>(left_.front());
    return value % count;
  }
  std::int64_t from(std::int64_t first, std::int64_t last) {
    return first + below(last - first + 1);
  }
  bool one_in(std::int64_t count) { return below(count) == count - 1; }
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(std::ssize(values))];
  }

 private:
  std::span<const std::byte> left_;
};

}  // namespace gnomon::fuzz
