#include "gnomon/model/gguf.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "src/core/overflow.h"
#include "src/core/text.h"
#include "src/model/gguf/gguf_reader.h"

namespace gnomon::model {
namespace {

using internal::GgufReader;
using internal::load;

// Bytes of the smallest entry and the smallest tensor description.
constexpr std::size_t least_entry = 8 + 1 + 4 + 1, least_tensor = 8 + 4 + 4 + 8;

// Returns the indices sorted by name. Throws FormatError at the later of two equal names.
// shard_of(element): its file.
template <typename T>
std::vector<std::size_t> sorted(const std::vector<T>& list, std::string_view T::* name,
                                const auto& shard_of, const char* what) {
  std::vector<std::size_t> order(list.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(list[a].*name, a) < std::pair(list[b].*name, b);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::string_view one = list[order[i]].*name;
    if (one != list[order[i - 1]].*name) continue;
    const GgufShard& shard = shard_of(list[order[i]]);
    throw FormatError(shard.name,
                      static_cast<std::uint64_t>(
                          reinterpret_cast<const std::byte*>(one.data()) - shard.bytes.data()),
                      std::string(what) + " " + gnomon::internal::shown(one) + " occurs twice");
  }
  return order;
}

template <typename T>
const T* find_in(const std::vector<T>& list, const std::vector<std::size_t>& order,
                 std::string_view T::* name, std::string_view wanted) noexcept {
  const auto found =
      std::lower_bound(order.begin(), order.end(), wanted,
                       [&](std::size_t i, std::string_view w) { return list[i].*name < w; });
  return found == order.end() || list[*found].*name != wanted ? nullptr : &list[*found];
}

bool is_integer(GgufType type) {
  return internal::size_of(type) && type != GgufType::boolean && type != GgufType::f32 &&
         type != GgufType::f64;
}
bool is_number(GgufType type) {
  return is_integer(type) || type == GgufType::f32 || type == GgufType::f64;
}

// Returns nothing for a u64 beyond int64.
std::optional<std::int64_t> integer_at(GgufType type, const std::byte* at) {
  switch (type) {
    case GgufType::u8:
      return load<std::uint8_t>(at);
    case GgufType::i8:
      return load<std::int8_t>(at);
    case GgufType::u16:
      return load<std::uint16_t>(at);
    case GgufType::i16:
      return load<std::int16_t>(at);
    case GgufType::u32:
      return load<std::uint32_t>(at);
    case GgufType::i32:
      return load<std::int32_t>(at);
    case GgufType::i64:
      return load<std::int64_t>(at);
    case GgufType::u64:
      if (const auto value = load<std::uint64_t>(at); value <= INT64_MAX)
        return static_cast<std::int64_t>(value);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

double number_at(GgufType type, const std::byte* at) {
  if (type == GgufType::f32) return load<float>(at);
  if (type == GgufType::f64) return load<double>(at);
  if (type == GgufType::u64) return static_cast<double>(load<std::uint64_t>(at));
  return static_cast<double>(*integer_at(type, at));
}

template <typename T>
std::vector<double> doubles(std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = load<T>(bytes.data() + i * sizeof(T));
    if constexpr (std::is_same_v<T, double>)
      values[i] = value;
    else
      values[i] = static_cast<float>(value);
  }
  return values;
}

// Returns the elements of blocks of 32: a scale in F16, then `quants` bytes. element(q, i):
// element i of a block before scaling. Products are exact: 11 bits times 8.
template <typename Element>
std::vector<double> dequantised(std::span<const std::byte> bytes, std::size_t quants,
                                Element element) {
  constexpr std::size_t size = 32;
  std::vector<double> values(bytes.size() / (sizeof(Half) + quants) * size);
  const std::byte* at = bytes.data();
  for (std::size_t i = 0; i < values.size(); i += size, at += sizeof(Half) + quants) {
    const auto scale = static_cast<double>(static_cast<float>(load<Half>(at)));
    for (std::size_t j = 0; j < size; ++j)
      values[i + j] = scale * element(at + sizeof(Half), j);
  }
  return values;
}
int q8_0(const std::byte* quants, std::size_t i) { return load<std::int8_t>(quants + i); }
// Elements 0 to 15 are in the low halves of the 16 bytes, elements 16 to 31 in the high halves.
int q4_0(const std::byte* quants, std::size_t i) {
  return std::to_integer<int>(quants[i % 16] >> (i / 16 * 4) & std::byte{15}) - 8;
}

}  // namespace

std::string_view name(GgufType type) noexcept {
  static constexpr std::string_view names[] = {"u8",  "i8",  "u16",     "i16",  "u32",
                                               "i32", "f32", "boolean", "text", "array",
                                               "u64", "i64", "f64"};
  const auto index = static_cast<std::uint32_t>(type) - 1;
  return index < std::size(names) ? names[index] : "?";
}

std::string_view gguf_tensor_type(std::uint32_t type) noexcept {
  return internal::block_of(type).name;
}

std::int64_t GgufTensor::size() const noexcept {
  std::int64_t size = 1;
  for (const std::int64_t extent : extents) {
    if (extent == 0) return 0;
    // Extents with a product beyond int64 are only possible in a tensor without elements.
    if (gnomon::internal::multiply_overflow(size, extent, &size)) size = 1;
  }
  return size;
}

Gguf::Gguf(std::span<const std::byte> bytes, std::string name) {
  shards_.push_back({bytes, std::move(name)});
  GgufReader reader(this->bytes(), this->name());
  version_ = reader.magic_and_version();
  const auto tensors = reader.field<std::uint64_t>("the number of its tensors");
  const auto entries = reader.field<std::uint64_t>("the number of its entries");
  reader.check_count(entries, least_entry, "entries", 16);

  // The first pass validates the counts, so that the second allocates no more than necessary.
  const std::uint64_t first_entry = reader.at();
  for (std::uint64_t i = 0; i < entries; ++i) reader.entry();
  const std::uint64_t first_tensor = reader.at();
  reader.check_count(tensors, least_tensor, "tensors", 8);
  reader.seek(first_entry);
  entries_.reserve(entries);
  for (std::uint64_t i = 0; i < entries; ++i) entries_.push_back(reader.entry());
  by_key_ = sorted(
      entries_, &GgufEntry::key, [&](const auto&) -> const GgufShard& { return shards_[0]; },
      "the key");

  if (const GgufEntry* const entry = find("general.alignment")) {
    if (entry->type != GgufType::u32) refuse_type(*entry, "a u32");
    alignment_ = load<std::uint32_t>(this->bytes().data() + entry->offset);
    if (!std::has_single_bit(alignment_))
      throw FormatError(
          this->name(), entry->offset,
          "general.alignment must be a power of two, got " + std::to_string(alignment_));
  }

  for (std::uint64_t i = 0; i < tensors; ++i) reader.tensor(alignment_);
  const std::uint64_t mask = alignment_ - 1, data = (reader.at() + mask) & ~mask;
  reader.seek(first_tensor);
  tensors_.reserve(tensors);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    tensors_.push_back(reader.tensor(alignment_));
    tensors_.back().offset += data;
  }
  sort_tensors();
}

void Gguf::sort_tensors() {
  by_name_ = sorted(
      tensors_, &GgufTensor::name,
      [&](const GgufTensor& one) -> const GgufShard& { return shards_[one.shard]; },
      "the tensor");
}

const GgufEntry* Gguf::find(std::string_view key) const noexcept {
  return find_in(entries_, by_key_, &GgufEntry::key, key);
}
const GgufTensor* Gguf::find_tensor(std::string_view name) const noexcept {
  return find_in(tensors_, by_name_, &GgufTensor::name, name);
}

void Gguf::refuse_type(const GgufEntry& entry, const char* wanted) const {
  std::string type(model::name(entry.type));
  if (entry.type == GgufType::array) type += " of " + std::string(model::name(entry.element));
  throw FormatError(
      name(), entry.offset,
      gnomon::internal::shown(entry.key) + " must be " + wanted + ", got " + type);
}

// Elements of an array, or a single value as an array of one.
struct Gguf::Elements {
  std::uint64_t count, offset;
};
Gguf::Elements Gguf::elements(const GgufEntry& entry) const {
  if (entry.type != GgufType::array) return {1, entry.offset};
  return {load<std::uint64_t>(bytes().data() + entry.offset + 4), entry.offset + 12};
}

std::optional<std::int64_t> Gguf::integer(std::string_view key) const {
  const GgufEntry* const entry = find(key);
  if (!entry) return std::nullopt;
  if (!is_integer(entry->type)) refuse_type(*entry, "an integer");
  return (*integers(key))[0];
}

std::optional<double> Gguf::number(std::string_view key) const {
  const GgufEntry* const entry = find(key);
  if (!entry) return std::nullopt;
  if (!is_number(entry->type)) refuse_type(*entry, "a number");
  return number_at(entry->type, bytes().data() + entry->offset);
}

std::optional<bool> Gguf::boolean(std::string_view key) const {
  const GgufEntry* const entry = find(key);
  if (!entry) return std::nullopt;
  if (entry->type != GgufType::boolean) refuse_type(*entry, "a boolean");
  return bytes()[entry->offset] != std::byte{0};
}

std::optional<std::string_view> Gguf::text(std::string_view key) const {
  const GgufEntry* const entry = find(key);
  if (!entry) return std::nullopt;
  if (entry->type != GgufType::text) refuse_type(*entry, "a text");
  GgufReader reader(bytes(), name());
  reader.seek(entry->offset);
  return reader.text("a text");
}

std::optional<std::vector<std::int64_t>> Gguf::integers(std::string_view key) const {
  const GgufEntry* const entry = find(key);
  if (!entry) return std::nullopt;
  if (!is_integer(entry->element)) refuse_type(*entry, "integers");
  const auto [count, offset] = elements(*entry);
  std::vector<std::int64_t> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = offset + i * internal::size_of(entry->element);
    const auto value = integer_at(entry->element, bytes().data() + at);
    if (!value)
      throw FormatError(name(), at,
                        gnomon::internal::shown(entry->key) + " has an integer outside int64");
    values[i] = *value;
  }
  return values;
}

