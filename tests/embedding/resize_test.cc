#include "gnomon/embedding/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace embedding_resize_test {

using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr auto linear = ResizeKernel::linear;
constexpr auto cubic = ResizeKernel::cubic;
constexpr auto half_pixel = ResizeCorners::half_pixel;
constexpr auto aligned = ResizeCorners::aligned;

// The kernels as functions of a real argument.
long double kernel(ResizeKernel which, long double x, long double a) {
  x = std::fabs(x);
  if (which == linear) return x < 1 ? 1 - x : 0;
  if (x < 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
  return 0;
}

// Weight of each source sample in sample i of the result, from the definition in PyTorch: a sum
// over all integers, where the border replaces samples outside; with antialias, a normalised
// sum over the existing samples.
std::vector<long double> weights(const TableResize& r, std::int64_t i, std::int64_t from,
                                 std::int64_t to) {
  const auto in = static_cast<long double>(from), out = static_cast<long double>(to);
  const long double scale = in / (out + static_cast<long double>(r.size_offset));
  const long double centre = scale * (static_cast<long double>(i) + 0.5L) - 0.5L;
  std::vector<long double> all(static_cast<std::size_t>(from));
  if (r.antialias == Antialias::on) {
    long double sum = 0;
    for (std::int64_t k = 0; k < from; ++k) {
      const long double x = (static_cast<long double>(k) - centre) / std::fmax(1.0L, scale);
      sum += all[static_cast<std::size_t>(k)] = kernel(r.kernel, x, -0.5L);
    }
    for (long double& weight : all) weight /= sum;
    return all;
  }
  long double at = centre;
  if (r.kernel == linear && at < 0) at = 0;
  if (r.corners == aligned)
    at = to == 1 ? 0 : static_cast<long double>(i) * (in - 1) / (out - 1);
  for (std::int64_t k = -4; k < from + 4; ++k)
    all[static_cast<std::size_t>(std::clamp<std::int64_t>(k, 0, from - 1))] +=
        kernel(r.kernel, at - static_cast<long double>(k), -0.75L);
  return all;
}

template <typename T>
void expect_resized(const TableResize& r, const Tensor<T, 2>& before, GridSize from,
                    const Tensor<T, 2>& after, GridSize to) {
  const View<const T, 2> table = before.view(), out = after.view();
  const long double rounding = std::is_same_v<T, double> ? 0.0L : 0x1p-24L;
  long double largest = 0;
  for (std::int64_t n = r.extra_rows; n < table.extent(0); ++n)
    for (std::int64_t c = 0; c < table.extent(1); ++c)
      largest = std::fmax(largest, std::fabs(static_cast<long double>(table(n, c))));
  for (std::int64_t y = 0; y < to.height; ++y)
    for (std::int64_t x = 0; x < to.width; ++x) {
      const auto rows = weights(r, y, from.height, to.height);
      const auto columns = weights(r, x, from.width, to.width);
      for (std::int64_t c = 0; c < table.extent(1); ++c) {
        long double sum = 0;
        for (std::size_t i = 0; i < rows.size(); ++i)
          for (std::size_t j = 0; j < columns.size(); ++j)
            sum += rows[i] * columns[j] *
                   table(r.extra_rows + static_cast<std::int64_t>(i) * from.width +
                             static_cast<std::int64_t>(j),
                         c);
        const std::int64_t cell = r.extra_rows + y * to.width + x;
        ASSERT_LE(std::fabs(out(cell, c) - sum), rounding * std::fabs(sum) + 0x1p-46L * largest)
            << from.height << " x " << from.width << " to " << to.height << " x " << to.width
            << " at " << y << ", " << x;
      }
    }
}

std::vector<TableResize> resizes() {
  std::vector<TableResize> all{resize_linear(),
                               resize_vit(),
                               resize_dinov2_original(),
                               resize_dinov2_registers(5),
                               resize_siglip2(),
                               resize_qwen3_vl(),
                               {.kernel = cubic, .corners = aligned, .extra_rows = 2}};
  return all;
}

template <typename T = float>
Tensor<T, 2> resized(const TableResize& r, std::type_identity_t<View<const T, 2>> table,
                     GridSize from, GridSize to) {
  Tensor<T, 2> out({r.extra_rows + to.height * to.width, table.extent(1)}, T{nan});
  resize_table(r, table, from, out.view(), to);
  return out;
}

constexpr GridSize sizes[] = {{1, 1}, {1, 5}, {2, 2}, {3, 4}, {7, 7}, {16, 5}};

template <typename T>
void expect_the_definition() {
  for (const TableResize& r : resizes())
    for (const GridSize from : sizes)
      for (const GridSize to : {GridSize{1, 1}, {2, 3}, {3, 4}, {5, 16}, {10, 9}}) {
        const auto table = random_tensor<T, 2>({r.extra_rows + from.height * from.width, 3});
        const auto out = resized<T>(r, table.view(), from, to);
        expect_resized(r, table, from, out, to);
        for (std::int64_t row = 0; row < r.extra_rows; ++row)
          for (std::int64_t c = 0; c < 3; ++c)
            EXPECT_EQ(out.view()(row, c), table.view()(row, c));
      }
}

TEST(Resize, IsPyTorchsDefinitionForEveryPreset) { expect_the_definition<float>(); }
TEST(Resize, InDoubleToo) { expect_the_definition<double>(); }

TEST(Resize, VitBaseFrom224To384) {
  const TableResize r = resize_vit();
  const auto table = random_tensor<float, 2>({1 + 14 * 14, 5});
  const auto out = resized(r, table.view(), {14, 14}, {24, 24});
  expect_resized(r, table, {14, 14}, out, {24, 24});
}

TEST(Resize, EqualSizesGiveTheSameBits) {
  for (const TableResize& r : resizes()) {
    if (r.size_offset != 0) continue;  // the 0.1 of DINOv2 changes every cell
    for (const GridSize size : sizes) {
      const auto table = random_tensor<float, 2>({r.extra_rows + size.height * size.width, 4});
      EXPECT_EQ(resized(r, table.view(), size, size).values, table.values);
    }
  }
}

TEST(Resize, ConstantsStayConstant) {
  for (const TableResize& r : resizes())
    for (const GridSize from : sizes)
      for (const GridSize to : sizes) {
        const Tensor<float, 2> table({r.extra_rows + from.height * from.width, 2}, 0.1f);
        for (const float value : resized(r, table.view(), from, to).values)
          EXPECT_EQ(value, 0.1f);
      }
}

// Weights computed by hand, not by the oracle above.
TEST(Resize, LinesByHand) {
  const auto line = [](const TableResize& r, std::vector<float> values, std::ptrdiff_t to) {
    Tensor<float, 2> out({to, 1});
    resize_table(r, View<const float, 2>(values.data(), {std::ssize(values), 1}), out.view());
    return out.values;
  };
  using Line = std::vector<float>;
  EXPECT_EQ(line(resize_linear(), {0, 4}, 4), (Line{0, 1, 3, 4}));
  EXPECT_EQ(line(resize_linear(), {0, 4, 8, 100}, 2), (Line{2, 54}));  // no antialias
  EXPECT_EQ(line(resize_qwen3_vl(), {0, 4}, 3), (Line{0, 2, 4}));
  EXPECT_EQ(line(resize_qwen3_vl(), {3, 4, 5}, 1), (Line{3}));
  // The kernel of Keys, a = -0.75, at 1/4, 3/4, 5/4 and 7/4: 225 67 -27 -9 of 256. The outputs
  // of a doubled line are at -1/4, 1/4, 3/4, ...
  EXPECT_EQ(line(resize_vit(0), {0, 0, 256, 0, 0, 0}, 12),
            (Line{0, -9, -27, 67, 225, 225, 67, -27, -9, 0, 0, 0}));
  // The border sample replaces the samples beyond it: 225 + 67 - 9, 225 - 27, 67 - 9.
  EXPECT_EQ(line(resize_vit(0), {256, 0, 0, 0}, 8), (Line{283, 198, 58, -27, -9, 0, 0, 0}));
  // Halved with antialias, linear: 3/7 3/7 1/7 and 1/7 3/7 3/7.
  const Line halved = line(resize_siglip2(), {0, 7, 14, 21}, 2);
  EXPECT_EQ(halved, (Line{5, 16}));
}

// A step is 37 / 16.1 instead of 37 / 16.
TEST(Resize, Dinov2sOffsetMovesTheSamples) {
  const auto table = random_tensor<float, 2>({1 + 37 * 37, 2});
  const auto original = resized(resize_dinov2_original(), table.view(), {37, 37}, {16, 16});
  const auto plain = resized(resize_vit(), table.view(), {37, 37}, {16, 16});
  EXPECT_NE(original.values, plain.values);
  expect_resized(resize_dinov2_original(), table, {37, 37}, original, {16, 16});
}

TEST(Resize, AntialiasChangesNothingButShrinkingAndTheKernelsSlope) {
  TableResize on = resize_siglip2(), off = resize_linear();
  const auto table = random_tensor<float, 2>({12, 2});
  EXPECT_NE(resized(on, table.view(), {4, 3}, {2, 2}).values,
            resized(off, table.view(), {4, 3}, {2, 2}).values);
  const auto grown_on = resized(on, table.view(), {4, 3}, {8, 9});
  const auto grown_off = resized(off, table.view(), {4, 3}, {8, 9});
  for (std::size_t i = 0; i < grown_on.values.size(); ++i)
    EXPECT_NEAR(grown_on.values[i], grown_off.values[i], 1e-6f);
}

// Documentation of Upsample in PyTorch: bilinear, 2 x 2 to 4 x 4, with either corners. Example
// of Resize in ONNX: 1 to 16 in a square, doubled by half-pixel cubic, a = -0.75.
TEST(Resize, GivesPublishedNumbers) {
  const std::vector<float> four = {1, 2, 3, 4};
  const View<const float, 2> small(four.data(), {4, 1});
  Tensor<float, 2> out({16, 1});
  resize_table(resize_linear(), small, {2, 2}, out.view(), {4, 4});
  EXPECT_EQ(out.values, (std::vector<float>{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75,
                                            3.25, 3.5, 3, 3.25, 3.75, 4}));
  resize_table(resize_qwen3_vl(), small, {2, 2}, out.view(), {4, 4});
  const float of_aligned[] = {1, 4 / 3.0f, 5 / 3.0f, 2, 5 / 3.0f, 2, 7 / 3.0f, 8 / 3.0f};
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(out.values[i], of_aligned[i]);
    EXPECT_FLOAT_EQ(out.values[15 - i], 5 - of_aligned[i]);
  }

  std::vector<float> sixteen(16);
  std::iota(sixteen.begin(), sixteen.end(), 1.0f);
  Tensor<float, 2> twice({64, 1});
  resize_table(resize_vit(0), View<const float, 2>(sixteen.data(), {16, 1}), {4, 4},
               twice.view(), {8, 8});
  const float of_cubic[] = {0.47265625f, 0.76953125f, 1.24609375f, 1.875f,
                            2.28125f,    2.91015625f, 3.38671875f, 3.68359375f};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(twice.values[i], of_cubic[i]);
}

