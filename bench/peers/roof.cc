// C++ functions of the comparison besides gnomon.h: the roofs, a loop around one function to
// measure the cost of a call from Python, and the name of the compiler.
#include <chrono>
#include <cstdint>

#include "gnomon.h"
#include "gnomon/parallel.h"

#if defined(__x86_64__)
#define GNOMON_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GNOMON_WIDEST
#endif
#define GNOMON_PEERS extern "C" __attribute__((visibility("default")))

namespace gnomon {
namespace {

GNOMON_WIDEST void flip_signs(std::uint32_t* data, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) data[i] ^= 0x80000000u;
}

GNOMON_WIDEST void put_ones(std::uint32_t* data, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) data[i] = 0x3f800000u;
}

constexpr std::int64_t grain = 1 << 15;  // elements; below it, starting a thread costs more

// Returns the nanoseconds of `count` calls, or -1 if a call fails.
template <typename Call>
std::int64_t timed(std::int64_t count, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < count; ++i)
    if (call() != GNOMON_OK) return -1;
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

template <typename Body>
std::int64_t timed_loop(std::uint32_t* data, std::int64_t words, std::int64_t count,
                        Body&& body) {
  return timed(count, [&] {
    parallel_for(words, grain,
                 [&](std::int64_t begin, std::int64_t end) { body(data, begin, end); });
    return GNOMON_OK;
  });
}

}  // namespace
}  // namespace gnomon

// The roofs: the same bytes read and written in place, or only written.
GNOMON_PEERS std::int64_t peers_touch(std::uint32_t* data, std::int64_t words,
                                      std::int64_t count) {
  return gnomon::timed_loop(data, words, count, gnomon::flip_signs);
}

GNOMON_PEERS std::int64_t peers_fill(std::uint32_t* data, std::int64_t words,
                                     std::int64_t count) {
  return gnomon::timed_loop(data, words, count, gnomon::put_ones);
}

GNOMON_PEERS std::int64_t peers_rotate(const gnomon_tensor* q, const gnomon_tensor* k,
                                       const gnomon_rotary_table* table,
                                       gnomon_direction direction, std::int64_t count) {
  return gnomon::timed(count, [&] { return gnomon_rotate(q, k, table, direction); });
}

GNOMON_PEERS const char* peers_compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}
