#include "gnomon/attention/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention/bounds.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace attention_test {

using namespace gnomon::testing;
using ::testing::HasSubstr;
using testing::Tensor;

constexpr double infinity = std::numeric_limits<double>::infinity();

template <typename T>
class Attention : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, Half, BFloat16, double>;
TYPED_TEST_SUITE(Attention, ElementTypes);

template <typename T>
struct Pass {
  Placed<T> q, k, v, out;
  Tensor<Accumulator<T>, 3> lse;

  explicit Pass(const Sample& s)
      : q(s.x.q, s.layout),
        k(s.x.k, s.layout),
        v(s.x.v, s.layout),
        out(Tensor<double, 4>(s.out_grad.extents, -3.0), s.layout),
        lse({s.c.batch, s.c.heads, s.c.queries}) {}
  void operator()(const AttentionCase& c) {
    attention({.q = q.read(), .k = k.read(), .v = v.read(), .terms = {.gates = c.gates}},
              c.plan, out.view(), lse.view());
  }
};

template <typename T>
void expect_within_bounds(const Sample& s) {
  const ScopedThreads one(1);
  Pass<T> run(s);
  const AttentionTensors x{run.q.numbers(), run.k.numbers(), run.v.numbers()};
  const AttentionOracle exact = oracle(s.c, x);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
    const ScopedIsa scope(isa);
    run(s.c);
    expect_within_bounds<T>(run.out.numbers(), run.lse, exact, greatest(x.v.values));
    EXPECT_TRUE(run.out.gaps_intact());
  }
}

TYPED_TEST(Attention, KeepsTheErrorPromisedByTheHeader) {
  for (unsigned seed = 1; seed <= 48; ++seed) expect_within_bounds<TypeParam>(sample(seed));
}

TYPED_TEST(Attention, KeepsItsErrorAtScoresOfThirty) {
  for (std::int64_t size : {1, 16, 64, 128, 256}) expect_within_bounds<TypeParam>(steep(size));
}

TYPED_TEST(Attention, SurvivesScoresOfTenThousand) {
  using T = TypeParam;
  Tensor<T, 4> q({1, 2, 1, 1}), k({1, 4, 1, 1}), v({1, 4, 1, 2}), out({1, 2, 1, 2});
  Tensor<Accumulator<T>, 3> lse({1, 1, 2});
  const auto element = [](double value) { return static_cast<T>(value); };
  q.values = {element(100), element(-100)};
  k.values = {element(100), element(-100), element(100), element(99)};
  v.values = {element(1), element(2), element(3), element(4),
              element(5), element(6), element(7), element(8)};
  attention({q.view(), k.view(), v.view()},
            {.mask = {.visibility = Visibility::bidirectional}, .softmax = {.scale = 1}},
            out.view(), lse.view());
  EXPECT_EQ(as_double(out.values[0]), 3);  // keys 0 and 2 at 1e4; key 3 is lower by 100
  EXPECT_EQ(as_double(out.values[1]), 4);
  EXPECT_EQ(as_double(out.values[2]), 3);  // sees only key 1
  EXPECT_EQ(as_double(out.values[3]), 4);
  EXPECT_NEAR(static_cast<double>(lse.values[0]), 1e4 + std::log(2), 1e-3);
  EXPECT_NEAR(static_cast<double>(lse.values[1]), 1e4, 1e-3);
}

TYPED_TEST(Attention, GivesZeroWhereNothingIsSeen) {
  using T = TypeParam;
  const auto q = random_tensor<T, 4>({1, 3, 2, 8}, 1);
  const auto k = random_tensor<T, 4>({1, 3, 2, 8}, 2);
  auto out = random_tensor<T, 4>({1, 3, 2, 8}, 3);
  Tensor<Accumulator<T>, 3> lse({1, 2, 3});
  Positions positions = consecutive(3);
  positions.sequences[1] = Positions::padding;
  const AttentionMask mask{.visibility = Visibility::causal};
  attention({q.view(), k.view(), k.view()},
            {.mask = mask, .queries = borrowed(positions), .keys = borrowed(positions)},
            out.view(), lse.view());
  for (std::ptrdiff_t h = 0; h < 2; ++h) {
    EXPECT_EQ(static_cast<double>(lse.view()(0, h, 1)), -infinity);
    EXPECT_TRUE(std::isfinite(static_cast<double>(lse.view()(0, h, 2))));
    for (std::ptrdiff_t d = 0; d < 8; ++d) EXPECT_EQ(as_double(out.view()(0, 1, h, d)), 0);
  }
  // No keys at all.
  const Tensor<T, 4> none({1, 0, 2, 8});
  attention({q.view(), none.view(), none.view()}, {.mask = mask}, out.view(), lse.view());
  for (const T& value : out.values) EXPECT_EQ(as_double(value), 0);
  for (const auto& value : lse.values) EXPECT_EQ(static_cast<double>(value), -infinity);
}

