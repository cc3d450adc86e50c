// Permuted rows compared with a transpose, and scores of converted weights.
#include "gnomon/model/conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "model/layer.h"
#include "testing.h"

namespace gnomon::model {
namespace conversion_test {

using std::int64_t;
using ::testing::HasSubstr;
using testing::Layer;
using testing::message_of;
using testing::Numbers;
using testing::scores;

constexpr Pairing halves = Pairing::halves, adjacent = Pairing::adjacent;

WeightLayout family(std::string_view name) { return weight_layout(name); }

using testing::at;

Numbers permuted(const RowPermutation& plan, Pairing to, const Numbers& values) {
  Numbers out(values.size());
  permute_rows(plan, to, std::as_bytes(std::span(values)),
               std::as_writable_bytes(std::span(out)));
  return out;
}

// 0, 1, 2, ...: the value of each row is its source.
Numbers ids(int64_t count) {
  Numbers numbers(at(count));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return numbers;
}

TEST(Conversion, MovesAsTheTransposeDoes) {
  // convert_llama_weights_to_hf.py: view(H, D / 2, 2).transpose(1, 2).
  for (int64_t dim = 2; dim <= 256; dim += 2)
    for (int64_t pair = 0; pair < dim / 2; ++pair)
      for (int64_t half = 0; half < 2; ++half) {
        EXPECT_EQ(source_element(halves, dim, half * (dim / 2) + pair), 2 * pair + half);
        EXPECT_EQ(source_element(adjacent, dim, 2 * pair + half), half * (dim / 2) + pair);
      }
}

TEST(Conversion, ThereAndBackIsTheIdentityForAnyBytes) {
  const RowPermutation plan{.rows = 29, .rotary_dim = 6, .starts = {1, 9, 23}};
  for (const std::size_t width : {0, 1, 2, 3, 16}) {
    std::vector<std::byte> from(29 * width), there(from.size()), back(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 % 251);
    for (const Pairing to : {halves, adjacent}) {
      permute_rows(plan, to, from, there);
      permute_rows(plan, to == halves ? adjacent : halves, there, back);
      EXPECT_EQ(back, from);
      EXPECT_EQ(there == from, width == 0);
      for (const int64_t row : {0, 7, 8, 15, 22})
        EXPECT_TRUE(std::equal(from.begin() + row * static_cast<int64_t>(width),
                               from.begin() + (row + 1) * static_cast<int64_t>(width),
                               there.begin() + row * static_cast<int64_t>(width)));
    }
  }
}

void expect_same(const Numbers& got, const Numbers& wanted, double size) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 0x1p-42 * size);
}
bool differ(const Numbers& a, const Numbers& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
  return most > 1e-3;
}

Layer converted(const Layer& layer, const WeightLayout& of, Pairing to) {
  Layer other = layer;
  for (auto& [name, tensor] : other.tensors)
    if (const auto plan = plan_rows(of, layer.sizes, name, tensor.first))
      tensor.second = permuted(*plan, to, tensor.second);
  return other;
}

TEST(Conversion, ScoresStayForEveryHeadSizeGroupingBiasAndNorm) {
  const std::string prefix = "model.layers.3.self_attn.";
  for (const int64_t dim : {8, 16, 24, 64, 80, 128, 256})
    for (const int64_t rotary : {dim, dim / 2, int64_t{4}})
      for (const int64_t keys : {1, 2, 4})
        for (const int kind : {0, 1, 2}) {  // plain; norms per head; norms of all heads
          Layer layer{
              .sizes = {.heads = 4, .key_heads = keys, .head_dim = dim, .rotary_dim = rotary},
              .tensors = {}};
          layer.add(prefix + "q_proj.weight", {4 * dim, 12}, 1);
          layer.add(prefix + "k_proj.weight", {keys * dim, 12}, 2);
          layer.add(prefix + "q_proj.bias", {4 * dim}, 3);
          layer.add(prefix + "k_proj.bias", {keys * dim}, 4);
          if (kind > 0) {
            layer.add(prefix + "q_norm.weight", {kind == 1 ? dim : 4 * dim}, 5);
            layer.add(prefix + "k_norm.weight", {kind == 1 ? dim : keys * dim}, 6);
          }
          const WeightLayout llama = family("llama");
          const Layer there = converted(layer, llama, adjacent);
          const Numbers wanted = scores(layer, halves, prefix);
          expect_same(scores(there, adjacent, prefix), wanted,
                      100.0 * static_cast<double>(dim));
          EXPECT_TRUE(differ(scores(layer, adjacent, prefix), wanted));
          EXPECT_EQ(converted(there, llama, halves).tensors, layer.tensors);
        }
}

