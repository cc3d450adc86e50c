#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/cli/kernel_parts.h"
#include "apps/cli/kernels.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/t5.h"

namespace gnomon::cli {
namespace {

using std::int64_t;

constexpr int64_t heads_count = 32;

Kernel strip_kernel(int64_t distances) {
  const T5Bias spec{.heads = heads_count, .direction = T5Direction::bidirectional};
  const auto table = random_block<float, 2>({spec.buckets, heads_count});
  const int64_t first = -distances / 2, bytes = distances * heads_count * 8;
  return {"bias",
          fmt::format("t5 strip f64 [{}, {}]", heads_count, distances),
          Roof::memory,
          static_cast<double>(bytes),
          [=] {
            const StripBias made = lower(spec, table->view, first, distances);
            volatile double kept = made.values[0];
            (void)kept;
          },
          writing(bytes),
          [=] {
            const StripBias made = lower(spec, table->view, first, distances);
            double worst = 0;
            for (int64_t n = 0; n < distances; n += 3)
              for (int64_t h = 0; h < heads_count; h += 7)
                worst = std::max(
                    worst, std::fabs(made.values[static_cast<std::size_t>(h * distances + n)] -
                                     double{table->view(bucket(spec, first + n), h)}));
            return worst;
          }};
}

Kernel dense_kernel(int64_t tokens) {
  constexpr int64_t few = 8;
  auto out = zeros<float, 3>({few, tokens, tokens});
  const BiasForm form = lower(Alibi{.heads = few});
  const int64_t bytes = out->view.size() * 4;
  return {"bias",
          fmt::format("alibi dense f32 [{}, {}, {}]", few, tokens, tokens),
          Roof::memory,
          static_cast<double>(bytes),
          [=] { dense(form, 0, out->view); },
          writing(bytes),
          [=] {
            double worst = 0;
            for (int64_t q = 0; q < tokens; q += 7)
              for (int64_t h = 0; h < few; ++h)
                worst = std::max(worst, std::fabs(out->view(h, q, 0) +
                                                  std::exp2(-static_cast<double>(h + 1)) *
                                                      static_cast<double>(q)));
            return worst;
          }};
}

}  // namespace

std::vector<KernelMaker> bias_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  for (const int64_t tokens : only ? std::vector{*only} : std::vector<int64_t>{512, 8192})
    all.push_back({"bias", [=] { return strip_kernel(tokens); }});
  for (const int64_t tokens : only ? std::vector{*only} : std::vector<int64_t>{128, 1024})
    all.push_back({"bias", [=] { return dense_kernel(tokens); }});
  return all;
}

}  // namespace gnomon::cli
