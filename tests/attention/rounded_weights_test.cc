// Tests bfloat16 calls whose softmax weights stay in float: the error of 2^-8 max |v| that
// rounded weights may have is not allowed, nor that of gradients.
#include <gtest/gtest.h>

#include "attention/bounds.h"
#include "attention/cached.h"
#include "attention/gradient_bounds.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace attention_rounded_weights_test {

using namespace gnomon::testing;
using testing::Tensor;

// Returns the largest error of `out`, over all instruction sets.
double expect_within_bounds(Sample s, bool rounds_weights) {
  const ScopedThreads one(1);
  s.c.plan.softmax.rounds_weights = rounds_weights;
  const Placed<BFloat16> q(s.x.q, s.layout), k(s.x.k, s.layout), v(s.x.v, s.layout);
  Placed<BFloat16> out(Tensor<double, 4>(s.out_grad.extents, -3.0), s.layout);
  Tensor<float, 3> lse({s.c.batch, s.c.heads, s.c.queries});
  const AttentionTensors x{q.numbers(), k.numbers(), v.numbers()};
  const AttentionOracle exact = oracle(s.c, x);
  double largest = 0;
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
    const ScopedIsa scope(isa);
    attention({.q = q.read(), .k = k.read(), .v = v.read(), .terms = {.gates = s.c.gates}},
              s.c.plan, out.view(), lse.view());
    gnomon::testing::expect_within_bounds<BFloat16>(out.numbers(), lse, exact,
                                                    greatest(x.v.values), rounds_weights);
    largest = std::max(largest, worst(out.numbers().values, exact.out.values));
  }
  return largest;
}

// 300 keys of one head with nearly equal weights, and values of +1 and -1 that cancel: the
// result is small, so that its own rounding is, too.
Sample cancelling(std::int64_t queries) {
  Sample s;
  s.c.batch = 1, s.c.queries = queries, s.c.keys = 300, s.c.heads = s.c.key_heads = 1;
  s.c.size = s.c.values = 64;
  s.c.plan.mask = {.visibility = Visibility::bidirectional, .offset = 0};
  s.c.plan.softmax.scale = 0.01;
  s.x.q = random_tensor<double, 4>({1, queries, 1, 64}, 1);
  s.x.k = random_tensor<double, 4>({1, 300, 1, 64}, 2);
  s.x.v = Tensor<double, 4>({1, 300, 1, 64});
  for (std::size_t i = 0; i < s.x.v.values.size(); ++i) s.x.v.values[i] = i / 64 % 2 ? 1 : -1;
  s.out_grad = random_tensor<double, 4>({1, queries, 1, 64}, 4);
  s.text = std::to_string(queries) + " queries";
  return s;
}

// The same with the greatest errors of rounding: weights just below 2^-1 + 2^-9 of the greatest
// have values of +1, and those just above have -1.
Sample halfway(std::int64_t queries) {
  Sample s = cancelling(queries);
  s.c.plan.softmax.scale = 1;
  std::fill(s.x.q.values.begin(), s.x.q.values.end(), 1);
  std::fill(s.x.k.values.begin(), s.x.k.values.end(), 0);
  std::fill_n(s.x.v.values.begin(), 64, 0);
  for (std::size_t j = 1; j < 300; ++j) {
    // In two elements, for more bits than those of one.
    const double score = std::log(0.5 * (1 + 0x1p-8 * (j % 2 ? 1.02 : 0.98)));
    s.x.k.values[64 * j] = as_double(BFloat16(static_cast<float>(score)));
    s.x.k.values[64 * j + 1] = score - s.x.k.values[64 * j];
    std::fill_n(s.x.v.values.begin() + static_cast<std::ptrdiff_t>(64 * j), 64, j % 2 ? -1 : 1);
  }
  return s;
}

// One query, several, a chunk, and a prompt have kernels of their own.
constexpr std::int64_t counts[] = {1, 5, 20, 48, 49, 130};

TEST(AttentionRoundedWeights, StayInFloatOnRequest) {
  for (unsigned seed = 1; seed <= 24; ++seed) expect_within_bounds(sample(seed), false);
  for (unsigned seed = 1; seed <= 60; ++seed)
    expect_within_bounds(decoding_sample(seed), false);
  for (const std::int64_t queries : counts)
    EXPECT_LE(expect_within_bounds(cancelling(queries), false), 0x1p-14) << queries;
}

TEST(AttentionRoundedWeights, AreThoseOfAGatedBias) {
  for (const std::int64_t queries : counts)
    for (const bool rounds : {false, true}) {
      Sample s = cancelling(queries);
      s.c.plan.bias = SlopeBias{{0.05}};
      s.c.plan.gated = true;
      s.gates = random_tensor<float, 3>({1, 1, queries}, 5);
      s.c.gates = s.gates.view();
      expect_within_bounds(s, rounds);
    }
}

TEST(AttentionRoundedWeights, KeepTheErrorPromisedByTheHeader) {
  for (unsigned seed = 1; seed <= 24; ++seed) expect_within_bounds(sample(seed), true);
  for (const std::int64_t queries : counts) {
    expect_within_bounds(cancelling(queries), true);
    expect_within_bounds(halfway(queries), true);
  }
}

// The gradients of values cancel over the queries, so that their own rounding is small, too.
TEST(AttentionRoundedWeights, GradientsStayInFloatOnRequest) {
  for (const bool rounds : {false, true}) {
    const auto errors_of = [&](Sample s) {
      s.c.plan.softmax.rounds_weights = rounds;
      return expect_gradients_within_bounds<BFloat16>(s);
    };
    for (unsigned seed = 1; seed <= 24; ++seed) errors_of(sample(seed));
    for (const std::int64_t queries : {47, 130}) {
      Sample s = cancelling(queries);
      for (std::size_t i = 0; i < s.out_grad.values.size(); ++i)
        s.out_grad.values[i] = i / 64 % 2 ? 1 : -1;
      const double of_v = errors_of(s).v;
      if (!rounds) {
        EXPECT_LE(of_v, 0x1p-14) << queries;
      }
    }
  }
}

}  // namespace attention_rounded_weights_test
}  // namespace gnomon
