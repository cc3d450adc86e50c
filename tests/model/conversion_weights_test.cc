// Weight layouts of models, from their config and family.
#include <nlohmann/json.hpp>

#include "gnomon/model/conversion.h"
#include "model/config_text.h"
#include "testing.h"

namespace gnomon::model {
namespace conversion_weights_test {

using gnomon::testing::message_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ReadWeights, OfLlama) {
  const ModelWeights weights = read_weights(llama({{"num_key_value_heads", "2"}}));
  EXPECT_EQ(weights.model_type, "llama");
  EXPECT_EQ(weights.layout, WeightLayout{});
  EXPECT_EQ(weights.sizes,
            (AttentionSizes{.heads = 4, .key_heads = 2, .head_dim = 16, .rotary_dim = 16}));
  EXPECT_EQ(weights.released, Pairing::halves);
  EXPECT_THAT(weights.notes, IsEmpty());
}

// Key heads come from the reader of descriptions.
TEST(ReadWeights, KeyHeadsOfEverySpelling) {
  const auto key_heads = [](const char* type, Members more) {
    more["model_type"] = quoted(type);
    return read_weights(llama(more)).sizes.key_heads;
  };
  EXPECT_EQ(key_heads("falcon", {}), 1);
  EXPECT_EQ(key_heads("falcon", {{"multi_query", "false"}}), 4);
  EXPECT_EQ(key_heads("falcon", {{"new_decoder_architecture", "true"}, {"num_kv_heads", "2"}}),
            2);
  EXPECT_EQ(
      key_heads("chatglm", {{"multi_query_attention", "true"}, {"multi_query_group_num", "2"}}),
      2);
  EXPECT_EQ(key_heads("dbrx", {{"attn_config", R"({"kv_n_heads": 2})"}}), 2);
  EXPECT_EQ(key_heads("gpt_neox", {}), 4);
}

TEST(ReadWeights, LatentAttentionAndQuantisation) {
  const ModelWeights weights =
      read_weights(llama({{"model_type", "\"deepseek_v3\""},
                          {"kv_lora_rank", "24"},
                          {"qk_nope_head_dim", "16"},
                          {"qk_rope_head_dim", "8"},
                          {"v_head_dim", "16"},
                          {"num_key_value_heads", "4"},
                          {"rope_interleave", "true"},
                          {"quantization_config", R"({"weight_block_size": [64, 32]})"}}));
  EXPECT_EQ(weights.sizes, (AttentionSizes{.heads = 4,
                                           .key_heads = 4,
                                           .head_dim = 24,
                                           .rotary_dim = 8,
                                           .head_offset = 16,
                                           .kv_lora_rank = 24,
                                           .scale_rows = 64}));
  EXPECT_EQ(weights.released, Pairing::adjacent);
  EXPECT_THAT(weights.notes,
              ElementsAre("config.json has rope_interleave: true; change it for the output"));
}

TEST(ReadWeights, OfTheLanguageModelInAConfig) {
  const std::string text =
      R"({"model_type": "qwen2_vl", "text_config": )" +
      llama({{"model_type", "\"qwen2_vl_text\""}, {"num_key_value_heads", "2"}}) + "}";
  const ModelWeights weights = read_weights(text);
  EXPECT_EQ(weights.model_type, "qwen2_vl_text");
  EXPECT_EQ(weights.sizes.key_heads, 2);
}

TEST(ReadWeights, SaysWhatIsNotKnown) {
  const auto unknown = read_weights(llama({{"model_type", "\"made_up\""}}));
  EXPECT_THAT(unknown.notes, Contains(HasSubstr("the family made_up is unknown")));
  const auto nameless = read_weights(llama({{"model_type", ""}}));
  EXPECT_THAT(nameless.notes, Contains(HasSubstr("(model_type is not given) is unknown")));
  const auto given =
      read_weights(llama({{"model_type", "\"made_up\""}}), {.model_type = "phi3"});
  EXPECT_THAT(given.notes, IsEmpty());
  EXPECT_EQ(given.layout.fused, Fused::stacked);
}

TEST(ReadWeights, RefusesWhatCannotBeConverted) {
  const auto refused = [](const std::string& text) {
    return message_of([&] { read_weights(text); });
  };
  EXPECT_THAT(refused(R"({"model_type": "mpt"})"), HasSubstr("must have a rotary encoding"));
  EXPECT_THAT(refused(R"({"model_type": "gemma4", "text_config": {}})"),
              HasSubstr("keys must not share their rows with values"));
  EXPECT_THAT(refused(llama({{"model_type", "\"falcon\""}, {"alibi", "true"}})),
              HasSubstr("must have a rotary encoding, got alibi"));
  EXPECT_THAT(refused(llama({{"model_type", "\"chatglm\""}})),
              HasSubstr("chatglm must have multi_query_attention"));
  EXPECT_THAT(refused(llama({{"model_type", "\"wav2vec2-conformer\""},
                             {"position_embeddings_type", "\"rotary\""}})),
              HasSubstr("must rotate q and k"));
  EXPECT_THROW(read_weights("{"), FormatError);
  EXPECT_THROW(read_weights("[]"), FormatError);
}

TEST(ReadParams, WholeHeadsOfAdjacentPairs) {
  const auto meta = read_params(R"({"dim": 32, "n_heads": 4, "n_kv_heads": 2, "n_layers": 1})");
  EXPECT_EQ(meta.model_type, "meta");
  EXPECT_EQ(meta.sizes,
            (AttentionSizes{.heads = 4, .key_heads = 2, .head_dim = 8, .rotary_dim = 8}));
  EXPECT_EQ(meta.released, Pairing::adjacent);
  EXPECT_EQ(read_params(R"({"dim": 32, "n_heads": 4, "head_dim": 16})").sizes.head_dim, 16);
  const auto latent = read_params(R"({"dim": 32, "n_heads": 4, "qk_rope_head_dim": 4,
                                      "qk_nope_head_dim": 12, "kv_lora_rank": 6})");
  EXPECT_EQ(latent.sizes.head_offset, 12);
  EXPECT_EQ(latent.sizes.rotary_dim, 4);
  EXPECT_EQ(latent.sizes.head_dim, 16);
  EXPECT_EQ(latent.sizes.kv_lora_rank, 6);
  for (const char* text : {"{}", "[]", "{", R"({"n_heads": 4})", R"({"dim": 4, "n_heads": 0})"})
    EXPECT_THROW(read_params(text), FormatError) << text;
}

