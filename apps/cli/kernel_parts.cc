#include "apps/cli/kernel_parts.h"

#include <unistd.h>

#include <algorithm>

#include "apps/cli/kernels.h"
#include "apps/cli/sgemm.h"
#include "bench/roof.h"
#include "gnomon/parallel.h"

namespace gnomon::cli {
namespace {

using std::int64_t;

// 256 independent chains: sufficient for any latency and vector width.
GNOMON_WIDEST float multiply_add(int64_t rounds, float factor) {
  float sums[256] = {};
  for (int64_t r = 0; r < rounds; ++r)
    for (float& sum : sums) sum = sum * factor + 1.0f;
  float total = 0;
  for (float sum : sums) total += sum;
  return total;
}

template <typename Pass>
std::function<void()> passing(int64_t bytes, Pass pass) {
  auto buffer = zeros<std::uint64_t, 1>({(bytes + 7) / 8});
  return [=] { pass(buffer->data.get(), static_cast<std::size_t>(bytes)); };
}

}  // namespace

std::function<void()> touching(int64_t bytes) { return passing(bytes, roof::touch); }

std::function<void()> writing(int64_t bytes) { return passing(bytes, roof::fill); }

std::function<void()> multiplying(double operations) {
  return [operations] {
    constexpr int64_t pieces = 64;
    const auto rounds = static_cast<int64_t>(operations / (2.0 * 256 * pieces));
    parallel_for(pieces, 1, [rounds](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        volatile float kept = multiply_add(std::max<int64_t>(1, rounds), 0.5f);
        (void)kept;
      }
    });
  };
}

std::function<void()> reading(std::vector<std::pair<const void*, int64_t>> parts) {
  return [parts = std::move(parts)] {
    for (const auto& [begin, bytes] : parts) roof::read(begin, static_cast<std::size_t>(bytes));
  };
}

Multiplier best_multiplier() {
  constexpr int64_t n = 2048;
  constexpr double operations = 2.0 * n * n * n, enough = 0x1p28;  // 5 ms and more
  const Sgemm* const sgemm = fastest_sgemm();
  if (!sgemm)
    return {multiplying(enough), enough,
            "multiply-adds in registers (neither OpenBLAS nor oneDNN is installed)"};
  static const auto a = random_block<float, 2>({n, n}), b = random_block<float, 2>({n, n}),
                    c = zeros<float, 2>({n, n});
  return {[sgemm] { sgemm->multiply(n, a->data.get(), b->data.get(), c->data.get()); },
          operations, sgemm->name + ", sgemm of 2048 x 2048 x 2048"};
}

std::vector<int64_t> lengths(std::optional<int64_t> only, int64_t bytes) {
  if (only) return {*only};
  const auto cache = static_cast<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE));
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  const int64_t most = std::min(2 * std::max<int64_t>(cache, 32 << 20), memory / 8);
  const int64_t past = (most / bytes + 1023) / 1024 * 1024;
  return {1, 512, 8192, std::max<int64_t>(past, 16384)};
}

std::vector<KernelMaker> kernels(const std::string& name, std::optional<int64_t> tokens) {
  std::vector<KernelMaker> all;
  for (const auto of_room :
       {table_kernels, rotary_kernels, bias_kernels, attention_kernels, encoding_kernels})
    for (KernelMaker& make : of_room(tokens)) all.push_back(std::move(make));
  if (!name.empty())
    std::erase_if(all, [&](const KernelMaker& make) {
      return make.name.compare(0, name.size(), name) != 0;
    });
  return all;
}

}  // namespace gnomon::cli
