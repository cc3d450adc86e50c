// Reader of `.gguf` files: the metadata and weights of a model in one file, the format of
// llama.cpp.
//
//   https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
//   "GGUF" | version u32 | tensors u64 | entries u64
//   entries: key | type u32 | value             a text is its length u64, then its bytes; an
//                                               array is type u32 | count u64 | elements
//   tensors: name | rank u32 | extents u64 ... | type u32 | offset u64
//   padding to a multiple of general.alignment (default 32) | the tensors' bytes
//
// Values are little-endian. Entries and tensor descriptions have no padding. Little-endian
// files of versions 2 and 3 are equal. Refused: big-endian files (added in version 3) and
// version 1 (32-bit lengths).
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

// Types of metadata, in the order of the file format, in which u8 is 0.
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
  std::uint64_t offset = 0;  // byte offset of the value in the file
  GgufType type = {};
  GgufType element = {};  // array: type of its elements; otherwise equal to `type`
};

struct GgufTensor {
  std::string_view name;
  std::array<std::int64_t, 4> extents{};  // innermost first, as in the file; unused: 1
  std::uint16_t rank = 0;                 // at most 4
  std::uint16_t shard = 0;                // of a split file, counted from 0
  std::uint32_t type = 0;                 // ggml's type number: 0 is F32
  std::uint64_t offset = 0;               // byte offset of its data in the file or shard
  std::uint64_t bytes = 0;                // size of its data; 0 if the type is unknown

  std::int64_t size() const noexcept;  // elements
};

// Returns ggml's name of a tensor type ("F32", "Q4_K"), or empty text if the type is unknown.
std::string_view gguf_tensor_type(std::uint32_t type) noexcept;

// A file of a model: its bytes, whole or up to the last tensor description, and its name in
// error messages.
struct GgufShard {
  std::span<const std::byte> bytes;
  std::string name;
};

// Parsed GGUF file: metadata and tensor descriptions. Texts and arrays are not copied until a
// getter is called. The file may be truncated after the tensor descriptions: the beginning of a
// large file is enough for everything except data() and values().
//
// The constructor throws FormatError (file, byte, reason) if
//   - the file ends before the last tensor description, or a count or length exceeds the file;
//   - the version is not 2 or 3, or a metadata type is not one of the types above;
//   - a key is empty, longer than 65535 bytes, or not unique, or a tensor name is not unique;
//   - a key, a tensor name or a text is not UTF-8, or a boolean is neither 0 nor 1 (texts and
//     booleans in arrays are checked by the getters);
//   - arrays are nested more than 8 deep;
//   - general.alignment is not a u32 and a power of two, or a tensor offset is not a multiple;
//   - a tensor has more than 4 axes, its size or end exceeds 64 bits, or a row is not a whole
//     number of blocks of its type.
//
// A tensor of unknown type is kept, and its size is not checked.
//
// Cost: two passes over the metadata. Memory: 40 bytes for each entry and 80 for each tensor,
// at most 3.5 times the bytes of metadata and tensor descriptions.
class Gguf {
 public:
  // Borrows `bytes`, a whole file or its beginning. They must outlive this object and all views
  // that it returns. `name`: file name in error messages.
  Gguf(std::span<const std::byte> bytes, std::string name);
  // All shards of a split file, in order. They have one list of tensors, and the metadata is
  // that of the first shard. Throws FormatError also if split.count, split.no or
  // split.tensors.count of a shard do not match the shards, if the architectures differ, or if
  // a tensor is in two shards; std::invalid_argument if there is no shard.
  explicit Gguf(std::vector<GgufShard> shards);

  // Name and bytes of the first shard.
  const std::string& name() const noexcept { return shards_[0].name; }
  std::span<const std::byte> bytes() const noexcept { return shards_[0].bytes; }
  std::span<const GgufShard> shards() const noexcept { return shards_; }
  std::uint32_t version() const noexcept { return version_; }  // 2 or 3
  std::uint32_t alignment() const noexcept {
    return alignment_;
  }  // alignment of tensor data, in bytes

  // Metadata, in file order.
  std::span<const GgufEntry> metadata() const noexcept { return entries_; }
  // Returns the entry of a key, or null. Cost: O(log entries).
  const GgufEntry* find(std::string_view key) const noexcept;

  // Return the value of a key, or nothing if the key is absent. Throw FormatError at the value
  // if it has another type.
  std::optional<std::int64_t> integer(std::string_view key) const;  // throws if beyond int64
  std::optional<double> number(std::string_view key) const;  // or integer; rounded from 2^53
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;  // UTF-8

  // Return the elements of an array. A single value is returned as an array of one element.
  // Throw FormatError at the value if it has another type or is an array of arrays.
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<bool>> booleans(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;

  // Tensors, in file order.
  std::span<const GgufTensor> tensors() const noexcept { return tensors_; }
  // Returns the tensor with that name, or null. Cost: O(log tensors).
  const GgufTensor* find_tensor(std::string_view name) const noexcept;

  // Returns the bytes of a tensor, in its shard. Unaligned if the bytes of the shard are
  // unaligned. Throws FormatError if the file ends before them, or if the tensor's size is
  // unknown.
  std::span<const std::byte> data(const GgufTensor& tensor) const;
  // Returns the elements of an F32, F16, BF16 or F64 tensor, innermost axis contiguous. Throws
  // FormatError for other types, and as data() does.
  std::vector<double> values(const GgufTensor& tensor) const;

 private:
  struct Elements;
  Elements elements(const GgufEntry& entry) const;
  [[noreturn]] void refuse_type(const GgufEntry& entry, const char* wanted) const;

  void sort_tensors();  // throws FormatError if two have one name

  std::vector<GgufShard> shards_;
  std::uint32_t version_ = 0, alignment_ = 32;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::size_t> by_key_, by_name_;  // sorted by key and by name
};

}  // namespace gnomon::model
