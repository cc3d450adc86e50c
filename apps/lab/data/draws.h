// Random numbers from a key and a counter, without state to save. The numbers of a run are a
// function of its seed and step, so a resumed run gets the same numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gnomon::lab {

// SplitMix64 (Steele, Lea, Flood 2014).
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// FNV-1a of bytes that follow those with the hash `hash`.
inline std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}
inline std::uint64_t hash_of(std::string_view bytes) { return mixed(fnv1a(bytes)); }

class Draws {
 public:
  // key: integers or values of enumerations.
  template <typename... Key>
    requires(sizeof...(Key) > 0 && ((std::integral<Key> || std::is_enum_v<Key>) && ...))
  Draws(Key... key) {
    ((state_ = mixed(state_ + static_cast<std::uint64_t>(key))), ...);
  }
  std::uint64_t next() { return mixed(state_ + counter_++); }
  // 0 to count - 1. Deviates from the uniform distribution by less than count / 2^64.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
  }
  // An element of a list, each with the same probability.
  const auto& one_of(const auto& list) { return std::data(list)[below(std::ssize(list))]; }

 private:
  std::uint64_t state_ = 0, counter_ = 0;
};

// Moves `count` of the elements, chosen without replacement, to the front in a random order
// (Fisher and Yates).
template <typename T>
void shuffle(std::vector<T>& from, std::size_t count, Draws& draws) {
  for (std::size_t i = 0; i < count; ++i)
    std::swap(from[i], from[i + static_cast<std::size_t>(
                                    draws.below(static_cast<std::int64_t>(from.size() - i)))]);
}

}  // namespace gnomon::lab
