#include "src/io/json.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::internal {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool ends_scalar(char c) { return is_space(c) || c == ',' || c == ']' || c == '}'; }

constexpr std::string_view infinity = "Infinity";

// Meaning of an escape sequence.
struct Escape {
  std::uint32_t code = 0;  // code point
  std::size_t length = 0;  // bytes of the sequence in the text; 0 if it is invalid
  const char* wrong = "";
};

// Parses the escape sequence at the beginning of `text`.
Escape escape_of(std::string_view text) {
  static constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  const auto hexadecimal = [&](std::size_t at) -> std::optional<std::uint32_t> {
    std::uint32_t code = 0;
    if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
    const char* const begin = text.data() + at + 2;
    if (std::from_chars(begin, begin + 4, code, 16).ptr != begin + 4) return std::nullopt;
    return code;
  };
  if (text.size() > 1)
    if (const std::size_t letter = letters.find(text[1]); letter != letters.npos)
      return {static_cast<std::uint32_t>(meanings[letter]), 2};
  if (text.size() < 2 || text[1] != 'u') return {.wrong = "an unknown escape in a string"};
  const auto code = hexadecimal(0);
  if (!code) return {.wrong = "\\u without four hexadecimal digits"};
  if (*code < 0xd800 || *code > 0xdfff) return {*code, 6};
  const auto low = *code < 0xdc00 ? hexadecimal(6) : std::nullopt;
  if (!low || *low < 0xdc00 || *low > 0xdfff)
    return {.wrong = "an unpaired surrogate in a string"};
  return {0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00), 12};
}

void append_utf8(std::string& to, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { to += static_cast<char>(byte); };
  const auto follow = [&](int shift) { put(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6), follow(0);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12), follow(6), follow(0);
  } else {
    put(0xf0 | code >> 18), follow(12), follow(6), follow(0);
  }
}

}  // namespace

// Checks the text and fills the nodes of the document. Recursion depth: at most max_depth.
class JsonDocument::Scanner {
 public:
  explicit Scanner(JsonDocument& document) : document_(document), text_(document.text_) {}

  void scan() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    skip_space();
    if (done()) fail("no JSON value");
    value(0);
    skip_space();
    if (!done()) expected("the end");
  }

 private:
  bool done() const { return at_ == text_.size(); }
  bool next_is(char c) const { return !done() && text_[at_] == c; }
  bool take(char c) { return next_is(c) && (++at_, true); }
  void skip_space() {
    while (!done() && is_space(text_[at_])) ++at_;
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw FormatError(document_.name_, document_.begin_ + at_, reason);
  }
  [[noreturn]] void expected(const char* what) const {
    if (done()) fail(std::string("not JSON: it ends before ") + what);
    const char c = text_[at_];
    const bool printable = c > ' ' && c < 127;
    fail(std::string("not JSON: ") + (printable ? std::string(1, c) : "an unprintable byte") +
         " in place of " + what);
  }

  // Appends a node for the value that read() parses.
  template <typename Read>
  void node(Read read) {
    auto& nodes = document_.nodes_;
    Node& node = nodes.emplace_back(Node{static_cast<std::uint32_t>(at_), 0});
    read();
    node.next = static_cast<std::uint32_t>(nodes.size());
  }

  void value(int depth) {
    node([&] {
      if (next_is('{') || next_is('['))
        items(depth);
      else if (next_is('"'))
        string();
      else
        scalar();
    });
  }

  void items(int depth) {
    if (depth == max_depth) fail("nested deeper than " + std::to_string(max_depth) + " levels");
    const bool object = text_[at_++] == '{';
    const char end = object ? '}' : ']';
    skip_space();
    if (take(end)) return;
    do {
      skip_space();
      if (object) {
        if (!next_is('"')) expected("the name of a member");
        node([&] { string(); });
        skip_space();
        if (!take(':')) expected(":");
        skip_space();
      }
      value(depth + 1);
      skip_space();
    } while (take(','));
    if (!take(end)) expected(object ? ", or }" : ", or ]");
  }

  void string() {
    const std::size_t begin = ++at_;
    unsigned char all = 0;
    for (; !next_is('"'); ++at_) {
      if (done()) fail("not JSON: an unterminated string");
      const auto c = static_cast<unsigned char>(text_[at_]);
      all |= c;
      if (c < 0x20) fail("not JSON: a control character in a string");
      if (c != '\\') continue;
      const Escape escape = escape_of(text_.substr(at_));
      if (escape.length == 0) fail(std::string("not JSON: ") + escape.wrong);
      at_ += escape.length - 1;
    }
    const std::string_view inside = text_.substr(begin, at_ - begin);
    if (const auto bad = all < 0x80 ? inside.npos : ill_formed_utf8(inside);
        bad != inside.npos) {
      at_ = begin + bad;
      fail("not JSON: ill-formed UTF-8 in a string");
    }
    ++at_;
  }

  void scalar() {
    if (!word("true") && !word("false") && !word("null") && !word("NaN") && !word(infinity) &&
        !(take('-') && word(infinity)))
      number();
    if (!done() && !ends_scalar(text_[at_])) expected("the end of a value");
  }
  bool word(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  void number() {  // reads a number after its minus sign
    if (!take('0')) digits();
    if (take('.')) digits();
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      digits();
    }
  }
  void digits() {
    if (done() || !is_digit(text_[at_])) expected("a value");
    while (!done() && is_digit(text_[at_])) ++at_;
  }

  JsonDocument& document_;
  std::string_view text_;
  std::size_t at_ = 0;
};

