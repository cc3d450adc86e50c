#include <algorithm>
#include <cstddef>
#include <utility>

#include "gnomon/error.h"
#include "src/io/safetensors_header.h"
#include "src/io/shape.h"

namespace gnomon::io::internal {
namespace {

// A map's node is some ten times as large as the shortest entry in JSON. Released files have
// tens of entries, few have hundreds.
constexpr std::size_t max_metadata = 65536;

// {"name": {"dtype": string, "shape": [integers], "data_offsets": [2 integers]}, ...} and
// {"__metadata__": {string: string}}: whatever else comes is refused where it comes, so that
// nothing is kept that is not asked for.
class HeaderParser {
 public:
  HeaderParser(const std::string& file, std::string_view text, std::uint64_t begin)
      : file_(file), text_(text), begin_(begin) {}

  SafeTensorsHeader parse() {
    SafeTensorsHeader header;
    bool metadata_seen = false;
    each_key("as the header", [&](std::string key) {
      if (key != "__metadata__") {
        header.tensors.push_back(tensor(std::move(key)));
        header.entry_bytes.push_back(begin_ + at_);
        return;
      }
      if (std::exchange(metadata_seen, true)) fail("__metadata__ occurs twice");
      metadata(header.metadata);
    });
    skip_space();
    if (at_ != text_.size()) not_json("unexpected text after the header");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw FormatError(file_, begin_ + at_, reason);
  }
  [[noreturn]] void not_json(const char* reason) const {
    fail(std::string("the header is not JSON: ") + reason);
  }

