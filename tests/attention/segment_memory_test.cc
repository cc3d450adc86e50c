#include "gnomon/attention/segment_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/t5.h"
#include "gnomon/relative/shaw.h"
#include "gnomon/relative/transformer_xl.h"
#include "testing.h"

namespace gnomon {
namespace attention_segment_memory_test {

using testing::message_of;
using testing::Tensor;

constexpr std::int64_t batch = 2, heads = 4, key_heads = 2, size = 8, value_dim = 6;
constexpr std::int64_t length = 61, memory = 7;

const RotaryFrequencies& plain() {
  static const RotaryFrequencies one =
      lower(Rotary{.rotary_dim = 6, .pairing = Pairing::halves, .base = 100, .head_offset = 1});
  return one;
}

template <typename T>
struct Text {
  Tensor<T, 4> q = testing::random_tensor<T, 4>({batch, length, heads, size}, 1);
  Tensor<T, 4> k = testing::random_tensor<T, 4>({batch, length, key_heads, size}, 2);
  Tensor<T, 4> v = testing::random_tensor<T, 4>({batch, length, key_heads, value_dim}, 3);
};
template <typename T>
View<const T, 4> part(const Tensor<T, 4>& x, std::int64_t first, std::int64_t count) {
  return View<const T, 4>(x.view()).slice(1, first, count);
}

// The rotary tables, bias and relative vectors for queries and keys at given positions.
struct Placed {
  std::optional<RotaryTable> queries, keys;
  BiasForm bias = {};
  RelativeForm relative = {};

