#include "src/model/json.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::model::internal {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads tokens and says where they end.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
  }

  std::size_t at() const { return at_; }
  bool done() const { return at_ == text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  void skip_space() {
    while (!done() && is_space(text_[at_])) ++at_;
  }
  bool take(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void string() {
    const std::size_t begin = ++at_;
    while (!done() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20)
        fail("a control character in a string");
      if (text_[at_] == '\\')
        escape();
      else
        ++at_;
    }
    if (done()) fail("a string without an end");
    const std::string_view inside = text_.substr(begin, at_ - begin);
    if (const std::size_t bad = gnomon::internal::ill_formed_utf8(inside); bad != inside.npos) {
      at_ = begin + bad;
      fail("a byte that is not UTF-8");
    }
    ++at_;
  }

  void scalar() {
    for (const std::string_view word : {"true", "false", "null", "NaN", "Infinity"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return end_of_scalar();
      }
    take('-');
    if (text_.substr(at_).starts_with("Infinity")) {
      at_ += 8;
      return end_of_scalar();
    }
    if (!take('0')) digits();
    if (take('.')) digits();
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      digits();
    }
    end_of_scalar();
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw FormatError(name_, at_, reason);
  }
  [[noreturn]] void expected(const char* what) const {
    if (done()) fail(std::string("the text ends before ") + what);
    const char c = text_[at_];
    const bool shown = c > ' ' && c < 127;
    fail(std::string("not JSON: ") + (shown ? std::string(1, c) : "another byte") +
         " in place of " + what);
  }

 private:
  void escape() {
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (c == 'u') {
      for (std::size_t k = 2; k < 6; ++k)
        if (at_ + k >= text_.size() ||
            !std::isxdigit(static_cast<unsigned char>(text_[at_ + k])))
          fail("\\u without four hexadecimal digits");
      at_ += 6;
    } else if (std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos && c != '\0') {
      at_ += 2;
    } else {
      fail("an unknown escape in a string");
    }
  }
  void digits() {
    if (done() || !is_digit(text_[at_])) expected("a value");
    while (!done() && is_digit(text_[at_])) ++at_;
  }
  void end_of_scalar() const {
    if (!done() && !is_space(text_[at_]) && text_[at_] != ',' && text_[at_] != ']' &&
        text_[at_] != '}')
      expected("the end of a value");
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

void append_utf8(std::string& to, unsigned code) {
  const auto put = [&](unsigned byte) { to += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
}

// The four digits after \u, which the scan has seen.
unsigned hex4(std::string_view digits) {
  unsigned code = 0;
  std::from_chars(digits.data(), digits.data() + 4, code, 16);
  return code;
}

}  // namespace

// note(begin) at each value and each name, in order, returns its number; note.end(number) when
// all that is in it has been noted.
template <typename Note>
void JsonDocument::scan(Note&& note) const {
  Scanner in(text_, name_);
  std::vector<std::pair<char, std::uint32_t>> open;  // brackets, and their nodes
  const auto value = [&] {
    const char c = in.peek();
    const std::uint32_t node = note.begin(static_cast<std::uint32_t>(in.at()));
    if (c == '{' || c == '[') {
      if (open.size() == max_depth)
        in.fail("deeper than " + std::to_string(max_depth) + " levels");
      in.take(c);
      open.emplace_back(c, node);
      return;
    }
    if (c == '"')
      in.string();
    else
      in.scalar();
    note.end(node);
  };
  const auto member = [&] {
    in.skip_space();
    if (in.peek() != '"') in.expected("the name of a member");
    note.end(note.begin(static_cast<std::uint32_t>(in.at())));
    in.string();
    in.skip_space();
    if (!in.take(':')) in.expected(":");
    in.skip_space();
    value();
  };
  in.skip_space();
  if (in.done()) in.fail("no JSON in it");
  value();
  bool fresh = !open.empty();  // just after a bracket that opens
  while (!open.empty()) {
    in.skip_space();
    const auto [bracket, node] = open.back();
    const bool object = bracket == '{';
    if (in.take(object ? '}' : ']')) {
      note.end(node);
      open.pop_back();
      fresh = false;
      continue;
    }
    if (!fresh && !in.take(',')) in.expected(object ? ", or }" : ", or ]");
    const std::size_t depth = open.size();
    if (object) {
      member();
    } else {
      in.skip_space();
      value();
    }
    fresh = open.size() > depth;
  }
  in.skip_space();
  if (!in.done()) in.expected("the end");
}

JsonDocument::JsonDocument(std::string_view text, std::string name)
    : text_(text), name_(std::move(name)) {
  if (text.size() > max_size)
    throw FormatError(
        name_, 0,
        std::to_string(text.size()) + " bytes of JSON, over " + std::to_string(max_size));
  struct Counter {
    std::uint32_t count = 0;
    std::uint32_t begin(std::uint32_t) { return count++; }
    void end(std::uint32_t) {}
  } counter;
  scan(counter);
  nodes_.reserve(counter.count);  // exactly: growing would take twice the memory
  struct Writer {
    std::vector<Node>& nodes;
    std::uint32_t begin(std::uint32_t at) {
      nodes.push_back({at, 0});
      return static_cast<std::uint32_t>(nodes.size() - 1);
    }
    void end(std::uint32_t node) {
      nodes[node].next = static_cast<std::uint32_t>(nodes.size());
    }
  } writer{nodes_};
  scan(writer);
}

Json JsonDocument::root() const noexcept { return {this, 0}; }

char Json::first() const noexcept { return document_->text_[document_->nodes_[node_].begin]; }

std::uint32_t Json::next(std::uint32_t node) const noexcept {
  return document_->nodes_[node].next;
}

JsonType Json::type() const noexcept {
  switch (first()) {
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
  const std::string_view all = document_->text_;
  const std::size_t begin = document_->nodes_[node_].begin;
  std::size_t end = begin;
  while (end < all.size() && !is_space(all[end]) && all[end] != ',' && all[end] != ']' &&
         all[end] != '}')
    ++end;
  return all.substr(begin, end - begin);
}

std::string Json::shown() const {
  constexpr std::size_t most = 40;
  using gnomon::internal::printable;
  if (is(JsonType::array)) return "a list";
  if (is(JsonType::object)) return "an object";
  if (is(JsonType::string)) {
    std::string text("\"");
    return text.append(printable(unquoted(node_), most)).append("\"");
  }
  return printable(token(), most);
}

void Json::fail(const std::string& reason) const {
  // A reason may quote the file.
  throw FormatError(document_->name_, document_->nodes_[node_].begin,
                    gnomon::internal::printable(reason, 400));
}

void Json::fail_type(std::string_view what, const char* wanted) const {
  fail(std::string(what) + " must be " + wanted + ", got " + shown());
}

bool Json::boolean(std::string_view what) const {
  if (!is(JsonType::boolean)) fail_type(what, "true or false");
  return first() == 't';
}

double Json::number(std::string_view what) const {
  if (!is(JsonType::number)) fail_type(what, "a number");
  const std::string_view token = this->token();
  if (token == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (token == "Infinity") return std::numeric_limits<double>::infinity();
  if (token == "-Infinity") return -std::numeric_limits<double>::infinity();
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
  if (read.ec == std::errc() && read.ptr == token.data() + token.size()) return value;
  const double wide = number(what);
  if (!(std::abs(wide) <= 0x1p53) || wide != std::floor(wide)) fail_type(what, "an integer");
  return static_cast<std::int64_t>(wide);
}

std::string Json::unquoted(std::uint32_t node) const {
  const std::string_view text = document_->text_;
  std::string value;
  std::size_t at = document_->nodes_[node].begin + 1;
  while (text[at] != '"') {
    if (text[at] != '\\') {
      value += text[at++];
      continue;
    }
    const char c = text[at + 1];
    at += 2;
    if (c == 'u') {
      unsigned code = hex4(text.substr(at));
      at += 4;
      const bool high = code >= 0xD800 && code < 0xDC00;
      if (high && text[at] == '\\' && text[at + 1] == 'u') {
        const unsigned low = hex4(text.substr(at + 2));
        if (low >= 0xDC00 && low < 0xE000) {
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          at += 6;
        }
      }
      append_utf8(value, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
      continue;
    }
    constexpr std::string_view letters = "bfnrt", meanings = "\b\f\n\r\t";
    const std::size_t letter = letters.find(c);
    value += letter == std::string_view::npos ? c : meanings[letter];
  }
  return value;
}

std::string Json::string(std::string_view what) const {
  if (!is(JsonType::string)) fail_type(what, "a string");
  return unquoted(node_);
}

template <typename T, typename Read>
std::vector<T> Json::list(std::string_view what, const char* wanted, Read read) const {
  if (!is(JsonType::array)) fail_type(what, wanted);
  std::vector<T> values;
  for (std::uint32_t at = node_ + 1; at < next(node_); at = next(at)) {
    const Json element(document_, at);
    if (values.size() == max_list)
      element.fail(std::string(what) + " must have at most " + std::to_string(max_list) +
                   " elements");
    values.push_back(read(element));
  }
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
    if (unquoted(at) != name) continue;
    const Json value(document_, at + 1);
    if (found) value.fail(gnomon::internal::shown(name) + " occurs twice");
    found = value;
  }
  return found;
}

}  // namespace gnomon::model::internal