  // What comes next; zero at the end, and where a zero is.
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (next() == ' ' || next() == '\n' || next() == '\r' || next() == '\t') ++at_;
  }
  bool take(char wanted) {
    skip_space();
    if (next() != wanted || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  static bool digit(char c) { return c >= '0' && c <= '9'; }

  // Refuses the value that comes next.
  [[noreturn]] void unexpected(const char* where) const {
    const char c = next();
    const char* const what = c == '{'               ? "an object"
                             : c == '['             ? "an array"
                             : c == '"'             ? "a string"
                             : c == '-'             ? "a negative number"
                             : c == 'n'             ? "null"
                             : c == 't' || c == 'f' ? "true or false"
                             : digit(c)             ? "a number"
                                                    : nullptr;
    if (!what) not_json(at_ == text_.size() ? "it ends too early" : "expected a value");
    fail(std::string("unexpected ") + what + " " + where);
  }
  void expect(char wanted, const char* where) {
    if (!take(wanted)) unexpected(where);
  }
  // Between the items of an object or array: whether another follows.
  bool another(char end) {
    if (take(',')) return true;
    if (take(end)) return false;
    not_json(at_ == text_.size() ? "it ends too early" : "expected a comma or an end");
  }

  // Calls `value` with each key, before its value.
  template <typename Value>
  void each_key(const char* where, Value value) {
    expect('{', where);
    if (take('}')) return;
    do {
      skip_space();
      if (next() != '"') not_json("expected a key in quotes");
      std::string key = string();
      if (!take(':')) not_json("expected a colon after a key");
      value(std::move(key));
    } while (another('}'));
  }
  template <typename Value>
  void each_value(const char* where, Value value) {
    expect('[', where);
    if (take(']')) return;
    do value();
    while (another(']'));
  }

  void metadata(Metadata& metadata) {
    each_key("in place of the metadata", [&](std::string key) {
      if (metadata.size() == max_metadata) fail("more than 65536 entries of metadata");
      const auto [entry, added] = metadata.try_emplace(std::move(key));
      if (!added) fail("the metadata key " + shown(entry->first) + " occurs twice");
      entry->second = string("in place of a metadata string");
    });
  }

  TensorEntry tensor(std::string name) {
    TensorEntry entry{.name = std::move(name), .dtype = {}, .shape = {}};
    bool dtype = false, shape = false;
    int offsets = -1;  // none seen
    each_key("in place of a tensor", [&](const std::string& key) {
      const auto once = [&](bool seen) {
        if (seen) fail("the key " + key + " occurs twice in tensor " + shown(entry.name));
        return true;
      };
      if (key == "dtype") {
        dtype = once(dtype);
        entry.dtype = string("in a tensor's entry");
      } else if (key == "shape") {
        shape = once(shape);
        each_value("in a tensor's entry", [&] {
          const std::uint64_t extent = integer("in a shape");
          if (extent > INT64_MAX) fail("an extent beyond 64 bits in a shape");
          if (entry.shape.size() == max_rank) fail("more than 64 axes");
          entry.shape.push_back(static_cast<std::int64_t>(extent));
        });
        entry.shape.shrink_to_fit();
      } else if (key == "data_offsets") {
        once(offsets >= 0);
        offsets = 0;
        each_value("in a tensor's entry", [&] {
          if (offsets == 2) fail("more than two data_offsets");
          (offsets++ ? entry.end : entry.begin) = integer("in data_offsets");
        });
      } else {
        fail("the unknown key " + shown(key) + " in tensor " + shown(entry.name));
      }
    });
    if (!dtype || !shape || offsets != 2)
      fail("tensor " + shown(entry.name) + " must have dtype, shape and two data_offsets");
    return entry;
  }

  std::uint64_t integer(const char* where) {
    skip_space();
    if (!digit(next())) unexpected(where);
    const std::size_t start = at_;
    std::uint64_t value = 0;
    bool beyond = false;
    for (; digit(next()); ++at_)
      beyond |= __builtin_mul_overflow(value, 10u, &value) ||
                __builtin_add_overflow(value, static_cast<unsigned>(next() - '0'), &value);
    if (text_[start] == '0' && at_ - start > 1) not_json("a number that begins with 0");
    if (next() == '.' || next() == 'e' || next() == 'E')
      fail(std::string("unexpected a fraction ") + where);
    if (beyond) fail(std::string("a number beyond 64 bits ") + where);
    return value;
  }

  std::string string(const char* where) {
    skip_space();
    if (next() != '"') unexpected(where);
    return string();
  }

  // Takes a string that begins at its quote.
  std::string string() {
    std::size_t end = ++at_;
    for (; end < text_.size() && text_[end] != '"'; ++end) {
      if (static_cast<unsigned char>(text_[end]) < 32) {
        at_ = end;
        not_json("a control character in a string");
      }
      if (text_[end] == '\\') ++end;  // what it stands before is no end
    }
    if (end >= text_.size()) {
      at_ = text_.size();
      not_json("a string without an end");
    }
    const std::string_view raw = text_.substr(at_, end - at_);
    if (const auto bad = gnomon::internal::ill_formed_utf8(raw); bad != raw.npos) {
      at_ += bad;
      not_json("ill-formed UTF-8 in a string");
    }
    std::string value;
    if (raw.find('\\') == raw.npos) {
      value = raw;
    } else {
      value.reserve(raw.size());
      while (at_ < end) {
        const std::size_t escape = std::min(text_.find('\\', at_), end);
        value += text_.substr(at_, escape - at_);
        at_ = escape;
        if (at_ < end) take_escape(value);
      }
    }
    at_ = end + 1;
    return value;
  }

  void take_escape(std::string& to) {
    static constexpr std::string_view codes = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    const char code = text_[at_ + 1];
    if (const std::size_t index = codes.find(code); index != codes.npos) {
      to += meant[index];
      at_ += 2;
      return;
    }
    if (code != 'u') not_json("an unknown escape in a string");
    std::uint32_t point = hexadecimal();
    if (point >= 0xd800 && point < 0xe000) {
      const bool high = point < 0xdc00 && text_.substr(at_, 2) == "\\u";
      const std::uint32_t low = high ? hexadecimal() : 0;
      if (low < 0xdc00 || low > 0xdfff) not_json("half a surrogate pair in a string");
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    const auto append = [&](std::uint32_t byte) { to += static_cast<char>(byte); };
    const auto follow = [&](int shift) { append(0x80 | (point >> shift & 63)); };
    if (point < 0x80) {
      append(point);
    } else if (point < 0x800) {
      append(0xc0 | point >> 6);
      follow(0);
    } else if (point < 0x10000) {
      append(0xe0 | point >> 12);
      follow(6);
      follow(0);
    } else {
      append(0xf0 | point >> 18);
      follow(12);
      follow(6);
      follow(0);
    }
  }

  // Takes \uXXXX. A quote within is no digit, so that this ends with the string.
  std::uint32_t hexadecimal() {
    std::uint32_t value = 0;
    at_ += 2;
    for (const std::size_t end = at_ + 4; at_ < end; ++at_) {
      static constexpr std::string_view digits = "0123456789abcdefABCDEF";
      const std::size_t index = digits.find(next());
      if (index == digits.npos) not_json("expected four hexadecimal digits after \\u");
      value = value << 4 | static_cast<std::uint32_t>(index < 16 ? index : index - 6);
    }
    return value;
  }

  const std::string& file_;
  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
};

}  // namespace

SafeTensorsHeader parse_header(const std::string& file, std::string_view text,
                               std::uint64_t begin) {
  return HeaderParser(file, text, begin).parse();
}

}  // namespace gnomon::io::internal
