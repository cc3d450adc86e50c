// Writer of the part of a `.gguf` file before its tensors: the metadata and the descriptions of
// the tensors. For the format see gguf.h.
//
//   GgufHeader header;
//   header.metadata.emplace_back("general.architecture", std::string("llama"));
//   header.tensors.push_back({.name = "output_norm.weight", .extents = {4096}});
//   out.write(header_bytes(header));    // then each tensor, padded to `gguf_alignment`
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gnomon::model {

// A value of metadata: u32, i32, f32, boolean, text, or an array of one of them.
using GgufValue = std::variant<std::uint32_t, std::int32_t, float, bool, std::string,
                               std::vector<std::int32_t>, std::vector<float>, std::vector<bool>,
                               std::vector<std::string>>;

// Types of tensors that are written, by ggml's numbers.
enum class GgufElement : std::uint32_t { f32 = 0, f16 = 1, bf16 = 30, mxfp4 = 39 };

struct GgufTensorShape {
  std::string name;
  GgufElement element = GgufElement::f32;
  std::vector<std::int64_t> extents;  // innermost first, 1 to 4; at least 1 each

  std::uint64_t bytes() const noexcept;
};

struct GgufHeader {
  std::vector<std::pair<std::string, GgufValue>> metadata;  // by key, in file order
  std::vector<GgufTensorShape> tensors;                     // in file order
};

// Multiple of bytes at which the data of each tensor begins (general.alignment is not written).
inline constexpr std::uint64_t gguf_alignment = 32;
// Returns the number of zeros that follow `bytes` bytes.
constexpr std::uint64_t gguf_padding(std::uint64_t bytes) noexcept {
  return (gguf_alignment - bytes % gguf_alignment) % gguf_alignment;
}

// Returns the bytes of a file of version 3 before the data of the first tensor, padded. The
// data of the tensors follow, in order, each padded.
//
// Throws std::invalid_argument if a key or a name is empty, not UTF-8, longer than llama.cpp
// reads (keys: 65535 bytes, names: 63) or not unique, if a text is not UTF-8, if a tensor does
// not have 1 to 4 extents of at least 1, if its rows are not whole blocks (MXFP4: of 32), or if
// the sizes exceed 64 bits.
std::string header_bytes(const GgufHeader& header);

}  // namespace gnomon::model
