// Random numbers from a key and a counter, without state to save. The numbers of a run are a
// function of its seed and step, so a resumed run gets the same numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
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
  Draws(std::initializer_list<std::uint64_t> key) {
    for (const std::uint64_t part : key) state_ = mixed(state_ + part);
  }
  std::uint64_t next() { return mixed(state_ + counter_++); }
  // 0 to count - 1. Deviates from the uniform distribution by less than count / 2^64.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
  }

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
