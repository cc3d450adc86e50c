// Biases: as strips, as matrices, and added to scores.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/kernels/blocks.h"
#include "bench/kernels/kernels.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/form.h"
#include "gnomon/bias/t5.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

// `exact`: the value of a head and a distance.
Kernel strip_kernel(const char* kind, int64_t heads, int64_t distances,
                    std::function<StripBias()> make,
                    std::function<double(int64_t, int64_t)> exact) {
  const int64_t bytes = distances * heads * 8;
  return {"bias",
          fmt::format("{} strip f64 [{}, {}]", kind, heads, distances),
          Roof::memory,
          static_cast<double>(bytes),
          [=] {
            const StripBias made = make();
            volatile double kept = made.values[0];
            (void)kept;
          },
          [=] { return writing(bytes); },
          [=] {
            const StripBias made = make();
            double worst = 0;
            for (int64_t n = 0; n < distances; n += 3)
              for (int64_t h = 0; h < heads; h += 7)
                worst = std::max(worst, std::fabs(made.values[at(h * distances + n)] -
                                                  exact(h, made.min_distance + n)));
            return worst;
          }};
}

Kernel t5_strip(int64_t heads, int64_t first, int64_t distances) {
  const T5Bias spec{.heads = heads, .direction = T5Direction::bidirectional};
  const auto table = random_block<float, 2>({spec.buckets, heads});
  return strip_kernel(
      "t5", heads, distances, [=] { return lower(spec, table->view, first, distances); },
      [=](int64_t h, int64_t n) { return double{table->view(bucket(spec, n), h)}; });
}

// The slope of ALiBi for a number of heads that is a power of two.
double slope(int64_t head, int64_t heads) {
  return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(heads));
}

Kernel alibi_strip(int64_t heads, int64_t first, int64_t distances) {
  const Alibi spec{.heads = heads};
  return strip_kernel(
      "alibi", heads, distances, [=] { return lower(spec, first, distances); },
      [=](int64_t h, int64_t n) {
        return -slope(h, heads) * std::fabs(static_cast<double>(n));
      });
}

constexpr int64_t heads_count = 8;

// A form for square matrices, and its formula.
struct Form {
  const char* name;
  BiasForm form;
  std::function<double(int64_t head, int64_t query, int64_t key)> exact;
};

std::vector<double> numbers(int64_t count) {
  const auto block = random_block<double, 1>({count});
  return {block->data.get(), block->data.get() + count};
}

Form alibi() {
  return {"alibi", lower(Alibi{.heads = heads_count}), [](int64_t h, int64_t q, int64_t k) {
            return -slope(h, heads_count) * static_cast<double>(std::abs(k - q));
          }};
}

Form strip(int64_t side) {
  Form made = alibi();
  return {"strip", lower(Alibi{.heads = heads_count}, 1 - side, 2 * side - 1), made.exact};
}

// Offsets of a window with twice as many rows as columns, or as many.
Form grid(int64_t side) {
  int64_t width = 1;
  while (4 * width * width <= side) width *= 2;
  const int64_t height = (side + width - 1) / width;
  GridBias bias{.heads = heads_count, .height = height, .width = width, .values = {}};
  bias.values = numbers(heads_count * bias.offsets());
  return {"grid", bias, [bias, width, height](int64_t h, int64_t q, int64_t k) {
            const int64_t down = q / width - k / width + height - 1,
                          right = q % width - k % width + width - 1;
            return bias.values[at(h * bias.offsets() + down * (2 * width - 1) + right)];
          }};
}

Form fire(int64_t side) {
  constexpr int64_t pieces = 33;
  PiecewiseLogBias bias{.heads = heads_count,
                        .c = 0.1,
                        .threshold = static_cast<double>(side) / 4,
                        .epsilon = 1e-6,
                        .knots = {},
                        .offsets = numbers(pieces * heads_count),
                        .slopes = {}};
  for (int64_t p = 0; p < pieces; ++p) bias.knots.push_back(static_cast<double>(p) / pieces);
  // Continuous, because an x within rounding error of a knot may be in either piece.
  bias.slopes = bias.offsets;
  for (int64_t h = 0; h < heads_count; ++h)
    for (int64_t p = 1; p < pieces; ++p) {
      const std::size_t i = at(h * pieces + p);
      bias.offsets[i] =
          bias.offsets[i - 1] + (bias.slopes[i - 1] - bias.slopes[i]) * bias.knots[at(p)];
    }
  return {"fire", bias, [bias](int64_t h, int64_t q, int64_t k) {
            const auto psi = [&](double n) { return std::log(bias.c * n + 1); };
            const double x =
                psi(static_cast<double>(std::abs(k - q))) /
                (psi(std::max(bias.threshold, static_cast<double>(q))) + bias.epsilon);
            const auto piece =
                std::upper_bound(bias.knots.begin(), bias.knots.end(), x) - bias.knots.begin();
            const std::size_t i = at(h * pieces + piece - 1);
            return bias.offsets[i] + bias.slopes[i] * x;
          }};
}

