#include "gnomon/model/encoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon::model {
namespace encoding_test {

using testing::message_of;

constexpr Shape shape{32, 4, 16};

TEST(Encodings, EachNameMakesItsOwnAlternative) {
  std::set<std::string_view> names;
  for (const EncodingInfo& one : encodings()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_EQ(&find_encoding(one.name), &one);
    // The first name of the spec is this one or an earlier one.
    const EncodingInfo& first = info(one.usual(shape));
    EXPECT_LE(&first, &one) << one.name;
    EXPECT_EQ(first.enters, one.enters) << one.name;
  }
  EXPECT_EQ(info(find_encoding("beit").usual(shape)).name, "swin");
}

TEST(Encodings, PlacesJoin) {
  EXPECT_EQ(name(Place::queries_and_keys), "queries and keys");
  EXPECT_EQ(name(Place::embeddings | Place::scores), "embeddings, scores");
  EXPECT_FALSE(includes(Place::embeddings | Place::scores, Place::queries_and_keys));
}

TEST(Encodings, NamesForgiveCaseAndSeparatorsAndAcceptTitlesAndSynonyms) {
  for (const EncodingInfo& one : encodings()) {
    EXPECT_EQ(&find_encoding(one.title), &one) << one.title;
    std::string loud(one.name);
    for (char& c : loud) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
    EXPECT_EQ(&find_encoding(loud), &one) << loud;
  }
  for (const auto& [written, name] :
       std::map<std::string, std::string>{{"RoPE", "rotary"},
                                          {"RoPE++", "rotary-plus-plus"},
                                          {"rotary++", "rotary-plus-plus"},
                                          {"ALiBi", "alibi"},
                                          {"T5 bias", "t5"},
                                          {"Transformer XL", "transformer-xl"},
                                          {"NoPE", "none"},
                                          {"relative_key", "relative-key"},
                                          {"YaRN", "rotary-scaled"},
                                          {"xPos", "xpos"}})
    EXPECT_EQ(find_encoding(written).name, name) << written;
}

TEST(Encodings, AnUnknownNameIsRefusedWithTheNearest) {
  const std::string rule = "[encoding] name must be one of the " +
                           std::to_string(encodings().size()) + " that `gnomon list` prints";
  EXPECT_EQ(message_of([] { find_encoding("rotray"); }),
            rule + ", got rotray; nearest: rotary");
  EXPECT_EQ(message_of([] { find_encoding("wavelet"); }), rule + ", got wavelet");
  EXPECT_EQ(message_of([] { find_encoding(""); }), rule + ", got ");
}

TEST(Encodings, SchemesAreWrittenWithNamesOfTheList) {
  EXPECT_EQ(canonical_names("RoPE"), "rotary");
  EXPECT_EQ(canonical_names("RoPE*3/NoPE"), "rotary*3/none");
  EXPECT_EQ(canonical_names("rope + T5 bias@random"), "rotary+t5@random");
  EXPECT_EQ(canonical_names("rotary//+*0"), "rotary//+*0");
  EXPECT_EQ(canonical_names("RoPE++"), "rotary-plus-plus");
  EXPECT_EQ(canonical_names("RoPE+++ALiBi*2/rope++"),
            "rotary-plus-plus+alibi*2/rotary-plus-plus");
  EXPECT_EQ(canonical_names("rotary++alibi"), "rotary++alibi");
  EXPECT_NE(message_of([] { canonical_names("rotary+albi"); }).find("nearest: alibi"),
            std::string::npos);
}

TEST(Json, GoesThereAndBack) {
  for (const EncodingInfo& one : encodings()) {
    const Encoding encoding = one.usual(shape);
    EXPECT_EQ(encoding_from_json(to_json(encoding)), encoding) << to_json(encoding);
  }
  EXPECT_EQ(to_json(Rotary{.rotary_dim = 64, .pairing = Pairing::adjacent, .base = 5e5}),
            R"({"kind":"rotary","rotary_dim":64,"pairing":"adjacent",)"
            R"("base":500000.0,"head_offset":0})");
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
    const Encoding encoding =
        ScaledRotary{.rotary = {.rotary_dim = 4, .pairing = Pairing::halves},
                     .scaling = scaling,
                     .length = 128,
                     .axes = {0, 2}};
    EXPECT_EQ(encoding_from_json(to_json(encoding)), encoding) << to_json(encoding);
  }
  EXPECT_EQ(to_json(RopeScaling(LinearScaling{2})), R"({"type":"linear","factor":2.0})");
  EXPECT_NE(message_of([] {
              encoding_from_json(R"({"kind":"rotary-scaled","scaling":{"type":"ntk","a":1}})");
            }).find("scaling must be an object without unknown keys"),
            std::string::npos);
}

