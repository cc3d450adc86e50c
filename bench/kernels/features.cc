// Features of positions (fourier) and their projection by a trained matrix.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "bench/kernels/blocks.h"
#include "bench/kernels/kernels.h"
#include "gnomon/embedding/fourier.h"
#include "gnomon/embedding/projection.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

// Kernel for perceiver and gaussian, whose sines are adjacent, followed by all cosines.
Kernel fourier_kernel(const char* kind, const Fourier& spec, int64_t points) {
  const auto at = random_block<double, 2>({points, spec.axes});
  const auto out = zeros<float, 2>({points, features(spec)});
  const int64_t bytes = out->view.size() * 4;
  return {"fourier",
          fmt::format("{} f32 [{}, {}]", kind, points, features(spec)),
          Roof::memory,
          static_cast<double>(bytes),
          [=] { fill(spec, at->view, out->view); },
          [=] { return writing(bytes); },
          [=] {
            const std::vector<double> f = frequencies(spec);
            const int64_t waves = std::ssize(f) / spec.axes;
            const int64_t first = features(spec) - 2 * waves;
            double worst = 0;
            for (int64_t t = 0; t < points; t += std::max<int64_t>(1, points / 131))
              for (int64_t k = 0; k < waves; k += 3) {
                long double half_turns = 0;
                for (int64_t a = 0; a < spec.axes; ++a)
                  half_turns += static_cast<long double>(at->view(t, a)) *
                                f[static_cast<std::size_t>(k * spec.axes + a)];
                const long double angle = half_turns * std::numbers::pi_v<long double>;
                const double sine = double{out->view(t, first + k)},
                             cosine = double{out->view(t, first + waves + k)};
                worst = std::max({worst, std::fabs(sine - static_cast<double>(std::sin(angle))),
                                  std::fabs(cosine - static_cast<double>(std::cos(angle)))});
              }
            return worst;
          }};
}

enum class Product { forward = 1, backward };

// The products are in double, at half the rate of sgemm or less.
Kernel projection_kernel(int64_t tokens, int64_t count, int64_t width, Product product) {
  const auto features = random_block<double, 2>({tokens, count}, 1);
  const auto weights = random_block<float, 2>({count, width}, 2);
  const auto out = random_block<float, 2>({tokens, width}, 3);  // output or its gradient
  const bool forward = product == Product::forward;
  const auto run = [=](View<float, 2> to) {
    if (forward)
      project<float>(features->view, weights->view, to);
    else
      project_backward<float>(features->view, out->view, to);
  };
  return {"projection",
          fmt::format("{}[{}, {}] to {}", forward ? "" : "backward ", tokens, count, width),
          Roof::arithmetic,
          2.0 * static_cast<double>(tokens * count * width),
          [=] { run(forward ? out->view : weights->view); },
          best_multiplier,
          [=] {
            const auto fresh =
                zeros<float, 2>(forward ? out->view.extents() : weights->view.extents());
            run(fresh->view);
            double worst = 0;
            for (int64_t i = 0; i < fresh->view.extent(0); i += 11)
              for (int64_t c = 0; c < width; c += 13) {
                double sum = 0;
                if (forward)
                  for (int64_t f = 0; f < count; ++f)
                    sum += features->view(i, f) * double{weights->view(f, c)};
                else
                  for (int64_t t = 0; t < tokens; ++t)
                    sum += features->view(t, i) * double{out->view(t, c)};
                worst = std::max(worst, std::fabs(double{fresh->view(i, c)} - sum));
              }
            return worst;
          }};
}

}  // namespace

std::vector<KernelMaker> feature_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  const int64_t tokens = only.value_or(2048);
  all.push_back({"fourier perceiver", [=] {
                   const std::vector<double> image{224, 224};
                   return fourier_kernel("perceiver", fourier_perceiver(image, 64), tokens);
                 }});
  all.push_back({"fourier gaussian", [=] {
                   return fourier_kernel("gaussian", fourier_gaussian(2, 256, 10), tokens);
                 }});
  for (const Product product : {Product::forward, Product::backward}) {
    all.push_back({"projection",
                   [=] { return projection_kernel(only.value_or(128), 129, 128, product); }});
    all.push_back({"projection", [=] { return projection_kernel(tokens, 512, 512, product); }});
  }
  return all;
}

}  // namespace gnomon::bench
