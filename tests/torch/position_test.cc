#include "gnomon/torch/position.h"

#include <gtest/gtest.h>

#include <torch/torch.h>
#include <algorithm>
#include <cmath>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "gnomon/parallel.h"
#include "torch/testing.h"

namespace gnomon::libtorch {
namespace position_test {

using namespace testing;  // NOLINT

class EachEncoding : public ::testing::TestWithParam<std::string> {
 protected:
  static model::Encoding encoding(Visibility reads = Visibility::causal) {
    return usual(GetParam(), reads);
  }
  static model::Place places() { return model::info(encoding()).enters; }
  static bool in_attention() { return places() != model::Place::embeddings; }
  static PositionEncoding make(Visibility reads = Visibility::causal) {
    return testing::make({encoding(reads)});
  }
};
INSTANTIATE_TEST_SUITE_P(, EachEncoding, ::testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Compares the kernels with the same formula in LibTorch's operators and autograd: values and
// all gradients.
void expect_as_composed(PositionEncoding& position, const Composed& wanted,
                        std::int64_t queries, std::int64_t keys, AttendOptions options) {
  // Grouped heads, and fewer queries than keys.
  const auto q = random({batch, queries, heads, head_dim}, 1, at::kDouble);
  const std::int64_t key_heads = key_heads_of(wanted.mixture);
  const auto k = random({batch, keys, key_heads, head_dim}, 2, at::kDouble);
  const auto v = random({batch, keys, key_heads, head_dim}, 3, at::kDouble);
  const auto weight = random({batch, queries, heads, head_dim}, 4, at::kDouble).detach();
  options.hidden =
      layer_input(hidden_rows(wanted.mixture, queries, keys)).detach().requires_grad_(true);
  std::vector<at::Tensor> inputs{q, k, v};
  if (!model::token_terms(wanted.mixture).empty()) inputs.push_back(options.hidden);
  const std::size_t exact = 3;  // the others' gradients are float32
  inputs.insert(inputs.end(), wanted.parameters.begin(), wanted.parameters.end());

  const at::Tensor fused = position->attend(q, k, v, options);
  const at::Tensor composed = wanted.attend(q, k, v, options);
  expect_close(fused, composed, 1e-12);
  const auto fused_grads = torch::autograd::grad({(fused * weight).sum()}, inputs);
  const auto composed_grads = torch::autograd::grad({(composed * weight).sum()}, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double most = composed_grads[i].abs().max().item<double>();
    expect_close(fused_grads[i], composed_grads[i], (i < exact ? 1e-12 : 1e-5) * (1 + most));
  }
}

TEST_P(EachEncoding, AttendsLikeTheComposedOperators) {
  AttendOptions scaled = both_ways, window = causal, two_sides = both_ways;
  scaled.softmax_scale = 1.0;
  window.left = 3;
  two_sides.left = 4, two_sides.right = 2;
  for (const AttendOptions& options : {causal, scaled, window, two_sides}) {
    if (model::properties(encoding()).causal && options.visibility != Visibility::causal)
      continue;
    auto position = make(options.visibility);
    const Composed composed(position);
    expect_as_composed(position, composed, 5, length, options);
  }
}

// Explicit positions, as in training with random positions.
TEST_P(EachEncoding, FollowsPositions) {
  for (AttendOptions options : each_visibility(encoding(), causal, both_ways)) {
    auto position = make(options.visibility);
    options.positions = explicit_ids(std::vector<std::int64_t>{0, 2, 3, 7, 10, 11});
    expect_as_composed(position, Composed(position), 3, 6, options);
  }
}

// Mixtures with a second encoding that enters at another place.
TEST_P(EachEncoding, MixesWithRotaryOrABias) {
  using model::Place;
  if (places() == (Place::scores | Place::keys_and_values)) return;  // a shift: not with rotary
  const model::Encoding one = encoding();
  const bool no_bias =  // sums along a row are refused beside a bias
      std::holds_alternative<Cope>(one) || std::holds_alternative<StickBreaking>(one);
  if (std::holds_alternative<Pope>(one)) return;  // a bias beside it is refused, and a rotation
  const char* other = no_bias || model::includes(places(), Place::scores) ? "rotary" : "t5";
  auto position = testing::make({encoding(), usual(other)});
  expect_as_composed(position, Composed(position), 5, length, causal);
}

// attend_packed gives the same bits as attend with three views, and the gradient contains the
// three gradients.
TEST_P(EachEncoding, AttendsPackedAsApart) {
  auto position = make();
  const std::int64_t key_heads = key_heads_of(position->mixture());
  const auto packed = random({batch, length, heads + 2 * key_heads, head_dim}, 6, at::kFloat);
  AttendOptions options = causal;
  options.hidden = layer_input(length);
  const auto parts = packed.split_with_sizes({heads, key_heads, key_heads}, 2);
  const at::Tensor together = position->attend_packed(packed, key_heads, options);
  const at::Tensor apart = position->attend(parts[0], parts[1], parts[2], options);
  EXPECT_TRUE(together.equal(apart));
  std::vector<at::Tensor> inputs =
      in_attention() ? position->parameters() : std::vector<at::Tensor>{};
  inputs.push_back(packed);
  const auto wanted = torch::autograd::grad({apart.square().sum()}, inputs);
  const auto found = torch::autograd::grad({together.square().sum()}, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
  EXPECT_THROW(position->attend_packed(packed, heads + key_heads, options),
               std::invalid_argument);
}

// The scale of q . k is that of the caller, or 1 / sqrt(D), times the factor of the encoding.
TEST(SoftmaxScale, HasTheFactorOfTheEncoding) {
  const auto q = random({batch, length, heads, head_dim}, 1, at::kDouble);
  const auto k = random({batch, length, heads, head_dim}, 2, at::kDouble);
  const auto v = random({batch, length, heads, head_dim}, 3, at::kDouble);
  PositionEncoding none(model::Encoding(model::NoPosition{}));
  PositionEncoding deberta(model::find_encoding("deberta").usual(shape));
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor& one : deberta->parameters()) one.zero_();
  }
  ScaledRotary yarn{.rotary = {.rotary_dim = head_dim, .pairing = Pairing::halves},
                    .scaling = YarnScaling{.factor = 4,
                                           .original_length = length,
                                           .attention_factor = 1,
                                           .softmax_mscale = 1},
                    .length = 4 * length};
  PositionEncoding scaled{model::Encoding(yarn)};
  std::get<YarnScaling>(yarn.scaling).softmax_mscale = 0;
  PositionEncoding unscaled{model::Encoding(yarn)};
  const double magnitude = 1 + 0.1 * std::log(4.0);
  const struct {
    PositionEncoding &with, &plain;
    double factor;
  } cases[] = {{deberta, none, 1 / std::sqrt(3.0)}, {scaled, unscaled, magnitude * magnitude}};
  for (const auto& [with, plain, factor] : cases)
    for (const double scale : {1 / std::sqrt(double{head_dim}), 0.7}) {
      AttendOptions options = both_ways;
      if (scale == 0.7) options.softmax_scale = scale;
      const at::Tensor found = with->attend(q, k, v, options);
      options.softmax_scale = scale * factor;
      expect_close(found, plain->attend(q, k, v, options), 1e-12);
    }
}

TEST_P(EachEncoding, EmbedsATableOnceAndPassesGradients) {
  auto position = make();
  const auto x = random({batch, length, shape.width}, 5, at::kFloat);
  const at::Tensor y = position->embed(x);
  if (!model::includes(places(), model::Place::embeddings)) return expect_close(y, x, 0);
  EXPECT_GT((y - x).abs().max().item<double>(), 1e-3);
  // New tokens after four cached tokens get the rows from 4 on.
  const at::Tensor later = position->embed(x.detach().slice(1, 4), 4);
  expect_close(later, y.detach().slice(1, 4), 1e-6);
  const at::Tensor picked = position->embed(x.detach().slice(1, 0, 3),
                                            explicit_ids(std::vector<std::int64_t>{1, 5, 8}));
  expect_close(picked - x.slice(1, 0, 3), (y - x).index_select(1, at::tensor({1, 5, 8})), 1e-6);

  const auto weight = random(x.sizes(), 6, at::kFloat).detach();
  (y * weight).sum().backward();
  expect_close(x.grad(), weight, 0);
  // The derivative of the loss along a direction, by differences.
  constexpr double step = 1e-2;
  for (at::Tensor& one : position->parameters()) {
    const at::Tensor direction = random(one.sizes(), 8, at::kFloat).detach();
    const auto loss_at = [&](double t) {
      const at::NoGradGuard no_grad;
      const at::Tensor kept = one.clone();
      one.add_(direction, t);
      const double loss = (position->embed(x) * weight).to(at::kDouble).sum().item<double>();
      one.copy_(kept);
      return loss;
    };
    const double wanted = (loss_at(step) - loss_at(-step)) / (2 * step);
    const double found = (one.grad() * direction).sum().item<double>();
    EXPECT_NEAR(found, wanted, 2e-2 * (1 + std::abs(wanted)));
  }
}

TEST_P(EachEncoding, DecodesFromACacheAsInOnePass) {
  auto position = make();
  const at::NoGradGuard no_grad;
  const auto q = random({batch, length, heads, head_dim}, 1, at::kFloat);
  const auto k = random({batch, length, heads, head_dim}, 2, at::kFloat);
  const auto v = random({batch, length, heads, head_dim}, 3, at::kFloat);
  AttendOptions options = causal;
  options.hidden = layer_input(length);
  const at::Tensor whole = position->attend(q, k, v, options), hidden = options.hidden;
  for (std::int64_t t = 0; t < length; ++t) {
    options.hidden = hidden.slice(1, terms_of_keys(position->mixture()) ? 0 : t, t + 1);
    expect_close(position->attend(q.slice(1, t, t + 1), k.slice(1, 0, t + 1),
                                  v.slice(1, 0, t + 1), options),
                 whole.slice(1, t, t + 1), 2e-5);
  }
}

TEST_P(EachEncoding, TakesHalfPrecisionAndStridedViews) {
  auto position = make();
  const auto packed = random({batch, length, 3, heads, head_dim}, 6, at::kFloat);
  const auto parts = packed.unbind(2);
  AttendOptions options = causal;
  options.hidden = layer_input(length);
  const at::Tensor exact = position->attend(parts[0], parts[1], parts[2], options);
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const auto low = packed.detach().to(type).unbind(2);
    const at::Tensor out = position->attend(low[0], low[1], low[2], options);
    EXPECT_EQ(out.scalar_type(), type);
    expect_close(out.to(at::kFloat), exact, type == at::kHalf ? 2e-2 : 1.5e-1);
  }
}

TEST_P(EachEncoding, GivesTheSameBitsForAnyNumberOfThreads) {
  const auto q = random({batch, length, heads, head_dim}, 1, at::kFloat);
  AttendOptions options = causal;
  options.hidden = layer_input(length);
  const int before = threads();
  std::vector<std::vector<at::Tensor>> results;
  for (int count : {1, 2, 7}) {
    set_threads(count);
    auto position = make();
    const at::Tensor out =
        position->attend(position->embed(q.flatten(2)).view(q.sizes()), q, q, options);
    std::vector<at::Tensor> inputs = position->parameters();
    inputs.push_back(q);
    auto all = torch::autograd::grad({out.square().sum()}, inputs);
    all.push_back(out);
    results.push_back(all);
  }
  set_threads(before);
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(results[0][i].equal(results[1][i]));
    EXPECT_TRUE(results[0][i].equal(results[2][i]));
  }
}

