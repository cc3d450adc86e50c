#include "gnomon/relative/deberta.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "relative/paper.h"
#include "testing.h"

namespace gnomon {
namespace deberta_test {

using testing::message_of;
using testing::Tensor;

TEST(Deberta, BucketsAreThoseOfReleasedModels) {
  std::ifstream file(std::string(GNOMON_SOURCE_DIR) + "/tests/relative/released.json");
  const auto released = nlohmann::json::parse(file);
  const std::int64_t last = released["last_distance"];
  for (const auto& sample : released["deberta"]) {
    const Deberta deberta{.heads = 1,
                          .head_dim = 1,
                          .width = 1,
                          .span = sample["position_buckets"],
                          .distance = DebertaDistance::logarithmic,
                          .max_distance = sample["max_relative_positions"]};
    std::size_t run = 0;
    const auto& runs = sample["runs"];
    for (std::int64_t n = 0; n <= last; ++n) {
      while (run + 1 < runs.size() && runs[run + 1][0] <= n) ++run;
      const std::int64_t expected = n < deberta.span / 2 ? n : runs[run][1].get<std::int64_t>();
      ASSERT_EQ(bucket(deberta, n), expected) << n;
      ASSERT_EQ(bucket(deberta, -n), -expected) << -n;
      // att_span = position_buckets; clamp(bucket + att_span, 0, 2 att_span - 1)
      ASSERT_EQ(row(deberta, -n), std::min(expected + deberta.span, 2 * deberta.span - 1));
      ASSERT_EQ(row(deberta, n), std::max<std::int64_t>(deberta.span - expected, 0));
    }
  }
}

// DeBERTa (v1) cuts the table to the length: rel_embeddings[max - span : max + span] with span
// = min(length, max), and its rows are clamp(q - k + span, 0, 2 span - 1).
TEST(Deberta, RawRowsAreThoseOfTheCutTable) {
  for (const std::int64_t length : {1, 6, 7, 8, 9, 15}) {
    const Deberta deberta{
        .heads = 1, .head_dim = 1, .width = 1, .span = 8, .distance = DebertaDistance::raw};
    const std::int64_t span = std::min<std::int64_t>(length, 8);
    for (std::int64_t q = 0; q < length; ++q)
      for (std::int64_t k = 0; k < length; ++k) {
        std::int64_t index = q - k + span;
        if (index < 0) index = 0;
        if (index > 2 * span - 1) index = 2 * span - 1;
        ASSERT_EQ(row(deberta, k - q), 8 - span + index) << length << ": " << q << ", " << k;
      }
  }
}

TEST(Deberta, FarDistancesHaveTheLastRows) {
  const Deberta raw{
      .heads = 1, .head_dim = 1, .width = 1, .span = 8, .distance = DebertaDistance::raw};
  EXPECT_EQ(row(raw, INT64_MAX), 0);
  EXPECT_EQ(row(raw, INT64_MIN), 15);
  Deberta far = raw;
  far.distance = DebertaDistance::logarithmic;
  EXPECT_EQ(row(far, INT64_MAX), 0);
  EXPECT_EQ(row(far, INT64_MIN), 15);
}

// An encoding with its weights, and the scores as the released code computes them.
struct Model {
  Deberta spec;
  testing::Paper paper;
  std::vector<double> embeddings, key, query, key_bias, query_bias, norm_weight, norm_bias;