  // The plan for queries after `offset` keys of the memory.
  AttentionPlan plan(std::int64_t offset) const {
    return {.mask = {.visibility = Visibility::causal, .offset = offset, .left = memory},
            .query_rotary = queries,
            .key_rotary = keys,
            .bias = bias,
            .relative = relative};
  }
};

struct Encoding {
  std::string name;
  std::optional<RotaryFrequencies> on_the_way_in;
  // Returns positions for keys first, first + 1, ... and the last `queries` of them.
  std::function<Placed(std::int64_t first, std::int64_t keys, std::int64_t queries)> place;
};

// Tables and vectors of the encodings by distance.
struct Numbers {
  Tensor<float, 2> buckets = testing::random_tensor<float, 2>({32, heads}, 4);
  Tensor<float, 2> vectors = testing::random_tensor<float, 2>({12, size}, 5);
  Tensor<float, 2> values = testing::random_tensor<float, 2>({12, value_dim}, 6);
  Tensor<float, 2> w = testing::random_tensor<float, 2>({heads * size, 4}, 7);
  Tensor<float, 2> u = testing::random_tensor<float, 2>({heads, size}, 8);
};

std::vector<Encoding> encodings() {
  static const Numbers n;
  const auto last = [](std::int64_t first, std::int64_t keys, std::int64_t queries) {
    return consecutive(queries, first + keys - queries);
  };
  return {
      {"none", {}, [](auto...) { return Placed{}; }},
      {"rotary, turned on their way in", plain(),
       [=](std::int64_t first, std::int64_t keys, std::int64_t queries) {
         Placed p;
         p.queries.emplace(plain(), last(first, keys, queries));
         return p;
       }},
      {"rotary, turned in each window",
       {},
       [=](std::int64_t, std::int64_t keys, std::int64_t queries) {
         Placed p;
         p.queries.emplace(plain(), last(0, keys, queries));
         p.keys.emplace(plain(), consecutive(keys));
         return p;
       }},
      {"alibi",
       {},
       [](auto...) {
         Placed p;
         p.bias = lower(Alibi{.heads = heads});
         return p;
       }},
      {"t5",
       {},
       [](std::int64_t, std::int64_t keys, std::int64_t queries) {
         Placed p;
         p.bias =
             lower(T5Bias{.heads = heads, .direction = T5Direction::causal, .max_distance = 20},
                   n.buckets.view(), 1 - keys, keys + queries - 1);
         return p;
       }},
      {"shaw",
       {},
       [](std::int64_t, std::int64_t keys, std::int64_t queries) {
         Placed p;
         p.relative = lower(Shaw{.head_dim = size,
                                 .value_dim = value_dim,
                                 .left = 5,
                                 .right = 6,
                                 .meets = ShawMeets::queries_and_weights},
                            {n.vectors.view(), n.values.view()}, 1 - keys, keys + queries - 1);
         return p;
       }},
      {"transformer-xl",
       {},
       [](std::int64_t, std::int64_t keys, std::int64_t queries) {
         const TransformerXlPlan plan = lower(
             {.heads = heads, .head_dim = size, .width = 4, .sinusoid = XlSinusoid::half_split},
             {n.w.view(), n.u.view(), n.u.view()}, 1 - keys, keys + queries - 1,
             softmax_scale(size));
         Placed p;
         p.relative = plan.form;
         p.bias =
             StripBias{.heads = heads, .min_distance = plan.min_distance, .values = plan.strip};
         return p;
       }},
  };
}

template <typename T>
Tensor<T, 4> attend(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                    const AttentionPlan& plan) {
  Tensor<T, 4> out({batch, q.extent(1), heads, value_dim});
  attention({q, k, v}, plan, out.view());
  return out;
}

// Segments of any length up to 9: 1 (decoding), longer and shorter than the memory.
constexpr std::int64_t pieces[] = {5, 1, 9, 9, 1, 1, 3, 9, 9, 2, 9, 3};

template <typename T>
class SegmentMemoryOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(SegmentMemoryOf, Types);

TYPED_TEST(SegmentMemoryOf, EvaluatesAsOneLongText) {
  using T = TypeParam;
  const Text<T> text;
  for (const Encoding& encoding : encodings()) {
    SCOPED_TRACE(encoding.name);
    Tensor<T, 4> k = text.k;
    if (encoding.on_the_way_in)
      rotate(k.view(), RotaryTable(*encoding.on_the_way_in, consecutive(length)));
    const Placed all = encoding.place(0, length, length);
    const Tensor<T, 4> whole = attend<T>(part(text.q, 0, length), part(k, 0, length),
                                         part(text.v, 0, length), all.plan(0));
    SegmentMemory<T> past({.batch = batch,
                           .memory = memory,
                           .segment = 9,
                           .heads = key_heads,
                           .head_dim = size,
                           .value_dim = value_dim},
                          encoding.on_the_way_in);
    double worst = 0;
    std::int64_t at = 0;
    for (const std::int64_t count : pieces) {
      EXPECT_EQ(past.next(), at);
      EXPECT_EQ(past.kept(), std::min(at, memory));
      const Segment<T> s = past.append(part(text.k, at, count), part(text.v, at, count));
      ASSERT_EQ(s.offset, std::min(at, memory));
      ASSERT_EQ(s.first, at - s.offset);
      ASSERT_EQ(s.keys.extent(1), s.offset + count);
      EXPECT_EQ(s.query_positions(), consecutive(count, at));
      EXPECT_EQ(s.key_positions(), consecutive(s.offset + count, at - s.offset));
      const Placed here = encoding.place(s.first, s.keys.extent(1), count);
      const Tensor<T, 4> out =
          attend<T>(part(text.q, at, count), s.keys, s.values, here.plan(s.offset));
      const View<const T, 4> wanted = part(whole, at, count);
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t t = 0; t < count; ++t)
          for (std::int64_t h = 0; h < heads; ++h)
            for (std::int64_t d = 0; d < value_dim; ++d)
              worst = std::max(worst, std::fabs(testing::as_double(out.view()(b, t, h, d)) -
                                                testing::as_double(wanted(b, t, h, d))));
      at += count;
    }
    ASSERT_EQ(at, length);
    // Values are below 4. Rotary tables are float. Rotated keys, and outputs, are rounded to
    // half an ulp.
    const bool turns = encoding.name.starts_with("rotary");
    if (std::is_same_v<T, double>)
      EXPECT_LE(worst, turns ? 1e-5 : 1e-12);
    else
      EXPECT_LE(worst, 1e-4 + 16 * testing::half_ulp<T>);
  }
}

// Gradients of a segment's own keys and values: finite differences of the loss of the segment,
// with constant memory.
TEST(SegmentMemory, NoGradientFlowsIntoMemory) {
  const Text<double> text;
  for (const Encoding& encoding : encodings()) {
    if (encoding.on_the_way_in) continue;  // rotated keys: the inverse of rotate applies
    SCOPED_TRACE(encoding.name);
    SegmentMemory<double> past({.batch = batch,
                                .memory = memory,
                                .segment = 9,
                                .heads = key_heads,
                                .head_dim = size,
                                .value_dim = value_dim});
    past.append(part(text.k, 0, 9), part(text.v, 0, 9));
    const Segment<double> s = past.append(part(text.k, 9, 4), part(text.v, 9, 4));
    const std::int64_t all = s.keys.extent(1);
    Tensor<double, 4> k({batch, all, key_heads, size}), v({batch, all, key_heads, value_dim});
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < all; ++t)
        for (std::int64_t h = 0; h < key_heads; ++h) {
          for (std::int64_t d = 0; d < size; ++d) k.view()(b, t, h, d) = s.keys(b, t, h, d);
          for (std::int64_t d = 0; d < value_dim; ++d)
            v.view()(b, t, h, d) = s.values(b, t, h, d);
        }
    const AttentionPlan plan = encoding.place(s.first, all, 4).plan(s.offset);
    const auto weight = testing::random_tensor<double, 4>({batch, 4, heads, value_dim}, 9);
    Tensor<double, 4> out(weight.extents);
    Tensor<double, 3> lse({batch, heads, 4});
    const auto loss = [&] {
      attention({part(text.q, 9, 4), k.view(), v.view()}, plan, out.view(), lse.view());
      double sum = 0;
      for (std::size_t n = 0; n < out.values.size(); ++n)
        sum += out.values[n] * weight.values[n];
      return sum;
    };
    loss();
    Tensor<double, 4> of_q({batch, 4, heads, size}), of_k(k.extents), of_v(v.extents);
    attention_backward({part(text.q, 9, 4), s.keys, s.values}, plan, out.view(), lse.view(),
                       weight.view(), {.q = of_q.view(), .k = of_k.view(), .v = of_v.view()});
    const View<double, 4> own_k = s.own(of_k.view()), own_v = s.own(of_v.view());
    ASSERT_EQ(own_k.extent(1), 4);
    const auto agree = [&](const View<double, 4>& numbers, const View<double, 4>& grad) {
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t t = 0; t < 4; ++t)
          for (std::int64_t h = 0; h < key_heads; ++h)
            for (std::int64_t d = 0; d < numbers.extent(3); ++d) {
              double& one = numbers(b, t, h, d);
              const double kept = one, step = 1e-5;
              one = kept + step;
              const double above = loss();
              one = kept - step;
              const double below = loss();
              one = kept;
              EXPECT_NEAR(grad(b, t, h, d), (above - below) / (2 * step), 1e-8);
            }
    };
    agree(k.view().slice(1, s.offset, 4), own_k);
    agree(v.view().slice(1, s.offset, 4), own_v);
  }
}