TEST(Json, RefusesWhatItDoesNotUnderstand) {
  EXPECT_NE(message_of([] {
              encoding_from_json(R"({"kind":"rotary","dim":64})");
            }).find("keys must be of kind, rotary_dim, pairing, base, head_offset"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              encoding_from_json(R"({"kind":"rotary","rotary_dim":"64"})");
            }).find("rotary_dim must be an integer, got \"64\""),
            std::string::npos);
  EXPECT_NE(message_of([] {
              encoding_from_json(R"({"kind":"rotary","pairing":"half"})");
            }).find("pairing must be one of halves, adjacent"),
            std::string::npos);
  for (const char* text : {"", "[]", "{", R"({"rotary_dim": 3})", R"({"kind": 3})"})
    EXPECT_THROW(encoding_from_json(text), std::invalid_argument) << text;
  const std::string deep =
      R"({"kind":)" + std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_EQ(message_of([&] { encoding_from_json(deep + "}"); }),
            "[encoding] the text must be JSON of at most 64 levels, got more levels");
}

TEST(EncodingJson, ReadsTheNamesOfEarlierVersions) {
  const std::string rotary =
      R"({"kind": "rotary-scaled", "rotary_dim": 8, "pairing": "halves", "length": 16, )";
  EXPECT_EQ(
      encoding_from_json(rotary + R"("scaling": {"type": "proportional", "turning": 2}})"),
      encoding_from_json(rotary +
                         R"("scaling": {"type": "proportional", "rotated_pairs": 2}})"));
}

// Matrices for the parameters, with different entries.
struct Values {
  std::vector<testing::Tensor<float, 2>> tensors;
  explicit Values(const Encoding& encoding) {
    unsigned seed = 3;
    for (const Parameter& one : parameters(encoding)) {
      tensors.push_back(testing::random_tensor<float, 2>({one.rows, one.columns}, seed++));
      // Keeps the sign of parameters whose initial mean is not 0.
      if (one.initial_mean != 0)
        for (float& number : tensors.back().values)
          number = static_cast<float>(one.initial_mean) * (0.5f + 0.5f / (1 + number * number));
    }
  }
  std::vector<View<const float, 2>> views() const {
    std::vector<View<const float, 2>> all;
    for (const auto& tensor : tensors) all.push_back(tensor.view());
    return all;
  }
};

// Random gradient in the shape of a form.
RelativeGradient relative_weights(const RelativeForm& form) {
  RelativeGradient weights;
  unsigned seed = 21;
  const auto draw = [&](const std::vector<RelativeVectors>& tables, auto& to) {
    for (const RelativeVectors& table : tables)
      to.push_back(testing::random_numbers(table.values.size(), seed++));
  };
  draw(form.keys, weights.keys);
  draw(form.queries, weights.queries);
  draw(form.values, weights.values);
  weights.shift = testing::random_numbers(form.shift.size(), seed);
  return weights;
}

double weighed(const RelativeForm& form, const RelativeGradient& weights) {
  double sum = 0;
  const auto add = [&](const std::vector<double>& numbers, const std::vector<double>& by) {
    for (std::size_t n = 0; n < numbers.size(); ++n) sum += numbers[n] * by[n];
  };
  for (std::size_t n = 0; n < form.keys.size(); ++n) add(form.keys[n].values, weights.keys[n]);
  for (std::size_t n = 0; n < form.queries.size(); ++n)
    add(form.queries[n].values, weights.queries[n]);
  for (std::size_t n = 0; n < form.values.size(); ++n)
    add(form.values[n].values, weights.values[n]);
  add(form.shift, weights.shift);
  return sum;
}

