#include "src/model/gguf/gguf_reader.h"

#include <algorithm>
#include <bit>

#include "src/core/overflow.h"
#include "src/core/text.h"

namespace gnomon::model::internal {

static_assert(std::endian::native == std::endian::little, "fields are taken as they are");

namespace {

constexpr int max_depth = 8;
constexpr std::size_t max_key = 65535;
constexpr std::uint32_t max_rank = 4;

std::string bytes_text(std::uint64_t count) { return std::to_string(count) + " bytes"; }

}  // namespace

std::size_t size_of(GgufType type) noexcept {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::text:
    case GgufType::array:
      return 0;
  }
  return 0;
}

// ggml/src/ggml.c, type_traits. Empty: types no longer in use.
Block block_of(std::uint32_t type) noexcept {
  static constexpr Block blocks[] = {
      {"F32", 1, 4},
      {"F16", 1, 2},
      {"Q4_0", 32, 18},
      {"Q4_1", 32, 20},
      {},
      {},
      {"Q5_0", 32, 22},
      {"Q5_1", 32, 24},
      {"Q8_0", 32, 34},
      {"Q8_1", 32, 36},
      {"Q2_K", 256, 84},
      {"Q3_K", 256, 110},
      {"Q4_K", 256, 144},
      {"Q5_K", 256, 176},
      {"Q6_K", 256, 210},
      {"Q8_K", 256, 292},
      {"IQ2_XXS", 256, 66},
      {"IQ2_XS", 256, 74},
      {"IQ3_XXS", 256, 98},
      {"IQ1_S", 256, 50},
      {"IQ4_NL", 32, 18},
      {"IQ3_S", 256, 110},
      {"IQ2_S", 256, 82},
      {"IQ4_XS", 256, 136},
      {"I8", 1, 1},
      {"I16", 1, 2},
      {"I32", 1, 4},
      {"I64", 1, 8},
      {"F64", 1, 8},
      {"IQ1_M", 256, 56},
      {"BF16", 1, 2},
      {},
      {},
      {},
      {"TQ1_0", 256, 54},
      {"TQ2_0", 256, 66},
      {},
      {},
      {},
      {"MXFP4", 32, 17},
      {"NVFP4", 64, 36},
      {"Q1_0", 128, 18},
  };
  return type < std::size(blocks) ? blocks[type] : Block{};
}

std::uint32_t GgufReader::magic_and_version() {
  static constexpr std::string_view magic = "GGUF";
  const std::string_view begin(reinterpret_cast<const char*>(bytes_.data()),
                               std::min<std::size_t>(bytes_.size(), magic.size()));
  if (begin.empty() || begin != magic.substr(0, begin.size()))
    fail(0, "not a GGUF file: it does not begin with GGUF");
  field<std::uint32_t>("its first word, GGUF");
  const std::uint32_t version = field<std::uint32_t>("its version");
  if (version == 2 || version == 3) return version;
  const std::uint32_t swapped = version >> 24 | (version >> 8 & 0xff00u);
  if ((version & 0xffffu) == 0 && swapped != 0)
    fail(4, "version " + std::to_string(swapped) +
                " in big-endian byte order: byte-swapped files are not supported");
  fail(4, "version must be 2 or 3, got " + std::to_string(version));
}

void GgufReader::check_count(std::uint64_t count, std::size_t least, const char* what,
                             std::uint64_t at) const {
  if (count > left() / least)
    fail(at, std::to_string(count) + " " + what + ", of at least " + bytes_text(least) +
                 " each, in a file with " + std::to_string(left()) + " left");
}

std::string_view GgufReader::text(const char* what) {
  const std::uint64_t start = at_, length = field<std::uint64_t>(what);
  if (length > left())
    fail(start, std::string(what) + " of " + bytes_text(length) + " in a file with " +
                    std::to_string(left()) + " left");
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + at_), length);
  at_ += length;
  return text;
}

std::string_view GgufReader::utf8(const char* what) {
  const std::string_view text = this->text(what);
  if (const std::size_t bad = gnomon::internal::ill_formed_utf8(text);
      bad != std::string_view::npos)
    fail(at_ - text.size() + bad,
         std::string(what) + " that is not UTF-8: " + gnomon::internal::shown(text));
  return text;
}

bool GgufReader::boolean() {
  const auto value = field<std::uint8_t>("a boolean");
  if (value > 1) fail(at_ - 1, "a boolean must be 0 or 1, got " + std::to_string(value));
  return value == 1;
}