// The buffers have a constant size; after 60000 tokens, they hold the last ones.
TEST(SegmentMemory, KeepsTheLastTokensForEver) {
  for (const std::int64_t remembered : {0, 1, 5}) {
    SegmentMemory<float> past(
        {.memory = remembered, .segment = 3, .heads = 1, .head_dim = 1, .value_dim = 2});
    std::int64_t at = 0;
    for (int turn = 0; turn < 40000; ++turn) {
      const std::int64_t count = turn % 4;  // 0: nothing new
      Tensor<float, 4> k({1, count, 1, 1}), v({1, count, 1, 2});
      for (std::int64_t t = 0; t < count; ++t) {
        k.values[static_cast<std::size_t>(t)] = static_cast<float>(at + t);
        v.values[static_cast<std::size_t>(2 * t + 1)] = static_cast<float>(at + t);
      }
      const Segment<float> s = past.append(k.view(), v.view());
      ASSERT_EQ(s.offset, std::min(at, remembered));
      for (std::int64_t row = 0; row < s.keys.extent(1); ++row) {
        ASSERT_EQ(s.keys(0, row, 0, 0), static_cast<float>(s.first + row));
        ASSERT_EQ(s.values(0, row, 0, 1), static_cast<float>(s.first + row));
      }
      at += count;
    }
    EXPECT_EQ(past.next(), at);
    past.clear();
    EXPECT_EQ(past.next(), 0);
    EXPECT_EQ(past.kept(), 0);
  }
}

