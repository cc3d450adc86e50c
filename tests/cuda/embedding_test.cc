#include "gnomon/cuda/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

#include "cuda/devices.h"
#include "gnomon/embedding/table.h"
#include "naive/embedding.h"

namespace gnomon {
namespace cuda_embedding_test {

using std::int64_t;
using testing::as_double;
using testing::elements;
using testing::half_ulp;
using testing::in_all_orders;
using testing::message_of;
using testing::random_numbers;
using testing::same_bits;

// A tensor [B, T, C], or [N, C] as [1, N, C], with gaps of elements that no function may touch.
struct Shape {
  int64_t batch, tokens, width, begin = 0, gap = 0, batch_gap = 0;

  int64_t token() const { return width + gap; }
  int64_t row() const { return tokens * token() + batch_gap; }
  int64_t count() const { return batch * tokens; }
  std::size_t elements() const { return static_cast<std::size_t>(begin + batch * row()); }
  template <typename T>
  View<T, 3> view(T* data) const {
    return {data + begin, {batch, tokens, width}, {row(), token(), 1}};
  }
  template <typename T>
  View<T, 2> table(T* data) const {
    return {data + begin, {tokens, width}, {token(), 1}};
  }
};

template <typename T>
std::vector<double> wide(const std::vector<T>& x) {
  std::vector<double> numbers;
  for (const T one : x) numbers.push_back(as_double(one));
  return numbers;
}

template <typename T>
cuda::Array<T> to_device(const std::vector<T>& x) {
  return cuda::Array<T>{std::span<const T>(x)};
}

// One rounding of a sum in float, and one to T.
template <typename T>
void expect_close(const std::vector<T>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::isnan(want[i]))
      ASSERT_TRUE(std::isnan(as_double(got[i]))) << "element " << i;
    else
      ASSERT_NEAR(as_double(got[i]), want[i],
                  (1.001 * half_ulp<T> + 0x1p-24) * std::fabs(want[i]) + 0x1p-25)
          << "element " << i;
}

// Shapes of whole vectors, of single elements, with gaps, and not aligned. With 4 emulated
// multiprocessors, the last shape has groups of 4 tokens, and a last group of 3.
const std::vector<Shape> shapes = {
    {3, 5, 16},    {2, 3, 7},       {1, 4, 24}, {2, 5, 16, 0, 16, 8},
    {2, 3, 16, 1}, {3, 2, 8, 0, 3}, {5, 2, 1},  {3, 353, 136}};

template <typename Types>
class CudaEmbedding : public ::testing::Test {
 protected:
  using X = std::tuple_element_t<0, Types>;
  using T = std::tuple_element_t<1, Types>;

  static void add_table(const Shape& shape, const Shape& table_shape, float scale) {
    const auto x = elements<X>(random_numbers(shape.elements(), 1));
    const auto table = elements<T>(random_numbers(table_shape.elements(), 2));
    const auto table_there = to_device(table);
    const auto got = in_all_orders<X>([&] {
      const auto there = to_device(x);
      cuda::add_table(cuda::on_device(shape.view(there.data())),
                      cuda::on_device(table_shape.table(table_there.data())), scale);
      return there.to_host();
    });
    std::vector<double> want = wide(x), table_wide = wide(table);
    testing::naive_add_table(shape.view(want.data()),
                             table_shape.table<const double>(table_wide.data()), scale);
    expect_close(got, want);
  }

