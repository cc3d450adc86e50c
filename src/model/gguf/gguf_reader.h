// Reader of the fields of a GGUF file, in order, with validation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "gnomon/error.h"
#include "gnomon/model/gguf.h"

namespace gnomon::model::internal {

// Loads an unaligned field.
template <typename T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Bytes of a value; 0 for texts and arrays.
std::size_t size_of(GgufType type) noexcept;

// Elements and bytes of a block of a tensor type. `elements` is 0 for unknown types.
struct Block {
  std::string_view name;
  std::uint32_t elements = 0, bytes = 0;
};
Block block_of(std::uint32_t type) noexcept;

class GgufReader {
 public:
  GgufReader(std::span<const std::byte> bytes, const std::string& file) noexcept
      : bytes_(bytes), file_(file) {}

  std::uint64_t at() const noexcept { return at_; }
  void seek(std::uint64_t at) noexcept { at_ = at; }
  [[noreturn]] void fail(std::uint64_t at, const std::string& reason) const {
    throw FormatError(file_, at, reason);
  }

  // Each function reads the value at at() and advances. `what`: name of the value in messages.
  std::uint32_t magic_and_version();
  template <typename T>
  T field(const char* what) {
    if (left() < sizeof(T)) fail(bytes_.size(), std::string("the file ends inside ") + what);
    const T value = load<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }
  std::string_view text(const char* what);  // not validated
  std::string_view utf8(const char* what);
  bool boolean();
  GgufType type();
  GgufEntry entry();
  // The offset is relative to the end of all descriptions, and a multiple of `alignment`.
  GgufTensor tensor(std::uint32_t alignment);
  // Throws FormatError unless `count` pieces of at least `least` bytes fit into the rest of the
  // file. `at`: offset of the count.
  void check_count(std::uint64_t count, std::size_t least, const char* what,
                   std::uint64_t at) const;

 private:
  std::uint64_t left() const noexcept { return bytes_.size() - at_; }
  void skip_array(int depth);

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::uint64_t at_ = 0;
};

}  // namespace gnomon::model::internal
