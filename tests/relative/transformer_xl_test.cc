#include "gnomon/relative/transformer_xl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "gnomon/parallel.h"
#include "relative/paper.h"
#include "testing.h"

namespace gnomon {
namespace transformer_xl_test {

using testing::message_of;
using testing::Tensor;

using Matrix = std::vector<std::vector<double>>;  // [rows][columns]

// The shifts of the released code: padding, reshaping and slicing.
Matrix reshaped(const Matrix& from, std::size_t drop, std::size_t rows, std::size_t columns) {
  std::vector<double> flat;
  for (const auto& row : from) flat.insert(flat.end(), row.begin(), row.end());
  flat.erase(flat.begin(), flat.begin() + static_cast<std::ptrdiff_t>(drop));
  Matrix to(rows, std::vector<double>(columns, NAN));
  for (std::size_t n = 0; n < rows * columns && n < flat.size(); ++n)
    to[n / columns][n % columns] = flat[n];
  return to;
}
Matrix padded_left(Matrix x) {
  for (auto& row : x) row.insert(row.begin(), 0.0);
  return x;
}
// Transformer-XL: [T, S] with a zero column, reshaped to [S + 1, T], without its first row,
// reshaped to [T, S].
Matrix shift_xl(const Matrix& x) {
  return reshaped(padded_left(x), x.size(), x.size(), x[0].size());
}
// XLNet: [i, j] reshaped to [j, i], without its first row, reshaped to [i, j - 1]; the first
// klen columns.
Matrix shift_xlnet(const Matrix& x) { return reshaped(x, x.size(), x.size(), x[0].size() - 1); }
// Conformer: [T, 2T - 1] with a zero column, reshaped to [2T, T], without its first row,
// reshaped to [T, 2T - 1]; the first T columns.
Matrix shift_conformer(const Matrix& x) {
  return reshaped(padded_left(x), x.size(), x.size(), x[0].size());
}

// pos_seq of the released models, for queries after a memory.
std::vector<double> falling(std::int64_t from, std::int64_t to) {
  std::vector<double> positions;
  for (std::int64_t n = from; n >= to; --n) positions.push_back(static_cast<double>(n));
  return positions;
}

// An encoding as defined by its paper and its released code.
struct Xl {
  std::string name;
  TransformerXl spec;
  testing::Paper paper;
  std::vector<double> positions;  // pos_seq, clamped
  Matrix (*shift)(const Matrix&) = nullptr;
  std::vector<double> w, u, v;