// The contents of padding rows, for example a NaN, have no effect.
TYPED_TEST(Attention, DoesNotReadPadding) {
  using T = TypeParam;
  const Positions positions = packed(std::vector<std::int64_t>{20, 12}, 40);
  auto x = random_tensor<T, 4>({1, 40, 2, 8}, 1);
  auto out = x, out_clean = x;
  const auto run = [&](Tensor<T, 4>& to) {
    attention({x.view(), x.view(), x.view()},
              {.mask = {.visibility = Visibility::bidirectional},
               .queries = borrowed(positions),
               .keys = borrowed(positions)},
              to.view());
  };
  run(out_clean);
  for (std::size_t i = 32 * 16; i < x.values.size(); ++i)
    x.values[i] = static_cast<T>(std::numeric_limits<double>::quiet_NaN());
  run(out);
  EXPECT_TRUE(out.values == out_clean.values);
}

// An additive mask hides keys with -infinity, and may hide all of them.
TEST(AttentionNumbers, TakesMinusInfinityInADenseBias) {
  const auto q = random_tensor<float, 4>({1, 2, 1, 4}, 1);
  const auto k = random_tensor<float, 4>({1, 200, 1, 4}, 2);
  auto out = random_tensor<float, 4>({1, 2, 1, 4}, 3);
  Tensor<float, 3> lse({1, 1, 2});
  Tensor<float, 4> hide({1, 1, 2, 200}, -std::numeric_limits<float>::infinity());
  hide.view()(0, 0, 0, 150) = 0;
  attention({q.view(), k.view(), k.view()},
            {.mask = {.visibility = Visibility::bidirectional}, .bias = DenseBias{hide.view()}},
            out.view(), lse.view());
  for (std::ptrdiff_t d = 0; d < 4; ++d) {
    EXPECT_EQ(out.view()(0, 0, 0, d), k.view()(0, 150, 0, d));
    EXPECT_EQ(out.view()(0, 1, 0, d), 0);
  }
  EXPECT_EQ(lse.values[1], -std::numeric_limits<float>::infinity());
}

TYPED_TEST(Attention, GivesTheSameBitsForAnyNumberOfThreads) {
  using T = TypeParam;
  for (unsigned seed : {3, 8, 21, 34, 55}) {
    const Sample s = sample(seed);
    Pass<T> first(s);
    {
      const ScopedThreads one(1);
      first(s.c);
    }
    for (int count : {2, 7}) {
      Pass<T> run(s);
      const ScopedThreads several(count);
      run(s.c);
      EXPECT_EQ(run.out.numbers().values, first.out.numbers().values) << s.text;
      EXPECT_EQ(run.lse.values, first.lse.values) << s.text;
    }
  }
}

