#include "bench/kernels/roofs.h"

#include <algorithm>
#include <cstring>

#include "bench/kernels/blocks.h"
#include "bench/kernels/sgemm.h"
#include "gnomon/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define GNOMON_WIDEST \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GNOMON_WIDEST
#endif

namespace gnomon::bench {
namespace {

using std::int64_t;

GNOMON_WIDEST void fill_words(std::uint64_t* to, int64_t count, std::uint64_t value) {
  for (int64_t i = 0; i < count; ++i) to[i] = value;
}
GNOMON_WIDEST void touch_words(std::uint64_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] ^= 0x8000'0000'8000'0000;
}
GNOMON_WIDEST std::uint64_t mix_words(const std::uint64_t* from, int64_t count) {
  std::uint64_t mixed = 0;
  for (int64_t i = 0; i < count; ++i) mixed ^= from[i];
  return mixed;
}
// 256 independent chains: sufficient for any latency and vector width.
GNOMON_WIDEST float multiply_add(int64_t rounds, float factor) {
  float sums[256] = {};
  for (int64_t r = 0; r < rounds; ++r)
    for (float& sum : sums) sum = sum * factor + 1.0f;
  float total = 0;
  for (float sum : sums) total += sum;
  return total;
}

template <typename Body>
void for_pieces(void* begin, std::size_t bytes, const Body& body) {
  constexpr int64_t piece = int64_t{1} << 15;  // words
  auto* const words = static_cast<std::uint64_t*>(begin);
  parallel_for(
      static_cast<int64_t>(bytes / 8), piece,
      [&](int64_t from, int64_t to) { body(words + from, to - from); }, Share::contiguous);
}

RoofRun passing(int64_t bytes, void (*pass)(void*, std::size_t)) {
  const auto buffer = zeros<std::uint64_t, 1>({(bytes + 7) / 8});
  return {[=] { pass(buffer->data.get(), static_cast<std::size_t>(bytes)); },
          static_cast<double>(bytes)};
}

RoofRun multiplying(double operations) {
  constexpr int64_t pieces = 64;
  const auto rounds = static_cast<int64_t>(operations / (2.0 * 256 * pieces));
  return {[rounds] {
            parallel_for(pieces, 1, [rounds](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) {
                volatile float kept = multiply_add(rounds, 0.5f);
                (void)kept;
              }
            });
          },
          operations, "multiply-adds in registers (neither OpenBLAS nor oneDNN is installed)"};
}

}  // namespace

void fill_bytes(void* begin, std::size_t bytes) {
  static std::uint64_t value = 0;
  ++value;
  for_pieces(begin, bytes,
             [](std::uint64_t* to, int64_t count) { fill_words(to, count, value); });
}

void touch_bytes(void* begin, std::size_t bytes) { for_pieces(begin, bytes, touch_words); }

void read_bytes(const void* begin, std::size_t bytes) {
  for_pieces(const_cast<void*>(begin), bytes, [](const std::uint64_t* from, int64_t count) {
    volatile std::uint64_t kept = mix_words(from, count);
    (void)kept;
  });
}

RoofRun touching(int64_t bytes) { return passing(bytes, touch_bytes); }

RoofRun writing(int64_t bytes) { return passing(bytes, fill_bytes); }

RoofRun touching_and_reading(int64_t touched, int64_t read) {
  const auto buffer = zeros<std::uint64_t, 1>({read / 8 + 1});
  const RoofRun touch = touching(touched), rest = reading({{buffer->data.get(), read}});
  return {[=] {
            (void)buffer;
            touch.run();
            rest.run();
          },
          touch.work + rest.work};
}

RoofRun copying(int64_t read, int64_t written) {
  constexpr int64_t block = 512;  // words of `from`: 4 KB
  const int64_t words = (read + 7) / 8, to_words = (written + 7) / 8;
  const auto from = zeros<std::uint64_t, 1>({words}), to = zeros<std::uint64_t, 1>({to_words});
  const auto to_word = [=](int64_t word) { return word * to_words / words; };
  return {[=] {
            const std::uint64_t* const source = from->data.get();
            std::uint64_t* const target = to->data.get();
            parallel_for(
                words, int64_t{1} << 15,
                [&](int64_t begin, int64_t end) {
                  if (words == to_words) {
                    std::memcpy(target + begin, source + begin, at(end - begin) * 8);
                    return;
                  }
                  for (; begin < end; begin += block) {
                    const int64_t next = std::min(end, begin + block);
                    fill_words(target + to_word(begin), to_word(next) - to_word(begin),
                               mix_words(source + begin, next - begin));
                  }
                },
                Share::contiguous);
          },
          static_cast<double>(read + written)};
}

RoofRun reading(std::vector<std::pair<const void*, int64_t>> parts) {
  double work = 0;
  for (const auto& [begin, bytes] : parts) work += static_cast<double>(bytes);
  return {[parts = std::move(parts)] {
            for (const auto& [begin, bytes] : parts)
              read_bytes(begin, static_cast<std::size_t>(bytes));
          },
          work};
}

RoofRun best_multiplier() {
  constexpr int64_t n = 2048;
  const Sgemm* const sgemm = fastest_sgemm();
  if (!sgemm) return multiplying(0x1p28);  // 5 ms and more
  static const auto a = random_block<float, 2>({n, n}), b = random_block<float, 2>({n, n}),
                    c = zeros<float, 2>({n, n});
  return {[sgemm] { sgemm->multiply(n, a->data.get(), b->data.get(), c->data.get()); },
          2.0 * n * n * n, sgemm->name + ", sgemm of 2048 x 2048 x 2048"};
}

}  // namespace gnomon::bench
