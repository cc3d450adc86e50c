// Tests the bytes that a decoding step allocates: a plan is borrowed, its strip is not copied.
#include <gtest/gtest.h>

#include "allocations.h"
#include "gnomon/attention/attention.h"
#include "gnomon/attention/paged_kv_cache.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/context.h"
#include "gnomon/model/config.h"
#include "gnomon/model/layer.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/decoding.h"
#include "testing.h"

namespace gnomon {
namespace attention_allocation_test {

using testing::random_numbers;
using testing::random_tensor;
using testing::Tensor;

constexpr std::int64_t heads = 32, keys = 32768, size = 8;
constexpr std::size_t strip_bytes = heads * keys * sizeof(double);  // 8 MB

template <typename Call>
std::size_t bytes_of(const Call& call) {
  const std::size_t before = testing::allocated_bytes();
  call();
  return testing::allocated_bytes() - before;
}

// One query and the keys of one key head.
struct Step {
  Tensor<float, 4> q = random_tensor<float, 4>({1, 1, heads, size}, 1);
  Tensor<float, 4> k = random_tensor<float, 4>({1, keys, 1, size}, 2);
  Tensor<float, 4> out{{1, 1, heads, size}};

  void operator()(const AttentionPlan& plan) {
    const auto seen = k.view().slice(1, 0, plan.mask.offset.value_or(0) + 1);
    attention({q.view(), seen, seen}, plan, out.view());
  }
};

class Allocation : public ::testing::Test {
 protected:
  void SetUp() override { set_threads(1); }
  void TearDown() override { set_threads(before_); }

