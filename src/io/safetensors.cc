#include "gnomon/io/safetensors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "gnomon/error.h"
#include "src/core/json_value.h"
#include "src/io/safetensors_header.h"

namespace gnomon::io {
namespace {

using gnomon::internal::OrderedJson;

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
  auto header = internal::read_header(file_->name(), file_->text());
  data_ = header.data;
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  by_name_ = std::move(header.by_name);
}

const TensorEntry* SafeTensors::find(std::string_view name) const noexcept {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](std::size_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return found == by_name_.end() || tensors_[*found].name != name ? nullptr : &tensors_[*found];
}

Array SafeTensors::tensor(std::string_view name) const {
  const TensorEntry* const entry = find(name);
  if (!entry)
    refuse(file_->name(), "must contain the requested tensor",
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
  OrderedJson header = OrderedJson::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names;
  std::uint64_t at = 0;
  for (const NamedArray& tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second)
      refuse(path.string(), "tensor names must be unique and not __metadata__",
             std::string_view(internal::shown(tensor.name)));
    const std::uint64_t end = at + tensor.array.bytes().size();
    // emplace_back instead of operator[], which would search all previous names.
    header.get_ref<OrderedJson::object_t&>().emplace_back(
        tensor.name, OrderedJson{{"dtype", tensor.array.dtype()},
                                 {"shape", tensor.array.shape()},
                                 {"data_offsets", {at, end}}});
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const OrderedJson::type_error&) {
    refuse(path.string(), "names and metadata must be UTF-8", "other bytes");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > internal::max_header)
    refuse(path.string(), "must have a header of at most 100 MB",
           static_cast<std::int64_t>(text.size()));
  const std::uint64_t length = text.size();
  write_atomically(path, [&](Output& output) {
    output.write(std::as_bytes(std::span(&length, 1)));
    output.write(text);
    for (const NamedArray& tensor : tensors) output.write(tensor.array.bytes());
  });
}

}  // namespace gnomon::io