  // x += table[rows], or x = table[rows]; NaN for rows outside the table.
  static void use_rows(const Shape& shape, const Shape& table_shape,
                       const std::vector<int64_t>& rows, bool adds) {
    const auto x = elements<X>(random_numbers(shape.elements(), 3));
    const auto table = elements<T>(random_numbers(table_shape.elements(), 4));
    const auto table_there = to_device(table);
    const auto rows_there = to_device(rows);
    const View<const int64_t, 2> ids(rows_there.data(), {shape.batch, shape.tokens});
    const auto got = in_all_orders<X>([&] {
      const auto there = to_device(x);
      const auto view = shape.view(there.data());
      const auto of = table_shape.table<const T>(table_there.data());
      if (adds)
        cuda::add_rows(cuda::on_device(view), cuda::on_device(of), cuda::on_device(ids));
      else
        cuda::gather_rows(cuda::on_device(of), cuda::on_device(ids), cuda::on_device(view));
      return there.to_host();
    });
    std::vector<double> want = wide(x), table_wide = wide(table);
    const auto exact = shape.view(want.data());
    std::vector<double> rows_and_nan;  // row N is NaN
    const auto of = table_shape.table(table_wide.data());
    for (int64_t n = 0; n < table_shape.tokens; ++n)
      for (int64_t c = 0; c < shape.width; ++c) rows_and_nan.push_back(of(n, c));
    rows_and_nan.resize(rows_and_nan.size() + static_cast<std::size_t>(shape.width), NAN);
    std::vector<int64_t> inside = rows;
    for (int64_t& row : inside)
      if (row < 0 || row >= table_shape.tokens) row = table_shape.tokens;
    if (!adds)
      for (int64_t b = 0; b < shape.batch; ++b)
        for (int64_t t = 0; t < shape.tokens; ++t)
          for (int64_t c = 0; c < shape.width; ++c) exact(b, t, c) = 0;
    testing::naive_add_rows(
        exact,
        View<const double, 2>(rows_and_nan.data(), {table_shape.tokens + 1, shape.width}),
        View<const int64_t, 2>(inside.data(), {shape.batch, shape.tokens}));
    expect_close(got, want);
  }
};
template <typename X, typename T>
using Mixed = std::tuple<X, T>;  // types of x and of the table
using TypesOfTests =
    ::testing::Types<Mixed<float, float>, Mixed<float, Half>, Mixed<float, BFloat16>,
                     Mixed<Half, float>, Mixed<Half, Half>, Mixed<Half, BFloat16>,
                     Mixed<BFloat16, float>, Mixed<BFloat16, Half>, Mixed<BFloat16, BFloat16>>;
TYPED_TEST_SUITE(CudaEmbedding, TypesOfTests);

TYPED_TEST(CudaEmbedding, AddsATable) {
  for (const Shape& one : shapes) {
    this->add_table(one, {1, one.tokens, one.width}, 1.0f);
    this->add_table(one, {1, one.tokens, one.width, 0, 8}, 0.3f);
  }
  this->add_table({2, 3, 16}, {1, 3, 16, 1}, -2.0f);  // the table is not aligned
}

// Repeated rows, and rows outside the table.
TYPED_TEST(CudaEmbedding, AddsAndGathersRows) {
  for (const Shape& one : shapes) {
    std::vector<int64_t> rows(static_cast<std::size_t>(one.count()));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i * i) % 11;
    rows.back() = -1;
    rows.front() = 12;
    if (rows.size() > 2) rows[1] = std::numeric_limits<int64_t>::max();
    for (const bool adds : {true, false})
      this->use_rows(one, {1, 12, one.width, 0, 16}, rows, adds);
  }
}

template <typename T>
class CudaEmbeddingSums : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16>;
TYPED_TEST_SUITE(CudaEmbeddingSums, Types);

TYPED_TEST(CudaEmbeddingSums, AddTableHasTheBitsOfTheProcessor) {
  for (const Shape& one : shapes) {
    auto x = elements<TypeParam>(random_numbers(one.elements(), 5));
    const auto table =
        elements<float>(random_numbers(static_cast<std::size_t>(one.tokens * one.width), 6));
    const auto there = to_device(x);
    const auto table_there = to_device(table);
    const View<const float, 2> of(table_there.data(), {one.tokens, one.width});
    cuda::add_table(cuda::on_device(one.view(there.data())), cuda::on_device(of), 0.5f);
    gnomon::add_table(one.view(x.data()),
                      View<const float, 2>(table.data(), {one.tokens, one.width}), 0.5f);
    EXPECT_TRUE(same_bits(there.to_host(), x));
  }
}

