// Layers of DeepSeek-V4 from a config to the output of attention, compared with the formulas in
// double: for a whole prompt, and for decoding from caches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "gnomon/attention/compressed_attention.h"
#include "gnomon/attention/compressed_keys.h"
#include "gnomon/attention/key_selection.h"
#include "gnomon/attention/kv_cache.h"
#include "gnomon/model/config.h"
#include "gnomon/model/layer.h"
#include "testing.h"

namespace gnomon::model {
namespace deepseek_v4_test {

using gnomon::testing::message_of;
using gnomon::testing::random_tensor;
using gnomon::testing::Tensor;
using std::int64_t;
using Vector = std::vector<double>;

constexpr int64_t tokens = 22, heads = 2, head_dim = 10, rotary_dim = 4, window = 5;
constexpr int64_t index_heads = 3, index_dim = 6, selected = 2;
constexpr double epsilon = 1e-5;

ModelDescription small_model() {
  return read_config(R"({"model_type": "deepseek_v4", "num_hidden_layers": 3,
      "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 20, "head_dim": 10,
      "qk_rope_head_dim": 4, "sliding_window": 5, "rms_norm_eps": 1e-5,
      "max_position_embeddings": 512, "rope_theta": 100, "compress_rope_theta": 1000,
      "compress_ratios": [0, 4, 128], "compress_rate_csa": 3, "compress_rate_hca": 8,
      "index_n_heads": 3, "index_head_dim": 6, "index_topk": 2})");
}

// What one layer projects, and its parameters.
struct Inputs {
  int64_t layer;
  int64_t series = layer == 1 ? 2 : 1, rate = layer == 1 ? 3 : 8;
  std::vector<Parameter> wanted;
  std::vector<Tensor<float, 2>> parameters;
  Tensor<float, 4> q = random_tensor<float, 4>({1, tokens, heads, head_dim}, 1);
  Tensor<float, 4> kv = random_tensor<float, 4>({1, tokens, 1, head_dim}, 2);
  Tensor<float, 4> values = random_tensor<float, 4>({1, tokens, series, head_dim}, 3);
  Tensor<float, 4> gates = random_tensor<float, 4>({1, tokens, series, head_dim}, 4);
  Tensor<float, 4> index_q = random_tensor<float, 4>({1, tokens, index_heads, index_dim}, 5);
  Tensor<float, 4> index_values = random_tensor<float, 4>({1, tokens, series, index_dim}, 6);
  Tensor<float, 4> index_gates = random_tensor<float, 4>({1, tokens, series, index_dim}, 7);
  Tensor<float, 3> index_weights = random_tensor<float, 3>({1, tokens, index_heads}, 8);

  Inputs(const ModelDescription& model, int64_t of)
      : layer(of), wanted(layer_parameters(group_of(model, of))) {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      parameters.push_back(random_tensor<float, 2>({wanted[i].rows, wanted[i].columns},
                                                   static_cast<unsigned>(20 + i)));
  }
  double parameter(const std::string& name, int64_t i) const {
    for (std::size_t n = 0; n < wanted.size(); ++n)
      if (wanted[n].name == name)
        return double{parameters[n].values.at(static_cast<std::size_t>(i))};
    ADD_FAILURE() << "no parameter " << name;
    return 0;
  }
  LayerPlan plan(const ModelDescription& model, int64_t first, int64_t count,
                 int64_t cached) const {
    std::vector<View<const float, 2>> views;
    for (const auto& one : parameters) views.push_back(one.view());
    const Positions queries = consecutive(count, first);
    const Positions keys = consecutive(cached + count, first - cached);
    LayerPlan lowered =
        lower_layer(model, layer, "", {.queries = {&queries, 1}, .keys = {&keys, 1}}, views);
    if (lowered.queries)  // owned copies, because these positions end here
      lowered.queries = std::make_shared<Positions>(queries),
      lowered.keys = std::make_shared<Positions>(keys);
    return lowered;
  }
};

// The formulas in double.
Vector turned(Vector x, double base, double position) {
  for (std::size_t i = 0; i < rotary_dim / 2; ++i) {
    const double angle = position * std::pow(base, -2. * static_cast<double>(i) / rotary_dim);
    double &a = x[x.size() - rotary_dim + 2 * i], &b = x[x.size() - rotary_dim + 2 * i + 1];
    const double first = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle), a = first;
  }
  return x;
}
Vector normed(Vector x) {
  double squares = 0;
  for (const double one : x) squares += one * one / static_cast<double>(x.size());
  for (double& one : x) one /= std::sqrt(squares + epsilon);
  return x;
}
Vector row(const Tensor<float, 4>& x, int64_t t, int64_t h) {
  const View<const float, 4> view = x.view();
  Vector all;
  for (int64_t d = 0; d < view.extent(3); ++d) all.push_back(double{view(0, t, h, d)});
  return all;
}
double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.);
}