  std::int64_t f(std::int64_t r) const {
    if (spec.distance == DebertaDistance::raw) return r;
    const std::int64_t mid = spec.span / 2, away = std::abs(r);
    if (away <= mid) return r;
    const double steps = std::ceil(
        std::log(static_cast<double>(away) / static_cast<double>(mid)) /
        std::log(static_cast<double>(spec.max_distance - 1) / static_cast<double>(mid)) *
        static_cast<double>(mid - 1));
    return (r < 0 ? -1 : 1) * (static_cast<std::int64_t>(steps) + mid);
  }
  // Component d of head h of row r of the embeddings, normalized and projected.
  double projected(const std::vector<double>& w, const std::vector<double>& b, std::int64_t h,
                   std::int64_t r, std::int64_t d) const {
    const auto width = static_cast<std::size_t>(spec.width);
    std::vector<double> x(embeddings.begin() + r * spec.width,
                          embeddings.begin() + (r + 1) * spec.width);
    if (spec.norm_epsilon) {
      double mean = 0, variance = 0;
      for (const double one : x) mean += one / static_cast<double>(width);
      for (const double one : x)
        variance += (one - mean) * (one - mean) / static_cast<double>(width);
      for (std::size_t c = 0; c < width; ++c)
        x[c] = (x[c] - mean) / std::sqrt(variance + *spec.norm_epsilon) * norm_weight[c] +
               norm_bias[c];
    }
    const auto n = static_cast<std::size_t>(h * spec.head_dim + d);
    double sum = b.empty() ? 0 : b[n];
    for (std::size_t c = 0; c < width; ++c) sum += w[n * width + c] * x[c];
    return sum;
  }
  // The products of a vector x with every row of the table.
  std::vector<double> met(const double* x, const std::vector<double>& w,
                          const std::vector<double>& b, std::int64_t h) const {
    std::vector<double> products;
    for (std::int64_t r = 0; r < 2 * spec.span; ++r) {
      products.push_back(0);
      for (std::int64_t d = 0; d < spec.head_dim; ++d)
        products.back() += x[d] * projected(w, b, h, r, d);
    }
    return products;
  }
  std::size_t index(std::int64_t r) const {
    return static_cast<std::size_t>(
        std::max<std::int64_t>(0, std::min(r + spec.span, 2 * spec.span - 1)));
  }
  double loss() const {
    const std::int64_t length = paper.queries;
    const auto at = [&](std::int64_t h, std::int64_t i, std::int64_t j) {
      return static_cast<std::size_t>((h * length + i) * length + j);
    };
    const bool c2p = spec.terms != DebertaTerms::position_to_content;
    const bool p2c = spec.terms != DebertaTerms::content_to_position;
    std::vector<double> scores(static_cast<std::size_t>(spec.heads * length * length));
    for (std::int64_t h = 0; h < spec.heads; ++h)
      for (std::int64_t a = 0; a < length; ++a) {
        const auto by_key = met(&paper.q.view()(a, h, 0), key, key_bias, h);
        const auto by_query = met(&paper.k.view()(a, h, 0), query, query_bias, h);
        for (std::int64_t b = 0; b < length; ++b) {
          const std::int64_t relative = f(a - b);  // relative_pos[a][b]
          if (c2p) scores[at(h, a, b)] += by_key[index(relative)];
          if (p2c) scores[at(h, b, a)] += by_query[index(-relative)];  // transposed
        }
      }
    const double root = std::sqrt(static_cast<double>(spec.head_dim) *
                                  (1 + static_cast<double>(c2p) + static_cast<double>(p2c)));
    return paper.loss(
        [&](std::int64_t h, std::int64_t i, std::int64_t j) {
          return (paper.dot(h, i, j) + scores[at(h, i, j)]) / root;
        },
        [](auto...) { return 0.0; });
  }
};

std::vector<Model> models() {
  std::vector<Model> all;
  const auto add = [&](DebertaDistance distance, DebertaTerms terms, bool biases, bool norm) {
    Model m{{.heads = 2,
             .head_dim = 3,
             .width = 5,
             .span = 4,
             .distance = distance,
             .max_distance = 7,
             .terms = terms},
            {.queries = 7, .keys = 7, .heads = 2, .head_dim = 3, .values = 2},
            testing::float_numbers(8 * 5, 50),
            testing::float_numbers(6 * 5, 51),
            testing::float_numbers(6 * 5, 52),
            {},
            {},
            {},
            {}};
    if (biases) {
      m.key_bias = testing::float_numbers(6, 53);
      m.query_bias = testing::float_numbers(6, 54);
    }
    if (norm) {
      m.spec.norm_epsilon = 1e-7;
      m.norm_weight = testing::float_numbers(5, 55);
      m.norm_bias = testing::float_numbers(5, 56);
    }
    m.paper.scale = softmax_scale(m.spec);
    m.paper.draw(57);
    all.push_back(std::move(m));
  };
  add(DebertaDistance::raw, DebertaTerms::both, false, false);
  add(DebertaDistance::logarithmic, DebertaTerms::both, true, true);
  add(DebertaDistance::logarithmic, DebertaTerms::content_to_position, true, false);
  add(DebertaDistance::raw, DebertaTerms::position_to_content, false, true);
  return all;
}

struct Matrices {
  Tensor<float, 2> embeddings{{}}, key{{}}, query{{}}, key_bias{{}}, query_bias{{}},
      norm_weight{{}}, norm_bias{{}};

