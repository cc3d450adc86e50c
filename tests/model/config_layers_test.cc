// Errors and notes of the config.json reader for sizes, layers and families.
#include <string>

#include "model/config_text.h"

namespace gnomon::model {
namespace config_layers_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ConfigSizes, EachIsWholePositiveAndBounded) {
  for (const char* name : {"hidden_size", "num_attention_heads", "num_hidden_layers",
                           "max_position_embeddings", "head_dim"}) {
    for (const char* value : {"0", "-4", "-9223372036854775808", "9223372036854775807"})
      refused(llama({{name, value}}), std::string(name) + " must be 1 to ", value);
    for (const char* value : {"1.5", "NaN", "\"64\"", "[64]", "{}", "true"})
      refused(llama({{name, value}}), std::string(name) + " must be an integer, got ", value);
    for (const char* value : {"1e30", "Infinity"})
      refused(llama({{name, value}}), std::string(name) + " must be at most 2^53", value);
    refused(llama({{name, "99999999999999999999"}}), "must be an integer within 64 bits",
            "99999999999999999999");
  }
  for (const char* name : {"num_attention_heads", "num_hidden_layers", "head_dim"})
    refused(llama({{name, "65537"}}), " must be 1 to 65536, got 65537", "65537");
  refused(llama({{"hidden_size", ""}, {"n_embd", "0"}}), "n_embd must be 1 to", "0");
  EXPECT_EQ(read_config(llama({{"num_hidden_layers", "3.0"}})).layers, 3);
}

TEST(ConfigSizes, AreThereOrOfTheFamily) {
  for (const char* missing : {"", "null"}) {
    EXPECT_THAT(notes(llama({{"num_hidden_layers", missing}})),
                HasSubstr("num_hidden_layers is not given: 32, the default of llama"));
    EXPECT_THAT(notes(llama({{"max_position_embeddings", missing}})),
                HasSubstr("max_position_embeddings is not given: 2048, the default of llama"));
    for (const auto& [name, called] : {std::pair("hidden_size", "hidden_size"),
                                       {"num_attention_heads", "num_attention_heads"},
                                       {"num_hidden_layers", "num_hidden_layers"}})
      refused(llama({{"model_type", "\"internlm2\""}, {name, missing}}),
              std::string("a config of internlm2 must have ") + called, "{");
  }
}

TEST(ConfigSizes, Heads) {
  refused(llama({{"hidden_size", "66"}}),
          "hidden_size must be a multiple of num_attention_heads 4 if head_dim is not given, "
          "got 66",
          "66");
  refused(llama({{"hidden_size", "1048576"}}),
          "hidden_size must be at most 65536 times num_attention_heads 4, got 1048576",
          "1048576");
  refused(llama({{"hidden_size", "12"}}), "the number of rotated elements must be even, got 3",
          "{");
  refused(llama({{"hidden_size", "4"}}),
          "the number of rotated elements must be 2 to the head dimension 1", "{");
  EXPECT_EQ(read_config(llama({{"hidden_size", "66"}, {"head_dim", "16"}})).groups[0].head_dim,
            16);
  EXPECT_THAT(notes(llama({{"model_type", "\"qwen2_vl\""}, {"head_dim", "32"}})),
              HasSubstr("head_dim 32 is not used by qwen2_vl: it is hidden_size / "
                        "num_attention_heads, 16"));
}