// Sums of these numbers depend on the order, because most of the large ones cancel.
std::vector<double> cancelling(std::size_t count) {
  std::vector<double> numbers = random_numbers(count, 11);
  for (double& one : numbers)
    if (std::fabs(one) > 0.7) one = std::copysign(0x1p70, one);
  return numbers;
}

TYPED_TEST(CudaEmbeddingSums, AddTableBackwardHasTheBitsOfTheProcessor) {
  for (const Shape& one : std::vector<Shape>{{1, 5, 16},
                                             {8, 3, 8},
                                             {13, 4, 12},
                                             {16, 3, 7},
                                             {25, 2, 8, 0, 4, 16},
                                             {3, 4, 8, 1},
                                             {2, 130, 68}}) {
    const Shape table{1, one.tokens, one.width, 0, 4};
    // Half has no such range, and its sums in double are exact.
    const bool cancels = one.batch == 25 && !std::is_same_v<TypeParam, Half>;
    const auto grad = elements<TypeParam>(cancels ? cancelling(one.elements())
                                                  : random_numbers(one.elements(), 7));
    const auto before = elements<float>(random_numbers(table.elements(), 8));
    const auto grad_there = to_device(grad);
    const auto got = in_all_orders<float>([&] {
      const auto there = to_device(before);
      cuda::add_table_backward(cuda::on_device(one.view<const TypeParam>(grad_there.data())),
                               0.7f, cuda::on_device(table.table(there.data())));
      return there.to_host();
    });
    auto want = before;
    gnomon::add_table_backward(one.view(grad.data()), 0.7f, table.table(want.data()));
    EXPECT_TRUE(same_bits(got, want)) << one.batch << " " << one.tokens << " " << one.width;
    if (cancels) continue;
    std::vector<double> exact = wide(before), grads = wide(grad);
    testing::naive_add_table_backward(one.view<const double>(grads.data()), 0.7f,
                                      table.table(exact.data()));
    expect_close(got, exact);
  }
}

// Sums gradients of tokens on the device and on the processor, which has rows outside the table
// in one more row.
template <typename T>
void check_rows_backward(const Shape& shape, int64_t table_rows,
                         const std::vector<int64_t>& rows, int64_t rows_batch,
                         const std::vector<double>& numbers) {
  const Shape table{1, table_rows, shape.width, 0, 4},
      more{1, table_rows + 1, shape.width, 0, 4};
  const auto grad = elements<T>(numbers);
  auto want = elements<float>(random_numbers(more.elements(), 10));
  const std::vector<float> before(want.begin(), want.end() - more.token());
  const auto grad_there = to_device(grad);
  const auto rows_there = to_device(rows);
  const View<const int64_t, 2> ids(rows_there.data(), {rows_batch, shape.tokens});
  const int64_t bytes = cuda::add_rows_backward_workspace(shape.count(), table_rows);
  const auto got = in_all_orders<float>([&] {
    const auto there = to_device(before);
    const auto workspace = to_device(
        std::vector<std::uint8_t>(static_cast<std::size_t>(bytes), std::uint8_t{0xff}));
    cuda::add_rows_backward(cuda::on_device(shape.view<const T>(grad_there.data())),
                            cuda::on_device(ids), cuda::on_device(table.table(there.data())),
                            cuda::on_device(View<std::uint8_t, 1>(workspace.data(), {bytes})));
    return there.to_host();
  });
  std::vector<int64_t> inside;
  for (int64_t i = 0; i < shape.count(); ++i) {
    const auto at = static_cast<std::size_t>(rows_batch == 1 ? i % shape.tokens : i);
    inside.push_back(rows[at] < 0 || rows[at] >= table_rows ? table_rows : rows[at]);
  }
  const View<const int64_t, 2> all(inside.data(), {shape.batch, shape.tokens});
  std::vector<double> exact = wide(want), grads = wide(grad);
  gnomon::add_rows_backward(shape.view(grad.data()), all, more.table(want.data()));
  want.resize(before.size());
  EXPECT_TRUE(same_bits(got, want)) << table_rows << " rows of " << shape.count() << " tokens";
  testing::naive_add_rows_backward(shape.view<const double>(grads.data()), all,
                                   more.table(exact.data()));
  double most = 0;
  for (const double one : numbers) most = std::fmax(most, std::fabs(one));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(as_double(got[i]), exact[i], 0x1p-23 * std::fabs(exact[i]) + 0x1p-44 * most);
}

