// Errors and notes of the config.json reader: rule, value and byte.
#include <cmath>
#include <string>

#include "model/config_text.h"

namespace gnomon::model {
namespace config_errors_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ConfigErrors, Base) {
  for (const char* value : {"0", "1", "1.0", "0.5", "-10000", "NaN", "Infinity", "-Infinity"}) {
    const std::string reason =
        std::string("rope_theta must be finite and greater than 1, got ") + value;
    refused(llama({{"rope_theta", value}}), reason, value);
    refused(llama({{"rope_parameters", object({{"rope_theta", value}})}}), reason, value);
    refused(llama({{"rope_theta", ""}, {"rotary_emb_base", value}}), "rotary_emb_base must be",
            value);
  }
  refused(llama({{"rope_theta", "{}"}}), "rope_theta must be a number, got an object", "{}");
  for (const char* value : {"\"10000\"", "[10000]", "true"}) {
    refused(llama({{"rope_theta", value}}), "rope_theta must be a number, got ", value);
    refused(scaled({{"rope_theta", value}}), "rope_theta must be a number, got ", value);
  }
  refused(llama({{"rope_theta", "1e400"}}), "must be a number that fits a double, got 1e400",
          "1e400");
  EXPECT_THAT(notes(llama({{"rope_theta", "null"}})),
              HasSubstr("rope_theta is not given: 10000, the default of llama"));
  EXPECT_EQ(notes(llama()), "");
  const auto model = read_config(
      llama({{"rope_theta", "500000"}, {"rope_parameters", R"({"rope_theta": 20000})"}}));
  EXPECT_EQ(rotary(model).rotary.base, 20000);
  EXPECT_THAT(model.notes,
              ::testing::ElementsAre("rope_theta 500000 at the top level is not used"));
}

TEST(ConfigErrors, BasesOfOtherNames) {
  const Members gemma{{"model_type", "\"gemma3_text\""}, {"head_dim", "16"}};
  const auto with = [](Members members, const std::string& name, const std::string& value) {
    members[name] = value;
    return llama(members);
  };
  refused(with(gemma, "rope_local_base_freq", "0"), "rope_local_base_freq must be finite", "0");
  const Members modern{{"model_type", "\"modernbert\""}};
  refused(with(modern, "global_rope_theta", "1"), "global_rope_theta must be", "1");
  refused(with(modern, "local_rope_theta", "-5"), "local_rope_theta must be", "-5");
  refused(with({{"model_type", "\"chatglm\""}}, "rope_ratio", "0"),
          "rope_ratio must be finite and positive, got 0", "0");
  refused(with({{"model_type", "\"chatglm\""}}, "rope_ratio", "1e-5"),
          "10000 rope_ratio must be finite and greater than 1, got 0.1", "1e-5");
  refused(with({{"model_type", "\"dbrx\""}}, "attn_config", R"({"rope_theta": 0})"),
          "rope_theta must be", "0}");
  refused(with({{"model_type", "\"dbrx\""}}, "attn_config", "[]"),
          "attn_config must be an object, got a list", "[]");
}

TEST(ConfigErrors, WhatAScalingIs) {
  for (const char* value : {"[]", "\"linear\"", "4", "true", "[{\"type\": \"linear\"}]"}) {
    refused(llama({{"rope_scaling", value}}),
            "rope_scaling and rope_parameters must be objects", value);
    refused(llama({{"rope_parameters", value}}), "must be objects, got ", value);
  }
  for (const char* value : {"null", "{}"}) {
    EXPECT_EQ(notes(llama({{"rope_scaling", value}})), "");
    EXPECT_TRUE(std::holds_alternative<NoScaling>(
        rotary(read_config(llama({{"rope_scaling", value}}))).scaling));
  }
  refused(scaled({{"rope_type", "\"Linear\""}, {"factor", "2"}}),
          "rope_type must be default, linear, dynamic, ntk, yarn, longrope, llama3 or "
          "proportional, got Linear",
          "\"Linear\"");
  refused(scaled({{"rope_type", "1"}}), "rope_type must be a string, got 1", "1");
  refused(scaled({{"type", "[]"}}), "type must be a string, got a list", "[]");
  refused(scaled({{"factor", "2"}}), "a scaling with a factor must have rope_type",
          "{\"factor");
  refused(scaled({{"rope_type", "\"linear\""}, {"factor", "2"}, {"fcator", "3"}}),
          "the key \"fcator\" of a scaling of type linear is not understood", "3");
  refused(scaled({{"long_factor", "[]"}}),
          "the key \"long_factor\" of a scaling of type default", "[]");
  refused(scaled({{"rope_type", "\"linear\""}, {"type", "\"linear\""}, {"factor", "2"}},
                 {{"rope_scaling2", "1"}, {"rope_theta", "\"\""}}),
          "rope_theta must be a number", "\"\"");
  EXPECT_THAT(
      notes(scaled({{"rope_type", "\"linear\""}, {"type", "\"dynamic\""}, {"factor", "2"}})),
      HasSubstr("type dynamic is not used, because rope_type is given: linear"));
  EXPECT_THAT(notes(scaled({{"rope_type", "\"default\""}, {"factor", "2"}})),
              HasSubstr("factor 2 is not used by rope_type default"));
  EXPECT_THAT(
      notes(scaled({{"rope_type", "\"linear\""}, {"factor", "2"}},
                   {{"rope_parameters", R"({"rope_type": "default"})"}})),
      HasSubstr("rope_scaling and rope_parameters are both given: rope_scaling is used"));
}

