// Writer of protocol buffer messages: varints, and fields with a length. Encoding:
// https://protobuf.dev/programming-guides/encoding. A message is its fields, one after another;
// a field begins with (number << 3 | wire type).
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gnomon::model::internal {

class Protobuf {
 public:
  void integer(int field, std::int64_t value) {  // wire type 0
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(static_cast<std::uint64_t>(value));
  }
  void number(int field, float value) {  // wire type 5: 4 bytes
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    fixed(std::bit_cast<std::uint32_t>(value));
  }
  void text(int field, std::string_view value) {  // wire type 2
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(int field, const Protobuf& value) { text(field, value.bytes_); }
  // The elements in little-endian order, as TensorProto::raw_data requires.
  template <typename T>
  void raw(int field, const std::vector<T>& values) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(values.size() * sizeof(T));
    bytes_.reserve(bytes_.size() + values.size() * sizeof(T));
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    for (const T one : values) fixed(std::bit_cast<Bits>(one));
  }

  const std::string& bytes() const noexcept { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  void varint(std::uint64_t value) {  // 7 bits a byte, the least significant first
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <typename Bits>
  void fixed(Bits value) {
    for (std::size_t i = 0; i < sizeof value; ++i)
      bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }

  std::string bytes_;
};

}  // namespace gnomon::model::internal