  explicit Matrices(const Model& m)
      : embeddings(testing::float_matrix(8, 5, m.embeddings)),
        key(testing::float_matrix(6, 5, m.key)),
        query(testing::float_matrix(6, 5, m.query)) {
    if (!m.key_bias.empty()) key_bias = testing::float_matrix(1, 6, m.key_bias);
    if (!m.query_bias.empty()) query_bias = testing::float_matrix(1, 6, m.query_bias);
    if (m.spec.norm_epsilon) {
      norm_weight = testing::float_matrix(1, 5, m.norm_weight);
      norm_bias = testing::float_matrix(1, 5, m.norm_bias);
    }
  }
  static View<float, 2> of(Tensor<float, 2>& x) {
    return x.values.empty() ? View<float, 2>() : x.view();
  }
  DebertaGradients views() {
    return {of(embeddings), of(key),         of(query),    of(key_bias),
            of(query_bias), of(norm_weight), of(norm_bias)};
  }
  DebertaWeights read() {
    const DebertaGradients all = views();
    return {all.embeddings, all.key,         all.query,    all.key_bias,
            all.query_bias, all.norm_weight, all.norm_bias};
  }
  void clear() {
    for (auto* one :
         {&embeddings, &key, &query, &key_bias, &query_bias, &norm_weight, &norm_bias})
      std::fill(one->values.begin(), one->values.end(), 0.0F);
  }
};

TEST(Deberta, AttentionAndGradientsAreTheReleasedModels) {
  for (Model& m : models()) {
    SCOPED_TRACE(static_cast<int>(m.spec.terms));
    Matrices weights(m), grads(m);
    const RelativeForm form = lower(m.spec, weights.read(), -6, 13);
    check(form, 2, 3, 2);
    EXPECT_EQ(form.keys.empty(), m.spec.terms == DebertaTerms::position_to_content);
    EXPECT_EQ(form.queries.empty(), m.spec.terms == DebertaTerms::content_to_position);
    EXPECT_NEAR(m.paper.lowered_loss(form), m.loss(), 1e-11);
    EXPECT_NEAR(m.paper.attention_loss(form), m.loss(), 1e-11);
    grads.clear();
    lower_backward(m.spec, weights.read(), -6, 13,
                   testing::relative_gradient(m.paper.backward(form)), grads.views());
    const auto loss = [&] { return m.loss(); };
    testing::expect_gradient(grads.embeddings.values, m.embeddings, loss, "embeddings");
    if (!form.keys.empty()) testing::expect_gradient(grads.key.values, m.key, loss, "key");
    if (!form.queries.empty())
      testing::expect_gradient(grads.query.values, m.query, loss, "query");
    if (!m.key_bias.empty() && !form.queries.empty())
      testing::expect_gradient(grads.query_bias.values, m.query_bias, loss, "query_bias");
    if (m.spec.norm_epsilon) {
      testing::expect_gradient(grads.norm_weight.values, m.norm_weight, loss, "norm_weight");
      if (!form.queries.empty())
        testing::expect_gradient(grads.norm_bias.values, m.norm_bias, loss, "norm_bias");
    }
  }
}

// The row of a distance that does not occur is not projected and gets no gradient.
TEST(Deberta, FewDistancesNeedFewRows) {
  const Model m = models()[0];
  Matrices weights(m);
  const RelativeForm form = lower(m.spec, weights.read(), -1, 2);
  EXPECT_EQ(form.keys[0].vectors(), 2);
  EXPECT_EQ(form.keys[0].rows, (std::vector<std::int32_t>{1, 0}));
}

TEST(Deberta, TheSoftmaxScaleCountsTheTerms) {
  Deberta deberta{
      .heads = 1, .head_dim = 64, .width = 1, .span = 8, .distance = DebertaDistance::raw};
  EXPECT_DOUBLE_EQ(softmax_scale(deberta), 1 / std::sqrt(192.0));
  deberta.terms = DebertaTerms::content_to_position;
  EXPECT_DOUBLE_EQ(softmax_scale(deberta), 1 / std::sqrt(128.0));
}

TEST(Deberta, RefusesWhatBreaksItsBounds) {
  const auto says = [](auto change) {
    Deberta deberta{.heads = 2,
                    .head_dim = 3,
                    .width = 5,
                    .span = 4,
                    .distance = DebertaDistance::logarithmic};
    change(deberta);
    return message_of([&] { row(deberta, 0); });
  };
  EXPECT_EQ(says([](Deberta&) {}), "");
  EXPECT_EQ(says([](Deberta& d) { d.heads = 0; }), "[deberta] heads must be at least 1, got 0");
  EXPECT_EQ(says([](Deberta& d) { d.head_dim = 0; }),
            "[deberta] head_dim must be at least 1, got 0");
  EXPECT_EQ(says([](Deberta& d) { d.width = 0; }), "[deberta] width must be at least 1, got 0");
  EXPECT_EQ(says([](Deberta& d) { d.span = 0; }),
            "[deberta] span must be 1 to 1073741824, got 0");
  EXPECT_EQ(says([](Deberta& d) { d.span = 7; }),
            "[deberta] span must be even and at least 4 where distances are logarithmic, "
            "got 7");
  EXPECT_EQ(says([](Deberta& d) { d.max_distance = 3; }),
            "[deberta] max_distance must be more than span / 2 + 1 = 3, got 3");
  EXPECT_EQ(says([](Deberta& d) { d.distance = {}; }),
            "[deberta] distance must be raw or logarithmic, got 0");
  EXPECT_EQ(says([](Deberta& d) { d.terms = {}; }),
            "[deberta] terms must be content_to_position, position_to_content or both, got 0");
  EXPECT_EQ(says([](Deberta& d) { d.norm_epsilon = -1; }),
            "[deberta] norm_epsilon must not be negative, got -1");
  const Model m = models()[1];
  Matrices weights(m), grads(m);
  Deberta other = m.spec;
  other.span = 6;
  EXPECT_EQ(message_of([&] { lower(other, weights.read(), 0, 1); }),
            "[deberta] embeddings must be [12, 5], got [8, 5]");
  DebertaWeights some = weights.read();
  some.query = {};
  EXPECT_EQ(message_of([&] { lower(m.spec, some, 0, 1); }),
            "[deberta] query must be [6, 5], got [0, 0]");
  EXPECT_EQ(message_of([&] { lower(m.spec, weights.read(), 0, 0); }),
            "[deberta] count of distances must be at least 1, got 0");
  EXPECT_EQ(
      message_of([&] { lower_backward(m.spec, weights.read(), 0, 1, {}, grads.views()); }),
      "[deberta] the gradient must have one table of keys, got 0");
}

}  // namespace deberta_test
}  // namespace gnomon
