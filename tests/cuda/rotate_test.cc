#include "gnomon/cuda/rotate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cuda/devices.h"
#include "naive/rotary.h"

#include "src/cuda/context.h"

namespace gnomon {
namespace cuda_rotate_test {

using std::int64_t;
using testing::as_double;
using testing::elements;
using testing::half_ulp;
using testing::in_all_orders;
using testing::iota;
using testing::message_of;
using testing::naive_rotate;
using testing::random_numbers;
using testing::same_bits;

// A tensor [T, H, D] within rows of `stride` elements, from element `begin` of its memory.
struct Shape {
  int64_t tokens, heads, size, begin = 0, gap = 0;

  int64_t head() const { return size + gap; }
  int64_t token() const { return heads * head(); }
  std::size_t elements() const { return static_cast<std::size_t>(begin + tokens * token()); }
  template <typename T>
  View<T, 3> view(T* data) const {
    return {data + begin, {tokens, heads, size}, {token(), head(), 1}};
  }
};

struct Case {
  Shape q, k;
  int64_t rotary_dim, head_offset;
};

template <typename T>
std::vector<double> exact(const Shape& shape, const std::vector<T>& x,
                          const std::vector<int64_t>& positions, const RotaryFrequencies& f,
                          Direction direction) {
  std::vector<double> wide;
  for (const T one : x) wide.push_back(as_double(one));
  naive_rotate(shape.view(wide.data()), positions, f, direction);
  return wide;
}

// |x' - exact| <= 3 2^-24 (|a| + |b|), and one rounding to T.
template <typename T>
void expect_close(const std::vector<T>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(as_double(got[i]), want[i],
                3 * 0x1p-24 * 12 + half_ulp<T> * std::fabs(want[i]) + 1e-7)
        << "element " << i;
}

template <typename T>
void check(const Case& one, Pairing pairing, Direction direction) {
  const RotaryFrequencies f = lower(Rotary{one.rotary_dim, pairing, 10'000.0, one.head_offset});
  const auto q = elements<T>(random_numbers(one.q.elements(), 1)),
             k = elements<T>(random_numbers(one.k.elements(), 2));
  const int64_t tokens = one.q.tokens;
  std::vector<int64_t> positions(static_cast<std::size_t>(tokens));
  for (int64_t t = 0; t < tokens; ++t)
    positions[static_cast<std::size_t>(t)] = (t * 977 + 5) % 4096;
  const RotaryTable table(f, positions);
  const cuda::Array<float> cos(std::span(table.cos().data(), table.cos().size())),
      sin(std::span(table.sin().data(), table.sin().size()));
  const View<const float, 2> cos_view(cos.data(), {tokens, one.rotary_dim / 2}),
      sin_view(sin.data(), {tokens, one.rotary_dim / 2});
  const cuda::Array<int64_t> ids{std::span<const int64_t>(positions)};
  const cuda::Frequencies frequencies(f);

  // Rotation to another tensor copies the elements that are not rotated.
  const auto to_other = [&](bool computed) {
    const cuda::Array<T> from{std::span<const T>(q)};
    const cuda::Array<T> out{std::span<const T>(std::vector<T>(q.size()))};
    const View<const T, 3> x = one.q.view<const T>(from.data());
    const auto out_view = one.q.view(out.data());
    const View<const int64_t, 1> at(ids.data(), {tokens});
    if (computed)
      cuda::rotate_at(cuda::on_device(x), cuda::on_device(at), frequencies, direction,
                      cuda::on_device(out_view));
    else
      cuda::rotate(cuda::on_device(x),
                   {.pairing = pairing,
                    .head_offset = one.head_offset,
                    .cos = cuda::on_device(cos_view),
                    .sin = cuda::on_device(sin_view)},
                   direction, cuda::on_device(out_view));
    return out.to_host();
  };
  const auto run = [&](bool computed) {
    cuda::Array<T> q_there{std::span<const T>(q)}, k_there{std::span<const T>(k)};
    const auto q_view = one.q.view(q_there.data()), k_view = one.k.view(k_there.data());
    if (computed) {
      const View<const int64_t, 1> at(ids.data(), {tokens});
      cuda::rotate_at(cuda::on_device(q_view), cuda::on_device(k_view), cuda::on_device(at),
                      frequencies, direction);
    } else {
      cuda::rotate(cuda::on_device(q_view), cuda::on_device(k_view),
                   {.pairing = pairing,
                    .head_offset = one.head_offset,
                    .cos = cuda::on_device(cos_view),
                    .sin = cuda::on_device(sin_view)},
                   direction);
    }
    std::vector<T> both = q_there.to_host();
    const std::vector<T> keys = k_there.to_host();
    both.insert(both.end(), keys.begin(), keys.end());
    return both;
  };
  const auto by_table = in_all_orders<T>([&] { return run(false); });
  const auto by_positions = in_all_orders<T>([&] { return run(true); });
  std::vector<double> want = exact(one.q, q, positions, f, direction);
  const std::vector<double> keys = exact(one.k, k, positions, f, direction);
  want.insert(want.end(), keys.begin(), keys.end());
  for (const bool computed : {false, true}) {
    const auto out = in_all_orders<T>([&] { return to_other(computed); });
    const auto got = one.q.view(out.data()), inside = one.q.view(by_table.data());
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < one.q.heads; ++h)
        for (int64_t d = 0; d < one.q.size; ++d)
          ASSERT_NEAR(as_double(got(t, h, d)), as_double(inside(t, h, d)), 1e-6)
              << t << ' ' << h << ' ' << d;
  }
  expect_close(by_table, want);
  expect_close(by_positions, want);
}

template <typename T>
class CudaRotate : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16>;
TYPED_TEST_SUITE(CudaRotate, Types);

TYPED_TEST(CudaRotate, EqualsTheOracle) {
  const std::vector<Case> cases = {
      {{7, 4, 64}, {7, 2, 64}, 64, 0},           // whole vectors
      {{5, 3, 96}, {5, 1, 80}, 32, 16},          // part of the head, other sizes
      {{3, 5, 20}, {3, 1, 20}, 20, 0},           // 4-byte vectors
      {{3, 2, 7}, {3, 1, 9}, 6, 1},              // single elements
      {{4, 2, 64, 1}, {4, 1, 64, 0, 3}, 64, 0},  // not aligned
      {{1, 32, 128}, {1, 8, 128}, 128, 0},       // decoding
      {{9, 16, 192}, {9, 1, 64}, 64, 0},         // two sizes of heads
  };
  for (const Case& one : cases)
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
      for (const Direction direction : {Direction::forward, Direction::inverse})
        check<TypeParam>(one, pairing, direction);
}

// Many tokens: four heads share the loads of the table. 18 heads are not a multiple of 4.
TYPED_TEST(CudaRotate, EqualsTheOracleInGroupsOfHeads) {
  const int64_t tokens = 257;
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
    check<TypeParam>({{tokens, 15, 64}, {tokens, 3, 64}, 64, 0}, pairing, Direction::forward);
}

TEST(CudaDivisor, EqualsTheDivision) {
  std::uint32_t number = 1;
  for (int64_t of = 1; of <= int64_t{1} << 31; of += 1 + of / 3) {
    const cuda::Divisor divisor(of);
    for (int i = 0; i < 100; ++i) {
      number = number * 1664525u + 1013904223u;
      const std::uint32_t some = number >> 1;  // below 2^31
      const auto by = static_cast<std::uint32_t>(of);
      for (const std::uint32_t n : {some, some / by * by, some / by * by - (some >= by)})
        ASSERT_EQ(divisor.quotient(n), n / by) << n << " / " << of;
    }
    ASSERT_EQ(divisor.quotient(0x7fffffffu), 0x7fffffffu / static_cast<std::uint32_t>(of));
  }
}

TEST(CudaRotateTables, AreReadByBatchOrByPosition) {
  constexpr int64_t batch = 3, tokens = 5, heads = 2, size = 8, rows = 50;
  const RotaryFrequencies f = lower(Rotary{size, Pairing::halves});
  const std::vector<int64_t> ids = {0, 1, 2, 3, 4, 40, 41, 42, 43, 44, 7, 7, 7, 49, 0};
  const auto x = elements<float>(random_numbers(batch * tokens * heads * size));
  const RotaryTable all(f, iota(0, rows));
  const RotaryTable each(f, Positions{batch, tokens, ids, std::vector<std::int32_t>(15)});
  // One cache [N, R] with cos in the first half of a row and sin in the second.
  std::vector<float> cache(rows * size);
  for (int64_t p = 0; p < rows; ++p)
    for (int64_t i = 0; i < size / 2; ++i) {
      cache[static_cast<std::size_t>(p * size + i)] = all.cos()(0, p, i);
      cache[static_cast<std::size_t>(p * size + size / 2 + i)] = all.sin()(0, p, i);
    }
  const cuda::Array<float> cache_there{std::span<const float>(cache)};
  const cuda::Array<float> cos(std::span(each.cos().data(), each.cos().size())),
      sin(std::span(each.sin().data(), each.sin().size()));
  const cuda::Array<int64_t> ids_there{std::span<const int64_t>(ids)};
  const View<const float, 2> cached(cache_there.data(), {rows, size / 2}, {size, 1});
  const View<const int64_t, 2> at(ids_there.data(), {batch, tokens});
  const auto rotated = [&](const cuda::Rotation& rotation) {
    const cuda::Array<float> there{std::span<const float>(x)};
    cuda::rotate(cuda::on_device(View<float, 4>(there.data(), {batch, tokens, heads, size})),
                 rotation);
    return there.to_host();
  };
  const View<const float, 2> cached_sin(cache_there.data() + size / 2, {rows, size / 2},
                                        {size, 1});
  const auto by_position = rotated({.pairing = Pairing::halves,
                                    .cos = cuda::on_device(cached),
                                    .sin = cuda::on_device(cached_sin),
                                    .positions = cuda::on_device(at)});
  const View<const float, 3> cos_view(cos.data(), {batch, tokens, size / 2}),
      sin_view(sin.data(), {batch, tokens, size / 2});
  const auto by_batch = rotated({.pairing = Pairing::halves,
                                 .cos = cuda::on_device(cos_view),
                                 .sin = cuda::on_device(sin_view)});
  EXPECT_TRUE(same_bits(by_position, by_batch));
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<double> want(x.begin() + b * tokens * heads * size,
                             x.begin() + (b + 1) * tokens * heads * size);
    naive_rotate(View<double, 3>(want.data(), {tokens, heads, size}),
                 std::span(ids).subspan(static_cast<std::size_t>(b * tokens), tokens), f,
                 Direction::forward);
    expect_close(std::vector<float>(by_batch.begin() + b * tokens * heads * size,
                                    by_batch.begin() + (b + 1) * tokens * heads * size),
                 want);
  }
}

TEST(CudaRotateTables, APositionOutsideGivesNaN) {
  const std::vector<float> x(3 * 4, 1.0f), cos(2 * 2, 1.0f), sin(2 * 2, 0.0f);
  const cuda::Array<float> there{std::span<const float>(x)},
      cos_there{std::span<const float>(cos)}, sin_there{std::span<const float>(sin)};
  const std::vector<int64_t> ids = {1, 2, -1};
  const cuda::Array<int64_t> ids_there{std::span<const int64_t>(ids)};
  const View<const float, 2> cos_view(cos_there.data(), {2, 2}),
      sin_view(sin_there.data(), {2, 2});
  const View<const int64_t, 1> at(ids_there.data(), {3});
  cuda::rotate(cuda::on_device(View<float, 3>(there.data(), {3, 1, 4})),
               {.pairing = Pairing::halves,
                .cos = cuda::on_device(cos_view),
                .sin = cuda::on_device(sin_view),
                .positions = cuda::on_device(at)});
  const auto got = there.to_host();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i >= 4) << i;
}

// M-RoPE: pairs of three axes. Table and computed angles have the same bits on processors with
// a fused multiply-add, and are within the bound of a rotation on others.
TEST(CudaRotateAt, HasAxes) {
  constexpr int64_t tokens = 6, heads = 2, size = 24;
  RotaryFrequencies f = lower(Rotary{size, Pairing::halves, 1e6});
  for (std::size_t i = 0; i < f.inv_freq.size(); ++i)
    f.axes.push_back(static_cast<std::int32_t>(i % 3));
  f.table_scale = 1.25;
  const std::vector<int64_t> ids = {0, 1, 2, 3, 4, 5, 9, 9, 9,
                                    8, 8, 8, 1, 2, 3, 1, 2, (int64_t{1} << 31) - 1};
  std::vector<Positions> axes;
  for (int64_t a = 0; a < 3; ++a)
    axes.push_back({1,
                    tokens,
                    {ids.begin() + a * tokens, ids.begin() + (a + 1) * tokens},
                    std::vector<std::int32_t>(tokens)});
  const RotaryTable table(f, axes);
  const auto x = elements<float>(random_numbers(tokens * heads * size));
  std::vector<float> want = x;
  rotate(View<float, 3>(want.data(), {tokens, heads, size}), table);
  const cuda::Array<int64_t> ids_there{std::span<const int64_t>(ids)};
  const cuda::Frequencies frequencies(f);
  const View<const int64_t, 3> at(ids_there.data(), {3, 1, tokens});
  const auto got = in_all_orders<float>([&] {
    const cuda::Array<float> there{std::span<const float>(x)};
    cuda::rotate_at(cuda::on_device(View<float, 3>(there.data(), {tokens, heads, size})),
                    cuda::on_device(at), frequencies);
    return there.to_host();
  });
  expect_close(got, {want.begin(), want.end()});
}

TEST(CudaRotateErrors, NameTheRule) {
  const cuda::Array<float> there(64), table(64);
  const View<float, 3> x(there.data(), {2, 2, 8});
  const View<const float, 2> cos(table.data(), {2, 4}), three(table.data(), {3, 4}),
      wide(table.data(), {2, 5});
  const auto says = [&](const Tensor& tensor, const ConstTensor& c, Pairing pairing) {
    return message_of([&] { cuda::rotate(tensor, {.pairing = pairing, .cos = c, .sin = c}); });
  };
  const auto halves = Pairing::halves;
  EXPECT_EQ(says(x, cuda::on_device(cos), halves),
            "[rotary] x must be on a CUDA device, got cpu");
  EXPECT_EQ(says(cuda::on_device(x, 1), cuda::on_device(cos), halves),
            "[rotary] x must be on the device cuda:0, got cuda:1");
  EXPECT_EQ(says(cuda::on_device(x), cuda::on_device(cos), {}),
            "[rotary] pairing must be halves or adjacent, got 0");
  EXPECT_EQ(says(cuda::on_device(x), cuda::on_device(three), halves),
            "[rotary] cos must be [B or 1, T, R/2] with B = 1 and T = 2, got [3, 4]");
  EXPECT_EQ(says(cuda::on_device(x), cuda::on_device(wide), halves),
            "[rotary] x must have at least head_offset + rotary_dim = 0 + 10 elements per "
            "head, got 8");
  const View<double, 3> doubles(reinterpret_cast<double*>(there.data()), {2, 2, 8});
  EXPECT_EQ(says(cuda::on_device(doubles), cuda::on_device(cos), halves),
            "[rotary] x must have elements of f32, f16 or bf16, got f64");
  EXPECT_EQ(says(Tensor(), cuda::on_device(cos), halves),
            "[rotary] x must be given, got no tensor");
}

TEST(CudaRotateErrors, EmptyTensorsAreAccepted) {
  const cuda::Array<float> table(64);
  const View<const float, 2> cos(table.data(), {0, 4});
  const View<float, 3> x(table.data(), {0, 2, 8});
  cuda::rotate(
      cuda::on_device(x),
      {.pairing = Pairing::halves, .cos = cuda::on_device(cos), .sin = cuda::on_device(cos)});
}

}  // namespace cuda_rotate_test
}  // namespace gnomon