TEST_P(EachEncoding, SavesLoadsAndClones) {
  auto position = make();
  PositionEncoding other(position->mixture());
  load(other, saved(position));
  const auto copy = std::dynamic_pointer_cast<PositionEncodingImpl>(position->clone());
  for (std::size_t i = 0; i < position->parameters().size(); ++i) {
    expect_close(other->parameters()[i], position->parameters()[i], 0);
    expect_close(copy->parameters()[i], position->parameters()[i], 0);
  }
}

// The peak resident memory of the process since the last reset, in bytes.
std::int64_t most_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stoll(line.substr(6));
  return 0;
}
bool forget_most_memory() {
  std::ofstream refs("/proc/self/clear_refs");
  refs << "5" << std::flush;
  return static_cast<bool>(refs);
}

// The scores of all heads, or their bias, would be 256 MiB.
TEST_P(EachEncoding, TrainsInMemoryThatGrowsWithTheLengthAlone) {
  constexpr std::int64_t tokens = 4096;
  PositionEncoding position(
      model::find_encoding(GetParam()).usual({heads * head_dim, heads, tokens}), generator(7));
  const auto packed = random({1, tokens, 3 * heads, head_dim}, 1, at::kFloat);
  if (!forget_most_memory()) return;  // not supported by this system
  const std::int64_t before = most_memory();
  AttendOptions options = causal;
  if (!model::token_terms(position->mixture()).empty())
    options.hidden = random({1, tokens, heads * head_dim}, 2, at::kFloat);
  position->attend_packed(packed, heads, options).sum().backward();
  EXPECT_TRUE(packed.grad().defined());
  EXPECT_LT(most_memory() - before, 64 << 20);
}

