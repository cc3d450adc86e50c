// Compares merged parts of attention with the formula in long double.
#include "gnomon/attention/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace merge_test {

using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr std::int64_t batch = 2, tokens = 37, heads = 3, size = 5;

template <typename A>
constexpr A none = -std::numeric_limits<A>::infinity();

template <typename T>
struct Part {
  using A = Accumulator<T>;
  Tensor<T, 4> out;
  Tensor<A, 3> lse{{batch, heads, tokens}};

  // Log-sum-exps of some magnitude; each row of a multiple of `hidden` has seen no key.
  Part(unsigned seed, A magnitude, std::size_t hidden)
      : out(random_tensor<T, 4>({batch, tokens, heads, size}, seed)) {
    const auto numbers = random_tensor<float, 1>({batch * heads * tokens}, seed + 1);
    for (std::size_t i = 0; i < lse.values.size(); ++i)
      lse.values[i] = i % hidden == 0 ? none<A> : magnitude * numbers.values[i];
  }
};

struct Merged {
  long double lse, first, second;  // log-sum-exp of all keys, weights of the two parts
};
Merged naive_merge(long double one, long double two) {
  const long double most = std::max(one, two);
  const long double sum = std::exp(one - most) + std::exp(two - most);
  return {most + std::log(sum), std::exp(one - most) / sum, std::exp(two - most) / sum};
}

template <typename T>
void compare(double magnitude) {
  using A = Accumulator<T>;
  const Part<T> one(1, static_cast<A>(magnitude), 7), two(3, static_cast<A>(magnitude), 5);
  Part<T> merged = one;
  merge_attention(merged.out.view(), merged.lse.view(), two.out.view(), two.lse.view());
  const long double u = std::numeric_limits<A>::epsilon() / 2;
  const long double rounding = std::is_same_v<T, BFloat16> ? 1.0L / 256 : u;
  int without_keys = 0;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t t = 0; t < tokens; ++t) {
        const A a = one.lse.view()(b, h, t), c = two.lse.view()(b, h, t);
        const A found = merged.lse.view()(b, h, t);
        if (a == none<A> && c == none<A>) {
          ++without_keys;
          EXPECT_EQ(found, none<A>);
          continue;
        }
        const Merged expected = naive_merge(a, c);
        EXPECT_LE(std::abs(found - expected.lse), 2 * u * (std::abs(expected.lse) + 2));
        for (std::int64_t d = 0; d < size; ++d) {
          const long double x = static_cast<A>(one.out.view()(b, t, h, d)),
                            y = static_cast<A>(two.out.view()(b, t, h, d)),
                            sum = expected.first * x + expected.second * y;
          EXPECT_LE(std::abs(static_cast<A>(merged.out.view()(b, t, h, d)) - sum),
                    (8 * u + rounding) * std::max(std::abs(x), std::abs(y)));
        }
      }
  EXPECT_GT(without_keys, 0);
}

TEST(MergeAttention, EqualsTheFormula) {
  for (const double magnitude : {0.1, 3.0, 40.0, 3000.0}) {
    compare<float>(magnitude);
    compare<double>(magnitude);
    compare<BFloat16>(magnitude);
  }
}

TEST(MergeAttention, APartWithoutKeysChangesNoBit) {
  Part<float> one(1, 3, 7), two(3, 3, 5);
  std::ranges::fill(two.lse.values, none<float>);
  std::ranges::fill(two.out.values, 0.0F);
  const auto before = one;
  merge_attention(one.out.view(), one.lse.view(), two.out.view(), two.lse.view());
  EXPECT_EQ(one.out.values, before.out.values);
  EXPECT_EQ(one.lse.values, before.lse.values);
  merge_attention(two.out.view(), two.lse.view(), one.out.view(), one.lse.view());
  EXPECT_EQ(two.lse.values, before.lse.values);
}

TEST(MergeAttention, Errors) {
  Part<float> one(1, 3, 7);
  const Part<float> two(3, 3, 5);
  const auto merged_with = [&](const ConstTensor& other, const ConstTensor& lse) {
    return message_of([&] { merge_attention(one.out.view(), one.lse.view(), other, lse); });
  };
  EXPECT_EQ(merged_with(two.out.view(), two.lse.view()), "");
  EXPECT_EQ(merged_with(two.out.view().slice(1, 0, 4), two.lse.view()),
            "[merge_attention] other must be [2, 37, 3, 5], got [2, 4, 3, 5]");
  EXPECT_EQ(merged_with(two.out.view(), two.lse.view().slice(2, 0, 4)),
            "[merge_attention] other_lse must be [2, 3, 37], got [2, 3, 4]");
  EXPECT_EQ(merged_with(two.out.view(), {}),
            "[merge_attention] other_lse must be given, got no tensor");
  const Part<double> doubles(3, 3, 5);
  EXPECT_EQ(merged_with(doubles.out.view(), two.lse.view()),
            "[merge_attention] other must have elements of f32, got f64");
}

}  // namespace merge_test
}  // namespace gnomon