TEST(ConfigSizes, ShareOfTheHead) {
  const auto phi = [](Members changes) {
    changes["model_type"] = "\"phi\"";
    return changes;
  };
  const auto partial = [&](const std::string& value) {
    return llama(phi({{"partial_rotary_factor", value}}));
  };
  EXPECT_EQ(rotary(read_config(partial("0.5"))).rotary.rotary_dim, 8);
  EXPECT_EQ(rotary(read_config(partial("0.55"))).rotary.rotary_dim, 8);  // truncated
  for (const char* value : {"0", "-0.5", "NaN", "Infinity"}) {
    refused(partial(value), "partial_rotary_factor must be finite and positive", value);
    refused(scaled({{"partial_rotary_factor", value}}),
            "partial_rotary_factor must be finite and positive", value);
  }
  for (const char* value : {"1.0001", "4", "1e300"})
    refused(partial(value), "the rotated share of a head must be at most 1, got ", value);
  for (const char* value : {"0.2", "0.01", "0.0625"})
    refused(partial(value), "the number of rotated elements must be ", value);
  refused(partial("0.2"), "must be even, got 3 (0.2 of 16 elements is 3.2, rounded down)",
          "0.2");
  refused(partial("0.01"), "must be 2 to the head dimension 16, got 0 (0.01 of 16", "0.01");
  refused(partial("\"0.5\""), "partial_rotary_factor must be a number", "\"0.5\"");
  EXPECT_THAT(notes(llama({{"model_type", "\"aquila\""},
                           {"partial_rotary_factor", "0.5"},
                           {"rotary_dim", "4"}})),
              HasSubstr("rotary_dim 4 is not used"));
  EXPECT_THAT(notes(scaled({{"partial_rotary_factor", "1.0"}},
                           phi({{"partial_rotary_factor", "0.5"}}))),
              HasSubstr("the top-level partial_rotary_factor is not used"));

  const auto gptj = [](const std::string& value) {
    return llama({{"model_type", "\"gptj\""}, {"rotary_dim", value}});
  };
  EXPECT_EQ(rotary(read_config(gptj("8"))).rotary.rotary_dim, 8);
  refused(gptj("0"), "rotary_dim must be 1 to", "0");
  refused(gptj("7"), "the number of rotated elements must be even, got 7", "7");
  refused(gptj("18"),
          "the number of rotated elements must be 2 to the head dimension 16, got 18", "18");
  refused(gptj("8.5"), "rotary_dim must be an integer, got 8.5", "8.5");
}

TEST(ConfigSizes, LatentHeads) {
  const auto deepseek = [](Members changes) {
    changes["model_type"] = "\"deepseek_v3\"";
    return llama(changes);
  };
  const LayerGroup group =
      read_config(deepseek({{"qk_nope_head_dim", "8"}, {"qk_rope_head_dim", "4"}})).groups[0];
  EXPECT_EQ(group.head_dim, 12);
  EXPECT_EQ(spec_of<ScaledRotary>(group).rotary.head_offset, 8);
  for (const char* name : {"qk_nope_head_dim", "qk_rope_head_dim"})
    for (const char* value : {"0", "-8", "65537"})
      refused(deepseek({{name, value}}), std::string(name) + " must be 1 to 65536", value);
  refused(deepseek({{"qk_rope_head_dim", "5"}}),
          "the number of rotated elements must be even, got 5", "5");
  refused(
      llama({{"model_type", "\"deepseek_v4\""}, {"head_dim", "8"}, {"qk_rope_head_dim", "8"}}),
      "qk_rope_head_dim must be less than head_dim 8, got 8", "8");
  for (const char* share : {"1.5", "2361183241434822606848"})
    refused(llama({{"model_type", "\"deepseek_v4\""}, {"partial_rotary_factor", share}}),
            "the rotated share of a head must be at most 1, got ", share);
}

TEST(ConfigLayers, Types) {
  const std::string two = R"(["full_attention", "sliding_attention"])";
  refused(llama({{"layer_types", two}}), "layer_types must name each of 4 layers, got 2", "[");
  refused(llama({{"layer_types", "[]"}}), "layer_types must name each of 4 layers, got 0",
          "[]");
  refused(llama({{"layer_types", "\"full_attention\""}}),
          "layer_types must be a list of strings", "\"full");
  refused(llama({{"layer_types", R"(["full_attention", 1, "a", "b"])"}}),
          "layer_types must be a string, got 1", "1");
  EXPECT_THAT(notes(llama({{"num_hidden_layers", "1"}, {"layer_types", two}})),
              HasSubstr("layer_types names 2 layers, the model has 1"));
  EXPECT_THAT(
      notes(llama({{"num_hidden_layers", "1"}, {"layer_types", "[\"ful_attention\"]"}})),
      HasSubstr("layer_types: \"ful_attention\" is unknown: attention is assumed"));
  // A model with a base for each known layer type has no base for other types.
  refused(llama({{"model_type", "\"modernbert\""},
                 {"num_hidden_layers", "1"},
                 {"layer_types", "[\"chunked_attention\"]"}}),
          "no frequencies are given for layers of type chunked_attention", "{");
}

