#include "gnomon/model/gguf_writer.h"

#include <bit>
#include <cstring>
#include <set>
#include <string_view>

#include "gnomon/error.h"
#include "gnomon/model/gguf.h"
#include "src/core/overflow.h"
#include "src/core/overloaded.h"
#include "src/core/text.h"
#include "src/model/gguf/gguf_reader.h"

namespace gnomon::model {

static_assert(std::endian::native == std::endian::little, "fields are written as they are");

namespace {

using gnomon::internal::shown;

// GGML_MAX_NAME of ggml.h, with the terminating zero.
constexpr std::size_t max_key = 65535, max_name = 63, max_rank = 4;

class Bytes {
 public:
  template <typename T>
  void field(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof bytes);
  }
  void text(std::string_view text) {
    if (gnomon::internal::ill_formed_utf8(text) != std::string_view::npos)
      refuse("gguf", "texts must be UTF-8", shown(text.substr(0, 40)));
    field<std::uint64_t>(text.size());
    out_.append(text);
  }
  // Types count from 1 in GgufType, from 0 in the file.
  void type(GgufType type) { field(static_cast<std::uint32_t>(type) - 1); }

  void put(std::uint32_t value) { field(value); }
  void put(std::int32_t value) { field(value); }
  void put(float value) { field(value); }
  void put(bool value) { field<std::uint8_t>(value); }
  void put(const std::string& value) { text(value); }

  std::string& out() { return out_; }

 private:
  std::string out_;
};

constexpr GgufType type_of(std::uint32_t) { return GgufType::u32; }
constexpr GgufType type_of(std::int32_t) { return GgufType::i32; }
constexpr GgufType type_of(float) { return GgufType::f32; }
constexpr GgufType type_of(bool) { return GgufType::boolean; }
GgufType type_of(const std::string&) { return GgufType::text; }

void put_value(Bytes& bytes, const GgufValue& value) {
  std::visit(gnomon::internal::Overloaded{
                 [&]<typename T>(const std::vector<T>& list) {
                   bytes.type(GgufType::array);
                   bytes.type(type_of(T{}));
                   bytes.field<std::uint64_t>(list.size());
                   for (const T& one : list) bytes.put(one);
                 },
                 [&](const auto& one) {
                   bytes.type(type_of(one));
                   bytes.put(one);
                 },
             },
             value);
}

void check_name(std::set<std::string_view>& seen, std::string_view name, std::size_t most,
                std::string_view what) {
  if (name.empty() || name.size() > most)
    refuse("gguf", std::string(what) + " must have 1 to " + std::to_string(most) + " bytes",
           shown(name.substr(0, 80)));
  if (!seen.insert(name).second)
    refuse("gguf", std::string(what) + " must be unique", shown(name));
}

}  // namespace

std::uint64_t GgufTensorShape::bytes() const noexcept {
  const internal::Block block = internal::block_of(static_cast<std::uint32_t>(element));
  std::uint64_t size = 1;
  for (const std::int64_t extent : extents) size *= static_cast<std::uint64_t>(extent);
  return size / block.elements * block.bytes;
}

std::string header_bytes(const GgufHeader& header) {
  Bytes bytes;
  bytes.out() = "GGUF";
  bytes.field<std::uint32_t>(3);
  bytes.field<std::uint64_t>(header.tensors.size());
  bytes.field<std::uint64_t>(header.metadata.size());
  std::set<std::string_view> keys, names;
  for (const auto& [key, value] : header.metadata) {
    check_name(keys, key, max_key, "keys");
    bytes.text(key);
    put_value(bytes, value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensorShape& tensor : header.tensors) {
    check_name(names, tensor.name, max_name, "names of tensors");
    if (tensor.extents.empty() || tensor.extents.size() > max_rank)
      refuse("gguf", "tensors must have 1 to 4 axes", shown(tensor.name));
    bytes.text(tensor.name);
    bytes.field(static_cast<std::uint32_t>(tensor.extents.size()));
    const internal::Block block =
        internal::block_of(static_cast<std::uint32_t>(tensor.element));
    if (tensor.extents[0] % block.elements != 0)
      refuse("gguf", "rows of " + shown(tensor.name) + " must be whole blocks",
             tensor.extents[0]);
    std::uint64_t size = block.bytes;
    for (const std::int64_t extent : tensor.extents) {
      if (extent < 1)
        refuse("gguf", "extents of " + shown(tensor.name) + " must be at least 1", extent);
      if (gnomon::internal::multiply_overflow(size, static_cast<std::uint64_t>(extent), &size))
        refuse("gguf", "tensors must be smaller than 2^63 bytes", shown(tensor.name));
      bytes.field<std::uint64_t>(static_cast<std::uint64_t>(extent));
    }
    bytes.field(static_cast<std::uint32_t>(tensor.element));
    bytes.field<std::uint64_t>(offset);
    size = tensor.bytes();
    if (gnomon::internal::add_overflow(offset, size, &offset) ||
        offset > (std::uint64_t{1} << 63))
      refuse("gguf", "tensors must be smaller than 2^63 bytes", shown(tensor.name));
    offset += gguf_padding(offset);
  }
  bytes.out().append(gguf_padding(bytes.out().size()), '\0');
  return std::move(bytes.out());
}

}  // namespace gnomon::model