std::vector<int64_t> some_rows(int64_t count, int64_t table_rows, int64_t seed) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i)
    rows.push_back((i * i * 31 + i * 7 + seed) % (table_rows + 2) - 1);  // -1 to N
  return rows;
}

TYPED_TEST(CudaEmbeddingSums, AddRowsBackwardHasTheBitsOfTheProcessor) {
  for (const Shape& one : std::vector<Shape>{
           {2, 9, 16}, {3, 11, 7}, {2, 8, 8, 0, 8, 16}, {1, 20, 12, 1}, {1, 1, 4}})
    for (const int64_t table_rows : {1, 40})
      check_rows_backward<TypeParam>(one, table_rows,
                                     some_rows(one.count(), table_rows, one.width), one.batch,
                                     random_numbers(one.elements(), 9));
}

// Many rows of few tokens: rows with one or two tokens are summed in groups.
TYPED_TEST(CudaEmbeddingSums, OfAVocabularyHaveTheBitsOfTheProcessor) {
  const Shape shape{2, 450, 64};
  std::vector<int64_t> rows;  // rows from 500 on have (r mod 5) tokens, the others none
  for (int64_t r = 500; std::ssize(rows) < shape.count(); r = (r + 37) % 1101)
    for (int64_t i = 0; i < r % 5 && r >= 500; ++i) rows.push_back(r);
  rows.resize(static_cast<std::size_t>(shape.count()));
  check_rows_backward<TypeParam>(shape, 1101, rows, 2, random_numbers(shape.elements(), 9));
}

// Several warps and tiles; all tokens in one row; 300 rows have tiles of 128 rows with 4
// emulated multiprocessors.
TEST(CudaEmbeddingRows, AreListedInOrder) {
  const Shape shape{3, 219, 4};
  const auto check = [&](int64_t table_rows, const std::vector<int64_t>& rows, int64_t batch) {
    check_rows_backward<float>(shape, table_rows, rows, batch, cancelling(shape.elements()));
  };
  for (const int64_t table_rows : {2, 33, 64, 300})
    check(table_rows, some_rows(shape.count(), table_rows, 3), 3);
  check(33, std::vector<int64_t>(657, 32), 3);
  check(33, some_rows(219, 33, 5), 1);  // shared by the batch
  check(40, std::vector<int64_t>(657, std::numeric_limits<int64_t>::min()), 3);
}

TEST(CudaEmbeddingRows, HaveAnyStridesAndOneOrTwoAxes) {
  const std::vector<float> table = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<int64_t> numbers = {3, -9, 0, -9};  // rows 3 and 0
  const auto table_there = to_device(table);
  const auto numbers_there = to_device(numbers);
  const View<const float, 2> of(table_there.data(), {4, 2});
  const View<const int64_t, 1> ids(numbers_there.data(), {2}, {2});
  const cuda::Array<float> out(8), one(4);
  cuda::gather_rows(cuda::on_device(of), cuda::on_device(ids),
                    cuda::on_device(View<float, 3>(out.data(), {2, 2, 2})));
  EXPECT_EQ(out.to_host(), (std::vector<float>{7, 8, 1, 2, 7, 8, 1, 2}));
  const View<const int64_t, 2> pair(numbers_there.data(), {1, 2}, {4, 2});
  cuda::gather_rows(cuda::on_device(of), cuda::on_device(pair),
                    cuda::on_device(View<float, 2>(one.data(), {2, 2})));
  EXPECT_EQ(one.to_host(), (std::vector<float>{7, 8, 1, 2}));
  cuda::add_rows(cuda::on_device(View<float, 2>(one.data(), {2, 2})), cuda::on_device(of),
                 cuda::on_device(ids));
  EXPECT_EQ(one.to_host(), (std::vector<float>{14, 16, 2, 4}));
  const std::vector<int64_t> turned = {1, 2, 3, 0};  // [T, B]
  const auto turned_there = to_device(turned);
  const View<const int64_t, 2> by_token(turned_there.data(), {2, 2}, {1, 2});
  cuda::gather_rows(cuda::on_device(of), cuda::on_device(by_token),
                    cuda::on_device(View<float, 3>(out.data(), {2, 2, 2})));
  EXPECT_EQ(out.to_host(), (std::vector<float>{3, 4, 7, 8, 5, 6, 1, 2}));
}