TEST(ConfigLayers, RopesByType) {
  const auto with = [](const std::string& members) {
    return llama({{"num_hidden_layers", "2"},
                  {"layer_types", R"(["full_attention", "sliding_attention"])"},
                  {"rope_parameters", std::string("{").append(members).append("}")}});
  };
  const std::string full = R"("full_attention": {"rope_theta": 1e6})";
  const std::string sliding = R"("sliding_attention": {"rope_theta": 1e4})";
  EXPECT_EQ(read_config(with(full + "," + sliding)).groups.size(), 2u);
  refused(with(full), "rope_parameters must have an entry for the layer type sliding_attention",
          "{\"full");
  refused(with(full + ", \"sliding_attention\": 1"),
          "rope_parameters must be one dictionary, or one for each layer type; got 1", "1");
  // transformers 5 saves this for OLMo 3: keys next to the entries, without effect.
  const auto model = read_config(with(full + "," + sliding + ", \"rope_theta\": 10000"));
  EXPECT_EQ(model.groups.size(), 2u);
  EXPECT_TRUE(std::any_of(model.notes.begin(), model.notes.end(), [](const std::string& note) {
    return note.starts_with("the key rope_theta of rope_parameters is not used");
  }));
  refused(with(full + "," + sliding + "," + full), "full_attention occurs twice",
          "{\"rope_theta\": 1e6}}");
  refused(with(full + R"(, "sliding_attention": {"rope_theta": 0})"),
          "rope_theta must be finite", "0");
  EXPECT_THAT(notes(with(full + "," + sliding + R"(, "other": {"rope_theta": 0})")),
              HasSubstr("rope_parameters has an entry for other, the type of no layer"));
  const auto still = read_config(with(full + R"(, "sliding_attention": null)"));
  ASSERT_EQ(still.groups.size(), 2u);
  EXPECT_EQ(kind_of(still.groups[1]), "none");
}

// All lists with an entry for each layer.
TEST(ConfigLayers, ListsAreLongEnough) {
  const auto model = [](const std::string& type, const std::string& name,
                        const std::string& list, Members more = {}) {
    more["model_type"] = quoted(type);
    more[name] = list;
    return llama(more);
  };
  for (const auto& [type, name, list] :
       {std::tuple("smollm3", "no_rope_layers", "[1, 1, 0]"),
        {"llama4_text", "no_rope_layers", "[1]"},
        {"minimax", "attn_type_list", "[1, 0]"},
        {"granitemoehybrid", "layers_block_type", "[\"mamba\"]"},
        {"zamba2", "layers_block_type", "[\"mamba\", \"hybrid\"]"},
        {"nemotron_h", "hybrid_override_pattern", "\"M*M\""},
        {"step3p5", "rope_theta", "[10000.0, 20000.0]"}}) {
    SCOPED_TRACE(type);
    refused(model(type, name, list), " for each of 4 layers, got ",
            std::string(list).substr(0, 3));
  }
  EXPECT_EQ(read_config(model("smollm3", "no_rope_layers", "[1, 1, 0, 1]")).groups.size(), 2u);
  refused(model("smollm3", "no_rope_layers", "[1, 1, 0, 0.5]"),
          "no_rope_layers must be an integer", "0.5");
  refused(model("smollm3", "no_rope_layer_interval", "0"),
          "no_rope_layer_interval must be 1 to", "0");
}