// A loss that is linear in the lowered table, the matrix of the bias, the relative vectors,
// the scales of cosines and the phases. The oracle of its gradient is differences. Their step
// is small for encodings that compute in double, because these may be nonlinear.
TEST(LowerBackward, IsTheGradientOfLower) {
  const int before = threads();
  set_threads(1);  // many small calls
  for (const EncodingInfo& one : encodings()) {
    const Encoding encoding = one.usual(shape);
    const bool waves = std::holds_alternative<LearnedFourier>(encoding);
    const Window window{5, 9};
    Values values(encoding);
    if (values.tensors.empty()) continue;
    const auto weights =
        testing::random_tensor<float, 3>({shape.heads, window.queries, window.keys}, 11);
    const std::vector<double> cosine_weights{0.5, -1, 2, 0.25};
    const auto table_weights =
        testing::random_tensor<float, 2>({window.queries, shape.width}, 12);
    const LayerPlan whole = lower(encoding, window, values.views());
    const RelativeGradient vector_weights = relative_weights(whole.relative);
    const auto loss = [&] {
      const LayerPlan lowered = lower(encoding, window, values.views());
      double sum = weighed(lowered.relative, vector_weights);
      if (lowered.table) {
        for (std::size_t n = 0; n < lowered.table->values.size(); ++n)
          sum += double{lowered.table->values[n]} * double{table_weights.values[n]};
        return sum;
      }
      testing::Tensor<double, 3> bias(weights.extents);
      dense(lowered.bias, window.offset(), bias.view());
      for (std::size_t n = 0; n < bias.values.size(); ++n)
        sum += bias.values[n] * double{weights.values[n]};
      for (std::size_t h = 0; h < lowered.cosine.size(); ++h)
        sum += lowered.cosine[h] * cosine_weights[h];
      for (std::size_t n = 0; lowered.polar && n < lowered.polar->phases.size(); ++n)
        sum += lowered.polar->phases[n] * static_cast<double>(1 + n % 3);
      return sum;
    };
    LayerGradient lowered{.relative = vector_weights};
    if (whole.table)
      lowered.table = table_weights.view();
    else
      lowered.bias = add_bias_backward(weights.view(), whole.bias, window.offset());
    if (!whole.cosine.empty()) lowered.cosine = cosine_weights;
    for (std::size_t n = 0; whole.polar && n < whole.polar->phases.size(); ++n)
      lowered.phases.push_back(static_cast<double>(1 + n % 3));
    Values grads(encoding);
    std::vector<View<float, 2>> to;
    for (auto& tensor : grads.tensors) {
      std::fill(tensor.values.begin(), tensor.values.end(), 0.0f);
      to.push_back(tensor.view());
    }
    lower_backward(encoding, window, values.views(), lowered, to);
    const bool linear = whole.table.has_value() && !waves;
    const float step = linear ? 1 : waves ? 0x1p-10f : 0x1p-18f;
    for (std::size_t p = 0; p < values.tensors.size(); ++p)
      for (std::size_t i = 0; i < values.tensors[p].values.size(); ++i) {
        float& number = values.tensors[p].values[i];
        const float kept = number, upper = kept + step, lower = kept - step;
        number = upper;
        const double above = loss();
        number = lower;
        const double below = loss();
        number = kept;
        const double slope = (above - below) / (double{upper} - double{lower});
        ASSERT_NEAR(slope, grads.tensors[p].values[i],
                    (linear  ? 1e-5
                     : waves ? 3e-3
                             : 1e-3) *
                        (1 + std::abs(slope)))
            << one.name << " parameter " << p << ", " << i;
      }
  }
  set_threads(before);
}

