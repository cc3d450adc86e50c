// Tests batches of short sequences: pieces of one tile of keys, which follow each other on a
// thread.
#include <gtest/gtest.h>

#include "attention/bounds.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace attention_short_sequences_test {

using namespace gnomon::testing;
using testing::Tensor;

// 24 sequences. index: chooses the mask, the layout, the groups, and the sinks.
Sample batch_of(std::int64_t tokens, int index) {
  Sample s;
  AttentionCase& c = s.c;
  c.batch = 24, c.queries = c.keys = tokens, c.key_heads = 3;
  c.heads = index % 2 ? 6 : 3, c.size = 64, c.values = index == 2 ? 48 : 64;
  c.plan.mask.visibility = index == 1 ? Visibility::bidirectional : Visibility::causal;
  if (index == 3) c.plan.mask.left = 7;
  if (index == 2) c.plan.softmax.sinks.assign(3, 0.5);
  c.plan.softmax.scale = 0.25;
  s.layout = index == 2 ? Layout::gaps : Layout::plain;
  s.x = {random_tensor<double, 4>({c.batch, tokens, c.heads, c.size}, 1),
         random_tensor<double, 4>({c.batch, tokens, 3, c.size}, 2),
         random_tensor<double, 4>({c.batch, tokens, 3, c.values}, 3)};
  s.text = std::to_string(tokens) + " tokens, case " + std::to_string(index);
  return s;
}

template <typename T>
class AttentionShortSequences : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16, double>;
TYPED_TEST_SUITE(AttentionShortSequences, Types);

TYPED_TEST(AttentionShortSequences, AreWithinTheErrorBounds) {
  using T = TypeParam;
  const ScopedThreads one(1);
  for (const std::int64_t tokens : {9, 17, 32, 48, 64, 67})
    for (int index = 0; index < 4; ++index) {
      Sample s = batch_of(tokens, index);
      const Placed<T> q(s.x.q, s.layout), k(s.x.k, s.layout), v(s.x.v, s.layout);
      const std::array<std::ptrdiff_t, 4> extents{s.c.batch, tokens, s.c.heads, s.c.values};
      const AttentionTensors x{q.numbers(), k.numbers(), v.numbers()};
      const AttentionOracle exact = oracle(s.c, x);
      for (Isa isa : available_isas()) {
        SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
        const ScopedIsa scope(isa);
        Placed<T> out(Tensor<double, 4>(extents, -3.0), s.layout);
        Tensor<Accumulator<T>, 3> lse({s.c.batch, s.c.heads, tokens});
        attention({q.read(), k.read(), v.read()}, s.c.plan, out.view(), lse.view());
        EXPECT_TRUE(out.gaps_intact());
        expect_within_bounds<T>(out.numbers(), lse, exact, greatest(x.v.values));
      }
    }
}

TYPED_TEST(AttentionShortSequences, HaveTheSameBitsInAnyBatchAndForAnyThreads) {
  using T = TypeParam;
  for (const std::int64_t tokens : {17, 32, 64, 67})
    for (int index = 0; index < 4; ++index) {
      Sample s = batch_of(tokens, index);
      const Placed<T> q(s.x.q, s.layout), k(s.x.k, s.layout), v(s.x.v, s.layout);
      const std::array<std::ptrdiff_t, 4> extents{s.c.batch, tokens, s.c.heads, s.c.values};
      for (Isa isa : available_isas()) {
        SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
        const ScopedIsa scope(isa);
        const auto run = [&](int threads, std::int64_t begin, std::int64_t count) {
          const ScopedThreads scoped(threads);
          Placed<T> out(Tensor<double, 4>(extents, -3.0), s.layout);
          const auto rows = [&](auto view) {
            auto shape = view.extents();
            shape[0] = count;
            return decltype(view){&view(begin, 0, 0, 0), shape, view.strides()};
          };
          attention({rows(q.read()), rows(k.read()), rows(v.read())}, s.c.plan,
                    rows(out.view()));
          return out.numbers().values;
        };
        const auto all = run(1, 0, s.c.batch);
        EXPECT_EQ(all, run(3, 0, s.c.batch));
        const auto alone = run(1, 5, 1);
        const auto size = static_cast<std::ptrdiff_t>(all.size()) / s.c.batch;
        EXPECT_TRUE(std::equal(alone.begin() + 5 * size, alone.begin() + 6 * size,
                               all.begin() + 5 * size));
      }
    }
}

}  // namespace attention_short_sequences_test
}  // namespace gnomon
