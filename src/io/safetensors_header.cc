#include "src/io/safetensors_header.h"

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "gnomon/error.h"
#include "src/io/shape.h"

namespace gnomon::io::internal {
namespace {

// An iterator over the text whose copies share one position, so that a handler of events knows
// how far the parser has read.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char** at, const char* end) : at_(at), end_(end) {}
  reference operator*() const { return **at_; }
  Cursor& operator++() {
    ++*at_;
    return *this;
  }
  // Only the comparison with the end is asked for.
  bool operator==(const Cursor&) const { return *at_ == end_; }
  bool operator!=(const Cursor&) const { return *at_ != end_; }

 private:
  const char** at_;
  const char* end_;
};

using Json = nlohmann::json;

// {"name": {"dtype": string, "shape": [integers], "data_offsets": [2 integers]}, ...} and
// {"__metadata__": {string: string}}: whatever else comes is refused where it comes.
class Handler : public nlohmann::json_sax<Json> {
 public:
  Handler(const std::string& file, const char* text, const char* const& at, std::uint64_t begin)
      : file_(file), text_(text), at_(at), begin_(begin) {}

  SafeTensorsHeader take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_float(double, const string_t&) override { unexpected("a fraction"); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool number_integer(std::int64_t) override { unexpected("a negative number"); }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ == Place::shape) {
      if (value > INT64_MAX) fail("an extent beyond 64 bits");
      if (entry_.shape.size() == max_rank) fail("more than 64 axes");
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::offsets && offsets_ < 2) {
      (offsets_++ ? entry_.end : entry_.begin) = value;
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, std::move(value)).second)
        fail("the metadata key " + shown(key_) + " occurs twice");
    } else if (place_ == Place::entry && key_ == "dtype") {
      entry_.dtype = std::move(value);
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::top;
    } else if (place_ == Place::top && key_ == "__metadata__") {
      if (std::exchange(metadata_seen_, true)) fail("__metadata__ occurs twice");
      place_ = Place::metadata;
    } else if (place_ == Place::top) {
      entry_ = TensorEntry{.name = key_, .dtype = {}, .shape = {}};
      dtype_ = shape_ = false;
      offsets_ = 0;
      offsets_seen_ = false;
      place_ = Place::entry;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    if (place_ != Place::entry) return true;
    bool* const seen = key_ == "dtype"          ? &dtype_
                       : key_ == "shape"        ? &shape_
                       : key_ == "data_offsets" ? &offsets_seen_
                                                : nullptr;
    if (!seen) fail("the unknown key " + shown(key_) + " in tensor " + shown(entry_.name));
    if (std::exchange(*seen, true))
      fail("the key " + key_ + " occurs twice in tensor " + shown(entry_.name));
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) {
      if (!dtype_ || !shape_ || offsets_ != 2)
        fail("tensor " + shown(entry_.name) + " must have dtype, shape and two data_offsets");
      header_.tensors.push_back(std::move(entry_));
      header_.entry_bytes.push_back(position());
    }
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::entry && key_ == "shape")
      place_ = Place::shape;
    else if (place_ == Place::entry && key_ == "data_offsets")
      place_ = Place::offsets;
    else
      unexpected("an array");
    return true;
  }
  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string reason = error.what();  // "[json.exception.parse_error.101] parse error at ..."
    const std::size_t colon = reason.find(": ");
    reason = "the header is not JSON" +
             (colon == std::string::npos ? std::string() : printable(reason.substr(colon)));
    throw FormatError(file_, begin_ + (position ? position - 1 : 0), reason);
  }

 private:
  enum class Place { outside = 1, top, metadata, entry, shape, offsets };

  static std::string printable(std::string text) {
    if (text.size() > 200) text = text.substr(0, 200) + "...";
    for (char& c : text)
      if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) c = '?';
    return text;
  }
  std::uint64_t position() const { return begin_ + static_cast<std::uint64_t>(at_ - text_); }
  [[noreturn]] void fail(const std::string& reason) const {
    throw FormatError(file_, position(), reason);
  }
  [[noreturn]] void unexpected(const char* what) const {
    const char* where = "as the header";
    switch (place_) {
      case Place::outside:
        break;
      case Place::top:
        where = "in place of a tensor";
        break;
      case Place::metadata:
        where = "in place of a metadata string";
        break;
      case Place::entry:
        where = "in a tensor's entry";
        break;
      case Place::shape:
        where = "in a shape";
        break;
      case Place::offsets:
        where = "in data_offsets";
        break;
    }
    fail(std::string("unexpected ") + what + " " + where);
  }

  const std::string& file_;
  const char* text_;
  const char* const& at_;
  std::uint64_t begin_;
  SafeTensorsHeader header_;
  TensorEntry entry_;
  std::string key_;
  Place place_ = Place::outside;
  bool metadata_seen_ = false, dtype_ = false, shape_ = false, offsets_seen_ = false;
  int offsets_ = 0;
};

}  // namespace

SafeTensorsHeader parse_header(const std::string& file, std::string_view text,
                               std::uint64_t begin) {
  const char* at = text.data();
  const char* const end = at + text.size();
  Handler handler(file, text.data(), at, begin);
  Json::sax_parse(Cursor(&at, end), Cursor(&at, end), &handler);
  // The parser takes a zero byte for the end.
  if (at != end)
    throw FormatError(file, begin + static_cast<std::uint64_t>(at - text.data()),
                      "unexpected text after the header");
  return handler.take();
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

std::string shown(std::string_view name) {
  std::string text = "\"";
  for (const char c : name.substr(0, 80))
    text += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return text + (name.size() > 80 ? "...\"" : "\"");
}

}  // namespace gnomon::io::internal
