// Compares Inkling's relative logits with their formula in double.
#include "gnomon/relative/relative_logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace relative_logits_test {

using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr std::ptrdiff_t batch = 2, tokens = 3, width = 5, heads = 2, rank = 4;

RelativeLogits spec(double clip) {
  return {.heads = heads, .width = width, .rank = rank, .extent = 6, .clip = clip};
}

struct Parameters {
  Tensor<float, 2> weight = random_tensor<float, 2>({heads * rank, width}, 1),
                   scale = random_tensor<float, 2>({heads, rank}, 2);
  RelativeProjection<const float> view() const { return {weight.view(), scale.view()}; }
};

// The queries of one token and head, from the definition.
std::vector<double> naive_relative_query(const RelativeLogits& s, const Parameters& p,
                                         View<const float, 1> x, std::ptrdiff_t h) {
  std::vector<double> r;
  double squares = 0;
  for (std::ptrdiff_t n = 0; n < rank; ++n) {
    double sum = 0;
    for (std::ptrdiff_t c = 0; c < width; ++c)
      sum += double{p.weight.view()(h * rank + n, c)} * double{x(c)};
    if (s.clip > 0) sum *= double{p.scale.view()(h, n)};
    squares += sum * sum;
    r.push_back(sum);
  }
  if (s.clip > 0)
    for (double& one : r) one *= std::min(1.0, s.clip / (std::sqrt(squares) + 1e-6));
  return r;
}

TEST(RelativeLogits, QueriesAreTheirFormula) {
  const Parameters p;
  const auto x = random_tensor<float, 3>({batch, tokens, width}, 3);
  for (const double clip : {0.0, 0.7, 100.0}) {
    Tensor<float, 4> out({batch, tokens, heads, rank});
    relative_queries(spec(clip), p.view(), x.view(), out.view());
    for (std::ptrdiff_t b = 0; b < batch; ++b)
      for (std::ptrdiff_t t = 0; t < tokens; ++t)
        for (std::ptrdiff_t h = 0; h < heads; ++h) {
          const auto r = naive_relative_query(spec(clip), p, x.view()[b][t], h);
          for (std::ptrdiff_t n = 0; n < rank; ++n)
            ASSERT_NEAR(double{out.view()(b, t, h, n)}, r[static_cast<std::size_t>(n)], 1e-6);
        }
  }
}

TEST(RelativeLogits, GradientsAgreeWithFiniteDifferences) {
  for (const double clip : {0.0, 0.9}) {
    const RelativeLogits s = spec(clip);
    Parameters p;
    auto x = random_tensor<float, 3>({batch, tokens, width}, 3);
    const auto out_grad = random_tensor<float, 4>({batch, tokens, heads, rank}, 4);
    Tensor<float, 3> x_grad({batch, tokens, width}, 1);  // the gradients are added
    Tensor<float, 2> weight_grad(p.weight.extents), scale_grad(p.scale.extents);
    const RelativeProjection<float> grads{weight_grad.view(),
                                          clip > 0 ? scale_grad.view() : View<float, 2>()};
    relative_queries_backward(s, p.view(), x.view(), out_grad.view(), x_grad.view(), grads);
    const auto loss = [&] {
      double sum = 0;
      for (std::ptrdiff_t b = 0; b < batch; ++b)
        for (std::ptrdiff_t t = 0; t < tokens; ++t)
          for (std::ptrdiff_t h = 0; h < heads; ++h) {
            const auto r = naive_relative_query(s, p, View<const float, 3>(x.view())[b][t], h);
            for (std::ptrdiff_t n = 0; n < rank; ++n)
              sum += r[static_cast<std::size_t>(n)] * double{out_grad.view()(b, t, h, n)};
          }
      return sum;
    };
    const auto check = [&](std::vector<float>& numbers, const std::vector<float>& got,
                           double added) {
      for (std::size_t n = 0; n < numbers.size(); ++n) {
        const float before = numbers[n];
        numbers[n] = before + 0x1p-10f;
        const double up = loss(), above = double{numbers[n]};
        numbers[n] = before - 0x1p-10f;
        const double down = loss(), step = above - double{numbers[n]};
        numbers[n] = before;
        ASSERT_NEAR(double{got[n]} - added, (up - down) / step, 2e-5) << n;
      }
    };
    check(x.values, x_grad.values, 1);
    check(p.weight.values, weight_grad.values, 0);
    if (clip > 0) check(p.scale.values, scale_grad.values, 0);
  }
}

TEST(RelativeLogits, LowersToATableOfThePast) {
  const auto table = random_tensor<float, 2>({rank, 6}, 5);
  const RelativeForm form = lower(spec(0), table.view());
  ASSERT_EQ(form.projected.size(), 1u);
  const RelativeVectors& vectors = form.projected[0];
  EXPECT_EQ(vectors.min_distance, -5);
  EXPECT_EQ(vectors.distances(), 6);
  RelativeGradient grad;
  grad.projected = {vectors.values};
  Tensor<float, 2> table_grad({rank, 6}, 1);
  lower_backward(spec(0), grad, table_grad.view());
  for (std::ptrdiff_t away = 0; away < 6; ++away)
    for (std::ptrdiff_t n = 0; n < rank; ++n) {
      const auto row = vectors.rows[static_cast<std::size_t>(-away - vectors.min_distance)];
      EXPECT_EQ(vectors.values[static_cast<std::size_t>(row * rank + n)],
                double{table.view()(n, away)});
      EXPECT_EQ(table_grad.view()(n, away), 1 + table.view()(n, away));
    }
}

TEST(RelativeLogits, RefusesWhatDoesNotFit) {
  const Tensor<float, 2> table({rank, 5});
  EXPECT_EQ(message_of([&] { lower(spec(0), table.view()); }),
            "[relative_logits] table must be [4, 6], got [4, 5]");
  RelativeLogits none = spec(0);
  none.rank = 0;
  EXPECT_EQ(message_of([&] { lower(none, table.view()); }),
            "[relative_logits] rank must be 1 to 1073741824, got 0");
  EXPECT_EQ(message_of([&] { lower(spec(-1), table.view()); }),
            "[relative_logits] clip must be finite and not negative, got -1");
  const Parameters p;
  const Tensor<float, 3> x({1, 2, width + 1});
  Tensor<float, 4> out({1, 2, heads, rank});
  EXPECT_EQ(message_of([&] { relative_queries(spec(0), p.view(), x.view(), out.view()); }),
            "[relative_logits] x must be [1, 2, 5], got [1, 2, 6]");
}

}  // namespace relative_logits_test
}  // namespace gnomon
