// `.gguf`: the metadata and weights of a released model in one file, as llama.cpp reads it.
//
//   https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
//   "GGUF" | version u32 | tensors u64 | entries u64
//   entries: key | type u32 | value             a text is its length u64, then its bytes; an
//                                               array is type u32 | count u64 | elements
//   tensors: name | rank u32 | extents u64 ... | type u32 | offset u64
//   padding to a multiple of general.alignment (32 where there is none) | the tensors' bytes
//
// Little-endian and without padding before the tensors' bytes. Versions 2 and 3 are the same
// here; 3 only added big-endian files, which are refused like version 1 (32-bit lengths).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gnomon::model {

// The types of metadata, in the order of the file, where u8 is 0.
enum class GgufType : std::uint32_t {
  u8 = 1,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  array,
  u64,
  i64,
  f64,
};
std::string_view name(GgufType type) noexcept;  // "u8", ..., "boolean", "text", "array"

struct GgufEntry {
  std::string_view key;
  std::uint64_t offset = 0;  // where its value begins in the file
  GgufType type = {};
  GgufType element = {};  // of an array: the type of its elements; else as `type`
};

struct GgufTensor {
  std::string_view name;
  std::array<std::int64_t, 4> extents{};  // innermost first, as the file has them; then ones
  std::uint32_t rank = 0;                 // at most 4
  std::uint32_t type = 0;                 // ggml's number: 0 is F32
  std::uint64_t offset = 0;               // where its bytes begin in the file
  std::uint64_t bytes = 0;                // 0 also where Gnomon does not know the type

  std::int64_t size() const noexcept;  // elements
};

// ggml's name of a type of tensor: "F32", "Q4_K"; empty where Gnomon does not know it.
std::string_view gguf_tensor_type(std::uint32_t type) noexcept;

// Reads metadata and what the file says of its tensors; neither text nor numbers are copied
// until asked for. A tensor's bytes may be missing: the beginning of a large file is enough for
// all but data() and values().
//
// Throws FormatError (file, byte, reason), on opening, when
//   - the file ends before its last tensor's description does, or a count or length says so;
//   - the version is not 2 or 3; a type of metadata is none of those above;
//   - a key is empty, longer than 65535 bytes or occurs twice, so does a tensor's name;
//   - a key, a tensor's name or a text is not UTF-8, a boolean is neither 0 nor 1 (texts and
//     booleans in arrays are looked at when they are asked for);
//   - arrays lie more than 8 deep in arrays;
//   - general.alignment is not a u32 and a power of two, or a tensor's offset not a multiple;
//   - a tensor has more than 4 axes, a size or an end beyond 64 bits, or rows that are no whole
//     number of its type's blocks. A type that is not known is kept, its size unchecked.
//
// Cost: two passes over the metadata. Memory: 40 bytes an entry and 80 a tensor, at most 3.5
// times the bytes that describe them, however small these are.
class Gguf {
 public:
  // Borrows `bytes`, a whole file or its beginning, which must outlive this and all views it
  // gives. `name`: what messages call the file.
  Gguf(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const noexcept { return name_; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  std::uint32_t version() const noexcept { return version_; }      // 2 or 3
  std::uint32_t alignment() const noexcept { return alignment_; }  // of tensors, bytes

  // Metadata, in the order of the file.
  std::span<const GgufEntry> metadata() const noexcept { return entries_; }
  // Null when there is none of that key. O(log entries).
  const GgufEntry* find(std::string_view key) const noexcept;

  // The value of a key; nothing when the key is absent. Throw FormatError at the value when it
  // has another type.
  std::optional<std::int64_t> integer(std::string_view key) const;  // u64 beyond int64: refused
  std::optional<double> number(std::string_view key) const;  // also integers; rounded from 2^53
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;  // UTF-8

  // The same for arrays; a single value is taken for an array of one. An array of arrays is
  // refused.
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<bool>> booleans(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;

  // Tensors, in the order of the file.
  std::span<const GgufTensor> tensors() const noexcept { return tensors_; }
  // Null when there is none of that name. O(log tensors).
  const GgufTensor* find_tensor(std::string_view name) const noexcept;

  // The bytes of a tensor of this file, not aligned to anything if `bytes` was not. Throws
  // FormatError when the file ends before them, or when their number is not known.
  std::span<const std::byte> data(const GgufTensor& tensor) const;
  // The elements of an F32, F16, BF16 or F64 tensor, innermost axis fastest. Throws FormatError
  // for other types, and as data() does.
  std::vector<double> values(const GgufTensor& tensor) const;

 private:
  struct Elements;
  Elements elements(const GgufEntry& entry) const;
  [[noreturn]] void refuse_type(const GgufEntry& entry, const char* wanted) const;

  std::span<const std::byte> bytes_;
  std::string name_;
  std::uint32_t version_ = 0, alignment_ = 32;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::size_t> by_key_, by_name_;  // sorted by key and by name
};

}  // namespace gnomon::model