GgufType GgufReader::type() {
  const std::uint64_t start = at_;
  const auto type = field<std::uint32_t>("a type of metadata");
  if (type > 12) fail(start, "unknown type of metadata " + std::to_string(type));
  return static_cast<GgufType>(type + 1);
}

// Skips an array: type of the elements, count, elements.
void GgufReader::skip_array(int depth) {
  if (depth > max_depth)
    fail(at_, "arrays nested more than " + std::to_string(max_depth) + " deep");
  const GgufType element = type();
  const std::uint64_t start = at_, count = field<std::uint64_t>("the count of an array");
  const std::size_t size = size_of(element);
  const std::size_t least = size ? size : element == GgufType::text ? 8 : 12;
  check_count(count, least, "elements of an array", start);
  if (size)
    at_ += count * size;
  else if (element == GgufType::text)
    for (std::uint64_t i = 0; i < count; ++i) text("a text");
  else
    for (std::uint64_t i = 0; i < count; ++i) skip_array(depth + 1);
}

GgufEntry GgufReader::entry() {
  const std::uint64_t start = at_;
  GgufEntry entry{.key = utf8("a key")};
  if (entry.key.empty()) fail(start, "an empty key");
  if (entry.key.size() > max_key)
    fail(start, "a key of " + bytes_text(entry.key.size()) + ", more than 65535");
  entry.type = entry.element = type();
  entry.offset = at_;
  if (entry.type == GgufType::array) {
    entry.element = type();
    at_ = entry.offset;
    skip_array(0);
  } else if (entry.type == GgufType::text) {
    utf8("a text");
  } else if (entry.type == GgufType::boolean) {
    boolean();
  } else {
    const std::size_t size = size_of(entry.type);
    if (left() < size) fail(bytes_.size(), "the file ends inside a number");
    at_ += size;
  }
  return entry;
}

GgufTensor GgufReader::tensor(std::uint32_t alignment) {
  GgufTensor tensor{.name = utf8("the name of a tensor")};
  const auto of = [&] { return "tensor " + gnomon::internal::shown(tensor.name); };
  std::uint64_t start = at_;
  const auto rank = field<std::uint32_t>("the rank of a tensor");
  if (rank > max_rank)
    fail(start, of() + " has " + std::to_string(rank) + " axes, more than 4");
  tensor.rank = static_cast<std::uint16_t>(rank);
  start = at_;
  tensor.extents.fill(1);
  bool empty = false;
  for (std::uint32_t axis = 0; axis < tensor.rank; ++axis) {
    const auto extent = field<std::uint64_t>("the extents of a tensor");
    if (extent > INT64_MAX) fail(at_ - 8, of() + " has an extent beyond 64 bits");
    tensor.extents[axis] = static_cast<std::int64_t>(extent);
    empty |= extent == 0;
  }
  std::int64_t size = empty ? 0 : 1;
  for (const std::int64_t extent : tensor.extents)
    if (gnomon::internal::multiply_overflow(size, extent, &size))
      fail(start, of() + " has a size beyond 64 bits: " + shape_text(tensor.extents));

  tensor.type = field<std::uint32_t>("the type of a tensor");
  const Block block = block_of(tensor.type);
  if (block.elements) {
    if (tensor.extents[0] % block.elements)
      fail(start, of() + " of " + std::string(block.name) + " has rows of " +
                      std::to_string(tensor.extents[0]) +
                      " elements, not a multiple of the block size " +
                      std::to_string(block.elements));
    if (gnomon::internal::multiply_overflow(static_cast<std::uint64_t>(size) / block.elements,
                                            std::uint64_t{block.bytes}, &tensor.bytes))
      fail(start, of() + " has a size beyond 64 bits: " + shape_text(tensor.extents));
  }

  start = at_;
  tensor.offset = field<std::uint64_t>("the offset of a tensor");
  if (tensor.offset % alignment)
    fail(start, of() + " begins at offset " + std::to_string(tensor.offset) +
                    ", not a multiple of the alignment " + std::to_string(alignment));
  // The start of the tensor data is not known yet. It is at most the end of the file plus the
  // padding.
  std::uint64_t end = 0;
  if (gnomon::internal::add_overflow(tensor.offset, tensor.bytes, &end) ||
      gnomon::internal::add_overflow(end, std::uint64_t{bytes_.size()} + alignment, &end))
    fail(start, of() + " ends beyond 64 bits");
  return tensor;
}

}  // namespace gnomon::model::internal