 private:
  int before_ = threads();
};

TEST_F(Allocation, CountsWhatIsAllocated) {
  EXPECT_GE(bytes_of([] { std::vector<double> numbers(heads * keys); }), strip_bytes);
}

TEST_F(Allocation, AttentionDoesNotCopyAStrip) {
  Step step;
  const AttentionPlan plan{
      .mask = {.visibility = Visibility::causal, .offset = keys - 1},
      .bias =
          StripBias{heads, 1 - keys, random_numbers(static_cast<std::size_t>(heads * keys))}};
  step(plan);  // allocates the scratch of the thread
  EXPECT_LT(bytes_of([&] { step(plan); }), strip_bytes / 16);
}

// The numbers of sequences are borrowed, and nothing grows with the keys.
TEST_F(Allocation, ARaggedBatchAllocatesLittle) {
  constexpr std::int64_t sequences = 64, page = 16, blocks = 128, dim = 16;
  const auto q = random_tensor<float, 4>({1, sequences + 70, 2, dim}, 1);
  const auto pages = random_tensor<float, 4>({blocks, page, 2, dim}, 2);
  Tensor<float, 4> out({1, sequences + 70, 2, dim});
  Tensor<std::int32_t, 2> table({sequences, blocks});
  for (std::size_t n = 0; n < table.values.size(); ++n)
    table.values[n] = static_cast<std::int32_t>(n * 7 % blocks);
  std::vector<std::int64_t> starts{0}, lengths;
  for (std::int64_t n = 0; n < sequences; ++n) {
    starts.push_back(starts.back() + (n == 5 ? 71 : 1));  // a prompt among tokens
    lengths.push_back(100 + 20 * n);
  }
  const View<const std::int32_t, 2> block_table = std::as_const(table).view();
  AttentionPlan plan{.mask = {.visibility = Visibility::causal}};
  plan.ragged = {.query_starts = starts, .key_lengths = lengths, .block_table = block_table};
  const auto call = [&] {
    attention({.q = q.view(), .k = pages.view(), .v = pages.view()}, plan, out.view());
  };
  call();  // allocates the scratch of the thread
  EXPECT_LT(bytes_of(call), 4096U);
}

// One token of 8 query heads on 2 key heads and 1500 cached keys, on two threads.
TEST_F(Allocation, ADecodingStepInAContextAllocatesNothing) {
  constexpr std::int64_t cached = 1499, dim = 64;
  const auto q = random_tensor<float, 4>({1, 1, 8, dim}, 1);
  const auto k = random_tensor<float, 4>({1, cached + 1, 2, dim}, 2);
  const auto rotary = lower(Rotary{.rotary_dim = dim, .pairing = Pairing::halves});
  const AttentionMask mask{.visibility = Visibility::causal, .offset = cached};
  std::vector<AttentionPlan> plans(7, AttentionPlan{.mask = mask});
  plans[1].bias = lower(Alibi{.heads = 8}, -cached, cached + 1);
  plans[2].bias = SlopeBias{std::vector<double>(8, 0.01)};
  plans[3].softmax.sinks = std::vector<double>(8, 0.5);
  plans[4].mask.left = 200;
  plans[5].query_rotary.emplace(rotary, std::vector<std::int64_t>{cached});
  plans[6].softmax.cap = 30;
  Context context = Context::with_threads(2);
  const ContextScope scope(context);
  set_threads(2);
  Tensor<float, 4> out({1, 1, 8, dim}), rotated = q;
  for (std::size_t n = 0; n < plans.size(); ++n) {
    const auto step = [&] {
      rotate_at(rotated.view(), View<const std::int64_t, 1>(&cached, {1}), rotary);
      attention({q.view(), k.view(), k.view()}, plans[n], out.view());
    };
    step(), step();
    const std::size_t kept = context.kept_bytes();
    EXPECT_EQ(bytes_of(step), 0u) << n;
    EXPECT_EQ(context.kept_bytes(), kept) << n;
    EXPECT_GT(kept, 0u);
  }
}

TEST_F(Allocation, AStepOfAPagedCacheAllocatesNothing) {
  for (const CacheType type : {CacheType::f32, CacheType::bf16, CacheType::int8}) {
    PagedKvCacheShape shape;
    shape.blocks = 16;
    shape.heads = shape.head_dim = shape.value_dim = 8;
    shape.type = type;
    PagedKvCache cache(shape, lower(Rotary{.rotary_dim = 8, .pairing = Pairing::halves}));
    const std::vector<std::int64_t> sequences = {cache.start(), cache.start()};
    const auto x = random_tensor<float, 3>({2, 8, 8});
    const auto step = [&](const RotaryTable& table) {
      cache.append(x.view(), x.view(), sequences, {}, {}, &table);
      cache.block_table(sequences);
      cache.key_lengths(sequences);
    };
    for (std::int64_t token = 0; token < 40; ++token) {
      const RotaryTable table(*cache.frequencies(), std::vector<std::int64_t>{token, token});
      if (token % 16 == 0)
        step(table);  // a new block of each sequence
      else
        EXPECT_EQ(bytes_of([&] { step(table); }), 0u) << token;
    }
  }
}

TEST_F(Allocation, APlanOfAModelKeepsItsStripFromTokenToToken) {
  const model::ModelDescription t5 = model::read_config(
      R"({"model_type": "t5", "d_kv": 8, "d_model": 256, "num_heads": 32, "num_layers": 1,
          "num_decoder_layers": 2, "relative_attention_num_buckets": 32,
          "relative_attention_max_distance": 128, "vocab_size": 40, "d_ff": 8})");
  const std::string name =
      "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
  const model::Checkpoint checkpoint{{name}, [](const std::string&) {
                                       return model::CheckpointTensor{
                                           {32, heads},
                                           random_tensor<float, 2>({32, heads}, 3).values};
                                     }};
  model::ModelPlan plan(t5, checkpoint, "decoder");
  Step step;
  const auto decode = [&](std::int64_t past) {
    const Positions now = consecutive(1, past);
    plan.set_tokens({.queries = {&now, 1}, .cached = past});
    for (const std::int64_t layer : {0, 1}) {
      prepare(plan.layer(layer), step.q.view(), step.q.view());
      step(plan.layer(layer));
    }
  };
  // The strip is computed again when it is too short, each time for twice the distance.
  EXPECT_GE(bytes_of([&] { decode(keys - 3); }), strip_bytes / 2);
  decode(keys - 2);
  EXPECT_LT(bytes_of([&] { decode(keys - 1); }), strip_bytes / 16);
  ASSERT_TRUE(std::holds_alternative<StripBias>(plan.layer(0).bias));
  EXPECT_GE(std::get<StripBias>(plan.layer(0).bias).values.size() * sizeof(double),
            strip_bytes);
}

}  // namespace attention_allocation_test
}  // namespace gnomon