// A prompt in parts gives the same bits as the full pass, so an answer does not depend on how a
// server divides the prompt.
TYPED_TEST(Attention, AfterACacheGivesTheBitsOfTheFullPass) {
  const ScopedThreads one(1);
  using T = TypeParam;
  constexpr std::int64_t tokens = 140, heads = 4, size = 24;
  const auto q = random_tensor<T, 4>({1, tokens, heads, size}, 1);
  const auto k = random_tensor<T, 4>({1, tokens, 2, size}, 2);
  const auto v = random_tensor<T, 4>({1, tokens, 2, 7}, 3);
  const Rotary rotary{.rotary_dim = 16, .pairing = Pairing::halves};
  const SlopeBias slope{{0.5, 0.25, 0.125, 0.0625}};
  const RotaryTable of_keys(rotary, consecutive(tokens));
  Tensor<T, 4> full({1, tokens, heads, 7});
  AttentionMask mask{.visibility = Visibility::causal, .left = 50};
  attention({q.view(), k.view(), v.view()},
            {.mask = mask, .query_rotary = of_keys, .key_rotary = of_keys, .bias = slope},
            full.view());
  for (std::int64_t count : {1, 3, 37})
    for (std::int64_t cached = 0; cached + count <= tokens; cached += count) {
      mask.offset = cached;
      Tensor<T, 4> out({1, count, heads, 7});
      attention({q.view().slice(1, cached, count), k.view().slice(1, 0, cached + count),
                 v.view().slice(1, 0, cached + count)},
                {.mask = mask,
                 .query_rotary = RotaryTable(rotary, consecutive(count, cached)),
                 .key_rotary = RotaryTable(rotary, consecutive(cached + count)),
                 .bias = slope},
                out.view());
      const auto part = full.view().slice(1, cached, count);
      for (std::ptrdiff_t i = 0; i < out.view().size(); ++i)
        ASSERT_EQ(as_double(out.values[static_cast<std::size_t>(i)]), as_double(part.data()[i]))
            << count << " after " << cached;
    }
}

// Holds for more than one part of the keys, however threads share them: pieces of more than 96
// rows for a key head.
TYPED_TEST(Attention, InPiecesGivesTheBitsOfTheFullPassBeyondOnePartOfTheKeys) {
  using T = TypeParam;
  constexpr std::int64_t tokens = 2300, heads = 2, size = 16;
  const auto q = random_tensor<T, 4>({1, tokens, heads, size}, 1);
  const auto k = random_tensor<T, 4>({1, tokens, 1, size}, 2);
  const auto v = random_tensor<T, 4>({1, tokens, 1, size}, 3);
  const std::vector<double> sinks = {0.5, -1};
  for (std::int64_t before : {5000, 1000, 30}) {
    const StripBias strip{heads, -tokens,
                          random_numbers(static_cast<std::size_t>(heads * (tokens + 1)), 4)};
    const auto run = [&](std::int64_t first, std::int64_t count, int thread_count) {
      const ScopedThreads scope(thread_count);
      Tensor<T, 4> out({1, count, heads, size});
      attention({q.view().slice(1, first, count), k.view().slice(1, 0, first + count),
                 v.view().slice(1, 0, first + count)},
                {.mask = {.visibility = Visibility::causal, .offset = first, .left = before},
                 .softmax = {.cap = 30, .sinks = sinks},
                 .bias = strip},
                out.view());
      return out;
    };
    const Tensor<T, 4> full = run(0, tokens, 2);
    for (auto [first, count] : {std::pair{0, 700}, std::pair{700, 1348}, std::pair{1500, 700},
                                std::pair{2040, 65}, std::pair{2200, 100}})
      for (int thread_count : {1, 7}) {
        const Tensor<T, 4> part = run(first, count, thread_count);
        EXPECT_TRUE(std::equal(part.values.begin(), part.values.end(),
                               full.values.begin() + first * heads * size))
            << count << " after " << first << ", window " << before;
      }
  }
}

// Sizes for which a cache is read directly: each token is within the error of both passes.
TYPED_TEST(Attention, TokenByTokenAgreesWithTheFullPass) {
  const ScopedThreads one(1);
  using T = TypeParam;
  constexpr std::int64_t tokens = 140, heads = 4, size = 32, values = 16;
  const auto q = random_tensor<T, 4>({1, tokens, heads, size}, 1);
  const auto k = random_tensor<T, 4>({1, tokens, 2, size}, 2);
  const auto v = random_tensor<T, 4>({1, tokens, 2, values}, 3);
  double most = 0;
  for (const T& value : v.values) most = std::max(most, std::abs(as_double(value)));
  const Rotary rotary{.rotary_dim = 16, .pairing = Pairing::halves};
  const SlopeBias slope{{0.5, 0.25, 0.125, 0.0625}};
  Tensor<T, 4> turned({1, tokens, 2, size});
  const RotaryTable whole(rotary, consecutive(tokens));
  rotate(k.view(), whole, Direction::forward, turned.view());
  const auto run = [&](std::int64_t first, std::int64_t count) {
    Tensor<T, 4> out({1, count, heads, values});
    attention({q.view().slice(1, first, count), turned.view().slice(1, 0, first + count),
               v.view().slice(1, 0, first + count)},
              {.mask = {.visibility = Visibility::causal, .offset = first, .left = 50},
               .query_rotary = RotaryTable(rotary, consecutive(count, first)),
               .bias = slope},
              out.view());
    return out;
  };
  const Tensor<T, 4> full = run(0, tokens);
  for (std::int64_t count : {1, 4})
    for (std::int64_t first = 0; first + count <= tokens; first += count) {
      const Tensor<T, 4> part = run(first, count);
      for (std::size_t i = 0; i < part.values.size(); ++i)
        ASSERT_NEAR(
            as_double(part.values[i]),
            as_double(full.values[static_cast<std::size_t>(first * heads * values) + i]),
            2 * bound<T>(most))
            << count << " after " << first;
    }
}