JsonDocument::JsonDocument(std::string_view text, std::string name, std::uint64_t begin)
    : text_(text), name_(std::move(name)), begin_(begin) {
  if (text.size() > max_size)
    throw FormatError(name_, begin,
                      "JSON of " + std::to_string(text.size()) + " bytes, more than " +
                          std::to_string(max_size));
  Scanner(*this).scan();
}

Json JsonDocument::root() const noexcept { return {this, 0}; }

std::string_view Json::from(std::uint32_t node) const noexcept {
  return document_->text_.substr(document_->nodes_[node].begin);
}

std::uint32_t Json::next(std::uint32_t node) const noexcept {
  return document_->nodes_[node].next;
}

std::uint64_t Json::offset() const noexcept {
  return document_->begin_ + document_->nodes_[node_].begin;
}

JsonType Json::type() const noexcept {
  switch (from(node_).front()) {
    case '{':
      return JsonType::object;
    case '[':
      return JsonType::array;
    case '"':
      return JsonType::string;
    case 't':
    case 'f':
      return JsonType::boolean;
    case 'n':
      return JsonType::null;
    default:
      return JsonType::number;
  }
}

std::string_view Json::token() const noexcept {
  const std::string_view rest = from(node_);
  std::size_t end = 0;
  while (end < rest.size() && !ends_scalar(rest[end])) ++end;
  return rest.substr(0, end);
}

std::string Json::shown() const {
  constexpr std::size_t most = 40;
  if (is(JsonType::array)) return "a list";
  if (is(JsonType::object)) return "an object";
  if (is(JsonType::string)) return internal::shown(unquoted(node_));
  const std::string_view text = token();
  return std::string(text.substr(0, most)) + (text.size() > most ? "..." : "");
}

void Json::fail(const std::string& reason) const {
  // A reason may contain text of the file.
  throw FormatError(document_->name_, offset(), printable(reason, 400));
}

void Json::fail_type(std::string_view what, const char* wanted) const {
  fail(std::string(what) + " must be " + wanted + ", got " + shown());
}

void Json::require(JsonType wanted, std::string_view what) const {
  if (!is(wanted)) fail_type(what, wanted == JsonType::array ? "a list" : "an object");
}

bool Json::boolean(std::string_view what) const {
  if (!is(JsonType::boolean)) fail_type(what, "true or false");
  return token() == "true";
}

