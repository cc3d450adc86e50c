// JSON values that the library writes: nlohmann::ordered_json with a destructor that does not
// allocate.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnomon::internal {

template <typename T>
struct JsonAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = JsonAllocator<U>;
  };
  JsonAllocator() = default;
  template <typename U>
  JsonAllocator(const JsonAllocator<U>&) noexcept {}  // NOLINT: a conversion
};

// Begin an object with OrderedJson::object(), not with a key of a null value: if that runs out
// of memory, the library leaves an object without a table, and the destructor fails (version
// 3.11.2).
using OrderedJson = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool,
                                         std::int64_t, std::uint64_t, double, JsonAllocator>;

}  // namespace gnomon::internal

// The destructor of nlohmann-json moves the parts of a value to a std::vector, so that deep
// values do not overflow the stack. It terminates the process if memory is exhausted. Depths
// are limited here (json.h), so this replacement destroys the parts where they are. The lists
// of values have another allocator, so it replaces no other vector.
template <>
class std::vector<gnomon::internal::OrderedJson> {
 public:
  using value_type = gnomon::internal::OrderedJson;
  void reserve(std::size_t) noexcept {}
  void push_back(value_type&& part) noexcept { const value_type destroyed(std::move(part)); }
  bool empty() const noexcept { return true; }
  value_type& back() noexcept { std::abort(); }  // never called, because it is empty
  void pop_back() noexcept {}
};

namespace gnomon::internal {

// Returns whether a value is this text. `value == text` would allocate in a noexcept function.
inline bool is_text(const OrderedJson& value, std::string_view text) noexcept {
  return value.is_string() && *value.get_ptr<const std::string*>() == text;
}

}  // namespace gnomon::internal