// 8192 x 8192 scores would take 256 MiB, but the call stores only a few tiles.
TEST(AttentionNumbers, RunsALongSequence) {
  constexpr std::int64_t tokens = 8192;
  AttentionCase c{.queries = tokens, .keys = tokens, .size = 4, .values = 3};
  c.plan.softmax.scale = 0.5;
  c.plan.bias = SlopeBias{{0.01}};
  const auto q = random_tensor<float, 4>({1, tokens, 1, 4}, 1);
  const auto k = random_tensor<float, 4>({1, tokens, 1, 4}, 2);
  const auto v = random_tensor<float, 4>({1, tokens, 1, 3}, 3);
  Tensor<float, 4> out({1, tokens, 1, 3});
  attention({q.view(), k.view(), v.view()}, c.plan, out.view());
  for (std::int64_t row : {0, 4095, 8191}) {
    AttentionCase one = c;
    one.queries = 1, one.plan.mask.offset = row;
    AttentionTensors x{Tensor<double, 4>({1, 1, 1, 4}), Tensor<double, 4>({1, tokens, 1, 4}),
                       Tensor<double, 4>({1, tokens, 1, 3})};
    const auto q_row = q.view().slice(1, row, 1);
    std::copy_n(q_row.data(), 4, x.q.values.begin());
    std::copy(k.values.begin(), k.values.end(), x.k.values.begin());
    std::copy(v.values.begin(), v.values.end(), x.v.values.begin());
    const auto exact = oracle(one, x);
    for (std::ptrdiff_t d = 0; d < 3; ++d)
      EXPECT_NEAR(out.view()(0, row, 0, d), exact.out.view()(0, 0, 0, d),
                  bound<float>(greatest(x.v.values)));
  }
}

