// JSON that may be hostile, read in place: one pass checks it and notes where each value lies
// (8 bytes a value); numbers and strings are read when they are asked for. RFC 8259, and what
// Python's json module and others write besides: NaN, Infinity and -Infinity are numbers, and a
// byte order mark may stand before it all. Half a surrogate pair is refused.
//
// All failures are FormatError: file, byte, reason.
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

  // `begin`: the byte of the file at which the text begins.
  JsonDocument(std::string_view text, std::string name, std::uint64_t begin = 0);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const std::string& name() const noexcept { return name_; }
  Json root() const noexcept;

 private:
  friend class Json;
  class Scanner;
  // A value, or the name of a member, which its value follows.
  struct Node {
    std::uint32_t begin;  // its first byte in the text
    std::uint32_t next;   // the node after it and all that is in it
  };

  std::string_view text_;
  std::string name_;
  std::uint64_t begin_;
  std::deque<Node> nodes_;  // a vector would copy itself to grow, and take twice the memory
};

enum class JsonType { null = 1, boolean, number, string, array, object };

// One value of a document that outlives it.
class Json {
 public:
  JsonType type() const noexcept;
  bool is(JsonType wanted) const noexcept { return type() == wanted; }
  bool is_null() const noexcept { return is(JsonType::null); }

  // The value; throws where it has another type. `what` is what messages call it.
  void require(JsonType wanted, std::string_view what) const;  // of array and object
  bool boolean(std::string_view what) const;
  double number(std::string_view what) const;         // refuses what no double can hold
  std::int64_t integer(std::string_view what) const;  // also 4096.0
  std::uint64_t count(std::string_view what) const;   // digits and nothing else
  std::string string(std::string_view what) const;
  // Lists of up to max_list elements.
  static constexpr std::size_t max_list = 1 << 16;
  std::vector<double> numbers(std::string_view what) const;
  std::vector<std::int64_t> integers(std::string_view what) const;
  std::vector<std::string> strings(std::string_view what) const;

  // Of an object: the member of that name, if there is one. A name that occurs twice is
  // refused: readers differ in which of the two they take.
  std::optional<Json> find(std::string_view name) const;
  // Calls visit(name, value) for each member of an object, nothing for what is none.
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

  // As it is written: a number or word, clipped; "a list" and "an object" for these.
  std::string shown() const;
  std::uint64_t offset() const noexcept;  // its first byte in the file
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  friend class JsonDocument;
  Json(const JsonDocument* document, std::uint32_t node) : document_(document), node_(node) {}
  [[noreturn]] void fail_type(std::string_view what, const char* wanted) const;
  std::string_view from(std::uint32_t node) const noexcept;  // to the end of the text
  std::string_view token() const noexcept;  // of what is neither string, list nor object
  template <typename T, typename Read>
  std::vector<T> list(std::string_view what, const char* wanted, Read read) const;
  std::uint32_t next(std::uint32_t node) const noexcept;
  std::string unquoted(std::uint32_t node) const;
  bool is_quoted(std::uint32_t node, std::string_view name) const;

  const JsonDocument* document_;
  std::uint32_t node_;
};

}  // namespace gnomon::internal