TEST(Conversion, ScoresStayInLatentAttention) {
  // DeepSeek-V2, section 2.1: a head is [content, rotated], and all heads share one rotated
  // key.
  const AttentionSizes s{.heads = 3,
                         .key_heads = 3,
                         .head_dim = 24,
                         .rotary_dim = 8,
                         .head_offset = 16,
                         .kv_lora_rank = 10};
  for (const char* query : {"q_proj", "q_b_proj"}) {
    const std::string prefix = "model.layers.0.self_attn.";
    Layer layer{.sizes = s, .tensors = {}};
    layer.add(prefix + query + ".weight", {72, 12}, 1);
    layer.add(prefix + "kv_a_proj_with_mqa.weight", {18, 12}, 2);
    layer.add(prefix + "kv_a_proj_with_mqa.bias", {18}, 3);
    layer.add(prefix + "kv_b_proj.weight", {3 * 40, 10}, 4);
    layer.add(prefix + "kv_a_layernorm.weight", {10}, 5);
    layer.add(prefix + "q_a_proj.weight", {12, 20}, 6);
    layer.add(prefix + "q_a_layernorm.weight", {12}, 7);
    const auto score = [&](const Layer& of, Pairing pairing) {
      return testing::latent_scores(of, pairing, prefix, query);
    };
    const Layer there = converted(layer, family("deepseek_v3"), halves);
    expect_same(score(there, halves), score(layer, adjacent), 1e4);
    EXPECT_TRUE(differ(score(layer, halves), score(layer, adjacent)));
    std::set<std::string> moved;
    for (const auto& [name, tensor] : there.tensors)
      if (tensor != layer.tensors[name]) moved.insert(name.substr(prefix.size()));
    EXPECT_EQ(moved,
              (std::set<std::string>{std::string(query) + ".weight",
                                     "kv_a_proj_with_mqa.weight", "kv_a_proj_with_mqa.bias"}));
  }
}

// A fused tensor as a list of heads, outermost first: 'q', 'k' and 'v' in storage order.
void expect_fused(const std::string& of, const std::string& tensor, AttentionSizes sizes,
                  const std::string& heads) {
  sizes.head_dim = 6;
  sizes.rotary_dim = 4;
  const auto rows = static_cast<int64_t>(heads.size()) * 6;
  Numbers wanted = ids(rows);
  for (std::size_t head = 0; head < heads.size(); ++head)
    if (heads[head] != 'v') std::swap(wanted[head * 6 + 1], wanted[head * 6 + 2]);
  const auto plan = plan_rows(family(of), sizes, tensor, std::vector<int64_t>{rows, 2});
  ASSERT_TRUE(plan) << of;
  EXPECT_EQ(permuted(*plan, adjacent, ids(rows)), wanted) << of << " " << tensor;
  EXPECT_THROW(plan_rows(family(of), sizes, tensor, std::vector<int64_t>{rows + 6, 2}),
               std::invalid_argument);
}

