// The token terms of all encodings through the list of encodings.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/model/encoding.h"
#include "gnomon/model/layer.h"
#include "testing.h"

namespace gnomon::model {
namespace token_terms_test {

using testing::random_tensor;
using testing::Tensor;

constexpr Shape shape{24, 3, 16};
constexpr std::int64_t batch = 2, tokens = 7;

// A learned table first, so that the matrices of the encoding are not the first of the mixture.
Mixture mixture(const EncodingInfo& info) {
  return {find_encoding("learned").usual(shape), info.usual(shape)};
}

struct Matrices {
  std::vector<Tensor<float, 2>> tensors;
  Matrices(const Mixture& of, unsigned seed) {
    for (const Parameter& one : parameters(of)) {
      tensors.emplace_back(std::array<std::ptrdiff_t, 2>{one.rows, one.columns});
      if (seed) tensors.back() = random_tensor<float, 2>({one.rows, one.columns}, seed++);
    }
  }
  std::vector<View<const float, 2>> read() const {
    std::vector<View<const float, 2>> all;
    for (const auto& one : tensors) all.push_back(one.view());
    return all;
  }
  std::vector<View<float, 2>> views() {
    std::vector<View<float, 2>> all;
    for (auto& one : tensors) all.push_back(one.view());
    return all;
  }
};

TermArrays random_terms(const Mixture& mixture, unsigned seed) {
  TermArrays all = term_arrays(mixture, batch, tokens);
  for (TermArrays::Array& one : all.arrays)
    one.values = random_tensor<float, 1>({std::ssize(one.values)}, seed++).values;
  return all;
}

// Every encoding with terms: gradients of x and the parameters by finite differences, and terms
// of the last tokens that do not depend on more than term_history tokens before them.
TEST(TokenTerms, OfAllEncodingsAndTheirGradients) {
  int found = 0;
  for (const EncodingInfo& info : encodings()) {
    const Mixture mixed = mixture(info);
    if (token_terms(mixed).empty()) {
      EXPECT_EQ(term_history(mixed), 0) << info.name;
      continue;
    }
    ++found;
    SCOPED_TRACE(info.name);
    Matrices values(mixed, 3), grads(mixed, 0);
    auto x = random_tensor<float, 3>({batch, tokens, shape.width}, 9);
    TermArrays weights = random_terms(mixed, 30);
    const auto loss = [&] {
      TermArrays out = term_arrays(mixed, batch, tokens);
      compute_terms(mixed, values.read(), x.view(), out.terms<gnomon::Tensor>());
      double sum = 0;
      for (std::size_t t = 0; t < out.arrays.size(); ++t)
        for (std::size_t n = 0; n < out.arrays[t].values.size(); ++n)
          sum += double{out.arrays[t].values[n]} * double{weights.arrays[t].values[n]};
      return sum;
    };
    Tensor<float, 3> x_grad(x.extents);
    const auto given = weights.terms<ConstTensor>();
    compute_terms_backward(mixed, values.read(), x.view(), given, x_grad.view(), grads.views());
    double size = 0;
    const auto compare = [&](std::vector<float>& part, const std::vector<float>& computed) {
      for (std::size_t i = 0; i < part.size(); i += 1 + part.size() / 16) {
        const float kept = part[i], upper = kept + 0x1p-7f, lower = kept - 0x1p-7f;
        part[i] = upper;
        const double above = loss();
        part[i] = lower;
        const double slope = (above - loss()) / (double{upper} - double{lower});
        part[i] = kept;
        size += std::fabs(slope);
        EXPECT_NEAR(computed[i], slope, 2e-3 * (1 + std::fabs(slope))) << i;
      }
    };
    for (std::size_t p = 0; p < values.tensors.size(); ++p)
      compare(values.tensors[p].values, grads.tensors[p].values);
    compare(x.values, x_grad.values);
    EXPECT_GT(size, 0.1);
    // Gradient of x only.
    Tensor<float, 3> alone(x.extents);
    compute_terms_backward(mixed, values.read(), x.view(), given, alone.view(), {});
    EXPECT_EQ(alone.values, x_grad.values);
    // The last 2 tokens with their history only.
    const std::int64_t rows = std::min(tokens, 2 + term_history(mixed));
    TermArrays all = term_arrays(mixed, batch, tokens), last = term_arrays(mixed, batch, 2);
    compute_terms(mixed, values.read(), x.view(), all.terms<gnomon::Tensor>());
    compute_terms(
        mixed, values.read(),
        View<const float, 3>(&x.view()(0, tokens - rows, 0), {batch, rows, shape.width},
                             {tokens * shape.width, shape.width, 1}),
        last.terms<gnomon::Tensor>());
    for (std::size_t t = 0; t < all.arrays.size(); ++t) {
      const auto& shape_of = all.arrays[t].shape;
      const std::int64_t inner = shape_of.size() == 4 ? shape_of[2] * shape_of[3] : 1;
      const std::vector<float>&got = last.arrays[t].values, &wanted = all.arrays[t].values;
      for (std::int64_t n = 0; n < std::ssize(got); ++n) {
        const std::int64_t row = n / (2 * inner), from = (row * tokens + tokens - 2) * inner;
        EXPECT_EQ(got[static_cast<std::size_t>(n)],
                  wanted[static_cast<std::size_t>(from + n % (2 * inner))]);
      }
    }
  }
  EXPECT_GE(found, 2);
}

TEST(TokenTerms, OfALayerRefuseThePlanOfAnother) {
  LayerGroup group;
  group.position = {find_encoding("selective").usual(shape)};
  ASSERT_FALSE(layer_terms(group).empty());
  const std::string said =
      testing::message_of([&] { compute_layer_terms(group, {}, {}, {}, {}); });
  EXPECT_TRUE(said.starts_with("[terms] requires 3 parameter matrices (")) << said;
  EXPECT_TRUE(said.ends_with(", got 0")) << said;
}

// Parameters and gradients with rows of another length, also of none, whose elements have no
// memory.
TEST(TokenTerms, RefuseParametersOfOtherShapes) {
  int refused = 0;
  for (const EncodingInfo& info : encodings()) {
    const Mixture mixed = mixture(info);
    if (token_terms(mixed).empty()) continue;
    Matrices matrices(mixed, 1), gradients(mixed, 0);
    const auto x = random_tensor<float, 3>({batch, tokens, shape.width});
    TermArrays terms = term_arrays(mixed, batch, tokens);
    for (std::size_t p = 1; p < matrices.tensors.size(); ++p)  // after the learned table
      for (const std::int64_t more : {-matrices.tensors[p].extents[1], std::int64_t{1}}) {
        const auto [rows, columns] = matrices.tensors[p].extents;
        std::vector<float> memory(static_cast<std::size_t>(rows * (columns + 1)));
        const View<float, 2> other(memory.data(), {rows, columns + more});
        auto values = matrices.read();
        values[p] = other;
        EXPECT_NE(testing::message_of([&] {
                    compute_terms(mixed, values, x.view(), terms.terms<gnomon::Tensor>());
                  }),
                  "")
            << info.name << ", parameter " << p << ", " << more;
        auto grads = gradients.views();
        grads[p] = other;
        EXPECT_NE(testing::message_of([&] {
                    compute_terms_backward(mixed, matrices.read(), x.view(),
                                           terms.terms<ConstTensor>(), {}, grads);
                  }),
                  "")
            << info.name << ", gradient " << p << ", " << more;
        ++refused;
      }
  }
  EXPECT_GT(refused, 20);
}

TEST(TokenTerms, RefuseWrongShapes) {
  const Mixture fox{find_encoding("fox").usual(shape)};
  Matrices values(fox, 1);
  const auto x = random_tensor<float, 3>({batch, tokens, shape.width}, 2);
  const auto says = [&](const Mixture& of, TermArrays out, std::int64_t count) {
    return testing::message_of([&] {
      compute_terms(of, of == fox ? values.read() : std::vector<View<const float, 2>>{},
                    View<const float, 3>(x.values.data(), {batch, count, shape.width}),
                    out.terms<gnomon::Tensor>());
    });
  };
  EXPECT_EQ(says({NoPosition{}}, {}, 7),
            "[terms] require an encoding with token terms, got none");
  EXPECT_EQ(says(fox, {}, 7), "[terms] log_gates must be given, got none");
  EXPECT_EQ(says(fox, term_arrays(fox, batch, 6), 7),
            "[terms] x must have the tokens of log_gates, 6, and at most 0 before them, got 7");
  TermArrays wrong;
  wrong.add("log_gates", {2, 7, 3});
  EXPECT_EQ(says(fox, std::move(wrong), 7),
            "[terms] log_gates must be [B, H, T] with B = 2 and H = 3, got [2, 7, 3]");
}

}  // namespace token_terms_test
}  // namespace gnomon::model
