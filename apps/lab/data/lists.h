// Lists of values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace gnomon::lab {

template <typename List, typename T>
bool contains(const List& list, const T& value) {
  return std::ranges::find(list, value) != std::ranges::end(list);
}

// Appends the value unless the list contains it.
template <typename T>
void add_once(std::vector<T>& list, const T& value) {
  if (!contains(list, value)) list.push_back(value);
}

// The results of a function, or the values of a member, for each item.
template <typename List, typename Function>
auto mapped(const List& list, Function&& function) {
  using Item = std::decay_t<std::invoke_result_t<Function&, decltype(*std::begin(list))>>;
  std::vector<Item> all;
  for (const auto& one : list) all.push_back(std::invoke(function, one));
  return all;
}

// The first item whose member has this value, or null.
template <typename List, typename Member, typename T>
auto* find_by(List& list, Member member, const T& value) {
  const auto found = std::ranges::find(list, value, member);
  return found == std::ranges::end(list) ? nullptr : &*found;
}

// The name of a value of an enumeration whose values are 1, 2, ...
template <typename Enum>
const char* name_of(Enum value, std::initializer_list<const char*> names) {
  return std::data(names)[static_cast<std::size_t>(value) - 1];
}

// The element at a signed index.
template <typename List>
auto& nth(List& list, std::int64_t index) {
  return list[static_cast<std::size_t>(index)];
}

}  // namespace gnomon::lab