TEST(Conversion, FusedTensorsAreCutAsTheirModelsDo) {
  const AttentionSizes four{.heads = 4, .key_heads = 4}, two{.heads = 4, .key_heads = 2},
      one{.heads = 4, .key_heads = 1};
  expect_fused("gpt_neox", "gpt_neox.layers.0.attention.query_key_value.weight", four,
               "qkvqkvqkvqkv");
  expect_fused("persimmon", "model.layers.0.self_attn.query_key_value.bias", four,
               "qkvqkvqkvqkv");
  expect_fused("falcon", "transformer.h.0.self_attention.query_key_value.weight", two,
               "qqkvqqkv");
  expect_fused("falcon", "transformer.h.0.self_attention.query_key_value.weight", one,
               "qqqqkv");
  expect_fused("internlm2", "model.layers.0.attention.wqkv.weight", two, "qqkvqqkv");
  expect_fused("phi3", "model.layers.0.self_attn.qkv_proj.weight", two, "qqqqkkvv");
  expect_fused("phi4mm", "model.layers.0.self_attn.qkv_proj.lora_B.vision.weight", two,
               "qqqqkkvv");
  expect_fused("chatglm", "transformer.encoder.layers.0.self_attention.query_key_value.bias",
               two, "qqqqkkvv");
  expect_fused("dbrx", "transformer.blocks.0.norm_attn_norm.attn.Wqkv.weight", two, "qqqqkkvv");
  expect_fused("qwen", "transformer.h.0.attn.c_attn.weight", four, "qqqqkkkkvvvv");
  expect_fused("baichuan", "model.layers.0.self_attn.W_pack.weight", four, "qqqqkkkkvvvv");
  expect_fused("modernbert", "model.layers.0.attn.Wqkv.weight", four, "qqqqkkkkvvvv");
  expect_fused("phi-msft", "transformer.h.0.mixer.Wqkv.bias", four, "qqqqkkkkvvvv");
  expect_fused("codegen", "transformer.h.0.attn.qkv_proj.weight", four, "qvkqvkqvkqvk");
  expect_fused("codegen", "transformer.h.0.attn.qkv_proj.weight", {.heads = 8, .key_heads = 8},
               "qqvvkkqqvvkkqqvvkkqqvvkk");
  // A gate follows each head, as a value would, and is not rotated.
  expect_fused("qwen3_next", "model.layers.3.self_attn.q_proj.weight", two, "qvqvqvqv");
}

struct Case {
  const char* of;
  const char* tensor;
  std::vector<int64_t> shape;
  int64_t slices;  // 0: not permuted; -1: refused
};

