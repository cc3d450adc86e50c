// Keys that only some families read, and defaults of single families, as in transformers 5.24.
#include <map>
#include <string>

#include "model/config_text.h"

namespace gnomon::model {
namespace config_families_test {

using ::testing::HasSubstr;

TEST(ConfigFamilyKeys, OtherNamesOfTheShare) {
  const auto phi = [](Members changes) {
    changes["model_type"] = "\"phi\"";
    return changes;
  };
  // Of other names, transformers reads rotary_pct in GPT-NeoX alone, instead of
  // partial_rotary_factor.
  const auto neox = [](Members changes) {
    changes["model_type"] = "\"gpt_neox\"";
    return llama(changes);
  };
  refused(neox({{"rotary_pct", "2"}}), "the rotated share of a head", "2");
  EXPECT_EQ(rotary(read_config(neox({{"rotary_pct", "0.5"}}))).rotary.rotary_dim, 8);
  EXPECT_EQ(rotary(read_config(neox({{"partial_rotary_factor", "0.5"}}))).rotary.rotary_dim, 4);
  EXPECT_THAT(notes(neox({{"partial_rotary_factor", "0.5"}})),
              HasSubstr("the key partial_rotary_factor is not used by gpt_neox"));
  for (const char* name : {"rotary_pct", "rotary_emb_fraction", "rotary_dim", "rotary_ndims"}) {
    const std::string text = llama(phi({{name, "4"}}));
    EXPECT_EQ(rotary(read_config(text)).rotary.rotary_dim, 8);
    EXPECT_THAT(notes(text), HasSubstr(std::string("the key ") + name + " is not used by phi"));
  }
  EXPECT_EQ(rotary(read_config(llama({{"model_type", "\"aquila\""}, {"rotary_pct", "0.25"}})))
                .rotary.rotary_dim,
            4);
  const std::string minimax =
      llama({{"model_type", "\"minimax\""}, {"partial_rotary_factor", "0.5"}});
  EXPECT_EQ(rotary(read_config(minimax)).rotary.rotary_dim, 16);
  EXPECT_THAT(notes(minimax), HasSubstr("minimax rotates the whole head"));
}

// Only some families read rope_interleave.
TEST(ConfigFamilyKeys, PairingOfLatentHeads) {
  const auto pairing = [](const char* family, const char* value) {
    return rotary(read_config(llama({{"model_type", quoted(family)},
                                     {"qk_nope_head_dim", "8"},
                                     {"qk_rope_head_dim", "4"},
                                     {"rope_interleave", value}})))
        .rotary.pairing;
  };
  for (const char* family : {"axk1", "deepseek_v3", "glm4_moe_lite", "mistral4", "youtu"}) {
    EXPECT_EQ(pairing(family, "true"), Pairing::adjacent) << family;
    EXPECT_EQ(pairing(family, "false"), Pairing::halves) << family;
  }
  for (const char* value : {"true", "false", ""}) {
    EXPECT_EQ(pairing("hy_v4", value), Pairing::halves) << value;
    EXPECT_EQ(pairing("minicpm3", value), Pairing::halves) << value;
    EXPECT_EQ(pairing("deepseek_v32", value), Pairing::adjacent) << value;
    EXPECT_EQ(pairing("glm_moe_dsa", value), Pairing::adjacent) << value;
  }
}

// dots3 has keys for the bases and the heads of its sliding layers.
TEST(ConfigFamilyKeys, SlidingHeadsOfDots3) {
  const auto dots3 = [](Members changes) {
    changes["model_type"] = "\"dots3_note_text\"";
    const ModelDescription model = read_config(llama(changes));
    std::map<std::string, Rotary> of;
    for (const LayerGroup& group : model.groups)
      of[group.attention.left ? "sliding" : "indexed"] = spec_of<ScaledRotary>(group).rotary;
    return of;
  };
  auto of = dots3({{"rope_theta", "5000"}, {"swa_rope_theta", "700"}});
  EXPECT_EQ(of["indexed"].base, 5000);
  EXPECT_EQ(of["sliding"].base, 700);
  of = dots3({{"rope_theta", "5000"}, {"rope_parameters", R"({"rope_theta": 600})"}});
  EXPECT_EQ(of["indexed"].base, 600);
  EXPECT_EQ(of["sliding"].base, 600);
  of = dots3({{"rope_theta", ""}, {"rope_scaling", R"({"rope_type": "default"})"}});
  EXPECT_EQ(of["sliding"].base, 80'000'000);
  of = dots3({{"qk_rope_head_dim", "32"}});
  EXPECT_EQ(of["indexed"].rotary_dim, 32);
  EXPECT_EQ(of["sliding"].rotary_dim, 64);
  of = dots3({{"swa_head_dim", "128"}, {"swa_qk_nope_head_dim", "96"}});
  EXPECT_EQ(of["sliding"].rotary_dim, 32);
  EXPECT_EQ(of["sliding"].head_offset, 96);
  of = dots3({{"swa_qk_rope_head_dim", "16"}});
  EXPECT_EQ(of["sliding"].rotary_dim, 16);
}

TEST(ConfigFamilyKeys, Defaults) {
  const auto base = [](const std::string& text) {
    return rotary(read_config(text)).rotary.base;
  };
  EXPECT_EQ(base(R"({"model_type": "hy_v3"})"), 11'158'840);
  EXPECT_EQ(base(R"({"model_type": "exaone"})"), 500'000);
  EXPECT_EQ(base(R"({"model_type": "dbrx"})"), 10'000);
  EXPECT_EQ(base(R"({"model_type": "dbrx", "rope_theta": 20000})"), 20'000);
  EXPECT_EQ(base(R"({"model_type": "dbrx", "attn_config": {"rope_theta": 500000}})"), 500'000);
  const auto mellum = read_config(R"({"model_type": "mellum", "num_hidden_layers": 2,
      "layer_types": ["sliding_attention", "full_attention"]})");
  ASSERT_EQ(mellum.groups.size(), 2u);
  EXPECT_EQ(spec_of<ScaledRotary>(mellum.groups[0]).rotary.base, 500'000);
  EXPECT_EQ(spec_of<ScaledRotary>(mellum.groups[1]).rotary.base, 10'000);
  const auto large = rotary(read_config(R"({"model_type": "mistral_large4_text"})"));
  EXPECT_EQ(std::get<YarnScaling>(large.scaling).factor, 2048);
  // A base does not replace the default scaling. It is used if the default dictionary has none.
  const auto oss = rotary(read_config(R"({"model_type": "gpt_oss", "rope_theta": 20000})"));
  EXPECT_EQ(oss.rotary.base, 20'000);
  EXPECT_EQ(std::get<YarnScaling>(oss.scaling).factor, 32);
  EXPECT_EQ(base(R"({"model_type": "gpt_oss"})"), 150'000);
  const std::string apertus = R"({"model_type": "apertus", "rope_theta": 20000})";
  EXPECT_EQ(base(apertus), 12'000'000);
  EXPECT_THAT(notes(apertus), HasSubstr("rope_theta 20000 at the top level is not used"));
}

}  // namespace config_families_test
}  // namespace gnomon::model
