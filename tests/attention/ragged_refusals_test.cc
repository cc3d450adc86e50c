// Tests what a ragged batch refuses, and that nothing is written then.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/weights.h"
#include "testing.h"

namespace gnomon {
namespace ragged_refusals_test {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

// Two sequences, of 1 and 2 queries and 3 and 5 keys, in pages of 4 or packed.
struct Call {
  std::vector<float> q, k, out, scale;
  std::vector<std::int64_t> query_starts{0, 1, 3}, key_starts{0, 3, 8}, key_lengths{3, 5},
      offsets{2, 3};
  std::vector<std::int32_t> blocks{2, -1, 0, 3};
  std::array<std::int64_t, 4> of_q{1, 3, 2, 4}, of_k{4, 4, 1, 4};
  View<const std::int32_t, 2> table;
  AttentionPlan plan;
  TokenTerms terms;
  ConstTensor k_scales;

  Call()
      : q(256, 1.0f),
        k(256, 1.0f),
        out(256, 7.0f),
        scale(8, 1.0f),
        table(blocks.data(), {2, 2}) {
    plan.mask.visibility = Visibility::causal;
    plan.ragged = {.query_starts = query_starts,
                   .key_lengths = key_lengths,
                   .offsets = offsets,
                   .block_table = table};
  }
  Call(const Call&) = delete;
  void pack_keys() {
    of_k = {1, 9, 1, 4};
    plan.ragged = {.query_starts = query_starts, .key_starts = key_starts};
  }
  std::string says() {
    const View<const float, 4> query(q.data(), of_q), key(k.data(), of_k);
    const View<float, 4> to(out.data(), of_q);
    const std::string message = testing::message_of([&] {
      attention({.q = query, .k = key, .v = key, .k_scales = k_scales, .terms = terms}, plan,
                to);
    });
    EXPECT_EQ(message.empty(), out[0] != 7) << message;
    return message;
  }
};

std::string says(const std::function<void(Call&)>& change) {
  Call call;
  change(call);
  return call.says();
}

TEST(RaggedRefusals, TheCallsAreValid) {
  EXPECT_EQ(says([](Call&) {}), "");
  EXPECT_EQ(says([](Call& c) { c.pack_keys(); }), "");
  EXPECT_EQ(says([](Call& c) { c.plan.ragged.offsets = {}; }), "");
}

TEST(RaggedRefusals, StartsMustIncreaseWithinTheRows) {
  const std::string rule = "[attention] query_starts";
  EXPECT_EQ(says([](Call& c) { c.query_starts[0] = -1; }),
            rule + "[0] must not be negative, got -1");
  EXPECT_EQ(says([](Call& c) { c.query_starts[1] = 4; }),
            rule + "[2] must not be below the start before it, 4, got 3");
  EXPECT_EQ(says([](Call& c) { c.query_starts[2] = 4; }),
            rule + "[2] must be at most the rows of the tensor, 3, got 4");
  EXPECT_EQ(says([](Call& c) { c.query_starts[2] = most; }),
            rule + "[2] must be at most the rows of the tensor, 3, got 9223372036854775807");
  EXPECT_EQ(says([](Call& c) { c.pack_keys(), c.key_starts[2] = 10; }),
            "[attention] key_starts[2] must be at most the rows of the tensor, 9, got 10");
  EXPECT_EQ(says([](Call& c) { c.of_q = {3, 1, 2, 4}; }),
            "[attention] axis 0 of q must be 1, got 3");
  EXPECT_EQ(says([](Call& c) { c.pack_keys(), c.of_k = {2, 8, 1, 4}; }),
            "[attention] axis 0 of k must be 1, got 2");
}

TEST(RaggedRefusals, LengthsMustFit) {
  const auto lengths = [](Call& c) {
    c.of_q = {2, 2, 2, 4}, c.of_k = {2, 5, 1, 4};
    c.plan.ragged = {.query_lengths = std::span(c.offsets).subspan(0, 2),
                     .key_lengths = c.key_lengths};
    c.offsets = {1, 2};
  };
  EXPECT_EQ(says(lengths), "");
  EXPECT_EQ(says([&](Call& c) { lengths(c), c.offsets[1] = 3; }),
            "[attention] query_lengths[1] must be 0 to 2, got 3");
  EXPECT_EQ(says([&](Call& c) { lengths(c), c.key_lengths[0] = -1; }),
            "[attention] key_lengths[0] must be 0 to 5, got -1");
  EXPECT_EQ(says([&](Call& c) { lengths(c), c.key_lengths[0] = 6; }),
            "[attention] key_lengths[0] must be 0 to 5, got 6");
  EXPECT_EQ(says([](Call& c) { c.key_lengths[1] = 9; }),
            "[attention] key_lengths[1] must be 0 to the rows of 2 blocks of 4, got 9");
  EXPECT_EQ(says([](Call& c) { c.key_lengths[1] = most; }),
            "[attention] key_lengths[1] must be 0 to the rows of 2 blocks of 4, got "
            "9223372036854775807");
  EXPECT_EQ(says([](Call& c) { c.key_lengths[1] = -1; }),
            "[attention] key_lengths[1] must be 0 to the rows of 2 blocks of 4, got -1");
}

TEST(RaggedRefusals, BlocksMustBeOfTheCache) {
  EXPECT_EQ(says([](Call& c) { c.blocks[3] = 4; }),
            "[attention] block_table[1][1] must be a block of the cache, 0 to 3, got 4");
  EXPECT_EQ(says([](Call& c) { c.blocks[0] = -1; }),
            "[attention] block_table[0][0] must be a block of the cache, 0 to 3, got -1");
  EXPECT_EQ(says([](Call& c) {
              c.plan.ragged.block_table = View<const std::int32_t, 2>(c.blocks.data(), {1, 4});
            }),
            "[attention] axis 0 of block_table must be the sequences, 2, got 1");
  EXPECT_EQ(says([](Call& c) { c.plan.ragged.key_lengths = {}; }),
            "[attention] a block_table requires key_lengths, got none");
  EXPECT_EQ(says([](Call& c) { c.of_k = {4, 0, 1, 4}; }),
            "[attention] a page must have at least 1 row, got 0");
}

TEST(RaggedRefusals, AllArraysMustHaveTheSameSequences) {
  EXPECT_EQ(says([](Call& c) { c.offsets.push_back(0), c.plan.ragged.offsets = c.offsets; }),
            "[attention] the sequences of offsets must be 2, as those of query_starts, got 3");
  EXPECT_EQ(
      says([](Call& c) { c.plan.ragged.key_lengths = c.plan.ragged.key_lengths.subspan(1); }),
      "[attention] the sequences of key_lengths must be 2, as those of query_starts, got 1");
  EXPECT_EQ(says([](Call& c) { c.plan.ragged.query_lengths = c.key_lengths; }),
            "[attention] query_starts or query_lengths must be given, not both, got both");
  EXPECT_EQ(says([](Call& c) { c.plan.ragged.key_starts = c.key_starts; }),
            "[attention] key_starts or key_lengths must be given, not both, got both");
  EXPECT_EQ(says([](Call& c) { c.plan.ragged.query_starts = {}; }),
            "[attention] the sequences of key_lengths must be 1, as those of q, got 2");
}

TEST(RaggedRefusals, OffsetsMustNotBeNegative) {
  EXPECT_EQ(says([](Call& c) { c.offsets[1] = -1; }),
            "[attention] offsets[1] must be 0 to 2^62, got -1");
  EXPECT_EQ(says([](Call& c) { c.offsets[1] = most; }),
            "[attention] offsets[1] must be 0 to 2^62, got 9223372036854775807");
  EXPECT_EQ(
      says([](Call& c) { c.plan.ragged.offsets = {}, c.key_lengths[1] = 1; }),
      "[attention] without offsets, a sequence must have at least as many keys as queries; "
      "sequence 1 has 2 queries and keys:, got 1");
}

TEST(RaggedRefusals, AStripMustHaveTheDistancesOfEachSequence) {
  const auto strip = [](std::int64_t first, std::size_t count) {
    return [=](Call& c) { c.plan.bias = StripBias{2, first, std::vector<double>(2 * count)}; };
  };
  EXPECT_EQ(says(strip(-4, 5)), "");
  EXPECT_EQ(says(strip(-3, 4)),
            "[attention] the strip must cover distances -4 to 0, got -3 to 0");
}

TEST(RaggedRefusals, ARotaryTableIsIndexedAsQ) {
  const auto table = [](std::int64_t batch, std::int64_t tokens) {
    return [=](Call& c) {
      Positions positions = consecutive(batch * tokens);
      positions.batch = batch, positions.tokens = tokens;
      c.plan.query_rotary.emplace(Rotary{.rotary_dim = 4, .pairing = Pairing::halves},
                                  positions);
    };
  };
  EXPECT_EQ(says(table(1, 3)), "");
  EXPECT_EQ(says(table(1, 2)),
            "[attention] the rotary table of queries must have 3 tokens, got 2");
  EXPECT_EQ(says(table(2, 3)),
            "[attention] the rotary table of queries must have 1 row or 1, got 2");
}

TEST(RaggedRefusals, OtherPartsOfThePlan) {
  const std::string rule =
      "[attention] a ragged batch requires a plan with a window, a bias by distance, a softmax "
      "and query_rotary only, got ";
  const auto part = [&](const std::string& name, const std::function<void(Call&)>& change) {
    EXPECT_EQ(says(change), rule + name);
  };
  part("an offset of the mask", [](Call& c) { c.plan.mask.offset = 1; });
  part("a rate above 1", [](Call& c) { c.plan.mask.rate = 2; });
  part("another product", [](Call& c) { c.plan.product = PairProduct::householder; });
  part("another product", [](Call& c) { c.plan.polar.emplace(); });
  part("key_rotary", [](Call& c) {
    c.plan.key_rotary.emplace(Rotary{.rotary_dim = 4, .pairing = Pairing::halves},
                              consecutive(3));
  });
  part("token_rotation", [](Call& c) { c.plan.token_rotation.emplace(); });
  part("a bias that is not by distance", [](Call& c) { c.plan.bias = DenseBias{}; });
  part("a bias that is not by distance", [](Call& c) { c.plan.bias = GridBias{}; });
  part("a bias that is not by distance", [](Call& c) { c.plan.bias = AxesBias{}; });
  part("relative vectors", [](Call& c) { c.plan.relative.shift = {1}; });
  part("a cumulative bias", [](Call& c) { c.plan.cumulative.emplace(); });
  part("edges", [](Call& c) { c.plan.edges.emplace(); });
  part("positions", [](Call& c) { c.plan.keys = std::make_shared<Positions>(consecutive(8)); });
  part("gates", [](Call& c) { c.plan.gated = true; });
  part("key_slopes", [](Call& c) { c.plan.key_slopes = true; });
  part("stick-breaking", [](Call& c) { c.plan.stick_breaking.emplace(); });
  EXPECT_EQ(
      says([](Call& c) {
        static const std::array<float, 8> sinks{};
        static const View<const float, 3> view(sinks.data(), {1, 2, 3});
        c.terms.sinks = view;
      }),
      "[attention] a ragged batch cannot be combined with terms of the tokens, got sinks");
}

TEST(RaggedRefusals, GradientsAndWeights) {
  Call c;
  const View<const float, 4> q(c.q.data(), c.of_q), k(c.k.data(), c.of_k);
  const View<float, 4> out(c.out.data(), c.of_q);
  EXPECT_EQ(
      testing::message_of([&] {
        attention_backward({.q = q, .k = k, .v = k}, c.plan, q, {}, q,
                           {.q = out, .k = out, .v = out});
      }),
      "[attention_backward] all sequences must have the same lengths, got a ragged batch");
  EXPECT_EQ(testing::message_of(
                [&] { attention_weights({.q = q, .k = k, .v = k}, c.plan, out, {}); }),
            "[attention_weights] all sequences must have the same lengths, got a ragged batch");
}

TEST(E4m3Refusals, ScalesAndTypes) {
  const std::vector<std::uint8_t> k(64, 0x38);
  const std::vector<float> q(64, 1.0f), scales(8, 1.0f);
  const std::vector<double> doubles(64, 1.0);
  std::vector<float> out(64);
  const View<const std::uint8_t, 4> keys(k.data(), {1, 4, 2, 4});
  const View<float, 4> to(out.data(), {1, 1, 4, 4});
  const auto says_with = [&](const ConstTensor& query, const ConstTensor& scale) {
    return testing::message_of([&] {
      attention({.q = query, .k = keys, .v = keys, .k_scales = scale, .v_scales = scale},
                {.mask = {.visibility = Visibility::bidirectional}}, to);
    });
  };
  const View<const float, 4> floats(q.data(), {1, 1, 4, 4});
  EXPECT_EQ(says_with(floats, View<const float, 1>(scales.data(), {1})), "");
  EXPECT_EQ(says_with(floats, View<const float, 1>(scales.data(), {2})), "");
  EXPECT_EQ(says_with(floats, View<const float, 1>(scales.data(), {4})),
            "[attention] the scales of k must have 1 element or 2, got 4");
  EXPECT_EQ(says_with(floats, View<const float, 3>(scales.data(), {1, 4, 2})),
            "[attention] the scales of k must have 1 axes, got 3 axes, [1, 4, 2]");
  EXPECT_EQ(
      says_with(floats, {}),
      "[attention] k_scales must be given if and only if k is int8 or E4M3, got no scales");
  EXPECT_EQ(says_with(View<const double, 4>(doubles.data(), {1, 1, 4, 4}),
                      View<const float, 1>(scales.data(), {1})),
            "[attention] k must have elements of f64, as q has, got u8");
}

}  // namespace ragged_refusals_test
}  // namespace gnomon