TEST(SegmentMemory, TakesATableOfItsPositions) {
  const Text<float> text;
  const SegmentMemoryShape shape{.batch = batch,
                                 .memory = memory,
                                 .segment = 9,
                                 .heads = key_heads,
                                 .head_dim = size,
                                 .value_dim = value_dim};
  SegmentMemory<float> one(shape, plain()), other(shape, plain());
  for (std::int64_t at = 0; at < 36; at += 9) {
    const RotaryTable table(plain(), consecutive(9, at));
    const auto a = one.append(part(text.k, at, 9), part(text.v, at, 9), &table);
    const auto b = other.append(part(text.k, at, 9), part(text.v, at, 9));
    for (std::int64_t t = 0; t < a.keys.extent(1); ++t)
      for (std::int64_t d = 0; d < size; ++d) EXPECT_EQ(a.keys(1, t, 1, d), b.keys(1, t, 1, d));
  }
}

TEST(SegmentMemory, RefusesWhatDoesNotFit) {
  const SegmentMemoryShape good{
      .batch = 1, .memory = 4, .segment = 3, .heads = 2, .head_dim = 8, .value_dim = 2};
  const auto says = [&](auto change) {
    SegmentMemoryShape shape = good;
    change(shape);
    return message_of([&] { SegmentMemory<float> past(shape); });
  };
  EXPECT_EQ(says([](SegmentMemoryShape&) {}), "");
  EXPECT_EQ(says([](SegmentMemoryShape& s) { s.batch = 0; }),
            "[segment_memory] batch must be at least 1, got 0");
  EXPECT_EQ(says([](SegmentMemoryShape& s) { s.segment = 0; }),
            "[segment_memory] segment must be at least 1, got 0");
  EXPECT_EQ(says([](SegmentMemoryShape& s) { s.memory = -1; }),
            "[segment_memory] memory must not be negative, got -1");
  EXPECT_EQ(says([](SegmentMemoryShape& s) { s.memory = INT64_MAX; }),
            "[segment_memory] 2 x memory + segment must fit 64 bits, got "
            "9223372036854775807 + 9223372036854775807 + 3");
  EXPECT_EQ(
      message_of([&] {
        SegmentMemoryShape small = good;
        small.head_dim = 6;
        SegmentMemory<float> past(small, plain());
      }),
      "[segment_memory] head_dim must be at least head_offset + rotary_dim = 1 + 6, got 6");
  const Tensor<float, 4> k({1, 3, 2, 8}), v({1, 3, 2, 2}), longer({1, 4, 2, 8});
  const RotaryTable table(plain(), consecutive(3)), other(plain(), consecutive(2));
  SegmentMemory<float> past(good), turned(good, plain());
  EXPECT_EQ(message_of([&] { past.append(v.view(), v.view()); }),
            "[segment_memory] k must be [1, 3, 2, 8], got [1, 3, 2, 2]");
  EXPECT_EQ(message_of([&] { past.append(k.view(), k.view()); }),
            "[segment_memory] v must be [1, 3, 2, 2], got [1, 3, 2, 8]");
  EXPECT_EQ(
      message_of([&] { past.append(longer.view(), Tensor<float, 4>({1, 4, 2, 2}).view()); }),
      "[segment_memory] a segment must have at most 3 tokens, got 4");
  EXPECT_EQ(message_of([&] { past.append(k.view(), v.view(), &table); }),
            "[segment_memory] a memory without frequencies cannot take a rotary table, "
            "got a table");
  EXPECT_EQ(message_of([&] { turned.append(k.view(), v.view(), &other); }),
            "[segment_memory] the table must be of 1 or 1 rows of 3 tokens, got 1 of 2");
  const RotaryTable wrong(
      lower(
          Rotary{.rotary_dim = 6, .pairing = Pairing::adjacent, .base = 100, .head_offset = 1}),
      consecutive(3));
  EXPECT_TRUE(
      message_of([&] { turned.append(k.view(), v.view(), &wrong); })
          .starts_with("[segment_memory] keys must be rotated with the frequencies of the "
                       "memory, got pairing"));
  EXPECT_EQ(turned.next(), 0);
}

}  // namespace attention_segment_memory_test
}  // namespace gnomon
