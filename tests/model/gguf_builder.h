// Builder of GGUF files, byte by byte as in the definition of the format. It also writes
// invalid files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnomon::testing {

// Type numbers of metadata in the file.
enum GgufId : std::uint32_t {
  gguf_u8,
  gguf_i8,
  gguf_u16,
  gguf_i16,
  gguf_u32,
  gguf_i32,
  gguf_f32,
  gguf_bool,
  gguf_text,
  gguf_array,
  gguf_u64,
  gguf_i64,
  gguf_f64
};

// A number as `sizeof(T)` bytes, little-endian.
template <typename T>
std::string gguf_bytes(T value) {
  const char* const from = reinterpret_cast<const char*>(&value);
  return std::string(from, from + sizeof value);
}
inline std::string gguf_string(std::string_view text) {
  return gguf_bytes(std::uint64_t{text.size()}) + std::string(text);
}
inline std::string gguf_elements(GgufId type, std::uint64_t count, std::string_view elements) {
  return gguf_bytes(std::uint32_t{type}) + gguf_bytes(count) + std::string(elements);
}
template <typename T>
std::string gguf_elements(GgufId type, const std::vector<T>& values) {
  std::string elements;
  for (const T& value : values) {
    if constexpr (std::is_convertible_v<T, std::string_view>)
      elements += gguf_string(value);
    else
      elements += gguf_bytes(value);
  }
  return gguf_elements(type, values.size(), elements);
}

class GgufBuilder {
 public:
  explicit GgufBuilder(std::uint32_t version = 3) : version_(version) {}

  // `value`: its bytes, from the functions above.
  GgufBuilder& entry(std::string_view key, std::uint32_t type, std::string_view value) {
    entries_ += gguf_string(key) + gguf_bytes(type) + std::string(value);
    ++entry_count_;
    return *this;
  }
  GgufBuilder& text(std::string_view key, std::string_view value) {
    return entry(key, gguf_text, gguf_string(value));
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t value) {
    return entry(key, gguf_u32, gguf_bytes(value));
  }
  GgufBuilder& f32(std::string_view key, float value) {
    return entry(key, gguf_f32, gguf_bytes(value));
  }
  GgufBuilder& array(std::string_view key, std::string_view elements) {
    return entry(key, gguf_array, elements);
  }

  // Adds the description only.
  GgufBuilder& tensor_at(std::string_view name, const std::vector<std::uint64_t>& extents,
                         std::uint32_t type, std::uint64_t offset) {
    tensors_ += gguf_string(name);
    tensors_ += gguf_bytes(static_cast<std::uint32_t>(extents.size()));
    for (const std::uint64_t extent : extents) tensors_ += gguf_bytes(extent);
    tensors_ += gguf_bytes(type) + gguf_bytes(offset);
    ++tensor_count_;
    return *this;
  }
  // Adds the description, and the bytes after those of earlier tensors.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& extents,
                      std::uint32_t type, std::string_view data) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    tensor_at(name, extents, type, data_.size());
    data_ += data;
    return *this;
  }

  // Sets the padding of the file, without a metadata entry.
  GgufBuilder& pad_to(std::size_t alignment) {
    alignment_ = alignment;
    return *this;
  }
  // Sets false counts in the header.
  GgufBuilder& claim(std::uint64_t tensors, std::uint64_t entries) {
    tensor_count_ = tensors;
    entry_count_ = entries;
    return *this;
  }

  // The file up to the last tensor description.
  std::string description() const {
    return "GGUF" + gguf_bytes(version_) + gguf_bytes(tensor_count_) +
           gguf_bytes(entry_count_) + entries_ + tensors_;
  }
  std::string file() const {
    std::string file = description();
    if (tensor_count_ > 0) {
      file.resize((file.size() + alignment_ - 1) / alignment_ * alignment_);
      file += data_;
    }
    if (const char* const folder = std::getenv("GNOMON_KEEP_GGUF")) {  // for tools/fuzz.sh
      static int kept = 0;
      std::ofstream(folder + ("/built-" + std::to_string(kept++)), std::ios::binary) << file;
    }
    return file;
  }

 private:
  std::uint32_t version_;
  std::uint64_t entry_count_ = 0, tensor_count_ = 0;
  std::size_t alignment_ = 32;
  std::string entries_, tensors_, data_;
};

// A small file with a value of every type, similar to a released model.
inline std::string small_gguf(std::uint32_t version = 3) {
  return GgufBuilder(version)
      .text("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .f32("llama.rope.freq_base", 10000.0f)
      .entry("t.u8", gguf_u8, gguf_bytes(std::uint8_t{200}))
      .entry("t.i8", gguf_i8, gguf_bytes(std::int8_t{-100}))
      .entry("t.u16", gguf_u16, gguf_bytes(std::uint16_t{65535}))
      .entry("t.i16", gguf_i16, gguf_bytes(std::int16_t{-32768}))
      .entry("t.i32", gguf_i32, gguf_bytes(std::int32_t{-7}))
      .entry("t.bool", gguf_bool, "\x01")
      .entry("t.u64", gguf_u64, gguf_bytes(std::uint64_t{1} << 40))
      .entry("t.i64", gguf_i64, gguf_bytes(-(std::int64_t{1} << 40)))
      .entry("t.f64", gguf_f64, gguf_bytes(0.1))
      .array("rope.sections", gguf_elements<std::int32_t>(gguf_i32, {16, 24, 24, 0}))
      .array("tokens", gguf_elements<std::string>(gguf_text, {"<s>", "", "\u2581the"}))
      .array("pattern", gguf_elements<std::uint8_t>(gguf_bool, {1, 1, 0}))
      .array("nested", gguf_elements(gguf_array, 2,
                                     gguf_elements<float>(gguf_f32, {1.5f}) +
                                         gguf_elements<std::string>(gguf_text, {"a", "b"})))
      .tensor("rope_freqs.weight", {2}, 0, gguf_bytes(1.0f) + gguf_bytes(8.0f))
      .tensor("blk.0.q", {32, 2}, 2, std::string(36, 'q'))
      .file();
}

}  // namespace gnomon::testing
