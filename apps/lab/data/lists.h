// Lists of values.
#pragma once

#include <algorithm>
#include <functional>
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

}  // namespace gnomon::lab
