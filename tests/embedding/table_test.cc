#include "gnomon/embedding/table.h"

#include <gtest/gtest.h>

#include <limits>
#include <type_traits>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace table_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;
using RowIds = View<const std::int64_t, 2>;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
class TableOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(TableOf, Types);

// x + addend as in the header, if the addend needs no product: one addition in the accumulator
// type, one rounding.
template <typename T>
T sum_of(T x, float addend) {
  if constexpr (std::is_same_v<T, double>)
    return x + double{addend};
  else
    return static_cast<T>(static_cast<float>(x) + addend);
}

// [B, T, C] inside a larger buffer of NaN: unaligned, rows reversed, gaps between all rows.
template <typename T>
struct Gapped {
  Tensor<T, 3> field;
  View<T, 3> view;

  Gapped(std::ptrdiff_t batch, std::ptrdiff_t tokens, std::ptrdiff_t channels)
      : field({batch + 1, 2 * tokens + 1, channels + 3}, T(nan)),
        view(&field.view()(1, 2 * tokens, 1), {batch, tokens, channels},
             {(2 * tokens + 1) * (channels + 3), -2 * (channels + 3), 1}) {}
  std::size_t written() const {
    std::size_t count = 0;
    for (const T& value : field.values) count += !std::isnan(as_double(value));
    return count;
  }
};

template <typename T>
void copy(View<const T, 3> from, View<T, 3> to) {
  for (std::ptrdiff_t b = 0; b < from.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < from.extent(1); ++t)
      for (std::ptrdiff_t c = 0; c < from.extent(2); ++c) to(b, t, c) = from(b, t, c);
}

// Row numbers that repeat, skip some rows, and run backwards.
std::vector<std::int64_t> some_rows(std::int64_t count, std::int64_t rows) {
  std::vector<std::int64_t> some;
  for (std::int64_t i = 0; i < count; ++i) some.push_back((rows - 1) - i * i % (rows - 1));
  return some;
}

constexpr std::int64_t widths[] = {1, 2, 3, 7, 8, 16, 33, 511, 512, 513, 1100};

TYPED_TEST(TableOf, AddsEachRowWithOneRounding) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const std::int64_t width : widths) {
      const auto before = random_tensor<T, 3>({2, 3, width});
      const auto table = random_tensor<float, 2>({3, width}, 2);
      auto x = before;
      add_table(x.view(), table.view());
      Gapped<T> gapped(2, 3, width);
      copy(before.view(), gapped.view);
      // A table with gaps between its rows, not aligned to vectors.
      Tensor<float, 2> apart({3, width + 2}, nan);
      for (std::int64_t t = 0; t < 3; ++t)
        for (std::int64_t c = 0; c < width; ++c) apart.view()(t, c + 1) = table.view()(t, c);
      add_table(gapped.view, std::as_const(apart).view().slice(1, 1, width));
      EXPECT_EQ(gapped.written(), x.values.size());
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t t = 0; t < 3; ++t)
          for (std::int64_t c = 0; c < width; ++c) {
            const T expected = sum_of(before.view()(b, t, c), table.view()(t, c));
            EXPECT_EQ(x.view()(b, t, c), expected) << name(isa) << " width " << width;
            EXPECT_EQ(gapped.view(b, t, c), expected) << name(isa) << " width " << width;
          }
    }
  }
}

// Long tables, wide tables and a large batch.
TYPED_TEST(TableOf, BlocksOfTokensMissNoneAndTakeNoneTwice) {
  using T = TypeParam;
  for (const auto& [batch, tokens, width] :
       {std::array<std::ptrdiff_t, 3>{3, 23, 1100}, {70, 3, 17}, {1, 500, 33}, {2, 3, 9000}}) {
    const auto before = random_tensor<T, 3>({batch, tokens, width});
    const auto table = random_tensor<float, 2>({tokens, width}, 4);
    const auto rows = some_rows(batch * tokens, tokens);
    auto x = before, by_row = before;
    add_table(x.view(), table.view());
    add_rows(by_row.view(), table.view(), RowIds(rows.data(), {batch, tokens}));
    for (std::ptrdiff_t b = 0; b < batch; ++b)
      for (std::ptrdiff_t t = 0; t < tokens; ++t)
        for (std::ptrdiff_t c = 0; c < width; ++c) {
          const T start = before.view()(b, t, c);
          const std::int64_t row = rows[static_cast<std::size_t>(b * tokens + t)];
          ASSERT_EQ(x.view()(b, t, c), sum_of(start, table.view()(t, c)));
          ASSERT_EQ(by_row.view()(b, t, c), sum_of(start, table.view()(row, c)));
        }
  }
}