TEST(ConfigLayers, ListsNumberLayersThatAreThere) {
  for (const char* number : {"-1", "4", "9223372036854775807"}) {
    refused(llama({{"model_type", "\"bamba\""},
                   {"attn_layer_indices", std::string("[0, ") + number + "]"}}),
            std::string("attn_layer_indices must be 0 to 3, got ") + number, number);
    refused(llama({{"model_type", "\"mllama_text_model\""},
                   {"cross_attention_layers", std::string("[0, ") + number + "]"}}),
            std::string("cross_attention_layers must be 0 to 3, got ") + number, number);
  }
  const std::string kimi = R"({"full_attn_layers": [4, 5]})";
  refused(llama({{"model_type", "\"kimi_linear\""}, {"linear_attn_config", kimi}}),
          "full_attn_layers must be 1 to 4, got 5", "5");
  refused(llama({{"model_type", "\"jamba\""}, {"attn_layer_offset", "8"}}),
          "attn_layer_offset must be 0 to 7, got 8", "8");
}

TEST(ConfigFamilies, OtherPositions) {
  const auto of = [](const std::string& type, Members more) {
    more["model_type"] = quoted(type);
    return llama(more);
  };
  refused(of("bert", {{"position_embedding_type", "\"rotary\""}}),
          "position_embedding_type must be absolute, relative_key or relative_key_query, got "
          "rotary",
          "\"rotary\"");
  for (const char* id : {"-1", "9223372036854775807"})
    refused(of("roberta", {{"pad_token_id", id}}),
            "pad_token_id must be 0 to 1099511627776, got ", id);
  refused(of("roberta", {{"pad_token_id", "4096"}}),
          "the position table must have more rows than its offset 4097, got 4096", "{");
  refused(of("mpt", {{"attn_config", "[]"}}), "attn_config must be an object", "[]");
  refused(of("mpt", {{"attn_config", R"({"alibi_bias_max": 0})"}}),
          "alibi_bias_max must be finite and positive, got 0", "0");
  refused(of("mpt", {{"attn_config", R"({"rope": true})"}}), "attn_config.rope of mpt",
          "{\"rope");
  const auto clipped = of("mpt", {{"attn_config", R"({"clip_qkv": 6})"}});
  EXPECT_THAT(read_config(clipped).groups.at(0).unsupported, HasSubstr("clip_qkv"));
  refused(
      of("t5",
         {{"num_heads", "4"}, {"num_layers", "2"}, {"relative_attention_num_buckets", "31"}}),
      "relative_attention_num_buckets must be even and at least 4, got 31", "31");
  refused(of("deberta-v2", {{"pos_att_type", "1"}}), "pos_att_type must be a list of strings",
          "1");
  refused(of("swin", {{"depths", "[2, -1]"}}), "depths must be 0 to 65536, got -1", "[2");
  refused(of("swin", {{"depths", "[9223372036854775807, 9223372036854775807]"}}),
          "depths must be 0 to 65536, got 9223372036854775807", "[9");
  for (const char* value : {"0", "-1", "NaN"}) {
    refused(of("granite", {{"attention_multiplier", value}}),
            "attention_multiplier must be finite and positive", value);
    refused(of("gemma2", {{"query_pre_attn_scalar", value}}),
            "query_pre_attn_scalar must be finite and positive", value);
  }
  refused(of("llama4_text", {{"attn_scale", "-0.1"}}),
          "attn_scale must not be negative, got -0.1", "-0.1");
  refused(of("llama4_text", {{"floor_scale", "0"}}), "floor_scale must be 1 to", "0");
  const std::string ministral =
      R"({"rope_type": "yarn", "factor": 2.0, "llama_4_scaling_beta": )";
  refused(of("ministral3", {{"rope_parameters", ministral + "0.1}"}}),
          "llama_4_scaling_beta requires original_max_position_embeddings", "{\"rope_type");
  refused(of("ministral3", {{"rope_parameters",
                             ministral + R"(-1, "original_max_position_embeddings": 1024})"}}),
          "llama_4_scaling_beta must not be negative, got -1", "-1");
  for (const char* base : {"1", "-3", "NaN"})
    refused(of("granite_swa",
               {{"layer_rope_theta", std::string("[10000, 0, null, ") + base + "]"}}),
            "layer_rope_theta must be 0, for layers that do not rotate, or finite and", base);
}