double Json::number(std::string_view what) const {
  if (!is(JsonType::number)) fail_type(what, "a number");
  const std::string_view token = this->token();
  if (token == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (token.ends_with(infinity))
    return std::copysign(std::numeric_limits<double>::infinity(), token[0] == '-' ? -1 : 1);
  double value = 0;
  if (std::from_chars(token.data(), token.data() + token.size(), value).ec != std::errc())
    fail_type(what, "a number that fits a double");
  return value;
}

std::int64_t Json::integer(std::string_view what) const {
  if (!is(JsonType::number)) fail_type(what, "an integer");
  const std::string_view token = this->token();
  std::int64_t value = 0;
  const auto read = std::from_chars(token.data(), token.data() + token.size(), value);
  if (read.ptr == token.data() + token.size()) {
    if (read.ec != std::errc()) fail_type(what, "an integer within 64 bits");
    return value;
  }
  const double wide = number(what);
  if (wide != std::floor(wide)) fail_type(what, "an integer");
  // Beyond 2^53, a double may represent several integers.
  if (!(std::abs(wide) <= 0x1p53)) fail_type(what, "at most 2^53 unless written as an integer");
  return static_cast<std::int64_t>(wide);
}

std::uint64_t Json::count(std::string_view what) const {
  const std::string_view token = this->token();
  std::uint64_t value = 0;
  const auto read = std::from_chars(token.data(), token.data() + token.size(), value);
  if (read.ptr != token.data() + token.size())
    fail_type(what, "a non-negative integer in digits");
  if (read.ec != std::errc()) fail_type(what, "an integer within 64 bits");
  return value;
}

std::string Json::unquoted(std::uint32_t node) const {
  const std::string_view text = from(node);
  std::string value;
  std::size_t at = 1, plain = 1;  // characters from `plain` to `at` have no escapes
  for (; text[at] != '"'; ++at) {
    if (text[at] != '\\') continue;
    value += text.substr(plain, at - plain);
    const Escape escape = escape_of(text.substr(at));
    append_utf8(value, escape.code);
    plain = at + escape.length;
    at = plain - 1;
  }
  return value += text.substr(plain, at - plain);
}

// Same as unquoted(node) == name, without an allocation if there are no escapes.
bool Json::is_quoted(std::uint32_t node, std::string_view name) const {
  const std::string_view text = from(node).substr(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (text[i] == '\\') return unquoted(node) == name;
    if (text[i] != name[i] || text[i] == '"') return false;
  }
  return text[name.size()] == '"';
}

std::string Json::string(std::string_view what) const {
  if (!is(JsonType::string)) fail_type(what, "a string");
  return unquoted(node_);
}

template <typename T, typename Read>
std::vector<T> Json::list(std::string_view what, const char* wanted, Read read) const {
  if (!is(JsonType::array)) fail_type(what, wanted);
  std::vector<T> values;
  for_each_element([&](const Json& element) {
    if (values.size() == max_list)
      element.fail(std::string(what) + " must have at most " + std::to_string(max_list) +
                   " elements");
    values.push_back(read(element));
  });
  return values;
}

std::vector<double> Json::numbers(std::string_view what) const {
  return list<double>(what, "a list of numbers",
                      [&](const Json& element) { return element.number(what); });
}

std::vector<std::int64_t> Json::integers(std::string_view what) const {
  return list<std::int64_t>(what, "a list of integers",
                            [&](const Json& element) { return element.integer(what); });
}

std::vector<std::string> Json::strings(std::string_view what) const {
  return list<std::string>(what, "a list of strings",
                           [&](const Json& element) { return element.string(what); });
}

std::optional<Json> Json::find(std::string_view name) const {
  std::optional<Json> found;
  if (!is(JsonType::object)) return found;
  for (std::uint32_t at = node_ + 1; at < next(node_); at = next(at + 1)) {
    if (!is_quoted(at, name)) continue;
    const Json value(document_, at + 1);
    if (found) value.fail(internal::shown(name) + " occurs twice");
    found = value;
  }
  return found;
}

}  // namespace gnomon::internal
