#include "gnomon/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "gnomon/error.h"
#include "src/io/safetensors_header.h"
#include "src/io/shape.h"

namespace gnomon::io {
namespace {

// What the reference implementation reads, too.
constexpr std::uint64_t max_header = 100'000'000;

Element element_called(std::string_view dtype) {
  static constexpr std::pair<std::string_view, Element> known[] = {
      {"F64", Element::f64},      {"F32", Element::f32}, {"F16", Element::f16},
      {"BF16", Element::bf16},    {"I64", Element::i64}, {"I32", Element::i32},
      {"I16", Element::i16},      {"I8", Element::i8},   {"U64", Element::u64},
      {"U32", Element::u32},      {"U16", Element::u16}, {"U8", Element::u8},
      {"BOOL", Element::boolean},
  };
  for (const auto& [name, element] : known)
    if (name == dtype) return element;
  return Element::opaque;
}

}  // namespace

SafeTensors::SafeTensors(const std::filesystem::path& path)
    : file_(std::make_shared<const MappedFile>(path)) {
  const std::string& file = file_->name();
  const std::string_view text = file_->text();
  if (text.size() < 8)
    throw FormatError(file, text.size(), "the file ends before the length of its header");
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  if (length > text.size() - 8)
    throw FormatError(file, 0,
                      "a header of " + std::to_string(length) + " bytes in a file of " +
                          std::to_string(text.size()));
  if (length > max_header)
    throw FormatError(file, 0, "a header of " + std::to_string(length) + " bytes, over 100 MB");
  if (length == 0 || text[8] != '{') throw FormatError(file, 8, "the header must begin with {");

  auto header = internal::parse_header(file, text.substr(8, length), 8);
  data_ = 8 + length;
  metadata_ = std::move(header.metadata);

  std::vector<std::size_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const TensorEntry &left = header.tensors[a], &right = header.tensors[b];
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  tensors_.reserve(order.size());
  std::uint64_t reached = 0;
  for (const std::size_t index : order) {
    TensorEntry& entry = header.tensors[index];
    const auto fail = [&](const std::string& reason) {
      throw FormatError(file, header.entry_bytes[index],
                        "tensor " + internal::shown(entry.name) + " " + reason);
    };
    std::string range = "[";
    range.append(std::to_string(entry.begin)).append(", ");
    range.append(std::to_string(entry.end)).append("]");
    if (entry.begin > entry.end || entry.end > text.size() - data_)
      fail("has data_offsets " + range + " in " + std::to_string(text.size() - data_) +
           " bytes");
    const std::uint64_t bits = internal::bits_of(entry.dtype);
    const auto wanted = internal::byte_count(entry.shape, bits);
    if (!wanted)
      fail("has a shape that is no whole number of bytes within 64 bits: " +
           to_string(entry.shape));
    if (bits != 0 && *wanted != entry.end - entry.begin)
      fail("of " + entry.dtype + " " + to_string(entry.shape) + " takes " +
           std::to_string(*wanted) + " bytes, not data_offsets " + range);
    if (entry.begin != reached)
      fail("has data_offsets " + range +
           (entry.begin < reached ? ", which overlap" : ", after a hole from") + " byte " +
           std::to_string(reached));
    reached = entry.end;
    if (!by_name_.emplace(entry.name, tensors_.size()).second) fail("occurs twice");
    tensors_.push_back(std::move(entry));
  }
  if (reached != text.size() - data_)
    throw FormatError(
        file, data_ + reached,
        std::to_string(text.size() - data_ - reached) + " bytes that belong to no tensor");
}

const TensorEntry* SafeTensors::find(std::string_view name) const noexcept {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Array SafeTensors::tensor(std::string_view name) const {
  const TensorEntry* const entry = find(name);
  if (!entry)
    refuse(file_->name(), "must hold the tensor asked for",
           std::string_view(internal::shown(name)));
  return tensor(*entry);
}

Array SafeTensors::tensor(const TensorEntry& entry) const {
  const auto bytes = file_->bytes().subspan(data_ + entry.begin, entry.end - entry.begin);
  const std::string name = file_->name() + ": " + internal::shown(entry.name);
  const Element element = element_called(entry.dtype);
  if (element == Element::opaque)
    return Array::opaque(entry.dtype, entry.shape, bytes, file_, name);
  return Array(element, entry.shape, bytes, file_, name);
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> tensors,
                       const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names;
  std::uint64_t at = 0;
  for (const NamedArray& tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second)
      refuse(path.string(), "must have tensor names that differ and are not __metadata__",
             std::string_view(internal::shown(tensor.name)));
    const std::uint64_t end = at + tensor.array.bytes().size();
    // Not operator[]: it would search all names before.
    header.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(
        tensor.name, nlohmann::ordered_json{{"dtype", tensor.array.dtype()},
                                            {"shape", tensor.array.shape()},
                                            {"data_offsets", {at, end}}});
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error&) {
    refuse(path.string(), "must have names and metadata in UTF-8", "other bytes");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > max_header)
    refuse(path.string(), "must have a header of at most 100 MB",
           static_cast<std::int64_t>(text.size()));
  const std::uint64_t length = text.size();
  write_aside(path, [&](Output& output) {
    output.write(std::as_bytes(std::span(&length, 1)));
    output.write(text);
    for (const NamedArray& tensor : tensors) output.write(tensor.array.bytes());
  });
}

}  // namespace gnomon::io