// Measured on the models of transformers 5.23 (tools/released).
TEST(ProjectionLayout, OfEveryFamilyThatFuses) {
  using enum Fused;
  const std::pair<const char*, WeightLayout> families[] = {
      {"llama", {}},
      {"no_such_model", {}},
      {"bloom", {.fused = grouped}},
      {"deberta", {.fused = grouped}},
      {"gpt_bigcode", {.fused = grouped}},
      {"gpt_neox", {.fused = grouped}},
      {"mpt", {.fused = stacked}},
      {"phi4_multimodal", {.fused = stacked}},
      {"codegen", {.fused = quarters}},
      {"qwen2_5_vl_vision", {.fused = stacked}},
      {"sam_vision_model", {.fused = stacked}},
      {"timesformer", {.fused = stacked}},
      {"gpt2", {.fused = stacked, .outputs = Outputs::columns}},
      {"openai-gpt", {.fused = stacked, .outputs = Outputs::columns}},
      {"qwen3_next", {.query = QueryRows::gated}},
  };
  for (const auto& [family, layout] : families)
    EXPECT_EQ(projection_layout(family), layout) << family;
  const std::vector<std::int64_t> shape{16, 48};
  EXPECT_THAT(message_of([&] {
                plan_rows(projection_layout("gpt2"),
                          {.heads = 2, .key_heads = 2, .head_dim = 8, .rotary_dim = 8},
                          "h.0.attn.c_attn.weight", shape);
              }),
              AllOf(HasSubstr("rows"), HasSubstr("must be its outputs")));
}

}  // namespace conversion_weights_test
}  // namespace gnomon::model
