#include "gnomon/model/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "gnomon/bias/form.h"
#include "testing.h"

namespace gnomon::model {
namespace shard_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Shape shape{
    .width = 64, .heads = 8, .length = 16, .reads = Visibility::bidirectional};

Encoding usual(std::string_view name) { return find_encoding(name).usual(shape); }

TEST(Shard, OfAlibiHasTheSlopesOfTheWhole) {
  const std::vector<double> all = slopes(Alibi{.heads = 12});
  const Shard part = shard(Alibi{.heads = 12}, 7, 4);
  EXPECT_EQ(slopes(std::get<Alibi>(part.mixture[0])),
            std::vector<double>(all.begin() + 7, all.begin() + 11));
}

// The ranges of shards cover each divided parameter once, and are those of its own encoding.
TEST(Shard, RangesDivideTheParametersOfEveryEncoding) {
  for (const EncodingInfo& one : encodings()) {
    const Encoding whole = usual(one.name);
    if (!properties(whole).divisible) continue;
    const auto all = parameters(whole);
    std::vector<std::int64_t> elements(all.size());
    for (std::int64_t begin = 0; begin < shape.heads; begin += 2) {
      const Shard part = shard(whole, begin, 2);
      const auto own = parameters(part.mixture);
      ASSERT_EQ(part.ranges.size(), all.size()) << one.name;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const ParameterRange& range = part.ranges[i];
        EXPECT_EQ(range.row_end - range.row_begin, own[i].rows) << one.name;
        EXPECT_EQ(range.column_end - range.column_begin, own[i].columns) << one.name;
        EXPECT_LE(range.row_end, all[i].rows) << one.name;
        EXPECT_LE(range.column_end, all[i].columns) << one.name;
        const bool same = own[i].rows == all[i].rows && own[i].columns == all[i].columns;
        EXPECT_EQ(range.shared, same) << one.name;
        if (!range.shared || begin == 0) elements[i] += own[i].rows * own[i].columns;
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(elements[i], all[i].rows * all[i].columns) << one.name << ", " << all[i].name;
  }
}

// A shard has the bias of its heads, from its ranges of the parameters. An encoding for which
// this is false declares that it is not divisible.
TEST(Shard, BiasIsThatOfTheHeads) {
  constexpr std::int64_t first = 3, heads = 2, tokens = 6;
  constexpr Window window{.queries = tokens, .keys = tokens};
  for (const EncodingInfo& one : encodings()) {
    const Encoding whole = usual(one.name);
    if (!properties(whole).divisible) continue;
    const Shard part = shard(whole, first, heads);
    std::vector<testing::Tensor<float, 2>> matrices;
    std::vector<View<const float, 2>> values, own;
    for (const Parameter& parameter : parameters(whole))
      matrices.push_back(testing::random_tensor<float, 2>(
          {parameter.rows, parameter.columns}, static_cast<unsigned>(matrices.size())));
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      for (float& value : matrices[i].values)
        value = 1 + value * value;  // some must be positive
      const View<float, 2> all = matrices[i].view();
      const ParameterRange& range = part.ranges[i];
      values.push_back(all);
      own.push_back({&all(range.row_begin, range.column_begin),
                     {range.row_end - range.row_begin, range.column_end - range.column_begin},
                     all.strides()});
    }
    const LayerPlan expected = lower(whole, window, values);
    if (gnomon::heads(expected.bias) == 0) continue;
    const LayerPlan got = lower(part.mixture, window, own);
    testing::Tensor<double, 3> all({shape.heads, tokens, tokens}), few({heads, tokens, tokens});
    dense(expected.bias, 0, all.view());
    dense(got.bias, 0, few.view());
    EXPECT_EQ(few.values,
              std::vector<double>(all.values.begin() + first * tokens * tokens,
                                  all.values.begin() + (first + heads) * tokens * tokens))
        << one.name;
  }
}

TEST(Shard, RangesAreThoseOfTheHeads) {
  const Shard t5 = shard(T5Bias{.heads = 8, .direction = T5Direction::causal}, 2, 3);
  ASSERT_EQ(t5.ranges.size(), 1u);
  EXPECT_EQ(t5.ranges[0], (ParameterRange{0, 32, 2, 5, false}));
  const Shard fire = shard(Fire{.heads = 8, .hidden = 4}, 2, 3);
  EXPECT_EQ(fire.ranges[0], (ParameterRange{0, 4, 0, 1, true}));   // w1
  EXPECT_EQ(fire.ranges[2], (ParameterRange{2, 5, 0, 4, false}));  // w2
  // Three vectors for each head.
  const Shard shaw =
      shard(Shaw{.heads = 4, .head_dim = 6, .left = 1, .right = 1, .meets = ShawMeets::queries},
            1, 2);
  EXPECT_EQ(shaw.ranges[0], (ParameterRange{3, 9, 0, 6, false}));
  const Shard mixture = shard(Mixture{usual("learned"), usual("kerple")}, 0, 4);
  EXPECT_EQ(mixture.mixture[0], usual("learned"));
  EXPECT_TRUE(mixture.ranges[0].shared);
  EXPECT_EQ(mixture.ranges[2], (ParameterRange{0, 4, 0, 1, false}));
}

TEST(Shard, RefusesHeadsThatDoNotExist) {
  const auto refused = [](const Encoding& whole, std::int64_t head_offset, std::int64_t heads,
                          const std::string& text) {
    EXPECT_THAT([&] { shard(whole, head_offset, heads); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(text)));
  };
  const Encoding t5 = usual("t5");
  refused(t5, 8, 1, "[shard of t5] head_offset must be from 0 to heads - 1, 7, got 8");
  refused(t5, -1, 1, "got -1");
  refused(t5, 7, 2, "heads must be from 1 to the rest of the heads, 1, got 2");
  refused(t5, 0, 0, "[shard] heads must be at least 1, got 0");
  refused(usual("rotary"), 0, -1, "[shard] heads must be at least 1, got -1");
  refused(shard(usual("alibi"), 2, 2).mixture[0], 0, 2, "must be of the whole model");
  refused(usual("sandwich"), 0, 4, "[shard of sandwich] heads must be all heads, got 4");
}

}  // namespace shard_test
}  // namespace gnomon::model