TEST(Encodings, FireStartsAsInThePaper) {
  const Encoding encoding =
      find_encoding("fire").usual({.width = 64, .heads = 8, .length = 64});
  EXPECT_EQ(std::get<Fire>(encoding).threshold, 16);
  const auto all = parameters(encoding);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[2].rows * all[2].columns, 8 * 32);
  EXPECT_EQ(all[4].initial_mean, 0.1);
  EXPECT_EQ(all[5].initial_mean, 1);
}

TEST(Encodings, ASwinWindowHoldsTheTrainedLength) {
  for (const std::int64_t length : {1, 2, 15, 16, 128, 1000}) {
    const Encoding encoding = find_encoding("swin").usual({64, 8, length});
    EXPECT_GE(capacity(encoding), length);
    EXPECT_LT(*capacity(encoding), length + std::get<Swin>(encoding).width);
  }
}

TEST(Lower, RefusesWindowsThatDoNotFit) {
  const Encoding learned = learned_plain(16, 32);
  const Values values(learned);
  EXPECT_EQ(capacity(learned), 16);
  EXPECT_EQ(message_of([&] { lower(learned, {17, 17}, values.views()); }),
            "[learned] positions must be below the number of rows, 16, got 16");
  EXPECT_EQ(message_of([&] { lower(NoPosition{}, {5, 4}, {}); }),
            "[encoding] keys must be at least the number of queries, 5, got 4");
  constexpr std::int64_t most = std::int64_t{1} << 31;
  EXPECT_NO_THROW(lower(NoPosition{}, {1, most}, {}));
  EXPECT_EQ(message_of([&] { lower(NoPosition{}, {1, most + 1}, {}); }),
            "[encoding] keys must be at most 2^31, got 2147483649");
  EXPECT_EQ(message_of([&] { lower(learned, {4, 4}, {}); }),
            "[learned] requires 1 parameter matrix (table 16 x 32), got 0");
}