// Families that rotate whole heads, whatever the config says; with a scaling the share counts.
TEST(ConfigFamilies, AShareThatIsNotReadIsANote) {
  const auto model = read_config(llama({{"partial_rotary_factor", "0.5"}}));
  EXPECT_EQ(rotary(model).rotary.rotary_dim, 16);
  EXPECT_THAT(model.notes,
              Contains("the rotated share of a head, 8 of 16 elements, is not used: llama "
                       "rotates the whole head"));
  EXPECT_EQ(rotary(read_config(scaled({{"type", "\"linear\""}, {"factor", "2"}},
                                      {{"partial_rotary_factor", "0.5"}})))
                .rotary.rotary_dim,
            8);
  const auto deepseek = [](const std::string& ratios) {
    return llama(
        {{"model_type", "\"deepseek_v4\""}, {"head_dim", "512"}, {"compress_ratios", ratios}});
  };
  EXPECT_EQ(read_config(deepseek("[0, 4, 128, 0, 0]")).groups[0].layers,
            (std::vector<std::int64_t>{0, 3}));
  refused(deepseek("[0, 4, 128, 8]"), "compress_ratios must be 0, 4 or 128, got 8", "[0");
  refused(deepseek("[0, 4, 128]"), "compress_ratios must have one value for each of 4", "[0");
}

TEST(ConfigFamilies, TheListHasTheRotatedShare) {
  std::map<std::string, std::string> shares;
  for (const FamilyInfo& one : families()) shares[one.model_type] = one.rotated;
  for (const auto& [type, share] : {std::pair("chatglm", "0.5"),
                                    {"codegen", "64 elements"},
                                    {"gptj", "64 elements"},
                                    {"bamba", "0.5"},
                                    {"deepseek_v4", "0.125"},
                                    {"llama", "all"}})
    EXPECT_EQ(shares[type], share) << type;
}

TEST(ConfigFamilies, PhiMoeNotesItsLongFactors) {
  const Members longrope{{"type", "\"longrope\""},
                         {"short_factor", "[1, 1, 1, 1, 1, 1, 1, 1]"},
                         {"long_factor", "[2, 2, 2, 2, 2, 2, 2, 2]"},
                         {"original_max_position_embeddings", "64"}};
  EXPECT_THAT(notes(scaled(longrope, {{"model_type", "\"phimoe\""}})),
              HasSubstr("long_factor is used beyond 64 tokens"));
  EXPECT_THAT(notes(scaled(longrope)), ::testing::Not(HasSubstr("long_factor")));
}

TEST(ConfigFamilies, Unknown) {
  const auto unknown = [](Members more) {
    if (!more.contains("model_type")) more["model_type"] = "\"newmodel\"";
    return llama(more);
  };
  // A guess of the pairing is an answer only if it is asked for.
  const ConfigOptions assume{.assume_pairing = Pairing::adjacent};
  const std::string rule = "no key gives the pairing of its rotation: assume_pairing";
  refused(unknown({}), "model_type newmodel is unknown and " + rule, "\"newmodel\"");
  refused(unknown({{"model_type", ""}}), rule, "{");
  const ModelDescription model = read_config(unknown({}), assume);
  EXPECT_THAT(
      model.notes,
      ::testing::ElementsAre("the family newmodel is unknown: the keys of the config are used",
                             "the pairing is an assumption: adjacent"));
  EXPECT_EQ(rotary(model).rotary.pairing, Pairing::adjacent);
  EXPECT_EQ(
      rotary(read_config(unknown({}), {.assume_pairing = Pairing::halves})).rotary.pairing,
      Pairing::halves);
  EXPECT_EQ(read_config(unknown({{"model_type", ""}}), assume).model_type, "unknown");
  EXPECT_THAT(notes(unknown({{"model_type", ""}}), assume),
              HasSubstr("model_type is not given"));
  for (const std::string& text : {llama(), unknown({{"alibi", "true"}, {"rope_theta", ""}})})
    EXPECT_THROW(read_config(text, assume), std::invalid_argument);
  refused(unknown({{"rope_theta", ""}}),
          "model_type newmodel is unknown and no key gives its position encoding", "{");
  refused(unknown({{"model_type", "\"Llama\""}, {"rope_theta", ""}}), "model_type Llama", "{");
  refused(unknown({{"model_type", "7"}}), "model_type must be a string, got 7", "7");
  refused(unknown({{"qk_rope_head_dim", "8"}}),
          "multi-head latent attention of the unknown family", "{");
  // An unknown key about position may change the result.
  for (const char* key : {"rope_power", "yarn_everything", "relative_attention_kind",
                          "my_alibi", "rotary_swirl", "use_ntk", "position_scale"}) {
    refused(unknown({{key, "3"}}), std::string("the key \"") + key + "\" of the unknown family",
            "3", assume);
    EXPECT_THAT(notes(llama({{key, "3"}})),
                HasSubstr(std::string("the key ") + key + " is not used by llama"));
    for (const char* off : {"null", "false"}) {
      EXPECT_THAT(notes(llama({{key, off}})), "");
      EXPECT_THAT(read_config(unknown({{key, off}}), assume).notes, ::testing::SizeIs(2));
    }
  }
  for (const auto& [key, value, kind] : {std::tuple("alibi", "true", "alibi"),
                                         {"position_embedding_type", "\"alibi\"", "alibi"},
                                         {"position_embedding_type", "\"absolute\"", "learned"},
                                         {"position_embedding_type", "\"none\"", "none"}})
    EXPECT_EQ(kind_of(read_config(unknown({{key, value}, {"rope_theta", ""}})).groups[0]),
              kind);
}

