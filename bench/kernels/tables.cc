// Tables: computed (fill, table) and added to the embeddings (add).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/kernels/blocks.h"
#include "bench/kernels/kernels.h"
#include "gnomon/angles.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

constexpr int64_t pairs = 64;

std::vector<int64_t> run_of(int64_t tokens, int64_t first = 0) {
  return consecutive(tokens, first).ids;
}

// The largest error of cos and sin of positions[t] x frequencies[i], on a sample. cosine(t, i)
// and sine(t, i) read the entries.
template <typename P, typename Cosine, typename Sine>
double worst_angle(const std::vector<P>& positions, const std::vector<double>& frequencies,
                   Cosine cosine, Sine sine) {
  const auto tokens = std::ssize(positions);
  double worst = 0;
  for (int64_t t = 0; t < tokens; t += std::max<int64_t>(1, tokens / 131))
    for (std::size_t i = 0; i < frequencies.size(); i += 3) {
      const long double angle =
          static_cast<long double>(positions[static_cast<std::size_t>(t)]) * frequencies[i];
      const auto c = static_cast<int64_t>(i);
      worst = std::max({worst, std::fabs(cosine(t, c) - static_cast<double>(std::cos(angle))),
                        std::fabs(sine(t, c) - static_cast<double>(std::sin(angle)))});
    }
  return worst;
}

template <typename T, typename P>
Kernel fill_kernel(const std::vector<P>& positions, int64_t width, const char* kind = "") {
  const auto tokens = std::ssize(positions);
  const auto out = zeros<T, 2>({tokens, width});
  const Sinusoidal spec{.width = width, .recipe = SinusoidalRecipe::interleaved};
  const int64_t bytes = tokens * width * static_cast<int64_t>(sizeof(T));
  return {"fill",
          fmt::format("sinusoidal {}{} [{}, {}]", name(dtype_of<T>), kind, tokens, width),
          Roof::memory,
          static_cast<double>(bytes),
          [=] { fill(spec, std::span<const P>(positions), out->view); },
          [=] { return writing(bytes); },
          [=] {
            return worst_angle(
                positions, frequencies(spec),
                [&](int64_t t, int64_t i) { return as_double(out->view(t, 2 * i + 1)); },
                [&](int64_t t, int64_t i) { return as_double(out->view(t, 2 * i)); });
          }};
}

template <typename T>
Kernel table_kernel(const std::vector<int64_t>& ids) {
  const auto tokens = std::ssize(ids);
  const auto cosines = zeros<T, 2>({tokens, pairs}), sines = zeros<T, 2>({tokens, pairs});
  const auto f = inverse_frequencies({.rotary_dim = 2 * pairs, .pairing = Pairing::halves});
  const int64_t bytes = 2 * tokens * pairs * static_cast<int64_t>(sizeof(T));
  return {"table",
          fmt::format("rotary {} 2 x [{}, {}]", name(dtype_of<T>), tokens, pairs),
          Roof::memory,
          static_cast<double>(bytes),
          [=] {
            fill_cos_sin(std::span<const int64_t>(ids), std::span<const double>(f),
                         cosines->view, sines->view);
          },
          [=] { return writing(bytes); },
          [=] {
            return worst_angle(
                ids, f, [&](int64_t t, int64_t i) { return as_double(cosines->view(t, i)); },
                [&](int64_t t, int64_t i) { return as_double(sines->view(t, i)); });
          }};
}

template <typename T>
Kernel add_kernel(std::array<std::ptrdiff_t, 3> shape) {
  const auto [batch, tokens, width] = shape;
  const auto x = random_block<T, 3>(shape);
  const auto table = random_block<float, 2>({tokens, width});
  const int64_t bytes = x->view.size() * static_cast<int64_t>(sizeof(T));
  const int64_t read = table->view.size() * static_cast<int64_t>(sizeof(float));
  return {"add",
          fmt::format("table to {} [{}, {}, {}]", name(dtype_of<T>), batch, tokens, width),
          Roof::memory, static_cast<double>(bytes + read),
          // Adds and subtracts in alternation, so that the values do not grow.
          [=, sign = 1.0f]() mutable {
            add_table(x->view, table->view, sign);
            sign = -sign;
          },
          [=] { return touching_and_reading(bytes, read); },
          [=] {
            const auto before = random_block<T, 3>(shape), after = random_block<T, 3>(shape);
            add_table(after->view, table->view);
            const int64_t last = shape[0] - 1;
            double worst = 0;
            for (int64_t t = 0; t < shape[1]; t += 7)
              for (int64_t c = 0; c < shape[2]; c += 13)
                worst = std::max(worst, std::fabs(as_double(after->view(last, t, c)) -
                                                  (as_double(before->view(last, t, c)) +
                                                   double{table->view(t, c)})));
            return worst;
          }};
}

// Rows of a table, last to first.
std::shared_ptr<Block<int64_t, 2>> backwards(int64_t batch, int64_t tokens) {
  auto rows = zeros<int64_t, 2>({batch, tokens});
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < tokens; ++t) rows->view(b, t) = tokens - 1 - t;
  return rows;
}

