#include "gnomon/io/npy.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/core/overflow.h"
#include "src/io/npy_bytes.h"
#include "src/io/shape.h"

namespace gnomon::io {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t max_header = 65536, alignment = 64;

struct Header {
  Element element = {};
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Parses the Python literal {'descr': ..., 'fortran_order': ..., 'shape': (...)}: three keys,
// each once, in any order. There is no nesting, and so no recursion.
class HeaderParser {
 public:
  HeaderParser(const std::string& file, std::string_view text, std::uint64_t begin)
      : file_(file), text_(text), begin_(begin) {}

  Header parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{', "a header in braces");
    while (!take('}')) {
      const std::size_t at = at_;
      const std::string_view key = string();
      expect(':', "a colon after a key");
      if (key == "descr" && !std::exchange(descr, true))
        header.element = element();
      else if (key == "fortran_order" && !std::exchange(order, true))
        header.fortran_order = boolean();
      else if (key == "shape" && !std::exchange(shape, true))
        header.shape = extents();
      else
        fail("expected the keys descr, fortran_order and shape, each once", at);
      if (!take(',')) {
        expect('}', "a comma or a closing brace");
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("unexpected text after the header", at_);
    if (!descr || !order || !shape)
      fail("expected the keys descr, fortran_order and shape, each once", at_);
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& reason, std::size_t at) const {
    throw FormatError(file_, begin_ + at, reason);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted, const char* what) {
    if (!take(wanted)) fail(std::string("expected ") + what, at_);
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::string_view string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a string in quotes", at_);
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("expected a closing quote", at_);
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return content;
  }

  bool boolean() {
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    fail("expected True or False", at_);
  }

  Element element() {
    skip_space();
    const std::size_t at = at_;
    if (at_ < text_.size() && text_[at_] == '[')
      fail("structured arrays are not supported", at);
    const std::string_view descr = string();
    static constexpr std::pair<std::string_view, Element> known[] = {
        {"f8", Element::f64}, {"f4", Element::f32}, {"f2", Element::f16},
        {"i8", Element::i64}, {"i4", Element::i32}, {"i2", Element::i16},
        {"i1", Element::i8},  {"u8", Element::u64}, {"u4", Element::u32},
        {"u2", Element::u16}, {"u1", Element::u8},  {"b1", Element::boolean},
    };
    if (!descr.empty())
      for (const auto& [code, element] : known) {
        if (descr.substr(1) != code) continue;
        if (descr[0] == '<' || descr[0] == '=' || (descr[0] == '|' && size_of(element) == 1))
          return element;
        if (descr[0] == '>' && size_of(element) == 1) return element;
        if (descr[0] == '>') fail("big-endian elements are not supported", at);
      }
    fail("expected an element type such as '<f4' or '<i8' (bfloat16 is kept as '<u2')", at);
  }

  std::vector<std::int64_t> extents() {
    std::vector<std::int64_t> shape;
    expect('(', "a shape in parentheses");
    while (!take(')')) {
      if (shape.size() == internal::max_rank) fail("more than 64 axes", at_);
      shape.push_back(extent());
      if (!take(',')) {
        // In Python (3) is a number, not a tuple.
        if (shape.size() == 1) fail("expected a comma after the only extent", at_);
        expect(')', "a comma or a closing parenthesis");
        break;
      }
    }
    return shape;
  }

  std::int64_t extent() {
    skip_space();
    const std::size_t at = at_;
    if (at_ < text_.size() && text_[at_] == '-') fail("negative extent", at);
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (gnomon::internal::multiply_overflow(value, 10, &value) ||
          gnomon::internal::add_overflow(value, text_[at_] - '0', &value))
        fail("extent beyond 64 bits", at);
    if (at_ == at) fail("expected an extent", at);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // suffix of long integers in Python 2
    return value;
  }

  const std::string& file_;
  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
};

// Converts elements from Fortran order to row-major order.
std::shared_ptr<std::vector<std::byte>> to_row_major(std::span<const std::byte> from,
                                                     const std::vector<std::int64_t>& shape,
                                                     std::size_t size) {
  auto owned = std::make_shared<std::vector<std::byte>>(from.size());
  std::vector<std::size_t> strides(shape.size());
  std::size_t step = size;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = step;
    step *= static_cast<std::size_t>(shape[axis]);
  }
  std::vector<std::int64_t> index(shape.size(), 0);
  std::size_t source = 0;
  for (std::size_t at = 0; at < from.size(); at += size) {
    std::memcpy(owned->data() + at, from.data() + source, size);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      source += strides[axis];
      if (++index[axis] < shape[axis]) break;
      source -= strides[axis] * static_cast<std::size_t>(shape[axis]);
      index[axis] = 0;
    }
  }
  return owned;
}

std::string header_of(const std::string& file, const Array& array) {
  std::string descr;
  switch (array.element()) {
    case Element::f64:
      descr = "<f8";
      break;
    case Element::f32:
      descr = "<f4";
      break;
    case Element::f16:
      descr = "<f2";
      break;
    case Element::i64:
      descr = "<i8";
      break;
    case Element::i32:
      descr = "<i4";
      break;
    case Element::i16:
      descr = "<i2";
      break;
    case Element::i8:
      descr = "|i1";
      break;
    case Element::u64:
      descr = "<u8";
      break;
    case Element::u32:
      descr = "<u4";
      break;
    case Element::bf16:
    case Element::u16:
      descr = "<u2";
      break;
    case Element::u8:
      descr = "|u1";
      break;
    case Element::boolean:
      descr = "|b1";
      break;
    case Element::opaque:
      refuse(file, "element type must be supported by .npy", std::string_view(array.dtype()));
  }
  if (array.rank() > internal::max_rank)
    refuse(file, "must have at most 64 axes", static_cast<std::int64_t>(array.rank()));
  std::string shape;
  for (const std::int64_t extent : array.shape()) {
    if (!shape.empty()) shape += ' ';
    shape += std::to_string(extent) + ",";
  }
  if (array.rank() > 1) shape.pop_back();  // "(2, 3)", but "(3,)"
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const std::size_t before = magic.size() + 4;
  const std::size_t total =
      (before + header.size() + 1 + alignment - 1) / alignment * alignment;
  header.append(total - before - header.size() - 1, ' ');
  header += '\n';
  std::string start(magic);
  start += '\x01';
  start += '\x00';
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  return start + header;
}

}  // namespace

Array internal::read_npy(const std::string& name, std::span<const std::byte> file,
                         std::shared_ptr<const void> owner) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.substr(0, magic.size()) != magic)
    throw FormatError(name, 0, "not an .npy file: it does not begin with \\x93NUMPY");
  if (text.size() < magic.size() + 2)
    throw FormatError(name, text.size(), "the file ends before its version");
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    throw FormatError(name, 6,
                      "version " + std::to_string(major) + "." + std::to_string(minor) +
                          " is not 1.0, 2.0 or 3.0");
  const std::size_t length_bytes = major == 1 ? 2 : 4, begin = 8 + length_bytes;
  if (text.size() < begin)
    throw FormatError(name, text.size(), "the file ends before the length of its header");
  std::size_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | byte(8 + i);
  if (length > max_header)
    throw FormatError(name, 8,
                      "a header of " + std::to_string(length) + " bytes, more than 65536");
  if (length > text.size() - begin)
    throw FormatError(name, text.size(), "the file ends inside its header");

  Header header = HeaderParser(name, text.substr(begin, length), begin).parse();
  const std::size_t size = size_of(header.element);
  const auto wanted = internal::byte_count(header.shape, 8 * size);
  if (!wanted)
    throw FormatError(name, begin, "a shape beyond 64 bits: " + to_string(header.shape));
  const auto bytes = file.subspan(begin + length);
  if (*wanted != bytes.size())
    throw FormatError(name, begin + length + std::min<std::uint64_t>(*wanted, bytes.size()),
                      "shape " + to_string(header.shape) + " of " +
                          std::string(io::name(header.element)) + " takes " +
                          std::to_string(*wanted) + " bytes, the file has " +
                          std::to_string(bytes.size()));
  std::size_t long_axes = 0;
  for (const std::int64_t extent : header.shape) long_axes += extent != 1;
  if (header.fortran_order && long_axes > 1) {
    const auto owned = to_row_major(bytes, header.shape, size);
    return Array(header.element, std::move(header.shape), *owned, owned, name);
  }
  return Array(header.element, std::move(header.shape), bytes, std::move(owner), name);
}

Array read_npy(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  return internal::read_npy(file->name(), file->bytes(), file);
}

void write_npy(const std::filesystem::path& path, const Array& array) {
  const std::string header = header_of(path.string(), array);
  write_atomically(path, [&](Output& output) {
    output.write(header);
    output.write(array.bytes());
  });
}

}  // namespace gnomon::io