TEST(Resize, ALineIsAGridOneCellWide) {
  for (const TableResize& r : resizes()) {
    const auto table = random_tensor<float, 2>({r.extra_rows + 9, 3});
    Tensor<float, 2> out({r.extra_rows + 5, 3});
    resize_table(r, table.view(), out.view());
    expect_resized(r, table, {9, 1}, out, {5, 1});
  }
}

TEST(Resize, StridesChangeNoBitAndTouchNothingElse) {
  for (const TableResize& r : resizes()) {
    const auto table = random_tensor<float, 2>({r.extra_rows + 12, 5});
    const auto plain = resized(r, table.view(), {3, 4}, {5, 2});
    const std::ptrdiff_t rows = r.extra_rows + 10;
    Tensor<float, 2> turned({5, r.extra_rows + 12}), wide({2 * rows, 11}, nan);
    const View<float, 2> source(turned.values.data(), {r.extra_rows + 12, 5},
                                {1, r.extra_rows + 12});
    for (std::int64_t n = 0; n < source.extent(0); ++n)
      for (std::int64_t c = 0; c < 5; ++c) source(n, c) = table.view()(n, c);
    const View<float, 2> out(&wide.view()(2 * rows - 1, 1), {rows, 5}, {-22, 2});
    resize_table(r, source, {3, 4}, out, {5, 2});
    EXPECT_EQ(std::ranges::count_if(wide.values, [](float x) { return !std::isnan(x); }),
              std::ssize(plain.values));
    for (std::int64_t n = 0; n < rows; ++n)
      for (std::int64_t c = 0; c < 5; ++c) EXPECT_EQ(out(n, c), plain.view()(n, c));
  }
}