TYPED_TEST(TableOf, TheScaleIsOneProductMore) {
  using T = TypeParam;
  using A = Accumulator<T>;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const float scale : {0.0f, -1.0f, 0.3f, 22.627417f}) {
      const auto before = random_tensor<T, 3>({2, 5, 519});
      const auto table = random_tensor<float, 2>({5, 519}, 3);
      auto x = before;
      add_table(x.view(), table.view(), scale);
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t t = 0; t < 5; ++t)
          for (std::int64_t c = 0; c < 519; ++c) {
            const long double product = static_cast<long double>(scale) * table.view()(t, c);
            const long double sum = as_double(before.view()(b, t, c)) + product;
            // Product and sum in A, then T; the rounding of f16 and bf16 is added.
            long double bound = half_ulp<A> * (std::fabs(product) + std::fabs(sum));
            if (!std::is_same_v<T, A>)
              bound += half_ulp<T> * (std::fabs(sum) + bound) + 0x1p-25L;
            EXPECT_LE(std::fabs(as_double(x.view()(b, t, c)) - sum), bound * (1 + 0x1p-20L))
                << name(isa) << " scale " << scale;
          }
    }
  }
}

TYPED_TEST(TableOf, AddsTheRowOfEachToken) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const std::int64_t width : widths) {
      const auto before = random_tensor<T, 3>({3, 4, width});
      const auto table = random_tensor<float, 2>({9, width}, 2);
      const auto rows = some_rows(12, 9);
      auto x = before;
      add_rows(x.view(), table.view(), RowIds(rows.data(), {3, 4}));
      Gapped<T> gapped(4, 3, width);  // the same tokens in another order: a transposed view
      const View<T, 3> transposed(
          gapped.view.data(), {3, 4, width},
          {gapped.view.stride(1), gapped.view.stride(0), gapped.view.stride(2)});
      copy(before.view(), transposed);
      add_rows(transposed, table.view(), RowIds(rows.data(), {3, 4}));
      EXPECT_EQ(gapped.written(), x.values.size());
      for (std::int64_t b = 0; b < 3; ++b)
        for (std::int64_t t = 0; t < 4; ++t)
          for (std::int64_t c = 0; c < width; ++c) {
            const std::int64_t row = rows[static_cast<std::size_t>(4 * b + t)];
            const T expected = sum_of(before.view()(b, t, c), table.view()(row, c));
            EXPECT_EQ(x.view()(b, t, c), expected) << name(isa) << " width " << width;
            EXPECT_EQ(transposed(b, t, c), expected) << name(isa) << " width " << width;
          }
    }
  }
}

TYPED_TEST(TableOf, GradientSumsTheBatchInDouble) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const std::int64_t width : {1, 7, 33, 513})
      for (const float scale : {1.0f, -0.7f}) {
        const auto grad = random_tensor<T, 3>({5, 3, width});
        Gapped<T> gapped(5, 3, width);
        copy(grad.view(), gapped.view);
        const auto before = random_tensor<float, 2>({3, width}, 4);
        auto sums = before, from_gapped = before;
        add_table_backward(std::as_const(grad).view(), scale, sums.view());
        add_table_backward(View<const T, 3>(gapped.view), scale, from_gapped.view());
        EXPECT_EQ(sums.values, from_gapped.values);
        for (std::int64_t t = 0; t < 3; ++t)
          for (std::int64_t c = 0; c < width; ++c) {
            long double sum = 0, size = 0;
            for (std::int64_t b = 0; b < 5; ++b) {
              sum += as_double(grad.view()(b, t, c));
              size += std::fabs(as_double(grad.view()(b, t, c)));
            }
            const long double total = before.view()(t, c) + scale * sum;
            EXPECT_LE(std::fabs(sums.view()(t, c) - total),
                      0x1p-24L * std::fabs(total) + 0x1p-48L * (size + 4))
                << name(isa) << " width " << width;
          }
      }
  }
}

