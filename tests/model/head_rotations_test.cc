// Encodings with angles of heads in attention: RoPE++, mixed 2-D rotary, ComRoPE. The oracle
// computes every angle from the definition, and softmax over all pairs, in double.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gnomon/attention/layer_plan.h"
#include "gnomon/model/encoding.h"
#include "testing.h"

namespace gnomon::model {
namespace head_rotations_test {

using std::int64_t;
using testing::random_tensor;
using testing::Tensor;

constexpr int64_t tokens = 9, size = 10, left = 4;

// The angle of a query (or a key) of head h at position p, for pair i.
struct Angles {
  std::function<double(int64_t h, int64_t p, int64_t i)> query, key;
};
struct Case {
  std::string name;
  Encoding encoding;
  int64_t heads, key_heads, pairs;
  Pairing pairing;
  std::function<Angles(const std::vector<Tensor<float, 2>>&)> angles;
};

// A page of 4 x 6 cells.
double row(int64_t p) { return static_cast<double>(p / 6); }
double column(int64_t p) { return static_cast<double>(p % 6); }

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back(
      {"rotary-plus-plus",
       RotaryPlusPlus{.heads = 4, .rotary_dim = 8, .pairing = Pairing::halves, .base = 50}, 4,
       2, 4, Pairing::halves, [](const auto&) {
         const auto plain = [](int64_t, int64_t p, int64_t i) {
           return double(p) * std::pow(50.0, -double(i) / 4);
         };
         return Angles{[=](int64_t h, int64_t p, int64_t i) {
                         return plain(h, p, i) - (h % 2 ? M_PI / 2 : 0);
                       },
                       plain};
       }});
  all.push_back(
      {"rotary-mixed",
       RotaryMixed{.heads = 2, .rotary_dim = 8, .pairing = Pairing::adjacent, .grid = {4, 6}},
       4, 2, 4, Pairing::adjacent, [](const auto& values) {
         const auto of = [&values](int64_t h, int64_t p, int64_t i) {
           return column(p) * double{values[0].view()(h, i)} +
                  row(p) * double{values[1].view()(h, i)};
         };
         return Angles{[of](int64_t h, int64_t p, int64_t i) { return of(h / 2, p, i); }, of};
       }});
  for (const ComRopeForm form : {ComRopeForm::axial_partition, ComRopeForm::linearly_dependent})
    all.push_back({form == ComRopeForm::axial_partition ? "comrope-axial" : "comrope",
                   ComRope{.heads = 2, .rotary_dim = 8, .form = form, .grid = {4, 6}}, 2, 2, 4,
                   Pairing::adjacent, [form](const auto& values) {
                     const auto of = [&values, form](int64_t h, int64_t p, int64_t i) {
                       const double theta = double{values[0].view()(h, 4 * i + 2)} -
                                            double{values[0].view()(h, 4 * i + 1)};
                       const double y = (row(p) + 0.5) / 4, x = (column(p) + 0.5) / 6;
                       if (form == ComRopeForm::axial_partition) return theta * (i % 2 ? x : y);
                       return theta * (double{values[1].view()(0, i)} * y +
                                       double{values[1].view()(1, i)} * x);
                     };
                     return Angles{of, of};
                   }});
  return all;
}

// Left padding, and two sequences.
Positions tokens_of() {
  Positions all = consecutive(tokens);
  all.ids = {0, 0, 7, 8, 9, 10, 3, 4, 5};
  all.sequences = {-1, -1, 0, 0, 0, 0, 1, 1, 1};
  return all;
}

struct Sample {
  const Case& c;
  Tensor<double, 4> q = random_tensor<double, 4>({1, tokens, c.heads, size}, 1);
  Tensor<double, 4> k = random_tensor<double, 4>({1, tokens, c.key_heads, size}, 2);
  Tensor<double, 4> v = random_tensor<double, 4>({1, tokens, c.key_heads, size}, 3);
  Tensor<double, 4> weights = random_tensor<double, 4>({1, tokens, c.heads, size}, 4);
  std::vector<Tensor<float, 2>> values = {};

  explicit Sample(const Case& one) : c(one) {
    unsigned seed = 5;
    for (const Parameter& parameter : parameters(c.encoding))
      values.push_back(random_tensor<float, 2>({parameter.rows, parameter.columns}, seed++));
  }
  std::vector<View<const float, 2>> views() const {
    std::vector<View<const float, 2>> all;
    for (const auto& one : values) all.push_back(one.view());
    return all;
  }
};

Tensor<double, 4> oracle(const Sample& s) {
  const Positions at = tokens_of();
  const Angles angles = s.c.angles(s.values);
  const auto turned = [&](const Tensor<double, 4>& x, const auto& angle) {
    auto out = x;
    const auto view = out.view();
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < view.extent(2); ++h)
        for (int64_t i = 0; i < s.c.pairs; ++i) {
          const bool halves = s.c.pairing == Pairing::halves;
          double& a = view(0, t, h, halves ? i : 2 * i);
          double& b = view(0, t, h, halves ? i + s.c.pairs : 2 * i + 1);
          const double u = angle(h, at.ids[std::size_t(t)], i), before = a;
          a = before * std::cos(u) - b * std::sin(u);
          b = before * std::sin(u) + b * std::cos(u);
        }
    return out;
  };
  const auto q = turned(s.q, angles.query), k = turned(s.k, angles.key);
  Tensor<double, 4> out(s.q.extents);
  const int64_t group = s.c.heads / s.c.key_heads;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < s.c.heads; ++h) {
      double total = 0;
      for (int64_t j = std::max<int64_t>(0, t - left); j <= t; ++j) {
        if (at.sequences[std::size_t(t)] < 0 ||
            at.sequences[std::size_t(j)] != at.sequences[std::size_t(t)])
          continue;
        double score = 0;
        for (int64_t d = 0; d < size; ++d)
          score += q.view()(0, t, h, d) * k.view()(0, j, h / group, d);
        const double weight = std::exp(score / std::sqrt(double(size)));
        total += weight;
        for (int64_t d = 0; d < size; ++d)
          out.view()(0, t, h, d) += weight * s.v.view()(0, j, h / group, d);
      }
      for (int64_t d = 0; total > 0 && d < size; ++d) out.view()(0, t, h, d) /= total;
    }
  return out;
}

