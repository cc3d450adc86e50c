#include "gnomon/model/encoding.h"

#include <gtest/gtest.h>

#include <set>

#include "testing.h"

namespace gnomon::model {
namespace {

using testing::message_of;

constexpr Shape shape{32, 4, 16};

TEST(Encodings, EachNameMakesItsOwnAlternative) {
  std::set<std::string_view> names;
  for (const EncodingInfo& one : encodings()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_EQ(&info(one.usual(shape)), &one) << one.name;
    EXPECT_EQ(&find_encoding(one.name), &one);
  }
}

TEST(Encodings, AnUnknownNameIsRefusedWithTheList) {
  EXPECT_EQ(message_of([] { find_encoding("rope"); }),
            "[encoding] name must be one of none, sinusoidal, learned, rotary, rotary-scaled, "
            "xpos, alibi, t5, clipped, got rope");
}

TEST(Json, GoesThereAndBack) {
  for (const EncodingInfo& one : encodings()) {
    const Encoding encoding = one.usual(shape);
    EXPECT_EQ(encoding_from_json(to_json(encoding)), encoding) << to_json(encoding);
  }
  EXPECT_EQ(to_json(Rotary{.dim = 64, .pairing = Pairing::adjacent, .base = 5e5}),
            R"({"kind":"rotary","dim":64,"pairing":"adjacent","base":500000.0,"first":0})");
}

TEST(Json, EveryScalingGoesThereAndBack) {
  for (const RopeScaling& scaling :
       {RopeScaling(NoScaling{}), RopeScaling(LinearScaling{2}), RopeScaling(NtkScaling{3}),
        RopeScaling(DynamicNtkScaling{2, 64}),
        RopeScaling(YarnScaling{.factor = 4,
                                .original_length = 64,
                                .ramp = YarnRamp::fractional,
                                .attention_factor = 1.25,
                                .softmax_mscale = 1}),
        RopeScaling(LongRopeScaling{
            .short_factors = {1, 2}, .long_factors = {3, 4}, .original_length = 8}),
        RopeScaling(Llama3Scaling{8, 1, 4, 8192}), RopeScaling(ProportionalScaling{1, 2}),
        RopeScaling(FrequencyFactors{{1, 2}})}) {
    const Encoding encoding = ScaledRotary{.rotary = {.dim = 4, .pairing = Pairing::halves},
                                           .scaling = scaling,
                                           .length = 128,
                                           .axes = {0, 2}};
    EXPECT_EQ(encoding_from_json(to_json(encoding)), encoding) << to_json(encoding);
  }
  EXPECT_EQ(to_json(RopeScaling(LinearScaling{2})), R"({"type":"linear","factor":2.0})");
  EXPECT_NE(message_of([] {
              encoding_from_json(R"({"kind":"rotary-scaled","scaling":{"type":"ntk","a":1}})");
            }).find("scaling must be without unknown keys"),
            std::string::npos);
}

TEST(Json, RefusesWhatItDoesNotUnderstand) {
  EXPECT_NE(message_of([] {
              encoding_from_json(R"({"kind":"rotary","dims":64})");
            }).find("keys must be among kind, dim, pairing"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              encoding_from_json(R"({"kind":"rotary","dim":"64"})");
            }).find("dim must be an integer, got \"64\""),
            std::string::npos);
  EXPECT_NE(message_of([] {
              encoding_from_json(R"({"kind":"rotary","pairing":"half"})");
            }).find("pairing must be one of halves, adjacent"),
            std::string::npos);
  for (const char* text : {"", "[]", "{", R"({"dim": 3})", R"({"kind": 3})"})
    EXPECT_THROW(encoding_from_json(text), std::invalid_argument) << text;
}

// Matrices for the parameters, each entry different.
struct Values {
  std::vector<testing::Tensor<float, 2>> tensors;
  explicit Values(const Encoding& encoding) {
    unsigned seed = 3;
    for (const Parameter& one : parameters(encoding))
      tensors.push_back(testing::random_tensor<float, 2>({one.rows, one.columns}, seed++));
  }
  std::vector<View<const float, 2>> views() const {
    std::vector<View<const float, 2>> all;
    for (const auto& tensor : tensors) all.push_back(tensor.view());
    return all;
  }
};

// A loss that is linear in the lowered numbers has a gradient that is exact by differences: the
// change of the loss when one parameter moves by 1 is its gradient.
TEST(LowerBackward, IsTheTransposeOfLower) {
  for (const EncodingInfo& one : encodings()) {
    const Encoding encoding = one.usual(shape);
    const Window window{5, 9};
    Values values(encoding);
    const auto numbers_of = [&] {
      const Lowered lowered = lower(encoding, window, values.views());
      std::vector<double> numbers;
      if (lowered.table)
        numbers.assign(lowered.table->values.begin(), lowered.table->values.end());
      if (const auto* strip = std::get_if<StripBias>(&lowered.bias))
        numbers.insert(numbers.end(), strip->values.begin(), strip->values.end());
      return numbers;
    };
    if (values.tensors.empty()) continue;
    const auto before = numbers_of();
    const auto weights = testing::random_numbers(before.size(), 11);

    std::vector<float> table_grad(weights.begin(), weights.end());
    LoweredGradient lowered;
    if (lower(encoding, window, values.views()).table)
      lowered.table = View<const float, 2>(table_grad.data(), {window.queries, shape.width});
    else
      lowered.bias.values = weights;
    for (std::size_t p = 0; p < values.tensors.size(); ++p) {
      testing::Tensor<float, 2> grad(values.tensors[p].extents);
      std::vector<View<float, 2>> grads{grad.view()};
      lower_backward(encoding, window, lowered, grads);
      for (std::size_t i = 0; i < grad.values.size(); ++i) {
        const float kept = values.tensors[p].values[i];
        values.tensors[p].values[i] = kept + 1;
        const auto after = numbers_of();
        double change = 0;
        for (std::size_t n = 0; n < after.size(); ++n)
          change += weights[n] * (after[n] - before[n]);
        values.tensors[p].values[i] = kept;
        ASSERT_NEAR(change, grad.values[i], 1e-5) << one.name << " parameter " << i;
      }
    }
  }
}

TEST(Lower, RefusesWindowsThatDoNotFit) {
  const Encoding learned = learned_plain(16, 32);
  const Values values(learned);
  EXPECT_EQ(capacity(learned), 16);
  EXPECT_EQ(message_of([&] { lower(learned, {17, 17}, values.views()); }),
            "[learned] positions must be below its 16 rows, got 16");
  EXPECT_EQ(message_of([&] { lower(NoPosition{}, {5, 4}, {}); }),
            "[encoding] keys must be at least the queries 5, got 4");
  EXPECT_EQ(message_of([&] { lower(learned, {4, 4}, {}); }),
            "[learned] needs 1 parameter matrices, got 0");
}

}  // namespace
}  // namespace gnomon::model