TEST(Conversion, KnowsTensorsByName) {
  const AttentionSizes s{.heads = 4, .key_heads = 2, .head_dim = 8, .rotary_dim = 8};
  const Case cases[] = {
      {"llama", "model.layers.0.self_attn.q_proj.weight", {32, 16}, 4},
      {"llama", "model.layers.0.self_attn.k_proj.weight", {16, 16}, 2},
      {"llama", "model.layers.0.self_attn.v_proj.weight", {16, 16}, 0},
      {"llama", "model.layers.0.self_attn.o_proj.weight", {16, 32}, 0},
      {"llama", "model.layers.0.self_attn.rotary_emb.inv_freq", {4}, 0},
      {"llama", "model.layers.0.mlp.gate_proj.weight", {32, 16}, 0},
      {"llama", "model.embed_tokens.weight", {32, 16}, 0},
      {"llama", "model.layers.0.cross_attn.q_proj.weight", {7, 16}, 0},
      {"llama", "lm_head.weight", {32, 16}, 0},
      {"meta", "layers.0.attention.wq.weight", {32, 16}, 4},
      {"meta", "layers.0.attention.wk.weight", {16, 16}, 2},
      {"meta", "layers.0.attention.wv.weight", {16, 16}, 0},
      {"meta", "layers.0.attention.wq.lora_B.weight", {32, 2}, 4},
      {"gptj", "transformer.h.0.attn.q_proj.weight", {32, 16}, 4},
      {"gptj", "transformer.h.0.attn.masked_bias", {}, 0},
      {"gpt_neox", "gpt_neox.layers.0.attention.bias", {1, 1, 9, 9}, 0},
      {"esm", "esm.encoder.layer.0.attention.self.query.bias", {32}, 4},
      {"esm", "esm.encoder.layer.0.attention.self.value.bias", {32}, 0},
      {"roformer", "roformer.encoder.layer.0.crossattention.self.query.bias", {32}, 0},
      {"recurrent_gemma", "model.layers.2.temporal_block.k_proj.weight", {16, 16}, 2},
      {"olmo2", "model.layers.0.self_attn.q_norm.weight", {32}, 4},
      {"olmo2", "model.layers.0.self_attn.k_norm.weight", {16}, 2},
      {"qwen3", "model.layers.0.self_attn.k_norm.weight", {8}, 1},
      {"cohere", "model.layers.0.self_attn.q_norm.weight", {4, 8}, 4},
      {"cohere", "model.layers.0.self_attn.q_norm.weight", {5, 8}, -1},
      {"persimmon", "model.layers.0.self_attn.q_layernorm.bias", {8}, 1},
      {"stablelm", "model.layers.0.self_attn.k_layernorm.norms.1.weight", {8}, 1},
      {"qwen2_5_vl", "visual.blocks.0.attn.qkv.weight", {7, 16}, 0},
      {"gemma3", "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight", {7}, 0},
      {"gemma3", "language_model.model.layers.0.self_attn.q_proj.weight", {32, 16}, 4},
      {"deepseek_v32", "model.layers.0.self_attn.indexer.wq_b.weight", {7, 16}, 0},
      {"qwen3_next", "model.layers.0.linear_attn.in_proj_qkvz.weight", {7, 16}, 0},
      {"llama", "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", {2, 16}, 0},
      {"llama", "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", {32, 2}, 4},
      {"llama", "x.self_attn.k_proj.lora_B.default.weight", {16, 2}, 2},
      {"llama", "x.self_attn.k_proj.base_layer.weight", {16, 16}, 2},
      {"llama", "x.self_attn.k_proj.lora_magnitude_vector", {1, 16}, 2},
      {"llama", "x.self_attn.k_proj.lora_magnitude_vector.weight", {16}, 2},
      {"llama", "x.self_attn.k_proj.lora_embedding_B", {16, 2}, -1},
      // Quantised.
      {"llama", "x.self_attn.q_proj.qweight", {2, 32}, -1},
      {"llama", "x.self_attn.q_proj.scales", {2, 32}, -1},
      {"llama", "x.self_attn.q_proj.weight.absmax", {8}, -1},
      {"llama", "x.self_attn.q_proj.weight_packed", {32, 2}, -1},
      {"llama", "x.self_attn.q_proj.weight", {256, 1}, -1},
      {"llama", "x.self_attn.q_proj.SCB", {32}, -1},
      {"llama", "x.self_attn.o_proj.qweight", {2, 32}, 0},
      {"llama", "x.self_attn.q_proj.weight_scale", {}, 0},
      {"llama", "x.self_attn.q_proj.weight_scale", {1}, 0},
      {"llama", "x.self_attn.q_proj.weight_scale", {32, 1}, 4},
      {"llama", "x.self_attn.q_proj.weight_scale", {5, 1}, -1},
      {"llama", "x.self_attn.q_proj.input_scale", {}, 0},
      {"llama", "x.self_attn.k_proj.k_scale", {1}, 0},
      {"llama", "x.self_attn.k_scale", {1}, 0},
      {"llama", "x.self_attn.k_scale", {2}, -1},
      // Named after q or k, but unknown.
      {"other", "model.layers.0.self_attn.q_proj.weight", {32, 16}, 4},
      {"other", "model.layers.0.self_attn.qkv_proj.weight", {64, 16}, -1},
      {"llama", "model.layers.0.self_attn.linear_q_adapter_list.0.weight", {32, 4}, -1},
      {"llama", "model.layers.0.self_attn.kv_proj.weight", {32, 4}, -1},
      {"llama", "model.layers.0.self_attn.kv_a_proj_with_mqa.weight", {32, 4}, -1},
      {"llama", "model.layers.0.self_attn.q_proj.weight", {40, 16}, -1},
      {"llama", "model.layers.0.self_attn.q_proj.weight", {}, -1},
      {"llama", "model.layers.0.self_attn.q_proj", {32}, -1},
  };
  for (const Case& one : cases) {
    const std::string message = message_of([&] {
      const auto plan = plan_rows(family(one.of), s, one.tensor, one.shape);
      EXPECT_EQ(plan ? static_cast<int64_t>(plan->starts.size()) : 0, one.slices) << one.tensor;
    });
    if (one.slices >= 0)
      EXPECT_EQ(message, "") << one.tensor;
    else
      EXPECT_THAT(message, HasSubstr(one.tensor));
  }
}