TYPED_TEST(TableOf, GradientScattersToTheRowsThatWereTaken) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const std::int64_t width : {1, 7, 33, 513}) {
      const auto grad = random_tensor<T, 3>({3, 6, width});
      const auto rows = some_rows(18, 11);
      const auto before = random_tensor<float, 2>({11, width}, 4);
      auto sums = before;
      add_rows_backward(grad.view(), RowIds(rows.data(), {3, 6}), sums.view());
      for (std::int64_t row = 0; row < 11; ++row)
        for (std::int64_t c = 0; c < width; ++c) {
          long double total = before.view()(row, c), size = 4;
          bool taken = false;
          for (std::int64_t i = 0; i < 18; ++i) {
            if (rows[static_cast<std::size_t>(i)] != row) continue;
            taken = true;
            total += as_double(grad.view()(i / 6, i % 6, c));
            size += std::fabs(as_double(grad.view()(i / 6, i % 6, c)));
          }
          if (taken)
            EXPECT_LE(std::fabs(sums.view()(row, c) - total),
                      0x1p-24L * std::fabs(total) + 0x1p-48L * size)
                << name(isa) << " row " << row;
          else
            EXPECT_EQ(sums.view()(row, c), before.view()(row, c));
        }
    }
  }
}

// Sums that lose all digits in float, but not in double.
TEST(Table, GradientsDoNotCancelInFloat) {
  Tensor<float, 3> grad({3, 1, 2});
  const float big = 0x1p30f;
  grad.values = {big, big, 1.25f, 1.25f, -big, -big};
  Tensor<float, 2> sums({1, 2}), scattered({1, 2});
  add_table_backward(std::as_const(grad).view(), 1, sums.view());
  EXPECT_EQ(sums.values, (std::vector<float>{1.25f, 1.25f}));
  const std::vector<std::int64_t> rows{0, 0, 0};
  add_rows_backward(std::as_const(grad).view(), RowIds(rows.data(), {3, 1}), scattered.view());
  EXPECT_EQ(scattered.values, sums.values);
}

// The order is that of (b, t). It is visible if double also loses digits: 2^60 absorbs every 1
// that is added before its negative.
TEST(Table, GradientsSumInTheOrderOfTheTokens) {
  constexpr std::int64_t batch = 60, tokens = 2;
  Tensor<double, 3> grad({batch, tokens, 1});
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < grad.values.size(); ++i) {
    grad.values[i] = i % 7 == 2 ? 0x1p60 : i % 7 == 5 ? -0x1p60 : 1.0 + static_cast<double>(i);
    rows.push_back(static_cast<std::int64_t>(i * i % 3 % 2));
  }
  double in_order[2] = {}, in_batch[2] = {};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    in_order[rows[i]] += grad.values[i];
    in_batch[i % 2] += grad.values[i];
  }
  Tensor<float, 2> scattered({2, 1}), summed({2, 1});
  const RowIds view(rows.data(), {batch, tokens});
  add_rows_backward(std::as_const(grad).view(), view, scattered.view());
  add_table_backward(std::as_const(grad).view(), 1, summed.view());
  for (std::size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(scattered.values[row], static_cast<float>(in_order[row]));
    EXPECT_EQ(summed.values[row], static_cast<float>(in_batch[row]));
  }
}