TEST(ConfigFamilies, ThePartThatIsALanguageModel) {
  const std::string text =
      R"({"model_type": "llava", "text_config": )" + llama({{"rope_theta", "20000"}}) + "}";
  const auto model = read_config(text);
  EXPECT_EQ(rotary(model).rotary.base, 20000);
  EXPECT_EQ(model.model_type, "llava");
  EXPECT_THAT(model.notes,
              Contains(HasSubstr("only the language model is described: text_config")));
  refused(R"({"model_type": "llava", "text_config": )" + llama({{"rope_theta", "0"}}) + "}",
          "rope_theta must be finite and greater than 1, got 0", "0");
  refused(
      R"({"model_type": "llava", "text_config": )" + llama({{"hidden_size", "\"a\""}}) + "}",
      "hidden_size must be an integer", "\"a\"");
}

TEST(ConfigFamilies, TheirOwnDefaults) {
  const auto ministral = read_config(R"({"model_type": "ministral3"})");
  EXPECT_EQ(std::get<YarnScaling>(rotary(ministral).scaling).factor, 16);
  ASSERT_TRUE(ministral.groups[0].attention.query_scale);
  EXPECT_EQ(*ministral.groups[0].attention.query_scale, (QueryTemperature{0.1, 16384, 0}));
  EXPECT_THAT(ministral.notes,
              Contains("rope_parameters is not given: the defaults of ministral3"));
  refused(R"({"model_type": "laguna", "head_dim": 1})",
          "the defaults of laguna do not fit: ", "{");
  // A nested length, as in these defaults, is not the length of the model.
  EXPECT_THAT(notes(scaled({{"max_position_embeddings", "512"}})),
              HasSubstr("max_position_embeddings 512 of the scaling is not used"));
}

TEST(ConfigFamilies, NotesAreFewAndShort) {
  Members many;
  for (int i = 0; i < 5000; ++i) many.emplace("rope_" + std::to_string(i), "1");
  EXPECT_EQ(read_config(llama(many)).notes.size(), 100u);
  EXPECT_EQ(read_config(llama(many)).notes.back(), "more notes are omitted");
  const std::string odd = "rope\\u0007\\n" + std::string(100'000, 'x');
  for (const std::string& note : read_config(llama({{odd, "1"}})).notes) {
    EXPECT_LT(note.size(), 500u);
    EXPECT_THAT(note, HasSubstr("rope\\x07\\x0ax"));
  }
  const auto model = read_config(llama({{"model_type", "\"a\\u0000b" + odd + "\""}}),
                                 {.assume_pairing = Pairing::halves});
  EXPECT_LT(model.model_type.size(), 100u);
  EXPECT_THAT(model.model_type, ::testing::StartsWith("a\\x00brope\\x07\\x0ax"));
}

}  // namespace config_layers_test
}  // namespace gnomon::model
