// JSON reader for untrusted input. One pass checks the text and stores the place of each value
// (8 bytes per value). Numbers and strings are parsed on access. The syntax is RFC 8259 with
// the extensions of Python's json module: NaN, Infinity and -Infinity are numbers, and a byte
// order mark is accepted at the beginning. An unpaired surrogate is refused.
//
// All errors are FormatError: file, byte, reason.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnomon::internal {

class Json;

// Borrows `text`.
class JsonDocument {
 public:
  static constexpr int max_depth = 64;
  static constexpr std::size_t max_size = std::size_t{256} << 20;  // bytes

  // `begin`: offset of the text in the file, in bytes.
  JsonDocument(std::string_view text, std::string name, std::uint64_t begin = 0);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const std::string& name() const noexcept { return name_; }
  Json root() const noexcept;

 private:
  friend class Json;
  class Scanner;
  // A value, or the name of a member. The value of a member follows its name.
  struct Node {
    std::uint32_t begin;  // first byte in the text
    std::uint32_t next;   // the first node after this value and its contents
  };

  std::string_view text_;
  std::string name_;
  std::uint64_t begin_;
  std::deque<Node> nodes_;  // a growing vector would need twice the memory for the copy
};

enum class JsonType { null = 1, boolean, number, string, array, object };

// One value of a document. The document must outlive it.
class Json {
 public:
  JsonType type() const noexcept;
  bool is(JsonType wanted) const noexcept { return type() == wanted; }
  bool is_null() const noexcept { return is(JsonType::null); }

  // Return the value, and throw if it has another type. `what` is the name in messages.
  void require(JsonType wanted, std::string_view what) const;  // array and object
  bool boolean(std::string_view what) const;
  double number(std::string_view what) const;         // throws if the number overflows a double
  std::int64_t integer(std::string_view what) const;  // accepts 4096.0
  std::uint64_t count(std::string_view what) const;   // digits only
  std::string string(std::string_view what) const;
  // Lists of up to max_list elements.
  static constexpr std::size_t max_list = 1 << 16;
  std::vector<double> numbers(std::string_view what) const;
  std::vector<std::int64_t> integers(std::string_view what) const;
  std::vector<std::string> strings(std::string_view what) const;

  // Returns the member of that name of an object, if it exists. A repeated name is refused,
  // because readers differ in which value they use.
  std::optional<Json> find(std::string_view name) const;
  // Calls visit(name, value) for each member of an object. Does nothing for other types.
  template <typename Visit>
  void for_each_member(Visit&& visit) const {
    if (!is(JsonType::object)) return;
    for (std::uint32_t at = node_ + 1; at < next(node_); at = next(at + 1))
      visit(unquoted(at), Json(document_, at + 1));
  }
  template <typename Visit>
  void for_each_element(Visit&& visit) const {
    if (!is(JsonType::array)) return;
    for (std::uint32_t at = node_ + 1; at < next(node_); at = next(at))
      visit(Json(document_, at));
  }

  // The text of the value for messages: a number or word, truncated; "a list" and "an object".
  std::string shown() const;
  std::uint64_t offset() const noexcept;  // first byte in the file
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  friend class JsonDocument;
  Json(const JsonDocument* document, std::uint32_t node) : document_(document), node_(node) {}
  [[noreturn]] void fail_type(std::string_view what, const char* wanted) const;
  std::string_view from(std::uint32_t node) const noexcept;  // the text from the node to the
                                                             // end
  std::string_view token() const noexcept;  // text of a number, boolean or null
  template <typename T, typename Read>
  std::vector<T> list(std::string_view what, const char* wanted, Read read) const;
  std::uint32_t next(std::uint32_t node) const noexcept;
  std::string unquoted(std::uint32_t node) const;
  bool is_quoted(std::uint32_t node, std::string_view name) const;

  const JsonDocument* document_;
  std::uint32_t node_;
};

}  // namespace gnomon::internal