// The last `queries` tokens, with all keys before them.
struct Attended {
  Window window;
  LayerPlan plan;
  Tensor<double, 4> q, k, out;
  Tensor<double, 3> lse;

  Attended(const Sample& s, int64_t queries)
      : window{.queries = queries, .keys = tokens},
        q({1, queries, s.c.heads, size}),
        k(s.k),
        out({1, queries, s.c.heads, size}),
        lse({1, s.c.heads, queries}) {
    const Positions all = tokens_of();
    Positions last = all;
    last.tokens = queries;
    last.ids.erase(last.ids.begin(), last.ids.end() - queries);
    last.sequences.erase(last.sequences.begin(), last.sequences.end() - queries);
    window.batch = BatchPositions{last, all};
    plan = lower(s.c.encoding, window, s.views());
    plan.mask = {.visibility = Visibility::causal, .offset = tokens - queries, .left = left};
    plan.queries = std::make_shared<const Positions>(last);
    plan.keys = std::make_shared<const Positions>(all);
    const auto from = s.q.view().slice(1, tokens - queries, queries);
    std::copy_n(from.data(), q.values.size(), q.values.begin());
    prepare(plan, q.view(), {}), prepare(plan, {}, k.view());
    const auto v = s.v;
    attention({.q = std::as_const(q).view(), .k = std::as_const(k).view(), .v = v.view()}, plan,
              out.view(), lse.view());
  }
};

TEST(HeadRotations, AttentionIsThatOfTheDefinition) {
  for (const Case& c : cases()) {
    const Sample s(c);
    const auto want = oracle(s);
    const Attended got(s, tokens);
    // RoPE++ rotates keys by a float table.
    const double bound = c.name == "rotary-plus-plus" ? 2e-6 : 1e-12;
    for (std::size_t i = 0; i < want.values.size(); ++i)
      ASSERT_NEAR(got.out.values[i], want.values[i], bound) << c.name << ' ' << i;
  }
}

TEST(HeadRotations, DecodingIsTheFullPass) {
  for (const Case& c : cases()) {
    const Sample s(c);
    const Attended whole(s, tokens);
    for (const int64_t queries : {1, 2}) {
      const Attended last(s, queries);
      const auto from = whole.out.view().slice(1, tokens - queries, queries);
      for (std::size_t i = 0; i < last.out.values.size(); ++i)
        ASSERT_NEAR(last.out.values[i], from.data()[i], 1e-13) << c.name;
    }
  }
}

// sum weights . attention, by differences of fourth order in the parameters, which are float.
TEST(HeadRotations, GradientsOfParametersAreThoseOfFiniteDifferences) {
  for (const Case& c : cases()) {
    Sample s(c);
    if (s.values.empty()) continue;
    const Attended done(s, tokens);
    Tensor<double, 4> q_grad(s.q.extents), k_grad(s.k.extents), v_grad(s.v.extents);
    const auto out = done.out, q = done.q, k = done.k, v = s.v;
    const auto lse = done.lse;
    attention_backward({.q = q.view(), .k = k.view(), .v = v.view()}, done.plan, out.view(),
                       lse.view(), std::as_const(s.weights).view(),
                       {.q = q_grad.view(), .k = k_grad.view(), .v = v_grad.view()});
    LayerGradient lowered;
    lowered.frequencies =
        frequencies_gradient(done.plan, done.window, q.view(), std::as_const(q_grad).view(),
                             k.view(), std::as_const(k_grad).view());
    std::vector<Tensor<float, 2>> grads;
    std::vector<View<float, 2>> to;
    for (const auto& one : s.values) grads.emplace_back(one.extents);
    for (auto& one : grads) to.push_back(one.view());
    lower_backward(c.encoding, done.window, s.views(), lowered, to);
    const auto loss = [&] {
      const Attended now(s, tokens);
      double sum = 0;
      for (std::size_t i = 0; i < now.out.values.size(); ++i)
        sum += now.out.values[i] * s.weights.values[i];
      return sum;
    };
    for (std::size_t n = 0; n < grads.size(); ++n)
      for (std::size_t i = 0; i < grads[n].values.size(); ++i) {
        float& one = s.values[n].values[i];
        const float before = one, step = 0x1p-8f;
        const auto at = [&](float steps) {
          one = before + steps * step;
          const double value = loss();
          one = before;
          return value;
        };
        const double slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * double{step});
        ASSERT_NEAR(double{grads[n].values[i]}, slope, 2e-5) << c.name << ' ' << n << ' ' << i;
      }
  }
}

}  // namespace head_rotations_test
}  // namespace gnomon::model