TEST(Conversion, ScalesOfBlocksStayWhereSlicesLieWithinThem) {
  // DeepSeek-V3: heads of 128 + 64, one scale for 128 rows.
  AttentionSizes s{.heads = 128,
                   .key_heads = 128,
                   .head_dim = 192,
                   .rotary_dim = 64,
                   .head_offset = 128,
                   .kv_lora_rank = 512};
  const WeightLayout of = family("deepseek_v3");
  const std::string prefix = "model.layers.0.self_attn.";
  const auto plan = [&](const std::string& name, std::vector<int64_t> shape) {
    return plan_rows(of, s, prefix + name, shape);
  };
  EXPECT_TRUE(plan("q_b_proj.weight", {24576, 1536}));
  EXPECT_FALSE(plan("q_b_proj.weight_scale_inv", {192, 12}));
  EXPECT_FALSE(plan("kv_a_proj_with_mqa.weight_scale_inv", {5, 56}));
  s.scale_rows = 80;
  EXPECT_THAT(message_of([&] { plan("q_b_proj.weight_scale_inv", {308, 12}); }),
              HasSubstr("one per block of 80 rows"));
}

TEST(Conversion, ModelsThatCannotBeConvertedAreRefusedByName) {
  EXPECT_EQ(weight_layout("no_such_model"), WeightLayout{});
  EXPECT_EQ(weight_layout("qwen3_next").query, QueryRows::gated);
  EXPECT_THAT(message_of([] { weight_layout("mpt"); }),
              HasSubstr("must have a rotary encoding, got mpt"));
  EXPECT_THAT(message_of([] { weight_layout("gemma4_text"); }),
              HasSubstr("keys must not share their rows with values"));
  EXPECT_THROW(weight_layout("vjepa2"), std::invalid_argument);
}

TEST(Conversion, SizesHaveBounds) {
  const auto refused = [](AttentionSizes sizes) {
    return message_of([&] {
      plan_rows(family("llama"), sizes, "self_attn.q_proj.weight", std::vector<int64_t>{8, 8});
    });
  };
  const AttentionSizes good{.heads = 1, .key_heads = 1, .head_dim = 8, .rotary_dim = 8};
  EXPECT_EQ(refused(good), "");
  const auto with = [&](int64_t AttentionSizes::* field, int64_t value) {
    AttentionSizes sizes = good;
    sizes.*field = value;
    return refused(sizes);
  };
  EXPECT_THAT(with(&AttentionSizes::heads, 0), HasSubstr("heads must be 1 to 2^20, got 0"));
  EXPECT_THAT(with(&AttentionSizes::key_heads, -1), HasSubstr("kv_heads"));
  EXPECT_THAT(with(&AttentionSizes::head_dim, INT64_MAX), HasSubstr("head_dim"));
  EXPECT_THAT(with(&AttentionSizes::rotary_dim, 7),
              HasSubstr("rotary_dim must be even, got 7"));
  EXPECT_THAT(with(&AttentionSizes::rotary_dim, 10), HasSubstr("at most head_dim, 8, got 10"));
  EXPECT_THAT(with(&AttentionSizes::head_offset, 2), HasSubstr("at most head_dim, 8, got 10"));
  EXPECT_THAT(with(&AttentionSizes::kv_lora_rank, -1), HasSubstr("kv_lora_rank"));
  EXPECT_THAT(with(&AttentionSizes::scale_rows, 0), HasSubstr("scale_rows"));
  EXPECT_THAT(message_of([] {
                plan_rows(family("falcon"),
                          {.heads = 3, .key_heads = 2, .head_dim = 8, .rotary_dim = 8},
                          "self_attention.query_key_value.weight", std::vector<int64_t>{8, 8});
              }),
              HasSubstr("heads must be a multiple of kv_heads, 2, got 3"));

  const RowPermutation plan{.rows = 4, .rotary_dim = 2, .starts = {0}};
  std::vector<std::byte> bytes(9), out(8);
  EXPECT_THAT(message_of([&] { permute_rows(plan, halves, bytes, out); }),
              HasSubstr("4 equal rows, got 9"));
  bytes.resize(4);
  EXPECT_THAT(message_of([&] { permute_rows(plan, halves, bytes, out); }),
              HasSubstr("out must have 4 bytes, got 8"));
  EXPECT_THROW(permute_rows(plan, Pairing{}, bytes, bytes), std::invalid_argument);
}

}  // namespace conversion_test
}  // namespace gnomon::model
