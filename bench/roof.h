// Memory roofs, against which memory-bound kernels are compared. Compiled for the widest
// vectors of the machine, and run by the threads of gnomon::parallel_for in pieces of 256 KB.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "gnomon/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define GNOMON_WIDEST \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GNOMON_WIDEST
#endif

namespace gnomon {

GNOMON_WIDEST static void fill_words(std::uint64_t* to, std::int64_t count,
                                     std::uint64_t value) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = value;
}
GNOMON_WIDEST static void touch_words(std::uint64_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] ^= 0x8000'0000'8000'0000;
}
GNOMON_WIDEST static std::uint64_t mix_words(const std::uint64_t* from, std::int64_t count) {
  std::uint64_t mixed = 0;
  for (std::int64_t i = 0; i < count; ++i) mixed ^= from[i];
  return mixed;
}

namespace roof {

template <typename Body>
void for_pieces(void* begin, std::size_t bytes, const Body& body) {
  constexpr std::int64_t piece = std::int64_t{1} << 15;  // words
  auto* const words = static_cast<std::uint64_t*>(begin);
  parallel_for(
      static_cast<std::int64_t>(bytes / 8), piece,
      [&](std::int64_t from, std::int64_t to) { body(words + from, to - from); },
      Share::contiguous);
}

// Fills memory, in words of eight bytes. A remainder is not written. Cost: the bytes written.
inline void fill(void* begin, std::size_t bytes) {
  static std::uint64_t value = 0;
  ++value;
  for_pieces(begin, bytes,
             [](std::uint64_t* to, std::int64_t count) { fill_words(to, count, value); });
}
// Flips the signs of floats in place. Cost: the bytes read and written.
inline void touch(void* begin, std::size_t bytes) {
  for_pieces(begin, bytes,
             [](std::uint64_t* to, std::int64_t count) { touch_words(to, count); });
}
// Reads memory. Cost: the bytes read.
inline void read(const void* begin, std::size_t bytes) {
  for_pieces(const_cast<void*>(begin), bytes, [](std::uint64_t* from, std::int64_t count) {
    volatile std::uint64_t kept = mix_words(from, count);
    (void)kept;
  });
}

}  // namespace roof
}  // namespace gnomon
