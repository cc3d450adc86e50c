// Tests sequences of different lengths in one call, and paged caches.
#include "gnomon/attention/ragged.h"

#include <gtest/gtest.h>

#include "attention/bounds.h"
#include "attention/placed.h"
#include "attention/ragged_batch.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace attention_ragged_test {

using namespace gnomon::testing;
using testing::Tensor;

template <typename T, typename K>
struct Types {
  using Query = T;
  using Key = K;
};

template <typename Both>
class AttentionRagged : public ::testing::Test {};
using Kinds =
    ::testing::Types<Types<float, float>, Types<Half, Half>, Types<BFloat16, BFloat16>,
                     Types<double, double>, Types<float, Half>, Types<float, BFloat16>,
                     Types<float, std::int8_t>, Types<Half, std::int8_t>,
                     Types<BFloat16, std::int8_t>, Types<float, E4m3>, Types<Half, E4m3>,
                     Types<BFloat16, E4m3>>;
TYPED_TEST_SUITE(AttentionRagged, Kinds);

template <typename Both>
using Pass = RaggedPass<typename Both::Query, typename Both::Key>;

template <typename T>
Tensor<double, 4> in_double(const Tensor<T, 4>& x) {
  Tensor<double, 4> copy(x.extents);
  for (std::size_t i = 0; i < x.values.size(); ++i) copy.values[i] = as_double(x.values[i]);
  return copy;
}

template <typename Both>
void expect_within_bounds(const RaggedCase& c) {
  using T = typename Both::Query;
  const ScopedThreads one(1);
  Pass<Both> run(c);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)) + ", " + c.text);
    const ScopedIsa scope(isa);
    std::fill(run.out.values.begin(), run.out.values.end(), static_cast<T>(7));
    std::fill(run.lse.values.begin(), run.lse.values.end(), Accumulator<T>(7));
    run();
    std::int64_t outside = 0;
    for (std::size_t n = 0; n < c.sequences.size(); ++n) {
      SCOPED_TRACE("sequence " + std::to_string(n) + ", T " +
                   std::to_string(c.sequences[n].queries) + ", S " +
                   std::to_string(c.sequences[n].keys) + ", offset " +
                   std::to_string(c.sequences[n].offset));
      const AttentionTensors x{in_double(run.q_of(n)), run.k.exact(n), run.v.exact(n)};
      gnomon::testing::expect_within_bounds<T>(run.template out_of<double>(n), run.lse_of(n),
                                               oracle(c.alone(n), x), greatest(x.v.values));
      outside -= c.sequences[n].queries;
    }
    // The other rows are 0, and -infinity in lse.
    outside += run.out.extents[0] * run.out.extents[1];
    std::int64_t found = 0;
    for (std::int64_t b = 0; b < run.out.extents[0]; ++b)
      for (std::int64_t row = 0; row < run.out.extents[1]; ++row) {
        bool other = true;
        for (std::size_t n = 0; n < c.sequences.size(); ++n) {
          const auto [of, first] = run.place(n, 0);
          other = other && !(of == b && row >= first && row < first + c.sequences[n].queries);
        }
        if (!other) continue;
        ++found;
        for (std::int64_t h = 0; h < c.heads; ++h) {
          EXPECT_EQ(static_cast<double>(run.lse.view()(b, h, row)),
                    -std::numeric_limits<double>::infinity());
          for (std::int64_t d = 0; d < c.values; ++d)
            EXPECT_EQ(as_double(run.out.view()(b, row, h, d)), 0);
        }
      }
    EXPECT_EQ(found, outside);
  }
}

TYPED_TEST(AttentionRagged, KeepsTheErrorPromisedByTheHeader) {
  for (unsigned seed = 1; seed <= 40; ++seed)
    expect_within_bounds<TypeParam>(draw_ragged(seed));
}

// The bits of a call with sequence n alone, whose keys and values are contiguous.
template <typename Both>
void expect_bits_of_separate_calls(const RaggedCase& c, Pass<Both>& run) {
  using T = typename Both::Query;
  for (std::size_t n = 0; n < c.sequences.size(); ++n) {
    SCOPED_TRACE(c.text + ", sequence " + std::to_string(n));
    const AttentionCase alone = c.alone(n);
    const auto q = run.q_of(n);
    const auto k = run.k.alone(n), v = run.v.alone(n);
    const auto of_k = k.elements.view(), of_v = v.elements.view();
    const auto k_scales = k.scales.view(), v_scales = v.scales.view();
    const auto k_heads = run.k.head_scales(), v_heads = run.v.head_scales();
    constexpr bool int8 = StoredRows<typename Both::Key>::int8;
    ConstTensor scale_k, scale_v;
    if (int8) scale_k = k_scales, scale_v = v_scales;
    if (k_heads.data()) scale_k = k_heads, scale_v = v_heads;
    Tensor<T, 4> out({1, alone.queries, c.heads, c.values});
    Tensor<Accumulator<T>, 3> lse({1, c.heads, alone.queries});
    if (!alone.queries) continue;
    attention({.q = q.view(),
               .k = run.k.tensor(of_k),
               .v = run.v.tensor(of_v),
               .k_scales = scale_k,
               .v_scales = scale_v},
              alone.plan, out.view(), lse.view());
    EXPECT_EQ(in_double(out).values, run.template out_of<double>(n).values);
    EXPECT_EQ(lse.values, run.lse_of(n).values);
  }
}

