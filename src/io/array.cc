#include "gnomon/io/array.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "gnomon/error.h"
#include "src/core/overflow.h"
#include "src/io/shape.h"

namespace gnomon::io {

static_assert(std::endian::native == std::endian::little,
              "the formats are little-endian and are mapped as they are");

std::size_t size_of(Element element) noexcept {
  switch (element) {
    case Element::f64:
    case Element::i64:
    case Element::u64:
      return 8;
    case Element::f32:
    case Element::i32:
    case Element::u32:
      return 4;
    case Element::f16:
    case Element::bf16:
    case Element::i16:
    case Element::u16:
      return 2;
    case Element::i8:
    case Element::u8:
    case Element::boolean:
      return 1;
    case Element::opaque:
      return 0;
  }
  return 0;
}

std::string_view name(Element element) noexcept {
  switch (element) {
    case Element::f64:
      return "f64";
    case Element::f32:
      return "f32";
    case Element::f16:
      return "f16";
    case Element::bf16:
      return "bf16";
    case Element::i64:
      return "i64";
    case Element::i32:
      return "i32";
    case Element::i16:
      return "i16";
    case Element::i8:
      return "i8";
    case Element::u64:
      return "u64";
    case Element::u32:
      return "u32";
    case Element::u16:
      return "u16";
    case Element::u8:
      return "u8";
    case Element::boolean:
      return "bool";
    case Element::opaque:
      return "opaque";
  }
  return "?";
}

std::string to_string(const Array::Shape& shape) { return shape_text(shape); }

namespace internal {

std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape) {
  // The product of the other extents must fit even if an axis is empty, because strides are
  // such products.
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) empty = true;
    if (gnomon::internal::multiply_overflow(product, extent ? extent : 1, &product))
      return std::nullopt;
  }
  return empty ? 0 : product;
}

std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape,
                                        std::uint64_t bits_per_element) {
  const auto count = element_count(shape);
  std::uint64_t bits = 0;
  if (!count ||
      gnomon::internal::multiply_overflow(static_cast<std::uint64_t>(*count), bits_per_element,
                                          &bits) ||
      bits % 8 != 0)
    return std::nullopt;
  return bits / 8;
}

bool aligned(const std::byte* data, std::size_t size) {
  return size == 0 || reinterpret_cast<std::uintptr_t>(data) % size == 0;
}

}  // namespace internal

Array::Array(Element element, Shape shape, std::span<const std::byte> bytes,
             std::shared_ptr<const void> owner, std::string name)
    : element_(element),
      shape_(std::move(shape)),
      bytes_(bytes),
      owner_(std::move(owner)),
      name_(std::move(name)) {
  const auto wanted = internal::byte_count(shape_, 8 * size_of(element));
  if (!wanted || *wanted != bytes_.size() || element == Element::opaque)
    refuse(name_,
           "must have the bytes of " + std::string(io::name(element)) + " " + to_string(shape_),
           static_cast<std::int64_t>(bytes_.size()));
  if (!internal::aligned(bytes_.data(), size_of(element))) {
    // One extra word, because memcpy does not accept null, even for an empty array.
    auto copy = std::make_shared<std::vector<std::uint64_t>>(bytes_.size() / 8 + 1);
    std::memcpy(copy->data(), bytes_.data(), bytes_.size());
    bytes_ = {reinterpret_cast<const std::byte*>(copy->data()), bytes_.size()};
    owner_ = std::move(copy);
  }
}

Array Array::opaque(std::string dtype, Shape shape, std::span<const std::byte> bytes,
                    std::shared_ptr<const void> owner, std::string name) {
  if (!internal::element_count(shape))
    refuse(name, "must have a shape within 64 bits", std::string_view(to_string(shape)));
  Array array;
  array.element_ = Element::opaque;
  array.dtype_ = std::move(dtype);
  array.shape_ = std::move(shape);
  array.bytes_ = bytes;
  array.owner_ = std::move(owner);
  array.name_ = std::move(name);
  return array;
}

std::string Array::dtype() const {
  if (element_ == Element::opaque) return dtype_;
  std::string text(io::name(element_));
  for (char& letter : text)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  return text;
}

std::int64_t Array::size() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape_) product *= extent;
  return product;
}

void Array::require(Element element, std::size_t rank) const {
  const bool stands_for = (element == Element::bf16 && element_ == Element::u16) ||
                          (element == Element::u8 && element_ == Element::boolean);
  if ((element == element_ || stands_for) && rank == shape_.size()) return;
  refuse(name_,
         "must contain " + std::string(io::name(element)) + " with " + std::to_string(rank) +
             (rank == 1 ? " axis" : " axes"),
         std::string_view(dtype() + " " + to_string(shape_)));
}

namespace {

template <typename T, typename To>
void convert(std::span<const std::byte> bytes, std::vector<To>& to) {
  to.reserve(bytes.size() / sizeof(T));  // not from the shape, which an opaque array does not
                                         // check
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      to.push_back(static_cast<To>(static_cast<float>(value)));
    else
      to.push_back(static_cast<To>(value));
  }
}

// Returns false if `element` is not an integer type.
template <typename To>
bool convert_integers(Element element, std::span<const std::byte> bytes, std::vector<To>& to) {
  switch (element) {
    case Element::i64:
      return convert<std::int64_t>(bytes, to), true;
    case Element::i32:
      return convert<std::int32_t>(bytes, to), true;
    case Element::i16:
      return convert<std::int16_t>(bytes, to), true;
    case Element::i8:
      return convert<std::int8_t>(bytes, to), true;
    case Element::u64:
      return convert<std::uint64_t>(bytes, to), true;
    case Element::u32:
      return convert<std::uint32_t>(bytes, to), true;
    case Element::u16:
      return convert<std::uint16_t>(bytes, to), true;
    case Element::u8:
    case Element::boolean:
      return convert<std::uint8_t>(bytes, to), true;
    case Element::f64:
    case Element::f32:
    case Element::f16:
    case Element::bf16:
    case Element::opaque:
      break;
  }
  return false;
}

}  // namespace

std::vector<std::int64_t> Array::to_integers() const {
  std::vector<std::int64_t> integers;
  if (!convert_integers(element_, bytes_, integers))
    refuse(name_, "must contain integers", std::string_view(dtype()));
  if (element_ == Element::u64)
    for (const std::int64_t integer : integers)
      if (integer < 0)
        refuse(name_, "must contain integers below 2^63",
               std::string_view(std::to_string(static_cast<std::uint64_t>(integer))));
  return integers;
}

std::vector<double> Array::to_doubles() const {
  std::vector<double> numbers;
  if (element_ == Element::f64)
    convert<double>(bytes_, numbers);
  else if (element_ == Element::f32)
    convert<float>(bytes_, numbers);
  else if (element_ == Element::f16)
    convert<Half>(bytes_, numbers);
  else if (element_ == Element::bf16)
    convert<BFloat16>(bytes_, numbers);
  else if (!convert_integers(element_, bytes_, numbers))
    refuse(name_, "must contain numbers", std::string_view(dtype()));
  return numbers;
}

}  // namespace gnomon::io