TEST(AttentionErrors, AreSaidBeforeAnythingIsWritten) {
  const auto q = random_tensor<float, 4>({2, 3, 4, 8}, 1);
  const auto k = random_tensor<float, 4>({2, 5, 2, 8}, 2);
  auto out = Tensor<float, 4>({2, 3, 4, 8}, 77.f);
  const AttentionMask causal{.visibility = Visibility::causal, .offset = 2};
  const auto says = [&](View<const float, 4> q, View<const float, 4> k,
                        const AttentionMask& mask, AttentionPlan plan) {
    plan.mask = mask;
    const auto message = message_of([&] { attention({q, k, k}, plan, out.view()); });
    for (float value : out.values) EXPECT_EQ(value, 77.f);
    return message;
  };
  const auto rule = [](std::string text) { return HasSubstr("[attention] " + text); };
  const auto k3 = random_tensor<float, 4>({2, 5, 3, 8});
  EXPECT_THAT(says(q.view(), k3.view(), causal, {}),
              rule("the heads of q must be a multiple of those of k, 3, got 4"));
  const auto k7 = random_tensor<float, 4>({2, 5, 2, 7});
  EXPECT_THAT(says(q.view(), k7.view(), causal, {}), rule("axis 3 of k must be 8, got 7"));
  EXPECT_THAT(says(q.view(), k.view().slice(0, 0, 1), causal, {}),
              rule("axis 0 of k must be 2, got 1"));
  const View<const float, 4> strided(q.values.data(), {2, 3, 4, 8}, {96, 8, 24, 2});
  EXPECT_THAT(says(strided, k.view(), causal, {}),
              rule("the last axis of q must have stride 1, got 2"));
  EXPECT_THAT(says(q.view(), k.view(), {}, {}),
              rule("visibility must be causal or bidirectional, got 0"));
  EXPECT_THAT(says(q.view(), k.view(), {.visibility = Visibility::causal}, {}),
              rule("a mask without an offset requires T = S; the offset is the number of keys "
                   "before the key of the first query (a cache of n tokens: n), got T = 3, S = "
                   "5"));
  EXPECT_THAT(says(q.view(), k.view(), {.visibility = Visibility::bidirectional},
                   {.bias = SlopeBias{std::vector<double>(4, 1)}}),
              rule("a mask without an offset requires T = S"));
  EXPECT_THAT(says(q.view(), k.view(), {.visibility = Visibility::causal, .offset = -1}, {}),
              rule("offset must not be negative, got -1"));
  EXPECT_THAT(says(q.view(), k.view(), {.visibility = Visibility::causal, .left = -2}, {}),
              rule("left must not be negative, got -2"));
  EXPECT_THAT(says(q.view(), k.view(), causal, {.softmax = {.scale = infinity}}),
              rule("the softmax scale must be finite, got inf"));
  const Positions three = consecutive(3), five = consecutive(5);
  EXPECT_THAT(says(q.view(), k.view(), causal, {.queries = borrowed(three)}),
              rule("positions must be given for queries and keys together, got queries alone"));
  EXPECT_THAT(
      says(q.view(), k.view(), causal, {.queries = borrowed(three), .keys = borrowed(three)}),
      rule("positions of keys must have 5 tokens, got 3"));
  const RotaryTable wide({.rotary_dim = 16, .pairing = Pairing::halves}, three);
  EXPECT_THAT(says(q.view(), k.view(), causal, {.query_rotary = wide}),
              rule("the rotary table of queries must fit head_dim 8, got 16"));
  const RotaryTable of_three({.rotary_dim = 8, .pairing = Pairing::halves}, three);
  EXPECT_THAT(says(q.view(), k.view(), causal, {.key_rotary = of_three}),
              rule("the rotary table of keys must have 5 tokens, got 3"));
  EXPECT_THAT(says(q.view(), k.view(), causal, {.bias = SlopeBias{{1, 1}}}),
              rule("the bias must have 4 heads, got 2"));
  EXPECT_THAT(
      says(q.view(), k.view(), causal, {.bias = StripBias{4, -3, std::vector<double>(16)}}),
      rule("the strip must cover distances -4 to 0, got -3 to 0"));
  const Tensor<float, 4> dense({2, 4, 3, 4});
  EXPECT_THAT(says(q.view(), k.view(), causal, {.bias = DenseBias{dense.view()}}),
              rule("the dense bias must be [B, Hq, T, S]; axis 3 must be 5, got 4"));
}