TYPED_TEST(AttentionRagged, GivesTheBitsOfSeparateCalls) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    const RaggedCase c = draw_ragged(seed);
    Pass<TypeParam> run(c);
    const ScopedThreads several(seed % 3 ? 1 : 3);
    run();
    expect_bits_of_separate_calls<TypeParam>(c, run);
  }
}

// Prompts and single tokens over many keys: parts of the keys, read directly and packed.
RaggedCase mixed(KeyRows rows, std::int64_t page, std::int64_t heads) {
  RaggedCase c;
  c.heads = heads, c.key_heads = 2;
  c.sequences = {{1, 4500, 4499}, {3, 2049, 2046}, {0, 30, 30}, {70, 2100, 2030},
                 {1, 0, 0},       {2, 5, 3},       {5, 64, 100}};
  c.key_rows = rows, c.page = page;
  c.text = "mixed, key rows " + std::to_string(static_cast<int>(rows)) + ", page " +
           std::to_string(page);
  return c;
}

TYPED_TEST(AttentionRagged, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const auto& [rows, page] :
       {std::pair(KeyRows::pages, 16), {KeyRows::pages, 3}, {KeyRows::starts, 1}}) {
    RaggedCase c = mixed(rows, page, 4);
    if (page == 3) c.plan.bias = SlopeBias{{0.5, 0.01, 0.001, 0}};
    if (page == 1) c.plan.mask.left = 3000;
    Pass<TypeParam> first(c);
    {
      const ScopedThreads one(1);
      first();
      expect_bits_of_separate_calls<TypeParam>(c, first);
    }
    for (int count : {2, 7}) {
      Pass<TypeParam> run(c);
      const ScopedThreads several(count);
      run();
      EXPECT_EQ(in_double(run.out).values, in_double(first.out).values) << c.text << count;
      EXPECT_EQ(run.lse.values, first.lse.values) << c.text << count;
    }
  }
}

TYPED_TEST(AttentionRagged, KeepsItsErrorOverManyKeys) {
  RaggedCase c = mixed(KeyRows::pages, 32, 2);
  c.heads_first = true;
  expect_within_bounds<TypeParam>(c);
}

// A SlopeBias skips keys that are out of reach, for each sequence by its own.
TEST(AttentionRaggedReach, GivesTheBitsOfSeparateCalls) {
  RaggedCase c;
  c.heads = 2, c.plan.bias = SlopeBias{{0.5, 2}};
  c.sequences = {{100, 3000, 2900}, {1300, 1300, 0}, {80, 90, 10}, {70, 1500, 1500}};
  c.text = "reach";
  RaggedPass<float, float> run(c);
  run();
  expect_bits_of_separate_calls<Types<float, float>>(c, run);
}

// All E4M3 numbers, in a plain call: one key, so out is the value.
TEST(AttentionE4m3, ConvertsAllNumbers) {
  std::vector<std::uint8_t> k(256, 0x38), v(256);
  std::iota(v.begin(), v.end(), 0);
  const std::vector<float> q(16, 1.0f), scale = {1.0f};
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scope(isa);
    for (std::int64_t values : {256, 13}) {
      std::vector<float> out(256);
      attention({.q = View<const float, 4>(q.data(), {1, 1, 1, 16}),
                 .k = View<const std::uint8_t, 4>(k.data(), {1, 1, 1, 16}),
                 .v = View<const std::uint8_t, 4>(v.data(), {1, 1, 1, values}),
                 .k_scales = View<const float, 1>(scale.data(), {1}),
                 .v_scales = View<const float, 1>(scale.data(), {1})},
                {.mask = {.visibility = Visibility::bidirectional}},
                View<float, 4>(out.data(), {1, 1, 1, values}));
      for (std::int64_t i = 0; i < values; ++i) {
        const double wanted = value_of({static_cast<std::uint8_t>(i)});
        const auto got = static_cast<double>(out[static_cast<std::size_t>(i)]);
        if (std::isnan(wanted))
          EXPECT_TRUE(std::isnan(got)) << i;
        else
          EXPECT_EQ(got, wanted) << i;
      }
    }
  }
}

// The type may be u8, and scales one for all heads.
TEST(AttentionE4m3, TakesBytes) {
  const RaggedCase c = mixed(KeyRows::pages, 16, 4);
  RaggedPass<float, E4m3> named(c), bytes(c);
  named(true), bytes(false);
  EXPECT_EQ(named.out.values, bytes.out.values);
}

}  // namespace attention_ragged_test
}  // namespace gnomon