template <typename T>
Kernel add_rows_kernel(std::array<std::ptrdiff_t, 3> shape) {
  const auto x = random_block<T, 3>(shape);
  // Zeros, so that the values do not grow.
  const auto table = zeros<float, 2>({shape[1], shape[2]});
  const auto rows = backwards(shape[0], shape[1]);
  const int64_t bytes = x->view.size() * static_cast<int64_t>(sizeof(T));
  const int64_t read = table->view.size() * static_cast<int64_t>(sizeof(float));
  return {
      "add",
      fmt::format("rows to {} [{}, {}, {}]", name(dtype_of<T>), shape[0], shape[1], shape[2]),
      Roof::memory,
      static_cast<double>(bytes + read),
      [=] { add_rows(x->view, table->view, rows->view); },
      [=] { return touching_and_reading(bytes, read); },
      [=] {
        const auto before = random_block<T, 3>(shape), after = random_block<T, 3>(shape);
        const auto added = random_block<float, 2>(table->view.extents());
        add_rows(after->view, added->view, rows->view);
        double worst = 0;
        for (int64_t t = 0; t < shape[1]; t += 7)
          for (int64_t c = 0; c < shape[2]; c += 13)
            worst = std::max(worst, std::fabs(as_double(after->view(0, t, c)) -
                                              (as_double(before->view(0, t, c)) +
                                               double{added->view(shape[1] - 1 - t, c)})));
        return worst;
      }};
}

enum class RowOrder { in_order = 1, by_number };

// The gradient of the table: a sum over the batch.
template <typename T>
Kernel add_backward_kernel(std::array<std::ptrdiff_t, 3> shape, RowOrder order) {
  const auto grad = random_block<T, 3>(shape);
  const auto sums = zeros<float, 2>({shape[1], shape[2]});
  const auto rows = backwards(shape[0], shape[1]);
  const auto add_to = [=](View<float, 2> out) {
    if (order == RowOrder::in_order)
      add_table_backward(grad->view, 1, out);
    else
      add_rows_backward(grad->view, rows->view, out);
  };
  const int64_t bytes = grad->view.size() * static_cast<int64_t>(sizeof(T));
  return {
      "add",
      fmt::format("{} backward {} [{}, {}, {}]", order == RowOrder::in_order ? "table" : "rows",
                  name(dtype_of<T>), shape[0], shape[1], shape[2]),
      Roof::memory,
      static_cast<double>(bytes),
      [=] { add_to(sums->view); },
      [=] { return reading({{grad->data.get(), bytes}}); },
      [=] {
        const auto fresh = zeros<float, 2>({shape[1], shape[2]});
        add_to(fresh->view);
        double worst = 0;
        for (int64_t t = 0; t < shape[1]; t += 7)
          for (int64_t c = 0; c < shape[2]; c += 13) {
            const int64_t row = order == RowOrder::in_order ? t : shape[1] - 1 - t;
            double sum = 0;
            for (int64_t b = 0; b < shape[0]; ++b) sum += as_double(grad->view(b, t, c));
            worst = std::max(worst, std::fabs(double{fresh->view(row, c)} - sum));
          }
        return worst;
      }};
}

}  // namespace

std::vector<KernelMaker> table_kernels(std::optional<int64_t> only) {
  constexpr int64_t width = 1024;
  std::vector<KernelMaker> all;
  const auto add = [&](const char* name, auto make) { all.push_back({name, make}); };
  for (const int64_t tokens : lengths(only, width * 4)) {
    add("fill", [=] { return fill_kernel<float>(run_of(tokens), width); });
    add("fill", [=] { return fill_kernel<BFloat16>(run_of(tokens), width); });
  }
  const int64_t prompt = only.value_or(512);
  add("fill", [=] {  // positions without a common step
    std::vector<int64_t> ids = run_of(prompt);
    for (int64_t& id : ids) id = id * 7919 % 131'072;
    return fill_kernel<float>(ids, width, " scattered");
  });
  add("fill", [=] {  // a batch of diffusion
    std::vector<double> times;
    for (int64_t t = 0; t < prompt; ++t) times.push_back(0.37 * static_cast<double>(t));
    return fill_kernel<float>(times, width, " timesteps");
  });
  for (const int64_t tokens : lengths(only, 2 * pairs * 4)) {
    add("table", [=] { return table_kernel<float>(run_of(tokens)); });
    add("table", [=] { return table_kernel<Half>(run_of(tokens)); });
    add("table", [=] { return table_kernel<BFloat16>(run_of(tokens)); });
  }
  for (const int64_t tokens : lengths(only, width * 4)) {
    add("add", [=] { return add_kernel<float>({1, tokens, width}); });
    add("add", [=] { return add_kernel<BFloat16>({1, tokens, width}); });
  }
  const std::array<std::ptrdiff_t, 3> batch{8, only.value_or(2048), width};
  const auto of_batch = [&]<typename T>(T) {
    add("add", [=] { return add_kernel<T>(batch); });
    add("add rows", [=] { return add_rows_kernel<T>(batch); });
    add("add backward", [=] { return add_backward_kernel<T>(batch, RowOrder::in_order); });
    add("add backward", [=] { return add_backward_kernel<T>(batch, RowOrder::by_number); });
  };
  of_batch(float());
  of_batch(BFloat16());
  of_batch(Half());
  return all;
}

std::vector<CountedKernel> counted_tables() {
  return {
      {"cos_sin_512_positions", 512 * 64 * 2,
       [] { return table_kernel<float>(run_of(512, 1000)); }},
      {"cos_sin_f16_512_positions", 512 * 64 * 2,
       [] { return table_kernel<Half>(run_of(512, 1000)); }},
      {"cos_sin_bf16_512_positions", 512 * 64 * 2,
       [] { return table_kernel<BFloat16>(run_of(512, 1000)); }},
      {"cos_sin_one_position", 64 * 2, [] { return table_kernel<float>(run_of(1, 1000)); }},
      {"sinusoidal_fill", 256 * 128, [] { return fill_kernel<float>(run_of(256), 128); }},
      {"add_table_f32", 2 * 64 * 256, [] { return add_kernel<float>({2, 64, 256}); }},
      {"add_table_bf16", 2 * 64 * 256, [] { return add_kernel<BFloat16>({2, 64, 256}); }},
  };
}

}  // namespace gnomon::bench