TEST(AttentionErrors, CheckTypesRanksAndDevices) {
  const Tensor<float, 4> q({2, 3, 4, 8}), k({2, 5, 2, 8});
  const Tensor<Half, 4> half_q({2, 3, 4, 8}), half_k({2, 5, 2, 8});
  const Tensor<double, 4> double_q({2, 3, 4, 8}), double_k({2, 5, 2, 8});
  const Tensor<std::int8_t, 4> bytes({2, 5, 2, 8});
  const Tensor<float, 3> scales({2, 5, 2}), few({2, 5, 1}), rank_3({3, 4, 8});
  const Tensor<std::int32_t, 4> whole({2, 3, 4, 8});
  Tensor<float, 4> out({2, 3, 4, 8}, 77.f);
  const AttentionPlan plan{.mask = {.visibility = Visibility::causal, .offset = 2}};
  const auto says = [&](const AttentionInput& input) {
    const auto message = message_of([&] { attention(input, plan, out.view()); });
    for (float value : out.values) EXPECT_EQ(value, 77.f);
    return message;
  };
  EXPECT_EQ(
      says({q.view(), double_k.view(), double_k.view()}),
      "[attention] k must have elements of f32, f16, bf16, i8 or E4M3, as q has f32, got f64");
  EXPECT_EQ(says({half_q.view(), k.view(), k.view()}),
            "[attention] k must have elements of f16, as q has, i8 or E4M3, got f32");
  EXPECT_EQ(says({double_q.view(), k.view(), k.view()}),
            "[attention] k must have elements of f64, as q has, got f32");
  EXPECT_EQ(says({q.view(), half_k.view(), k.view()}),
            "[attention] v must have elements of f16, as k has, got f32");
  EXPECT_EQ(says({whole.view(), k.view(), k.view()}),
            "[attention] q must have elements of f32, f16, bf16 or f64, got i32");
  EXPECT_EQ(says({{}, k.view(), k.view()}), "[attention] q must be given, got no tensor");
  EXPECT_EQ(says({q.view(), {}, k.view()}), "[attention] k must be given, got no tensor");
  EXPECT_EQ(says({rank_3.view(), k.view(), k.view()}),
            "[attention] q must have 4 axes, got 3 axes, [3, 4, 8]");
  EXPECT_EQ(says({q.view(), k.view(), rank_3.view()}),
            "[attention] v must have 4 axes, got 3 axes, [3, 4, 8]");
  EXPECT_EQ(
      says({q.view(), bytes.view(), bytes.view()}),
      "[attention] k_scales must be given if and only if k is int8 or E4M3, got no scales");
  EXPECT_EQ(
      says({q.view(), bytes.view(), bytes.view(), scales.view()}),
      "[attention] v_scales must be given if and only if v is int8 or E4M3, got no scales");
  EXPECT_EQ(says({q.view(), k.view(), k.view(), scales.view(), scales.view()}),
            "[attention] k_scales must be given if and only if k is int8 or E4M3, got f32");
  EXPECT_EQ(says({q.view(), bytes.view(), bytes.view(), few.view(), scales.view()}),
            "[attention] axis 2 of the scales of k must be 2, got 1");
  EXPECT_EQ(says({double_q.view(), bytes.view(), bytes.view(), scales.view(), scales.view()}),
            "[attention] k must have elements of f64, as q has, got i8");
  const View<const float, 4> queries = q.view(), keys = k.view();
  AttentionInput elsewhere{queries, keys, keys};
  elsewhere.k.device = {DeviceType::cuda, 1};
  EXPECT_EQ(says(elsewhere), "[attention] k must be on the device cpu, got cuda:1");
  Tensor<double, 4> wide({2, 3, 4, 8});
  Tensor<double, 3> lse({2, 4, 3});
  EXPECT_EQ(message_of([&] { attention({queries, keys, keys}, plan, wide.view()); }),
            "[attention] out must have elements of f32, got f64");
  EXPECT_EQ(message_of([&] { attention({queries, keys, keys}, plan, out.view(), lse.view()); }),
            "[attention] lse must have elements of f32, got f64");
  AttentionPlan gated = plan;
  gated.gated = true;
  EXPECT_EQ(message_of([&] { attention({queries, keys, keys}, gated, out.view()); }),
            "[attention] gates must be given, because the bias of the plan is gated, got none");
}

// A strip needs only the visible distances: a window of 2 requires -2 to 0.
TEST(AttentionErrors, AskOfAStripOnlyWhatIsSeen) {
  const auto x = random_tensor<float, 4>({1, 9, 1, 4});
  Tensor<float, 4> out({1, 9, 1, 4});
  const auto run = [&](std::int64_t first, std::shared_ptr<const Positions> positions) {
    attention(
        {x.view(), x.view(), x.view()},
        {.mask = {.visibility = Visibility::causal, .left = 2},
         .bias = StripBias{1, first, std::vector<double>(static_cast<std::size_t>(1 - first))},
         .queries = positions,
         .keys = positions},
        out.view());
  };
  EXPECT_NO_THROW(run(-2, nullptr));
  EXPECT_THROW(run(-1, nullptr), std::invalid_argument);
  const Positions pairs = packed(std::vector<std::int64_t>{2, 2, 2, 2}, 9);
  EXPECT_NO_THROW(run(-1, borrowed(pairs)));
  EXPECT_THROW(run(0, borrowed(pairs)), std::invalid_argument);
}

TEST(SoftmaxScale, IsOneOverTheRootOfTheHeadSize) {
  EXPECT_EQ(softmax_scale(64), 0.125);
  EXPECT_THROW(softmax_scale(0), std::invalid_argument);
}

}  // namespace attention_test
}  // namespace gnomon
