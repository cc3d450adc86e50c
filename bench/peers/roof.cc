// C++ functions of the comparison besides gnomon.h: the roofs of bench/kernels, a loop around
// one function to measure the cost of a call from Python, and the name of the compiler.
#include "bench/kernels/roofs.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "gnomon.h"

#define GNOMON_PEERS extern "C" __attribute__((visibility("default")))

namespace {

// Returns the nanoseconds of `count` calls, or -1 if a call fails.
template <typename Call>
std::int64_t timed(std::int64_t count, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < count; ++i)
    if (call() != GNOMON_OK) return -1;
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

template <typename Pass>
std::int64_t timed_pass(void* data, std::int64_t bytes, std::int64_t count, Pass pass) {
  return timed(count, [=] {
    pass(data, static_cast<std::size_t>(bytes));
    return GNOMON_OK;
  });
}

}  // namespace

// The roofs: the same bytes read and written in place, only written, or only read.
GNOMON_PEERS std::int64_t peers_touch(void* data, std::int64_t bytes, std::int64_t count) {
  return timed_pass(data, bytes, count, gnomon::bench::touch_bytes);
}

GNOMON_PEERS std::int64_t peers_fill(void* data, std::int64_t bytes, std::int64_t count) {
  return timed_pass(data, bytes, count, gnomon::bench::fill_bytes);
}

GNOMON_PEERS std::int64_t peers_read(void* data, std::int64_t bytes, std::int64_t count) {
  return timed_pass(data, bytes, count, gnomon::bench::read_bytes);
}

// The time of `operations` by sgemm, from at least one whole product.
GNOMON_PEERS std::int64_t peers_multiply(double operations, std::int64_t count) {
  static const gnomon::bench::RoofRun roof = gnomon::bench::best_multiplier();
  const double products = operations * static_cast<double>(count) / roof.work;
  const auto whole = std::max<std::int64_t>(1, std::llround(products));
  const std::int64_t spent = timed(whole, [] {
    roof.run();
    return GNOMON_OK;
  });
  return std::llround(static_cast<double>(spent) * products / static_cast<double>(whole));
}

GNOMON_PEERS std::int64_t peers_rotate(const gnomon_tensor* q, const gnomon_tensor* k,
                                       const gnomon_rotary_table* table,
                                       gnomon_direction direction, std::int64_t count) {
  return timed(count, [&] { return gnomon_rotate(q, k, table, direction); });
}

GNOMON_PEERS const char* peers_compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}