TEST(Windows, HaveConsecutivePositionsOrTheirOwn) {
  const Window plain{.queries = 2, .keys = 5};
  EXPECT_EQ(plain.query_positions().ids, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(plain.key_positions().ids, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(plain.distances(), (Distances{-4, 6}));
  const Window own{.queries = 2, .keys = 3, .ids = {1, 7, 30}};
  EXPECT_EQ(own.query_positions().ids, (std::vector<std::int64_t>{7, 30}));
  EXPECT_EQ(own.key_positions().ids, own.ids);
  EXPECT_EQ(own.distances(), (Distances{-29, 53}));  // 1 - 30 to 30 - 7
  EXPECT_EQ(message_of([] { lower(NoPosition{}, {2, 3, {1, 2}}, {}); }),
            "[encoding] the number of ids must be the number of keys, 3, got 2");
}

// The rows of a window with ids equal those of the window with all positions.
TEST(Lower, FollowsTheIdsOfAWindow) {
  const std::vector<std::int64_t> ids{0, 2, 3, 7, 11, 15};
  const Window all{.queries = 16, .keys = 16}, some{.queries = 3, .keys = 6, .ids = ids};
  for (const EncodingInfo& one : encodings()) {
    const Encoding encoding = one.usual(shape);
    const Values values(encoding);
    const LayerPlan whole = lower(encoding, all, values.views());
    const LayerPlan part = lower(encoding, some, values.views());
    const auto id = [&](std::int64_t row) { return ids[static_cast<std::size_t>(row)]; };
    for (std::int64_t t = 0; t < some.queries; ++t) {
      for (std::int64_t c = 0; whole.table && c < shape.width; ++c)
        EXPECT_EQ(part.table->view()(t, c), whole.table->view()(id(t + 3), c)) << one.name;
      for (std::int64_t r = 0; whole.query_rotary && r < shape.width / shape.heads / 2; ++r)
        EXPECT_EQ(part.query_rotary->sin()(0, t, r), whole.query_rotary->sin()(0, id(t + 3), r))
            << one.name;
    }
    if (const auto* strip = std::get_if<StripBias>(&part.bias)) {
      const StripBias& other = std::get<StripBias>(whole.bias);
      for (std::int64_t h = 0; h < shape.heads; ++h)
        for (const std::int64_t distance : {-15, -8, 0, 8})
          EXPECT_EQ(strip->values[static_cast<std::size_t>(h * strip->distances() + distance -
                                                           strip->min_distance)],
                    other.values[static_cast<std::size_t>(h * other.distances() + distance -
                                                          other.min_distance)])
              << one.name;
    }
  }
}

TEST(Mixtures, HaveThePartsOfEach) {
  const Encoding rotary = find_encoding("rotary").usual(shape);
  const Encoding t5 = find_encoding("t5").usual(shape);
  const Encoding learned = find_encoding("learned").usual(shape);
  const Mixture mixture{learned, rotary, t5};
  EXPECT_EQ(names(mixture), "learned+rotary+t5");
  EXPECT_EQ(enters(mixture), Place::embeddings | Place::queries_and_keys | Place::scores);
  EXPECT_EQ(capacity(mixture), 16);
  const auto all = parameters(mixture);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "learned.table");
  EXPECT_EQ(all[1].name, "t5.buckets");
  EXPECT_EQ(parameters(Mixture{t5})[0].name, "buckets");
  EXPECT_EQ(names(Mixture{}), "none");
  EXPECT_EQ(enters(Mixture{}), Place::nowhere);

  const Values table(learned), buckets(t5);
  const std::vector<View<const float, 2>> values{table.views()[0], buckets.views()[0]};
  const Window window{4, 9};
  const LayerPlan together = lower(mixture, window, values);
  EXPECT_EQ(together.table, lower(learned, window, table.views()).table);
  EXPECT_EQ(std::get<StripBias>(together.bias),
            std::get<StripBias>(lower(t5, window, buckets.views()).bias));
  EXPECT_TRUE(together.query_rotary && together.key_rotary);

  // A gradient of only the table does not change the buckets.
  const auto grad = testing::random_tensor<float, 2>({4, shape.width}, 5);
  testing::Tensor<float, 2> of_table({16, shape.width}), of_buckets({32, shape.heads});
  const std::vector<View<float, 2>> grads{of_table.view(), of_buckets.view()};
  lower_backward(mixture, window, values, {.table = grad.view()}, grads);
  EXPECT_EQ(of_table.view()(5, 3), grad.view()(0, 3));
  for (const float value : of_buckets.values) EXPECT_EQ(value, 0);
  EXPECT_TRUE(token_terms(mixture).empty());
}

TEST(Parameters, AreNotListedWithoutLimit) {
  const Encoding deep =
      encoding_from_json(R"({"kind": "dynamic", "heads": 2, "hidden": 4, "scale": "linear",
                             "depth": 2305843009213693952})");
  EXPECT_EQ(message_of([&] { parameters(deep); }),
            "[dynamic] depth must be 1 to 1024, got 2305843009213693952");
}

TEST(Mixtures, RefuseTwoOfOnePart) {
  const auto says = [](const char* one, const char* other) {
    const Mixture mixture{find_encoding(one).usual(shape), find_encoding(other).usual(shape)};
    std::vector<testing::Tensor<float, 2>> tensors;
    for (const Parameter& p : parameters(mixture))
      tensors.emplace_back(std::array<std::ptrdiff_t, 2>{p.rows, p.columns});
    std::vector<View<const float, 2>> values;
    for (const auto& tensor : tensors) values.push_back(tensor.view());
    return message_of([&] { lower(mixture, {4, 4}, values); });
  };
  EXPECT_EQ(
      says("rotary", "xpos"),
      "[mixture] at most one encoding can rotate the same elements of queries and keys, got "
      "rotary and xpos");
  EXPECT_EQ(says("alibi", "t5"),
            "[mixture] at most one encoding can add a bias to the scores, got alibi and t5");
  EXPECT_EQ(says("sinusoidal", "learned"),
            "[mixture] at most one encoding can add a table to the embeddings, got sinusoidal "
            "and learned");
}

}  // namespace encoding_test
}  // namespace gnomon::model