std::optional<std::vector<double>> Gguf::numbers(std::string_view key) const {
  const GgufEntry* const entry = find(key);
  if (!entry) return std::nullopt;
  if (!is_number(entry->element)) refuse_type(*entry, "numbers");
  const auto [count, offset] = elements(*entry);
  std::vector<double> values(count);
  for (std::uint64_t i = 0; i < count; ++i)
    values[i] = number_at(entry->element,
                          bytes().data() + offset + i * internal::size_of(entry->element));
  return values;
}

std::optional<std::vector<bool>> Gguf::booleans(std::string_view key) const {
  const GgufEntry* const entry = find(key);
  if (!entry) return std::nullopt;
  if (entry->element != GgufType::boolean) refuse_type(*entry, "booleans");
  const auto [count, offset] = elements(*entry);
  GgufReader reader(bytes(), name());
  reader.seek(offset);
  std::vector<bool> values(count);
  for (std::uint64_t i = 0; i < count; ++i) values[i] = reader.boolean();
  return values;
}

std::optional<std::vector<std::string_view>> Gguf::texts(std::string_view key) const {
  const GgufEntry* const entry = find(key);
  if (!entry) return std::nullopt;
  if (entry->element != GgufType::text) refuse_type(*entry, "texts");
  const auto [count, offset] = elements(*entry);
  GgufReader reader(bytes(), name());
  reader.seek(offset);
  std::vector<std::string_view> values(count);
  for (std::uint64_t i = 0; i < count; ++i) values[i] = reader.utf8("a text");
  return values;
}