TEST(Resize, ThreadsChangeNoBit) {
  const TableResize r = resize_dinov2_registers();
  const auto table = random_tensor<float, 2>({1 + 20 * 21, 16});
  const int before = threads();
  set_threads(1);
  const auto one = resized(r, table.view(), {20, 21}, {13, 30});
  for (const int count : {2, 7}) {
    set_threads(count);
    EXPECT_EQ(resized(r, table.view(), {20, 21}, {13, 30}).values, one.values) << count;
  }
  set_threads(before);
}

TEST(Resize, OfNoChannelsTouchesNoRow) {
  const View<const float, 2> table(nullptr, {9, 0});
  const View<float, 2> out(nullptr, {std::int64_t{1} << 31, 0});
  resize_table(resize_linear(), table, out);  // its taps would take 200 GB
}

TEST(Resize, RefusesWhatBreaksItsBounds) {
  const Tensor<float, 2> table({5, 2});
  Tensor<float, 2> out({10, 2});
  const auto said = [&](const TableResize& r, GridSize from, GridSize to) {
    return message_of([&] { resize_table(r, table.view(), from, out.view(), to); });
  };
  const auto with = [](auto change) {
    TableResize r = resize_vit();
    change(r);
    return r;
  };
  EXPECT_EQ(said(resize_vit(), {2, 2}, {3, 3}), "");
  EXPECT_EQ(said(resize_vit(), {0, 4}, {3, 3}),
            "[resize] the old grid must be at least 1 x 1, got 0 x 4");
  EXPECT_EQ(said(resize_vit(), {2, 2}, {9, -1}),
            "[resize] the new grid must be at least 1 x 1, got 9 x -1");
  EXPECT_EQ(said(resize_vit(), {2, 3}, {3, 3}),
            "[resize] table must have 1 + 2 x 3 rows, got 5");
  EXPECT_EQ(said(resize_vit(), {2, 2}, {3, 4}),
            "[resize] out must have 1 + 3 x 4 rows, got 10");
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(said(resize_vit(), {huge, huge}, {3, 3}), "");  // and no overflow before the check
  EXPECT_NE(said(resize_vit(), {2, 2}, {huge, 2}), "");
  EXPECT_NE(said(resize_vit(huge), {2, 2}, {3, 3}), "");
  EXPECT_EQ(said(TableResize{}, {2, 2}, {3, 3}),
            "[resize] kernel must be linear or cubic, got 0");
  EXPECT_EQ(said(with([](auto& r) { r.corners = {}; }), {2, 2}, {3, 3}),
            "[resize] corners must be half_pixel or aligned, got 0");
  EXPECT_EQ(said(with([](auto& r) { r.antialias = {}; }), {2, 2}, {3, 3}),
            "[resize] antialias must be off or on, got 0");
  EXPECT_EQ(said(with([](auto& r) { r.corners = aligned, r.antialias = Antialias::on; }),
                 {2, 2}, {3, 3}),
            "[resize] antialias must be off with aligned corners, got on");
  EXPECT_EQ(said(with([](auto& r) { r.extra_rows = -1; }), {2, 2}, {3, 3}),
            "[resize] extra_rows must not be negative, got -1");
  EXPECT_EQ(said(with([](auto& r) { r.size_offset = -0.1; }), {2, 2}, {3, 3}),
            "[resize] size_offset must be finite and not negative, got -0.1");
  EXPECT_EQ(message_of([&] {
              resize_table(resize_vit(), table.view(), {2, 2}, out.view().slice(1, 0, 1),
                           {3, 3});
            }),
            "[resize] out must have the table's 2 channels, got 1");
  EXPECT_EQ(message_of([&] { resize_table(resize_vit(7), table.view(), out.view()); }),
            "[resize] table must have more rows than the 7 extra ones, got 5");
  EXPECT_EQ(
      message_of([&] { resize_table(resize_vit(4), table.view(), out.view().slice(0, 0, 4)); }),
      "[resize] out must have more rows than the 4 extra ones, got 4");
}

}  // namespace embedding_resize_test
}  // namespace gnomon