// LayoutLM's three axes, for a page of words.
Form layout(int64_t side) {
  AxesBias bias{.heads = heads_count, .axes = {}};
  AxisStrip text{.min_distance = 1 - side,
                 .values = numbers(heads_count * (2 * side - 1)),
                 .coordinates = {}};
  bias.axes.push_back(text);
  for (const int64_t step : {137, 19}) {
    AxisStrip axis{
        .min_distance = -999, .values = numbers(heads_count * 1999), .coordinates = {}};
    for (int64_t p = 0; p < side; ++p) axis.coordinates.push_back(p * step % 1000);
    bias.axes.push_back(axis);
  }
  return {"layout", bias, [bias](int64_t h, int64_t q, int64_t k) {
            double sum = 0;
            for (const AxisStrip& axis : bias.axes) {
              const bool text = axis.coordinates.empty();
              const int64_t n =
                  text ? k - q : axis.coordinates[at(k)] - axis.coordinates[at(q)];
              const int64_t count = std::ssize(axis.values) / heads_count;
              sum += axis.values[at(h * count + n - axis.min_distance)];
            }
            return sum;
          }};
}

// The largest error of a sample.
double worst_entry(const Form& form, View<const float, 3> matrix) {
  double worst = 0;
  for (int64_t q = 0; q < matrix.extent(1); q += 7)
    for (int64_t k = 0; k < matrix.extent(2); k += 5)
      for (int64_t h = 0; h < heads_count; ++h)
        worst = std::max(worst, std::fabs(double{matrix(h, q, k)} - form.exact(h, q, k)));
  return worst;
}

Kernel dense_kernel(const Form& form, int64_t side) {
  const auto out = zeros<float, 3>({heads_count, side, side});
  const int64_t bytes = out->view.size() * 4;
  return {"bias",
          fmt::format("{} dense f32 [{}, {}, {}]", form.name, heads_count, side, side),
          Roof::memory,
          static_cast<double>(bytes),
          [=] { dense(form.form, 0, out->view); },
          [=] { return writing(bytes); },
          [=] { return worst_entry(form, out->view); }};
}

Kernel add_kernel(const Form& form, int64_t side) {
  const auto scores = zeros<float, 3>({heads_count, side, side});
  const int64_t bytes = scores->view.size() * 4;
  return {"bias",
          fmt::format("{} added to f32 [{}, {}, {}]", form.name, heads_count, side, side),
          Roof::memory,
          static_cast<double>(bytes),
          [=] { add_bias(scores->view, form.form, 0); },
          [=] { return touching(bytes); },
          [=] {
            const auto fresh = zeros<float, 3>(scores->view.extents());
            add_bias(fresh->view, form.form, 0);
            return worst_entry(form, fresh->view);
          }};
}

}  // namespace

std::vector<KernelMaker> bias_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  const auto add = [&](const char* name, auto make) { all.push_back({name, make}); };
  for (const int64_t tokens : only ? std::vector{*only} : std::vector<int64_t>{512, 8192}) {
    add("bias strip", [=] { return t5_strip(32, -tokens / 2, tokens); });
    add("bias strip", [=] { return alibi_strip(32, -tokens / 2, tokens); });
  }
  for (const int64_t side : only ? std::vector{*only} : std::vector<int64_t>{128, 1024}) {
    add("bias alibi", [=] { return dense_kernel(alibi(), side); });
    add("bias alibi", [=] { return add_kernel(alibi(), side); });
    const std::pair<const char*, Form (*)(int64_t)> forms[] = {{"bias strip", strip},
                                                               {"bias grid", grid},
                                                               {"bias fire", fire},
                                                               {"bias layout", layout}};
    for (const auto& [name, form] : forms) {
      add(name, [=, form = form] { return dense_kernel(form(side), side); });
      add(name, [=, form = form] { return add_kernel(form(side), side); });
    }
  }
  return all;
}

std::vector<CountedKernel> counted_biases() {
  return {{"alibi_strip", 32 * 512, [] { return alibi_strip(32, -511, 512); }},
          {"t5_strip", 16 * 511, [] { return t5_strip(16, -255, 511); }},
          {"add_bias_slopes", 8 * 64 * 64, [] { return add_kernel(alibi(), 64); }},
          {"add_bias_strip", 8 * 64 * 64, [] { return add_kernel(strip(64), 64); }}};
}

}  // namespace gnomon::bench