  double sinusoid(double position, std::int64_t c) const {
    const double width = static_cast<double>(spec.width);
    const bool halves = spec.sinusoid == XlSinusoid::half_split;
    const std::int64_t i = halves ? c % (spec.width / 2) : c / 2;
    const bool sine = halves ? c < spec.width / 2 : c % 2 == 0;
    const double angle = position * std::pow(10000.0, -2.0 * static_cast<double>(i) / width);
    return sine ? std::sin(angle) : std::cos(angle);
  }
  // relshift((q + v) . W r), [i][j].
  Matrix shifted(std::int64_t h) const {
    Matrix bd;
    for (std::int64_t i = 0; i < paper.queries; ++i) {
      bd.emplace_back();
      for (const double position : positions) {
        double sum = 0;
        for (std::int64_t d = 0; d < spec.head_dim; ++d) {
          double key = 0;
          for (std::int64_t c = 0; c < spec.width; ++c)
            key += w[static_cast<std::size_t>((h * spec.head_dim + d) * spec.width + c)] *
                   sinusoid(position, c);
          sum +=
              (paper.q.view()(i, h, d) + v[static_cast<std::size_t>(h * spec.head_dim + d)]) *
              key;
        }
        bd.back().push_back(sum);
      }
    }
    return shift(bd);
  }
  double loss() const {
    std::vector<Matrix> bd;
    for (std::int64_t h = 0; h < spec.heads; ++h) bd.push_back(shifted(h));
    return paper.loss(
        [&](std::int64_t h, std::int64_t i, std::int64_t j) {
          double ac = 0;
          for (std::int64_t d = 0; d < spec.head_dim; ++d)
            ac +=
                (paper.q.view()(i, h, d) + u[static_cast<std::size_t>(h * spec.head_dim + d)]) *
                paper.k.view()(j, h, d);
          return paper.scale * (ac + bd[static_cast<std::size_t>(h)][static_cast<std::size_t>(
                                         i)][static_cast<std::size_t>(j)]);
        },
        [](auto...) { return 0.0; });
  }
};

std::vector<Xl> released() {
  std::vector<Xl> all;
  for (const std::int64_t length : {5, 6}) {
    const std::int64_t memory = 3;
    const auto add = [&](const char* name, XlSinusoid sinusoid, std::int64_t before,
                         bool causal, std::vector<double> positions,
                         Matrix (*shift)(const Matrix&), std::optional<std::int64_t> clamp) {
      for (double& position : positions)
        if (clamp) {
          position = std::min(position, static_cast<double>(*clamp));
          if (shift == shift_xlnet) position = std::max(position, -static_cast<double>(*clamp));
        }
      Xl xl{
          name,
          {.heads = 2, .head_dim = 3, .width = 8, .sinusoid = sinusoid, .clamp = clamp},
          {.queries = length, .keys = before + length, .heads = 2, .head_dim = 3, .values = 2},
          std::move(positions),
          shift,
          testing::float_numbers(2 * 3 * 8, 40),
          testing::float_numbers(2 * 3, 41),
          testing::float_numbers(2 * 3, 42)};
      xl.paper.offset = before, xl.paper.causal = causal, xl.paper.scale = 1 / std::sqrt(3.0);
      xl.paper.draw(43);
      all.push_back(std::move(xl));
    };
    const std::int64_t keys = memory + length;
    using enum XlSinusoid;
    add("transformer-xl", half_split, memory, true, falling(keys - 1, 0), shift_xl, {});
    add("transformer-xl, clamp_len", half_split, memory, true, falling(keys - 1, 0), shift_xl,
        4);
    add("xlnet, bi", half_split, memory, false, falling(keys, -length + 1), shift_xlnet, {});
    add("xlnet, uni", half_split, memory, true, falling(keys, 0), shift_xlnet, {});
    add("xlnet, clamp_len", half_split, memory, false, falling(keys, -length + 1), shift_xlnet,
        2);
    add("conformer", interleaved, 0, false, falling(length - 1, -(length - 1)), shift_conformer,
        {});
  }
  return all;
}

struct Weights {
  Tensor<float, 2> w{{}}, u{{}}, v{{}};
  explicit Weights(const Xl& xl)
      : w(testing::float_matrix(xl.spec.heads * xl.spec.head_dim, xl.spec.width, xl.w)),
        u(testing::float_matrix(xl.spec.heads, xl.spec.head_dim, xl.u)),
        v(testing::float_matrix(xl.spec.heads, xl.spec.head_dim, xl.v)) {}
  XlWeights views() const { return {w.view(), u.view(), v.view()}; }
};

StripBias strip_of(const TransformerXl& spec, const TransformerXlPlan& plan) {
  return {.heads = spec.heads, .min_distance = plan.min_distance, .values = plan.strip};
}

TEST(TransformerXl, AttentionIsTheReleasedModels) {
  for (const Xl& xl : released()) {
    SCOPED_TRACE(xl.name);
    const std::int64_t before = xl.paper.keys - 1;
    const TransformerXlPlan plan =
        lower(xl.spec, Weights(xl).views(), -before, before + xl.paper.queries, xl.paper.scale);
    check(plan.form, 2, 3, 2);
    EXPECT_NEAR(xl.paper.lowered_loss(plan.form, strip_of(xl.spec, plan)), xl.loss(), 1e-11);
    EXPECT_NEAR(xl.paper.attention_loss(plan.form, strip_of(xl.spec, plan)), xl.loss(), 1e-11);
  }
}

TEST(TransformerXl, GradientsAreThoseOfFiniteDifferences) {
  for (Xl& xl : released()) {
    SCOPED_TRACE(xl.name);
    const std::int64_t first = -(xl.paper.keys - 1), count = xl.paper.keys + 5;
    const Weights weights(xl);
    const TransformerXlPlan plan =
        lower(xl.spec, weights.views(), first, count, xl.paper.scale);
    const auto grad = xl.paper.backward(plan.form, strip_of(xl.spec, plan));
    Tensor<float, 2> w({6, 8}), u({2, 3}), v({2, 3});
    lower_backward(xl.spec, weights.views(), first, count, xl.paper.scale,
                   testing::relative_gradient(grad), grad.numbers,
                   {w.view(), u.view(), v.view()});
    const auto loss = [&] { return xl.loss(); };
    testing::expect_gradient(w.values, xl.w, loss, "w");
    testing::expect_gradient(u.values, xl.u, loss, "u");
    testing::expect_gradient(v.values, xl.v, loss, "v");
  }
}

TEST(TransformerXl, FarDistancesShareTheClampedVector) {
  const Xl xl = released()[1];
  const TransformerXlPlan plan =
      lower(xl.spec, Weights(xl).views(), -(std::int64_t{1} << 40), 7, 1);
  EXPECT_EQ(plan.form.keys[0].vectors(), 1);
  EXPECT_EQ(plan.form.keys[0].rows, std::vector<std::int32_t>(7));
}

TEST(TransformerXl, BitsAreTheSameForAnyNumberOfThreads) {
  const TransformerXl spec{
      .heads = 2, .head_dim = 5, .width = 16, .sinusoid = XlSinusoid::half_split};
  const auto w = testing::random_tensor<float, 2>({10, 16}, 1);
  const auto u = testing::random_tensor<float, 2>({2, 5}, 2);
  const auto v = testing::random_tensor<float, 2>({2, 5}, 3);
  RelativeGradient grad;
  grad.keys = {testing::random_numbers(2 * 61 * 5, 4)};
  grad.shift = testing::random_numbers(10, 5);
  const auto strip_grad = testing::random_numbers(2 * 61, 6);
  const int before = threads();
  std::vector<TransformerXlPlan> plans;
  std::vector<std::vector<float>> grads;
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    const XlWeights weights{w.view(), u.view(), v.view()};
    plans.push_back(lower(spec, weights, -60, 61, 0.5));
    Tensor<float, 2> of_w({10, 16}), of_u({2, 5}), of_v({2, 5});
    lower_backward(spec, weights, -60, 61, 0.5, grad, strip_grad,
                   {of_w.view(), of_u.view(), of_v.view()});
    grads.push_back(of_w.values);
  }
  set_threads(before);
  for (std::size_t n = 1; n < plans.size(); ++n) {
    EXPECT_EQ(plans[n].form, plans[0].form);
    EXPECT_EQ(plans[n].strip, plans[0].strip);
    EXPECT_EQ(grads[n], grads[0]);
  }
}

TEST(TransformerXl, RefusesWhatBreaksItsBounds) {
  const Xl xl = released()[0];
  const Weights weights(xl);
  const auto says = [&](auto change, std::int64_t first = -3, double scale = 1) {
    TransformerXl spec = xl.spec;
    change(spec);
    return message_of([&] { lower(spec, weights.views(), first, 4, scale); });
  };
  const auto nothing = [](TransformerXl&) {};
  EXPECT_EQ(says(nothing), "");
  EXPECT_EQ(says([](TransformerXl& s) { s.heads = 0; }),
            "[transformer_xl] heads must be at least 1, got 0");
  EXPECT_EQ(says([](TransformerXl& s) { s.head_dim = 0; }),
            "[transformer_xl] head_dim must be at least 1, got 0");
  EXPECT_EQ(says([](TransformerXl& s) { s.width = 7; }),
            "[transformer_xl] width must be even and at least 2, got 7");
  EXPECT_EQ(says([](TransformerXl& s) { s.sinusoid = {}; }),
            "[transformer_xl] sinusoid must be half_split or interleaved, got 0");
  EXPECT_EQ(says([](TransformerXl& s) { s.clamp = 0; }),
            "[transformer_xl] clamp must be at least 1, got 0");
  EXPECT_EQ(says([](TransformerXl& s) { s.base = 1; }),
            "[transformer_xl] base must be greater than 1 and finite, got 1");
  EXPECT_EQ(says([](TransformerXl& s) { s.heads = 3; }),
            "[transformer_xl] w must be [9, 8], got [6, 8]");
  EXPECT_EQ(says(nothing, -(std::int64_t{1} << 31) - 1),
            "[transformer_xl] distances must be at most 2^31 in magnitude, got -2147483649");
  EXPECT_EQ(says(nothing, -3, 0),
            "[transformer_xl] softmax_scale must be positive and finite, got 0");
  Tensor<float, 2> w({6, 8}), u({2, 3}), v({2, 3});
  RelativeGradient grad;
  const auto back = [&](std::size_t strip) {
    return message_of([&] {
      lower_backward(xl.spec, weights.views(), -3, 4, 1, grad, std::vector<double>(strip),
                     {w.view(), u.view(), v.view()});
    });
  };
  EXPECT_EQ(back(8), "[transformer_xl] the gradient must have one table of keys, got 0");
  grad.keys = {std::vector<double>(24)};
  EXPECT_EQ(back(8), "[transformer_xl] the gradient of the shift must have 6 numbers, got 0");
  grad.shift = std::vector<double>(6);
  EXPECT_EQ(back(7),
            "[transformer_xl] the gradient of the strip must have heads x distances values, 8, "
            "got 7");
  EXPECT_EQ(back(8), "");
}

}  // namespace transformer_xl_test
}  // namespace gnomon