TEST(ConfigErrors, Factors) {
  for (const char* type : {"linear", "ntk", "dynamic", "yarn", "llama3"}) {
    const std::string name = std::string("\"") + type + "\"";
    if (type != std::string("yarn"))
      for (const char* missing : {"", "null"})
        refused(scaled({{"type", name}, {"factor", missing}}),
                std::string("a scaling of type ") + type + " must have factor", "{\"");
    for (const char* value : {"0", "-2", "NaN", "Infinity", "0.0"})
      refused(scaled({{"type", name}, {"factor", value}}),
              std::string("factor must be finite and positive, got ") + value, value);
    for (const char* value : {"\"2\"", "[2]", "false"})
      refused(scaled({{"type", name}, {"factor", value}}), "factor must be a number, got ",
              value);
  }
  EXPECT_THAT(notes(scaled({{"type", "\"linear\""}, {"factor", "0.5"}})),
              HasSubstr("factor 0.5 is less than 1: the context shrinks"));
  refused(scaled({{"type", "\"dynamic\""}, {"factor", "0.5"}}),
          "factor must be finite and at least 1, got 0.5", "0.5");
  refused(scaled({{"type", "\"linear\""}, {"factor", "5e-324"}}),
          "the frequencies must be finite", "{\"factor");
  refused(scaled({{"type", "\"proportional\""}, {"factor", "0"}}),
          "factor must be finite and positive, got 0", "0");
  refused(scaled({{"type", "\"dynamic\""}, {"alpha", "-3"}}),
          "alpha must be finite and positive, got -3", "-3");
  EXPECT_THAT(notes(scaled({{"type", "\"dynamic\""},
                            {"factor", "2"},
                            {"original_max_position_embeddings", "2048"}})),
              HasSubstr("original_max_position_embeddings is not used by dynamic scaling"));
}

Members yarn(const std::string& name = "", const std::string& value = "") {
  Members members{
      {"rope_type", "\"yarn\""}, {"factor", "4"}, {"original_max_position_embeddings", "1024"}};
  if (!name.empty()) members[name] = value;
  return members;
}

TEST(ConfigErrors, Yarn) {
  EXPECT_EQ(notes(scaled(yarn())), "");
  for (const char* name : {"beta_fast", "beta_slow", "attention_factor"})
    for (const char* value : {"-1", "NaN", "Infinity"})
      refused(scaled(yarn(name, value)), std::string(name) + " must be finite", value);
  refused(scaled(yarn("attention_factor", "0")),
          "attention_factor must be finite and positive, got 0", "0");
  refused(scaled(yarn("attn_factor", "2")), "attn_factor is not understood, got 2", "2");
  EXPECT_EQ(notes(scaled(yarn("attn_factor", "1"))), "");
  refused(scaled(yarn("truncate", "1")), "truncate must be true or false, got 1", "1");
  refused(scaled(yarn("mscale", "\"1\"")), "mscale must be a number, got \"1\"", "\"1\"");
  // mscale_all_dim -10 / ln 4 makes a magnitude of 0, by which mscale's is divided.
  Members cancelled = yarn("mscale_all_dim", "-7.213475204444817");
  cancelled["mscale"] = "1";
  refused(scaled(cancelled), "must be finite and positive, got ", "{\"factor");
  for (const char* name : {"beta_fast", "beta_slow"}) {
    const auto model = read_config(scaled(yarn(name, "0")));
    EXPECT_EQ(std::get<YarnScaling>(rotary(model).scaling),
              std::get<YarnScaling>(rotary(read_config(scaled(yarn()))).scaling));
  }
  EXPECT_THAT(notes(scaled(yarn("beta_fast", "0.5"))),
              HasSubstr("beta_fast 0.5 is less than beta_slow 1"));
}