// The definition of a gradient: <grad, d(x + scale table)/d table dir> == <table_grad, dir>.
TEST(Table, GradientsAreTheAdjointsOfTheAdditions) {
  const auto grad = random_tensor<double, 3>({3, 4, 21});
  const auto direction = random_tensor<float, 2>({4, 21}, 9);
  const std::vector<std::int64_t> rows = some_rows(12, 4);
  const RowIds view(rows.data(), {3, 4});
  const auto dot = [](const auto& a, const auto& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
    return sum;
  };
  Tensor<double, 3> along({3, 4, 21});
  Tensor<float, 2> sums({4, 21});
  add_table(along.view(), direction.view(), 0.5f);
  add_table_backward(grad.view(), 0.5f, sums.view());
  EXPECT_NEAR(dot(along.values, grad.values), dot(sums.values, direction.values), 1e-5);
  along = Tensor<double, 3>({3, 4, 21}), sums = Tensor<float, 2>({4, 21});
  add_rows(along.view(), direction.view(), view);
  add_rows_backward(grad.view(), view, sums.view());
  EXPECT_NEAR(dot(along.values, grad.values), dot(sums.values, direction.values), 1e-5);
}

TYPED_TEST(TableOf, ThreadsChangeNoBit) {
  using T = TypeParam;
  const auto before = random_tensor<T, 3>({5, 61, 300});
  const auto table = random_tensor<float, 2>({61, 300}, 2);
  const auto rows = some_rows(5 * 61, 61);
  const RowIds view(rows.data(), {5, 61});
  const int threads_before = threads();
  Tensor<T, 3> first_sum({0, 0, 0}), first_rows({0, 0, 0});
  Tensor<float, 2> first_grad({0, 0}), first_scatter({0, 0});
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    auto sum = before, gathered = before;
    auto grad = table, scatter = table;
    add_table(sum.view(), table.view(), 0.37f);
    add_rows(gathered.view(), table.view(), view);
    add_table_backward(before.view(), 0.37f, grad.view());
    add_rows_backward(before.view(), view, scatter.view());
    if (count == 1) {
      first_sum = sum, first_rows = gathered, first_grad = grad, first_scatter = scatter;
      continue;
    }
    EXPECT_EQ(sum.values, first_sum.values) << count;
    EXPECT_EQ(gathered.values, first_rows.values) << count;
    EXPECT_EQ(grad.values, first_grad.values) << count;
    EXPECT_EQ(scatter.values, first_scatter.values) << count;
  }
  set_threads(threads_before);
}

TYPED_TEST(TableOf, InfinityAndOverflowArePassedOn) {
  using T = TypeParam;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Tensor<T, 3> x({1, 1, 4});
  x.values = {T(infinity), T(65504.0f), T(nan), T(1.0f)};
  Tensor<float, 2> table({1, 4});
  table.values = {1.0f, 65504.0f, 1.0f, -infinity};
  add_table(x.view(), table.view());
  EXPECT_EQ(as_double(x.values[0]), infinity);
  if (std::is_same_v<T, Half>)
    EXPECT_EQ(as_double(x.values[1]), infinity);
  else
    EXPECT_EQ(as_double(x.values[1]), as_double(sum_of(T(65504.0f), 65504.0f)));
  EXPECT_TRUE(std::isnan(as_double(x.values[2])));
  EXPECT_EQ(as_double(x.values[3]), -infinity);
}

TYPED_TEST(TableOf, EmptyTensorsAreLeftInPeace) {
  using T = TypeParam;
  for (const std::array<std::ptrdiff_t, 3> shape :
       {std::array<std::ptrdiff_t, 3>{0, 3, 4}, {2, 0, 4}, {2, 3, 0}}) {
    Tensor<T, 3> x(shape);
    Tensor<float, 2> table({shape[1], shape[2]}, 5.0f);
    const std::vector<std::int64_t> rows(static_cast<std::size_t>(shape[0] * shape[1]));
    const RowIds view(rows.data(), {shape[0], shape[1]});
    const auto before = table.values;
    add_table(x.view(), std::as_const(table).view());
    add_rows(x.view(), std::as_const(table).view(), view);
    add_table_backward(std::as_const(x).view(), 1, table.view());
    add_rows_backward(std::as_const(x).view(), view, table.view());
    EXPECT_EQ(table.values, before);
  }
}