struct Oracle {
  const Inputs& in;
  double base = in.layer == 0 ? 100 : 1000;

  Vector entry(const Tensor<float, 4>& values, const Tensor<float, 4>& gates,
               const std::string& name, int64_t w) const {
    const int64_t dim = values.extents[3];
    Vector x;
    for (int64_t d = 0; d < dim; ++d) {
      double sum = 0, mean = 0;
      for (int64_t n = 0; n < in.series; ++n)
        for (int64_t s = 0; s < in.rate; ++s) {
          const int64_t t = (w - (in.series - 1 - n)) * in.rate + s;
          if (t < 0) continue;
          const double p =
              std::exp(double{gates.view()(0, t, n, d)} +
                       in.parameter(name + ".bias", (s * in.series + n) * dim + d));
          sum += p, mean += p * double{values.view()(0, t, n, d)};
        }
      x.push_back(mean / sum);
    }
    x = normed(std::move(x));
    for (int64_t d = 0; d < dim; ++d)
      x[static_cast<std::size_t>(d)] *= in.parameter(name + ".weight", d);
    return turned(std::move(x), base, static_cast<double>(w * in.rate));
  }
  Vector key(int64_t t) const {
    Vector x = normed(row(in.kv, t, 0));
    for (int64_t d = 0; d < head_dim; ++d)
      x[static_cast<std::size_t>(d)] *= in.parameter("key_norm.weight", d);
    return turned(std::move(x), base, static_cast<double>(t));
  }
  std::vector<int64_t> entries_seen(int64_t t) const {
    std::vector<int64_t> all(static_cast<std::size_t>(in.layer == 0 ? 0 : (t + 1) / in.rate));
    std::iota(all.begin(), all.end(), int64_t{0});
    if (in.layer != 1 || std::ssize(all) <= selected) return all;
    Vector scores;
    for (const int64_t w : all) {
      const Vector k = entry(in.index_values, in.index_gates, "index", w);
      double score = 0;
      for (int64_t h = 0; h < index_heads; ++h)
        score +=
            double{in.index_weights.view()(0, t, h)} *
            std::max(0., dot(turned(row(in.index_q, t, h), base, static_cast<double>(t)), k));
      scores.push_back(score);
    }
    std::stable_sort(all.begin(), all.end(), [&](int64_t a, int64_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    all.resize(selected);
    return all;
  }
  Vector output(int64_t t, int64_t h) const {
    const Vector q = turned(normed(row(in.q, t, h)), base, static_cast<double>(t));
    double sum = std::exp(in.parameter("sinks", h));
    Vector out(head_dim);
    const auto add = [&](const Vector& k) {
      const double p = std::exp(dot(q, k) / std::sqrt(double{head_dim}));
      sum += p;
      for (std::size_t d = 0; d < out.size(); ++d) out[d] += p * k[d];
    };
    for (int64_t j = std::max<int64_t>(t - window + 1, 0); j <= t; ++j) add(key(j));
    for (const int64_t w : entries_seen(t)) add(entry(in.values, in.gates, "compression", w));
    for (double& one : out) one /= sum;
    return turned(std::move(out), base, -static_cast<double>(t));
  }
};

// A run of a layer: a call for each part of the text.
struct LayerRun {
  const ModelDescription& model;
  const Inputs& in;
  std::optional<CompressedKeys<float>> kept = {}, index = {};
  KvCache<float> window_keys{
      {.capacity = tokens + window, .heads = 1, .head_dim = head_dim, .value_dim = 0}};
  Tensor<float, 4> out{{1, tokens, heads, head_dim}};

  void operator()(int64_t first, int64_t count) {
    const LayerPlan plan = in.plan(model, first, count, window_keys.tokens());
    Tensor<float, 4> q({1, count, heads, head_dim}), kv({1, count, 1, head_dim});
    std::copy_n(&in.q.view()(0, first, 0, 0), q.values.size(), q.values.begin());
    std::copy_n(&in.kv.view()(0, first, 0, 0), kv.values.size(), kv.values.begin());
    prepare(plan, q.view(), kv.view());
    window_keys.append(kv.view(), {}, consecutive(count, first));
    const auto keys = window_keys.keys();
    const auto to = out.view().slice(1, first, count);
    const auto rows = [&](const auto& x) { return x.view().slice(1, first, count); };
    if (!plan.compression) {
      attention({q.view(), keys, keys}, plan, to);
    } else {
      const LayerCompression& compression = *plan.compression;
      if (!kept) kept.emplace(compression.entries, 1, tokens);
      kept->append(rows(in.values), rows(in.gates));
      const auto entries = kept->entries();
      const View<const float, 4> queries = q.view();
      CompressedInput input{.q = queries, .kv = keys, .entries = entries};
      Tensor<std::int32_t, 3> chosen({1, count, compression.selected});
      const View<const std::int32_t, 3> of_chosen = chosen.view();
      if (compression.index_entries) {
        if (!index) index.emplace(compression.index_entries, 1, tokens);
        index->append(rows(in.index_values), rows(in.index_gates));
        Tensor<float, 4> index_q({1, count, index_heads, index_dim});
        std::copy_n(&in.index_q.view()(0, first, 0, 0), index_q.values.size(),
                    index_q.values.begin());
        rotate(index_q.view(), *compression.index_rotary);
        select_keys(index_q.view(), rows(in.index_weights), index->entries(), compression.mask,
                    chosen.view());
        input.selected = of_chosen;
      }
      compressed_attention(input, plan, compression.mask, to);
    }
    finish(plan, to);
    if (window_keys.tokens() >= window) window_keys.drop(0, window_keys.tokens() - window + 1);
  }
};

TEST(DeepseekV4, ConfigToOutput) {
  const ModelDescription model = small_model();
  for (const int64_t layer : {0, 1, 2}) {
    const Inputs in(model, layer);
    for (const int64_t prompt : {tokens, int64_t{7}, int64_t{1}}) {
      LayerRun run{model, in};
      run(0, prompt);
      for (int64_t t = prompt; t < tokens; ++t) run(t, 1);
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h) {
          const Vector expected = Oracle{in}.output(t, h);
          for (int64_t d = 0; d < head_dim; ++d)
            ASSERT_NEAR(run.out.view()(0, t, h, d), expected[static_cast<std::size_t>(d)], 2e-6)
                << "layer " << layer << " prompt " << prompt << " token " << t;
        }
    }
  }
}

TEST(DeepseekV4, LayersAreDescribed) {
  const ModelDescription model = small_model();
  ASSERT_EQ(model.groups.size(), 3U);
  const LayerAttention& of_sparse = group_of(model, 1).attention;
  EXPECT_EQ(of_sparse.values, ValueSource::keys);
  EXPECT_EQ(of_sparse.output, OutputRotation::inverse);
  EXPECT_EQ(of_sparse.left, window - 1);
  EXPECT_EQ(of_sparse.compression,
            (CompressionRule{.keys = {.rate = 3, .series = 2, .epsilon = epsilon},
                             .index_heads = index_heads,
                             .index_dim = index_dim,
                             .selected = selected}));
  EXPECT_EQ(group_of(model, 2).attention.compression,
            (CompressionRule{.keys = {.rate = 8, .series = 1, .epsilon = epsilon}}));
  EXPECT_FALSE(group_of(model, 0).attention.compression);
  const std::string json = to_json(model);
  for (const char* part : {"\"values\": \"keys\"", "\"output_rotation\": \"inverse\"",
                           "\"index_heads\": 3", "\"selected\": 2", "\"rate\": 8"})
    EXPECT_NE(json.find(part), std::string::npos) << part;
  const Inputs in(model, 1);
  const Positions packed_rows = packed(std::vector<int64_t>{3, 2});
  std::vector<View<const float, 2>> views;
  for (const auto& one : in.parameters) views.push_back(one.view());
  EXPECT_EQ(
      message_of([&] { lower_layer(model, 1, "", {.queries = {&packed_rows, 1}}, views); }),
      "[model] compressed keys require consecutive positions without padding, got others");
}

}  // namespace deepseek_v4_test
}  // namespace gnomon::model