TEST(ConfigErrors, OriginalLength) {
  constexpr const char* name = "original_max_position_embeddings";
  for (const char* value : {"0", "-1", "1099511627777"})
    refused(scaled(yarn(name, value)), std::string(name) + " must be 1 to 1099511627776, got ",
            value);
  for (const char* value : {"1.5", "\"1024\"", "[1024]", "NaN", "true"})
    refused(scaled(yarn(name, value)), std::string(name) + " must be an integer, got ", value);
  refused(scaled(yarn(name, "1e30")), "must be at most 2^53 unless written as an integer",
          "1e30");
  EXPECT_EQ(notes(scaled(yarn(name, "1024.0"))), "");
  const auto missing = read_config(scaled(yarn(name, "")));
  EXPECT_EQ(std::get<YarnScaling>(rotary(missing).scaling).original_length, 4096);
  EXPECT_THAT(missing.notes,
              ::testing::Contains("original_max_position_embeddings is not given: "
                                  "max_position_embeddings 4096 is used"));
  // The top-level value takes precedence.
  const auto both =
      read_config(scaled(yarn(), {{name, "2048"}, {"max_position_embeddings", "8192"}}));
  EXPECT_EQ(std::get<YarnScaling>(rotary(both).scaling).original_length, 2048);
  EXPECT_THAT(both.notes, ::testing::Contains(HasSubstr("1024 of the scaling is not used")));
}

// Versions of transformers differ in the value that they use (issue 38224).
TEST(ConfigErrors, YarnFactorHasTwoMeanings) {
  const std::string text = scaled(yarn("factor", "40"));
  for (const auto& [option, factor, says] :
       {std::tuple(YarnFactor::as_written, 40.0,
                   "the former is used, as in transformers of 2026"),
        std::tuple(YarnFactor::by_lengths, 4.0,
                   "the latter is used, as in transformers of 2025")}) {
    const auto model = read_config(text, {.yarn_factor = option});
    EXPECT_EQ(std::get<YarnScaling>(rotary(model).scaling).factor, factor);
    EXPECT_THAT(model.notes,
                ::testing::ElementsAre(::testing::AllOf(HasSubstr("factor is 40"),
                                                        HasSubstr("is 4:"), HasSubstr(says))));
  }
  const auto absent = read_config(scaled(yarn("factor", "")));
  EXPECT_EQ(std::get<YarnScaling>(rotary(absent).scaling).factor, 4);
  EXPECT_THAT(absent.notes, ::testing::ElementsAre(HasSubstr("factor is not given")));
  // Without an extended context the ratio is 1, and there is no note unless it is used.
  const std::string same = scaled(yarn("factor", "4"), {{"max_position_embeddings", "1024"}});
  EXPECT_EQ(notes(same), "");
  EXPECT_THAT(notes(same, {.yarn_factor = YarnFactor::by_lengths}), HasSubstr("the latter"));
}

std::string list_of(const std::string& value, int count) {
  std::string text = "[" + value;
  for (int i = 1; i < count; ++i) text.append(", ").append(value);
  return text + "]";
}
Members longrope(const std::string& name = "", const std::string& value = "") {
  Members members{{"rope_type", "\"longrope\""},
                  {"short_factor", list_of("1.0", 8)},
                  {"long_factor", list_of("2.0", 8)},
                  {"original_max_position_embeddings", "1024"}};
  if (!name.empty()) members[name] = value;
  return members;
}

TEST(ConfigErrors, LongRope) {
  EXPECT_EQ(notes(scaled(longrope())), "");
  for (const char* name : {"short_factor", "long_factor"}) {
    for (const char* missing : {"", "null"})
      refused(scaled(longrope(name, missing)),
              std::string("a scaling of type longrope must have ") + name, "{\"");
    for (const int size : {1, 7, 9, 16})
      refused(scaled(longrope(name, list_of("1", size))),
              std::string(name) + " must have one factor for each of 8 pairs, got " +
                  std::to_string(size),
              "[1");
    refused(scaled(longrope(name, "[]")), "one factor for each of 8 pairs, got 0", "[]");
    refused(scaled(longrope(name, "2")),
            std::string(name) + " must be a list of numbers, got 2", "2");
    for (const char* value : {"0", "-1", "NaN", "Infinity"})
      refused(scaled(longrope(name, "[1,1,1,1,1,1,1," + std::string(value) + "]")),
              std::string(name) + " must be finite and positive, got " + value, value);
    for (const char* value : {"\"1\"", "null", "[1]"})
      refused(scaled(longrope(name, "[1,1,1,1,1,1,1," + std::string(value) + "]")),
              std::string(name) + " must be a number, got ", value);
  }
  refused(scaled(longrope("original_max_position_embeddings", "1")),
          "original_max_position_embeddings must be at least 2, got 1", "{\"");
  refused(scaled(longrope("short_mscale", "1.1")), "must have long_mscale", "{\"");
  refused(scaled(longrope("long_mscale", "1.1")), "the key \"long_mscale\"", "1.1");
  EXPECT_EQ(std::get<LongRopeScaling>(rotary(read_config(scaled(longrope()))).scaling).factor,
            4);
  EXPECT_THAT(notes(scaled(longrope("original_max_position_embeddings", ""))),
              HasSubstr("original_max_position_embeddings is not given"));
}

