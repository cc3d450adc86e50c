#include "gnomon/torch/scheme.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string_view>

#include "torch/testing.h"

namespace gnomon::libtorch {
namespace torch_scheme_test {

using namespace testing;  // NOLINT

TEST(Scheme, OwnsEachParameterOnce) {
  const auto count = [](std::string_view text) {
    PositionScheme position(model::parse_scheme(text, shape, 4), generator(1));
    std::int64_t all = 0;
    for (const at::Tensor& one : position->parameters()) all += one.numel();
    return all;
  };
  EXPECT_EQ(count("rotary"), 0);
  EXPECT_EQ(count("t5"), 32 * heads);
  EXPECT_EQ(count("t5/none"), 32 * heads);
  EXPECT_EQ(count("learned+t5"), length * shape.width + 32 * heads);
  const auto swin = model::parameters(usual("swin"))[0];
  EXPECT_EQ(count("swin"), 4 * swin.rows * swin.columns);
  PositionScheme position(model::parse_scheme("t5/none", shape, 4), generator(1));
  EXPECT_EQ(position->layer(0).get(), position->layer(2).get());
  EXPECT_NE(position->layer(0).get(), position->layer(1).get());
  for (const std::int64_t layer : {-1, 4})
    expect_refusal([&] { position->layer(layer); }, {"layer must be 0 to 3"});
  EXPECT_THROW(PositionScheme(model::Scheme{}), std::invalid_argument);
}

// Every parameter gets a gradient, and layers attend like separate modules.
TEST(Scheme, EmbedsOnceAndAttendsInEachLayer) {
  PositionScheme position(model::parse_scheme("learned+rotary*2/learned+swin", shape, 3),
                          generator(1));
  const at::Tensor x = random({batch, length, shape.width}, 1, at::kFloat);
  at::Tensor y = position->embed(x);
  expect_close(y, x + position->named_parameters()["table.table"], 1e-6);
  expect_close(position->embed(x.slice(1, 3), 3), y.slice(1, 3), 1e-6);
  expect_close(position->embed(x, consecutive(length)), y, 1e-6);
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    const at::Tensor q = y.view({batch, length, heads, head_dim});
    PositionEncoding own = position->layer(layer);
    const at::Tensor out = position->attend(layer, q, q, q, causal);
    EXPECT_TRUE(out.equal(own->attend(q, q, q, causal)));
    EXPECT_TRUE(
        position->attend_packed(layer, at::cat({q, q, q}, 2), heads, causal).equal(out));
    y = y + out.flatten(2);
  }
  y.square().sum().backward();
  for (const auto& item : position->named_parameters())
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
}

TEST(Scheme, SavesLoadsAndClones) {
  const auto made = [](std::string_view text, std::uint64_t seed) {
    return PositionScheme(model::parse_scheme(text, shape, 4), generator(seed));
  };
  const PositionScheme position = made("learned+t5*3/learned+swin", 1);
  PositionScheme other = made("learned+t5*3/learned+swin", 2);
  load(other, saved(position));
  const auto copy = std::dynamic_pointer_cast<PositionSchemeImpl>(position->clone());
  ASSERT_EQ(copy->parameters().size(), position->parameters().size());
  for (std::size_t i = 0; i < position->parameters().size(); ++i) {
    expect_close(other->parameters()[i], position->parameters()[i], 0);
    expect_close(copy->parameters()[i], position->parameters()[i], 0);
  }
  EXPECT_EQ(copy->layer(0).get(), copy->layer(1).get());
  EXPECT_NE(copy->layer(0).get(), position->layer(0).get());
  PositionScheme wrong = made("learned+t5", 2);
  expect_refusal([&] { load(wrong, saved(position)); }, {"the module", "swin"});
}

}  // namespace torch_scheme_test
}  // namespace gnomon::libtorch