TEST(Table, TheViewIsTheOwnedValues) {
  const EmbeddingTable table{2, 3, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(table.view()(1, 0), 4);
  EXPECT_EQ(table.view().extents(), (std::array<std::ptrdiff_t, 2>{2, 3}));
  // One row for all tokens: a stride of zero.
  Tensor<float, 3> x({1, 2, 3});
  add_table(x.view(), View<const float, 2>(table.values.data(), {2, 3}, {0, 1}));
  EXPECT_EQ(x.values, (std::vector<float>{1, 2, 3, 1, 2, 3}));
}

TEST(Table, RefusesShapesThatDoNotFit) {
  Tensor<float, 3> x({2, 3, 4});
  const Tensor<float, 2> table({3, 4}), short_table({2, 4}), narrow({3, 5});
  Tensor<float, 2> gradient({4, 3});
  const std::vector<std::int64_t> rows(6);
  const RowIds view(rows.data(), {2, 3}), turned(rows.data(), {3, 2});
  EXPECT_EQ(message_of([&] { add_table(x.view(), short_table.view()); }),
            "[embedding] the table must be [T, C] = [3, 4], got [2, 4]");
  EXPECT_EQ(message_of([&] { add_table(x.view(), narrow.view()); }),
            "[embedding] the table must be [T, C] = [3, 4], got [3, 5]");
  EXPECT_EQ(
      message_of([&] { add_table_backward(std::as_const(x).view(), 1, gradient.view()); }),
      "[embedding] the table must be [T, C] = [3, 4], got [4, 3]");
  EXPECT_EQ(message_of([&] { add_rows(x.view(), narrow.view(), view); }),
            "[embedding] the table must have the width of x, 4, got 5");
  EXPECT_EQ(message_of([&] { add_rows(x.view(), table.view(), turned); }),
            "[embedding] rows must be [B, T] = [2, 3], got [3, 2]");
  EXPECT_EQ(
      message_of([&] { add_rows_backward(std::as_const(x).view(), view, gradient.view()); }),
      "[embedding] the table must have the width of x, 4, got 3");
}

TEST(Table, RefusesChannelsThatAreNotContiguous) {
  Tensor<float, 3> x({2, 3, 4});
  const Tensor<float, 2> table({3, 8});
  const View<float, 3> every_second(x.view().data(), {2, 3, 2}, {12, 4, 2});
  const View<const float, 2> gaps(table.view().data(), {3, 4}, {8, 2});
  EXPECT_EQ(message_of([&] { add_table(every_second, table.view().slice(1, 0, 2)); }),
            "[embedding] the channels of x must be contiguous: stride 1, got 2");
  EXPECT_EQ(message_of([&] { add_table(x.view(), gaps); }),
            "[embedding] the channels of the table must be contiguous: stride 1, got 2");
  // A single channel is contiguous with any stride.
  EXPECT_EQ(message_of([&] {
              add_table(View<float, 3>(x.view().data(), {2, 3, 1}, {12, 4, 3}),
                        table.view().slice(1, 0, 1));
            }),
            "");
}

TEST(Table, ARowOutsideTheTableIsRefusedBeforeAnythingIsWritten) {
  Tensor<float, 3> x({1, 3, 2}, 1.0f);
  Tensor<float, 2> table({4, 2}, 1.0f);
  const auto x_before = x.values, table_before = table.values;
  for (const std::int64_t bad : {4, -1}) {
    const std::vector<std::int64_t> rows{0, 1, bad};
    const RowIds view(rows.data(), {1, 3});
    const std::string expected =
        "[embedding] row must be one of the table's 4, got " + std::to_string(bad);
    EXPECT_EQ(message_of([&] { add_rows(x.view(), std::as_const(table).view(), view); }),
              expected);
    EXPECT_EQ(
        message_of([&] { add_rows_backward(std::as_const(x).view(), view, table.view()); }),
        expected);
  }
  EXPECT_EQ(x.values, x_before);
  EXPECT_EQ(table.values, table_before);
}

}  // namespace table_test
}  // namespace gnomon
