#include "src/io/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "gnomon/error.h"
#include "src/io/json.h"
#include "src/io/shape.h"

namespace gnomon::io::internal {
namespace {

using gnomon::internal::Json;
using gnomon::internal::JsonDocument;
using gnomon::internal::JsonType;

// A map node is about ten times as large as the shortest entry in JSON. Released files have
// tens of entries, some have hundreds.
constexpr std::size_t max_metadata = 65536;

void read_metadata(const Json& json, Metadata& metadata) {
  json.require(JsonType::object, "__metadata__");
  json.for_each_member([&](std::string key, const Json& value) {
    if (metadata.size() == max_metadata) value.fail("more than 65536 entries of metadata");
    const auto [entry, added] = metadata.try_emplace(std::move(key));
    if (!added) value.fail("the metadata key " + shown(entry->first) + " occurs twice");
    entry->second = value.string("a value of the metadata");
  });
}

std::vector<std::uint64_t> counts(const Json& list, const char* what, std::size_t most) {
  list.require(JsonType::array, what);
  const std::string of = std::string("a number of ") + what;
  std::vector<std::uint64_t> numbers;
  list.for_each_element([&](const Json& number) {
    if (numbers.size() == most)
      number.fail(std::string(what) + " must have at most " + std::to_string(most) +
                  " numbers");
    numbers.push_back(number.count(of));
  });
  return numbers;
}

TensorEntry read_tensor(std::string name, const Json& json) {
  json.require(JsonType::object, "a tensor");
  std::optional<Json> dtype, shape, offsets;
  json.for_each_member([&](const std::string& key, const Json& value) {
    std::optional<Json>* const field = key == "dtype"          ? &dtype
                                       : key == "shape"        ? &shape
                                       : key == "data_offsets" ? &offsets
                                                               : nullptr;
    if (!field) value.fail("the unknown key " + shown(key) + " in tensor " + shown(name));
    if (*field) value.fail("the key " + key + " occurs twice in tensor " + shown(name));
    *field = value;
  });
  const auto bytes =
      offsets ? counts(*offsets, "data_offsets", 2) : std::vector<std::uint64_t>();
  if (!dtype || !shape || bytes.size() != 2)
    json.fail("tensor " + shown(name) + " must have dtype, shape and two data_offsets");
  TensorEntry entry{std::move(name), dtype->string("dtype"), {}, bytes[0], bytes[1]};
  const auto extents = counts(*shape, "shape", max_rank);
  entry.shape.reserve(extents.size());
  for (const std::uint64_t extent : extents) {
    if (extent > INT64_MAX) shape->fail("an extent beyond 64 bits in a shape");
    entry.shape.push_back(static_cast<std::int64_t>(extent));
  }
  return entry;
}

}  // namespace

SafeTensorsHeader parse_header(const std::string& file, std::string_view text,
                               std::uint64_t begin) {
  const JsonDocument document(text, file, begin);
  SafeTensorsHeader header;
  std::size_t members = 0;
  document.root().for_each_member([&](const std::string&, const Json&) { ++members; });
  header.tensors.reserve(members);
  header.entry_bytes.reserve(members);
  bool metadata_seen = false;
  document.root().for_each_member([&](std::string key, const Json& value) {
    if (key != "__metadata__") {
      header.tensors.push_back(read_tensor(std::move(key), value));
      header.entry_bytes.push_back(value.offset());
      return;
    }
    if (std::exchange(metadata_seen, true)) value.fail("__metadata__ occurs twice");
    read_metadata(value, header.metadata);
  });
  return header;
}

SafeTensorsHeader read_header(const std::string& file, std::string_view text) {
  if (text.size() < 8)
    throw FormatError(file, text.size(), "the file ends before the length of its header");
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  if (length > text.size() - 8)
    throw FormatError(file, 0,
                      "a header of " + std::to_string(length) + " bytes in a file of " +
                          std::to_string(text.size()));
  if (length > max_header)
    throw FormatError(file, 0,
                      "a header of " + std::to_string(length) + " bytes, more than 100 MB");
  if (length == 0 || text[8] != '{') throw FormatError(file, 8, "the header must begin with {");

  SafeTensorsHeader header = parse_header(file, text.substr(8, length), 8);
  header.data = 8 + length;
  const std::uint64_t size = text.size() - header.data;

  std::vector<std::size_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const TensorEntry &left = header.tensors[a], &right = header.tensors[b];
    return std::tie(left.begin, left.end, a) < std::tie(right.begin, right.end, b);
  });
  std::uint64_t reached = 0;
  for (const std::size_t index : order) {
    const TensorEntry& entry = header.tensors[index];
    const auto fail = [&](const std::string& reason) {
      throw FormatError(file, header.entry_bytes[index],
                        "tensor " + shown(entry.name) + " " + reason);
    };
    const auto range = [&] {
      std::string text = "[";
      text.append(std::to_string(entry.begin)).append(", ");
      return text.append(std::to_string(entry.end)).append("]");
    };
    if (entry.begin > entry.end || entry.end > size)
      fail("has data_offsets " + range() + " in " + std::to_string(size) + " bytes");
    const std::uint64_t bits = bits_of(entry.dtype);
    const auto wanted = byte_count(entry.shape, bits);
    if (!wanted)
      fail("has a shape that is not a whole number of bytes within 64 bits: " +
           to_string(entry.shape));
    if (bits != 0 && *wanted != entry.end - entry.begin)
      fail("of " + entry.dtype + " " + to_string(entry.shape) + " takes " +
           std::to_string(*wanted) + " bytes, not data_offsets " + range());
    if (entry.begin != reached)
      fail("has data_offsets " + range() +
           (entry.begin < reached ? ", which overlap" : ", after a gap from") + " byte " +
           std::to_string(reached));
    reached = entry.end;
  }
  if (reached != size)
    throw FormatError(file, header.data + reached,
                      std::to_string(size - reached) + " bytes that belong to no tensor");

  std::vector<TensorEntry> sorted;
  std::vector<std::uint64_t> entry_bytes;
  sorted.reserve(order.size());
  entry_bytes.reserve(order.size());
  for (const std::size_t index : order) {
    sorted.push_back(std::move(header.tensors[index]));
    entry_bytes.push_back(header.entry_bytes[index]);
  }
  header.tensors = std::move(sorted);
  header.entry_bytes = std::move(entry_bytes);

  const auto& tensors = header.tensors;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(tensors[a].name, a) < std::tie(tensors[b].name, b);
  });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (tensors[order[i]].name == tensors[order[i - 1]].name)
      throw FormatError(file, header.entry_bytes[order[i]],
                        "tensor " + shown(tensors[order[i]].name) + " occurs twice");
  header.by_name = std::move(order);
  return header;
}

std::uint64_t bits_of(std::string_view dtype) noexcept {
  static constexpr std::pair<std::string_view, std::uint64_t> known[] = {
      {"F64", 64},    {"F32", 32},        {"F16", 16},        {"BF16", 16},   {"I64", 64},
      {"I32", 32},    {"I16", 16},        {"I8", 8},          {"U64", 64},    {"U32", 32},
      {"U16", 16},    {"U8", 8},          {"BOOL", 8},        {"F8_E4M3", 8}, {"F8_E5M2", 8},
      {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
      {"F4", 4},      {"C64", 64},
  };
  for (const auto& [name, bits] : known)
    if (name == dtype) return bits;
  return 0;
}

}  // namespace gnomon::io::internal