TEST(CudaEmbeddingRows, GatheredBitsAreThoseOfTheTable) {
  std::vector<float> table = {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(),
                              -std::numeric_limits<float>::infinity()};
  const std::vector<int64_t> rows = {0};
  const auto table_there = to_device(table);
  const auto rows_there = to_device(rows);
  const cuda::Array<float> out(4);
  cuda::gather_rows(cuda::on_device(View<const float, 2>(table_there.data(), {1, 4})),
                    cuda::on_device(View<const int64_t, 1>(rows_there.data(), {1})),
                    cuda::on_device(View<float, 2>(out.data(), {1, 4})));
  EXPECT_TRUE(same_bits(out.to_host(), table));
}

TEST(CudaEmbeddingRows, WithoutTokensKeepTheirGradient) {
  const std::vector<float> before = {-0.0f, 1, -0.0f, 1}, grad = {2, 3};
  const auto there = to_device(before);
  const auto grad_there = to_device(grad);
  const auto rows_there = to_device(std::vector<int64_t>{1});
  const cuda::Array<std::uint8_t> workspace(20);
  cuda::add_rows_backward(cuda::on_device(View<const float, 2>(grad_there.data(), {1, 2})),
                          cuda::on_device(View<const int64_t, 1>(rows_there.data(), {1})),
                          cuda::on_device(View<float, 2>(there.data(), {2, 2})),
                          cuda::on_device(View<std::uint8_t, 1>(workspace.data(), {20})));
  EXPECT_TRUE(same_bits(there.to_host(), {-0.0f, 1, 2, 4}));
}

TEST(CudaEmbeddingEmpty, TensorsAreAccepted) {
  const cuda::Array<float> floats(64);
  const cuda::Array<int64_t> ids(64);
  const cuda::Array<std::uint8_t> bytes(64);
  const View<std::uint8_t, 1> workspace(bytes.data(), {64});
  for (const auto& [b, t, c] : {std::tuple{0, 2, 4}, {2, 0, 4}, {2, 2, 0}}) {
    const View<float, 3> view(floats.data(), {b, t, c});
    const View<float, 2> by_token(floats.data(), {t, c}), table(floats.data(), {3, c});
    const View<const int64_t, 2> rows(ids.data(), {b, t});
    const Tensor x = cuda::on_device(view);
    cuda::add_table(x, cuda::on_device(by_token));
    cuda::add_rows(x, cuda::on_device(table), cuda::on_device(rows));
    cuda::add_table_backward(x, 1.0f, cuda::on_device(by_token));
    cuda::add_rows_backward(x, cuda::on_device(rows), cuda::on_device(table),
                            cuda::on_device(workspace));
  }
  // A table without rows: all tokens are NaN, and no gradient.
  const auto none = to_device(std::vector<int64_t>{0});
  const View<const int64_t, 1> id(none.data(), {1});
  const View<float, 2> out(floats.data(), {1, 4});
  const View<float, 2> empty(nullptr, {0, 4});
  cuda::gather_rows(cuda::on_device(empty), cuda::on_device(id), cuda::on_device(out));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(floats.to_host()[i]));
  cuda::add_rows_backward(cuda::on_device(out), cuda::on_device(id), cuda::on_device(empty),
                          cuda::on_device(workspace));
}

}  // namespace cuda_embedding_test
}  // namespace gnomon
