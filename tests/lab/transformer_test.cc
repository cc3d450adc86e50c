#include "apps/lab/model/transformer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace gnomon::lab {
namespace transformer_test {

Settings tiny() {
  Settings settings;
  settings.layers = 4;
  settings.width = 16;
  settings.heads = 2;
  return settings;
}
constexpr model::Shape shape{16, 2, 12};

Transformer made(const char* scheme, Visibility reads = Visibility::causal) {
  model::Shape usual = shape;
  usual.reads = reads;
  return Transformer(tiny(), model::parse_scheme(scheme, usual, tiny().layers), 3);
}
at::Tensor bytes() { return at::arange(100, 112).view({1, 12}); }
double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(Transformer, LayersShareParametersOrHaveTheirOwn) {
  const auto own = [](const char* scheme) {
    return parameter_count(*made(scheme), "position");
  };
  EXPECT_EQ(own("rotary"), 0);
  EXPECT_EQ(own("t5"), 32 * 2);
  EXPECT_EQ(own("t5/none"), 32 * 2);
  EXPECT_EQ(own("learned+t5"), 12 * 16 + 32 * 2);
  const auto swin = model::parameters(model::find_encoding("swin").usual(shape))[0];
  EXPECT_EQ(own("swin"), 4 * swin.rows * swin.columns);
  EXPECT_EQ(own("swin*3/none"), 3 * swin.rows * swin.columns);
  Transformer shared = made("t5/none");
  EXPECT_EQ(shared->position(0).get(), shared->position(2).get());
  EXPECT_NE(shared->position(0).get(), shared->position(1).get());
}

// Weights that all schemes have in common are equal for the same seed.
TEST(Transformer, SharedWeightsDoNotDependOnTheScheme) {
  const auto one = made("rotary*3/none")->named_parameters();
  for (const auto& item : made("learned+t5")->named_parameters()) {
    if (item.key().rfind("position.", 0) == 0) continue;
    EXPECT_TRUE(item.value().equal(one[item.key()])) << item.key();
  }
}

TEST(Transformer, EveryNameTrainsAndDependsOnItsParameters) {
  for (const auto& one : model::encodings()) {
    for (const Visibility visibility : {Visibility::causal, Visibility::bidirectional}) {
      if (visibility == Visibility::bidirectional &&
          model::properties(one.usual({32, 4, 32})).causal)
        continue;
      Transformer model = made(std::string(one.name).c_str(), visibility);
      const at::Tensor logits = model->forward(bytes(), {.visibility = visibility});
      ASSERT_TRUE(logits.isfinite().all().item<bool>()) << one.name;
      logits.square().sum().backward();
      double most = 0;
      for (const auto& item : model->named_parameters())
        if (item.key().rfind("position.", 0) == 0 && item.value().grad().defined())
          most = std::max(most, item.value().grad().abs().max().item<double>());
      EXPECT_EQ(most > 0, parameter_count(*model, "position") > 0) << one.name;
    }
  }
}

TEST(Transformer, WithoutPositionOnlyTheMaskTellsOrder) {
  const at::NoGradGuard no_grad;
  const at::Tensor text = bytes(), reversed = text.flip(1);
  const ForwardOptions both{.visibility = Visibility::bidirectional};
  const auto mirrored = [&](const char* scheme, const ForwardOptions& options) {
    Transformer model = made(scheme);
    return difference(model->forward(text, options).flip(1), model->forward(reversed, options));
  };
  EXPECT_LT(mirrored("none", both), 1e-5);
  EXPECT_GT(mirrored("none", {}), 1e-4);
  EXPECT_GT(mirrored("none*3/rotary", both), 1e-6);
  EXPECT_GT(mirrored("rotary", both), 1e-6);
}

// Explicit positions 0, 1, 2, ... have the same result as none. Shifted positions have the same
// result with relative encodings, but not with a table.
TEST(Transformer, IdsArePositions) {
  const at::NoGradGuard no_grad;
  const at::Tensor text = bytes().slice(1, 0, 6);
  const auto at_ids = [](const std::vector<std::int64_t>& ids) {
    return ForwardOptions{.positions = explicit_ids(ids)};
  };
  const ForwardOptions counted = at_ids({0, 1, 2, 3, 4, 5}),
                       later = at_ids({6, 7, 8, 9, 10, 11}),
                       spread = at_ids({0, 2, 5, 6, 9, 11});
  for (const char* scheme : {"learned", "rotary+alibi", "sinusoidal+t5", "shaw"}) {
    Transformer model = made(scheme);
    EXPECT_LT(difference(model->forward(text), model->forward(text, counted)), 1e-5) << scheme;
    EXPECT_GT(difference(model->forward(text), model->forward(text, spread)), 1e-6) << scheme;
    const bool table = !before_layers(model->scheme()).empty();
    EXPECT_EQ(difference(model->forward(text), model->forward(text, later)) > 1e-5, table)
        << scheme;
  }
}

TEST(Transformer, RefusesASchemeOfOtherLayers) {
  EXPECT_THROW(Transformer(tiny(), model::parse_scheme("rotary", shape, 3), 3),
               std::invalid_argument);
}

}  // namespace transformer_test
}  // namespace gnomon::lab