TEST(PositionEncoding, RefusesPositionsBeyondALearnedTable) {
  PositionEncoding position(learned_plain(length, 8));
  EXPECT_NO_THROW(position->embed(at::zeros({1, length, 8})));
  try {
    position->embed(at::zeros({1, length + 1, 8}));
    FAIL() << "clamped";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("got 12"), std::string::npos) << error.what();
  }
}

TEST(PositionEncoding, RefusesIntegersAndAMissingVisibility) {
  PositionEncoding position{model::Encoding(model::NoPosition{})};
  const at::Tensor q = at::zeros({1, 2, 1, 4});
  EXPECT_THROW(position->attend(q, q, q, {}), std::invalid_argument);
  EXPECT_THROW(position->attend(q.to(at::kLong), q, q, causal), std::invalid_argument);
}

TEST(PositionEncoding, HoldsAMixture) {
  PositionEncoding position(model::Mixture{usual("learned"), usual("rotary"), usual("t5")},
                            generator(1));
  const auto named = position->named_parameters();
  EXPECT_TRUE(named.contains("learned_table"));
  EXPECT_TRUE(named.contains("t5_buckets"));
  const auto x = random({batch, length, shape.width}, 5, at::kFloat);
  const auto heads_of = [&](const at::Tensor& y) {
    return y.view({batch, length, heads, head_dim});
  };
  const at::Tensor embedded = heads_of(position->embed(x));
  position->attend(embedded, embedded, embedded, causal).sum().backward();
  for (const at::Tensor& one : position->parameters())
    EXPECT_GT(one.grad().abs().max().item<double>(), 0);
  EXPECT_THROW(PositionEncoding(model::Mixture{usual("t5"), usual("t5")}),
               std::invalid_argument);
  PositionEncoding two(model::Mixture{usual("alibi"), usual("t5")}, generator(1));
  EXPECT_THROW(two->attend(embedded, embedded, embedded, causal), std::invalid_argument);
  PositionEncoding none(model::Mixture{});
  expect_close(none->embed(x), x, 0);
  EXPECT_NO_THROW(none->attend(embedded, embedded, embedded, causal));
}

TEST(PositionEncoding, AsksForWhatAGateLooksAt) {
  for (const auto& one : model::encodings()) {
    const model::Mixture mixture{one.usual(shape)};
    if (model::token_terms(mixture).empty()) continue;
    PositionEncoding position(mixture, generator(1));
    const at::Tensor q = at::zeros({1, 2, heads, head_dim});
    EXPECT_THROW(position->attend(q, q, q, causal), std::invalid_argument) << one.name;
  }
}

}  // namespace position_test
}  // namespace gnomon::libtorch