std::span<const std::byte> Gguf::data(const GgufTensor& tensor) const {
  const auto& [bytes, name] = shards_[tensor.shard];
  if (gguf_tensor_type(tensor.type).empty())
    throw FormatError(name, std::min<std::uint64_t>(tensor.offset, bytes.size()),
                      "tensor " + gnomon::internal::shown(tensor.name) +
                          " has the unknown type " + std::to_string(tensor.type));
  if (tensor.offset > bytes.size() || tensor.bytes > bytes.size() - tensor.offset)
    throw FormatError(name, bytes.size(),
                      "the file ends before the " + std::to_string(tensor.bytes) +
                          " bytes of tensor " + gnomon::internal::shown(tensor.name) +
                          ", which begin at " + std::to_string(tensor.offset));
  return bytes.subspan(tensor.offset, tensor.bytes);
}

std::vector<double> Gguf::values(const GgufTensor& tensor) const {
  const std::string_view type = gguf_tensor_type(tensor.type);
  const auto bytes = data(tensor);
  if (type == "F32") return doubles<float>(bytes);
  if (type == "F16") return doubles<Half>(bytes);
  if (type == "BF16") return doubles<BFloat16>(bytes);
  if (type == "F64") return doubles<double>(bytes);
  if (type == "Q8_0") return dequantised(bytes, 32, q8_0);
  if (type == "Q4_0") return dequantised(bytes, 16, q4_0);
  throw FormatError(shards_[tensor.shard].name, tensor.offset,
                    "tensor " + gnomon::internal::shown(tensor.name) + " has type " +
                        std::string(type) + ", not F32, F16, BF16, F64, Q8_0 or Q4_0");
}

}  // namespace gnomon::model