TEST(ConfigErrors, Llama3) {
  const auto with = [](const std::string& name, const std::string& value) {
    Members members{{"rope_type", "\"llama3\""},
                    {"factor", "8"},
                    {"low_freq_factor", "1"},
                    {"high_freq_factor", "4"},
                    {"original_max_position_embeddings", "1024"}};
    members[name] = value;
    return scaled(members);
  };
  EXPECT_EQ(notes(with("factor", "8")), "");
  for (const char* name : {"low_freq_factor", "high_freq_factor"}) {
    refused(with(name, ""), std::string("a scaling of type llama3 must have ") + name, "{\"");
    refused(with(name, "0"), std::string(name) + " must be finite and positive, got 0", "0");
    refused(with(name, "NaN"), std::string(name) + " must be finite and positive", "NaN");
  }
  EXPECT_THAT(notes(with("high_freq_factor", "1")),
              HasSubstr("high_freq_factor 1 is not greater than low_freq_factor 1"));
  EXPECT_THAT(notes(with("original_max_position_embeddings", "4096")),
              HasSubstr("original_max_position_embeddings 4096 is not less than "
                        "max_position_embeddings 4096"));
}

TEST(ConfigErrors, Sections) {
  const auto vl = [](const std::string& sections, const std::string& type = "\"qwen2_vl\"") {
    return scaled({{"type", "\"mrope\""}, {"mrope_section", sections}}, {{"model_type", type}});
  };
  EXPECT_EQ(rotary(read_config(vl("[2, 3, 3]"))).axes,
            (std::vector<std::int32_t>{0, 0, 1, 1, 1, 2, 2, 2}));
  refused(vl("[2, 3, 4]"), "mrope_section does not fit 8 pairs: ", "[2, 3, 4]");
  refused(vl("[-1, 5, 4]"), "mrope_section does not fit 8 pairs: ", "[-1");
  refused(vl("[]"), "mrope_section does not fit 8 pairs: ", "[]");
  refused(vl("[2.5, 3, 3]"), "mrope_section must be an integer, got 2.5", "2.5");
  refused(vl("8"), "mrope_section must be a list of integers, got 8", "8");
  refused(vl("[9223372036854775807, 9223372036854775807, 2]"), "does not fit 8 pairs", "[9");
  EXPECT_THAT(notes(vl("[2, 3, 3]", "\"llama\"")),
              HasSubstr("mrope_section is unknown for this family"));
  EXPECT_THAT(
      notes(llama({{"model_type", "\"qwen2_vl\""}})),
      HasSubstr(
          "mrope_section is not given, and the default of the family does not fit 8 pairs"));
  refused(scaled({{"type", "\"mrope\""}, {"mrope_interleaved", "1"}}),
          "mrope_interleaved must be true or false, got 1", "1");
}

TEST(ConfigErrors, TypesThatAreRefusedByName) {
  refused(R"({"model_type": "resnet", "num_hidden_layers": 2, "rope_theta": 10000})",
          "model_type resnet is not read: it is a convolutional network without attention",
          "{");
  refused(R"({"model_type": "d_fine", "backbone_config": {"model_type": "hgnet_v2"}})",
          "model_type d_fine is not read: deformable attention samples the image at learned "
          "points; its parts: backbone_config",
          "{");
  refused(R"({"model_type": "xcodec", "semantic_model_config": {"model_type": "hubert"}})",
          "model_type xcodec has no language model; its parts: semantic_model_config", "{");
  // A part of such a model is read.
  const std::string rag = R"({"model_type": "rag", "generator": )" + llama() + "}";
  refused(rag, "model_type rag has no language model; its parts: generator", "{");
  EXPECT_EQ(read_config(rag, {.part = "generator"}).model_type, "llama");
}

}  // namespace config_errors_test
}  // namespace gnomon::model
