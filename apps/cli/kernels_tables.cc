#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/cli/kernel_parts.h"
#include "apps/cli/kernels.h"
#include "gnomon/angles.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::cli {
namespace {

using std::int64_t;

constexpr int64_t width = 1024, pairs = 64;

Integers positions(int64_t tokens) { return consecutive(tokens).ids; }

// The largest error of cos and sin of position t x frequency i, on a sample. cosine(t, i) and
// sine(t, i) read the entries.
template <typename Cosine, typename Sine>
double worst_angle(int64_t tokens, const std::vector<double>& frequencies, Cosine cosine,
                   Sine sine) {
  double worst = 0;
  for (int64_t t = 0; t < tokens; t += std::max<int64_t>(1, tokens / 131))
    for (std::size_t i = 0; i < frequencies.size(); i += 3) {
      const long double angle = static_cast<long double>(t) * frequencies[i];
      const auto c = static_cast<int64_t>(i);
      worst = std::max({worst, std::fabs(cosine(t, c) - static_cast<double>(std::cos(angle))),
                        std::fabs(sine(t, c) - static_cast<double>(std::sin(angle)))});
    }
  return worst;
}

template <typename T>
Kernel fill_kernel(int64_t tokens) {
  const auto out = zeros<T, 2>({tokens, width});
  const Sinusoidal spec{.width = width, .recipe = SinusoidalRecipe::interleaved};
  const Integers ids = positions(tokens);
  const int64_t bytes = tokens * width * static_cast<int64_t>(sizeof(T));
  return {"fill",
          fmt::format("sinusoidal {} [{}, {}]", name(dtype_of<T>), tokens, width),
          Roof::memory,
          static_cast<double>(bytes),
          [=] { fill(spec, ids, out->view); },
          writing(bytes),
          [=] {
            return worst_angle(
                tokens, frequencies(spec),
                [&](int64_t t, int64_t i) { return as_double(out->view(t, 2 * i + 1)); },
                [&](int64_t t, int64_t i) { return as_double(out->view(t, 2 * i)); });
          }};
}

template <typename T>
Kernel table_kernel(int64_t tokens) {
  const auto cosines = zeros<T, 2>({tokens, pairs}), sines = zeros<T, 2>({tokens, pairs});
  const auto f = inverse_frequencies({.rotary_dim = 2 * pairs, .pairing = Pairing::halves});
  const Integers ids = positions(tokens);
  const int64_t bytes = 2 * tokens * pairs * static_cast<int64_t>(sizeof(T));
  return {"table",
          fmt::format("rotary {} 2 x [{}, {}]", name(dtype_of<T>), tokens, pairs),
          Roof::memory,
          static_cast<double>(bytes),
          [=] {
            fill_cos_sin(std::span<const int64_t>(ids), std::span<const double>(f),
                         cosines->view, sines->view);
          },
          writing(bytes),
          [=] {
            return worst_angle(
                tokens, f, [&](int64_t t, int64_t i) { return as_double(cosines->view(t, i)); },
                [&](int64_t t, int64_t i) { return as_double(sines->view(t, i)); });
          }};
}

template <typename T>
Kernel add_kernel(int64_t batch, int64_t tokens) {
  const auto x = random_block<T, 3>({batch, tokens, width});
  const auto table = random_block<float, 2>({tokens, width});
  const int64_t bytes = x->view.size() * static_cast<int64_t>(sizeof(T));
  return {"add",
          fmt::format("table to {} [{}, {}, {}]", name(dtype_of<T>), batch, tokens, width),
          Roof::memory, static_cast<double>(bytes),
          // Adds and subtracts in alternation, so that the values do not grow.
          [=, sign = 1.0f]() mutable {
            add_table(x->view, table->view, sign);
            sign = -sign;
          },
          touching(bytes),
          [=] {
            const auto before = random_block<T, 3>({batch, tokens, width}),
                       after = random_block<T, 3>({batch, tokens, width});
            add_table(after->view, table->view);
            double worst = 0;
            for (int64_t t = 0; t < tokens; t += 7)
              for (int64_t c = 0; c < width; c += 13)
                worst = std::max(worst, std::fabs(as_double(after->view(batch - 1, t, c)) -
                                                  (as_double(before->view(batch - 1, t, c)) +
                                                   double{table->view(t, c)})));
            return worst;
          }};
}

}  // namespace

std::vector<KernelMaker> table_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  const auto add = [&](const char* name, auto make) { all.push_back({name, make}); };
  for (const int64_t tokens : lengths(only, width * 4)) {
    add("fill", [=] { return fill_kernel<float>(tokens); });
    add("fill", [=] { return fill_kernel<BFloat16>(tokens); });
  }
  for (const int64_t tokens : lengths(only, 2 * pairs * 4)) {
    add("table", [=] { return table_kernel<float>(tokens); });
    add("table", [=] { return table_kernel<Half>(tokens); });
    add("table", [=] { return table_kernel<BFloat16>(tokens); });
  }
  for (const int64_t tokens : lengths(only, width * 4)) {
    add("add", [=] { return add_kernel<float>(1, tokens); });
    add("add", [=] { return add_kernel<BFloat16>(1, tokens); });
  }
  add("add", [=] { return add_kernel<float>(8, only.value_or(2048)); });
  add("add", [=] { return add_kernel<BFloat16>(8, only.value_or(2048)); });
  return all;
}

}  // namespace gnomon::cli
