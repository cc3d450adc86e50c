// Layers of GGUF files, compared with llama.cpp's loader: src/llama-hparams.cpp, and
// load_arch_hparams of src/models. 2026-10.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gnomon/model/layer.h"
#include "model/gguf_model.h"

namespace gnomon::model {
namespace gguf_layers_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Layers = std::vector<std::int64_t>;

// Returns the layers of the groups for which `is_wanted` is true.
template <typename Predicate>
Layers layers_of(const ModelDescription& model, Predicate is_wanted) {
  Layers found;
  for (const LayerGroup& group : model.groups)
    if (is_wanted(group)) found.insert(found.end(), group.layers.begin(), group.layers.end());
  std::sort(found.begin(), found.end());
  return found;
}
Layers sliding(const ModelDescription& model) {
  return layers_of(model, [](const LayerGroup& one) {
    return one.attention.left || one.attention.right || one.attention.chunk;
  });
}
Layers rotating(const ModelDescription& model) {
  return layers_of(model, [](const LayerGroup& one) { return !one.position.empty(); });
}
Layers attending(const ModelDescription& model) {
  return layers_of(model, [](const LayerGroup& one) { return one.heads != 0; });
}
const LayerGroup& group_of_layer(const ModelDescription& model, std::int64_t layer) {
  return group_of(model, layer);
}
const ScaledRotary& rotary_of(const ModelDescription& model, std::int64_t layer) {
  return std::get<ScaledRotary>(group_of(model, layer).position.at(0));
}
double base_of(const ModelDescription& model, std::int64_t layer) {
  return rotary_of(model, layer).rotary.base;
}

Model with_window(const std::string& architecture, std::uint32_t layers = 8) {
  Model model(architecture, {.layers = layers});
  model.size(".attention.sliding_window", 8).number(".rope.freq_base", 500'000);
  return model;
}

TEST(GgufLayers, DefaultPatterns) {
  EXPECT_THAT(sliding(read(with_window("gemma2"))), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(sliding(read(with_window("gpt-oss"))), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(sliding(read(with_window("gemma3"))), ElementsAre(0, 1, 2, 3, 4, 6, 7));
  EXPECT_THAT(sliding(read(with_window("gemma3n"))), ElementsAre(0, 1, 2, 3, 5, 6, 7));
  for (const char* name : {"cohere2", "afmoe", "olmo2", "llama4"})
    EXPECT_THAT(sliding(read(with_window(name))), ElementsAre(0, 1, 2, 4, 5, 6)) << name;
  EXPECT_THAT(sliding(read(with_window("smallthinker"))), ElementsAre(1, 2, 3, 5, 6, 7));
  EXPECT_THAT(sliding(read(with_window("modern-bert"))), ElementsAre(1, 2, 4, 5, 7));
  EXPECT_THAT(sliding(read(with_window("lfm2", 3))), ElementsAre(0, 1, 2));
}

TEST(GgufLayers, PatternsOfTheFile) {
  const std::string key = ".attention.sliding_window_pattern";
  for (const char* name : {"gemma2", "gemma3", "olmo2", "gpt-oss", "cohere2", "afmoe"}) {
    EXPECT_THAT(sliding(read(with_window(name, 4).booleans(key, {0, 1, 1, 0}))),
                ElementsAre(1, 2))
        << name;
    EXPECT_THAT(sliding(read(with_window(name, 4).integers(key, {1, 0, 0, 1}))),
                ElementsAre(0, 3))
        << name;
    EXPECT_THAT(sliding(read(with_window(name, 4).size(key, 3))), ElementsAre(0, 1, 3)) << name;
    EXPECT_THAT(sliding(read(with_window(name, 4).size(key, 1))), IsEmpty()) << name;
  }
  Model all = with_window("gemma3", 3);
  EXPECT_THAT(
      sliding(
          read(all.number(".x", 0).u32("gemma3.attention.sliding_window_pattern", 0).file())),
      ElementsAre(0, 1, 2));
  // This graph does not read it.
  EXPECT_THAT(sliding(read(with_window("lfm2", 3).size(key, 2))), ElementsAre(0, 1, 2));
  refused(with_window("gemma4", 4).size(key, 2),
          "gemma4.attention.sliding_window_pattern must be an array", key);
  refused(with_window("gemma2").integers(key, {1, 0}),
          "must have one value for each of 8 layers, got 2", key);
}

TEST(GgufLayers, Windows) {
  const auto olmo = read(with_window("olmo2"));
  EXPECT_EQ(group_of_layer(olmo, 0).attention.left, 7);
  EXPECT_EQ(group_of_layer(olmo, 0).attention.right, std::nullopt);
  for (const char* name : {"modern-bert", "gemma-embedding"}) {
    const LayerAttention attention = group_of(read(with_window(name)), 1).attention;
    EXPECT_EQ(attention.visibility, Visibility::bidirectional);
    EXPECT_EQ(attention.left, 4) << name;
    EXPECT_EQ(attention.right, 4) << name;
    EXPECT_EQ(group_of(read(with_window(name)), 1).unsupported, "");
  }
  EXPECT_EQ(group_of(read(Model("gemma2")), 0).attention.left, 4095);
  EXPECT_EQ(group_of(read(Model("llama4")), 0).attention.chunk, 8192);
  // Sizes that the graph replaces.
  const auto small = read(with_window("smallthinker"));
  EXPECT_EQ(group_of(small, 1).attention.left, 4095);
  EXPECT_THAT(small.notes, Contains(HasSubstr("sliding_window 8 is not used")));
  EXPECT_EQ(group_of(read(with_window("llama4")), 0).attention.chunk, 8192);
  // 0 is no window, unless the architecture has one in all files.
  for (const char* name : {"phi3", "llama4", "gemma3", "olmo2", "afmoe", "smallthinker"}) {
    const std::string key = std::string(name) + ".attention.sliding_window";
    Model none(name);
    none.u32(key, 0);
    EXPECT_THAT(sliding(read(none)), IsEmpty()) << name;
    EXPECT_THAT(read(none).notes, Not(Contains(HasSubstr("sliding_window"))));
  }
  refused(Model("gpt-oss"), "gpt-oss.attention.sliding_window is missing");
  Model empty("gpt-oss");
  empty.u32("gpt-oss.attention.sliding_window", 0);
  refused(empty, "gpt-oss.attention.sliding_window must be at least 1, got 0",
          ".attention.sliding_window");
}

TEST(GgufLayers, IgnoredWindows) {
  for (const char* name : {"phi3", "llama", "mistral3", "starcoder2", "qwen2", "qwen2moe"}) {
    const auto model = read(with_window(name));
    EXPECT_THAT(sliding(model), IsEmpty()) << name;
    EXPECT_THAT(model.notes,
                Contains("attention.sliding_window 8 is not used: in llama.cpp, no layer of " +
                         std::string(name) + " has a window"));
  }
  // Only the models with 64 layers have a window, and only their sliding layers rotate.
  const auto small = read(with_window("exaone4"));
  EXPECT_THAT(sliding(small), IsEmpty());
  EXPECT_EQ(rotating(small).size(), 8u);
  EXPECT_THAT(small.notes, Contains(HasSubstr("only models of exaone4 with 64 layers")));
  const auto large = read(Model("exaone4", {.layers = 64}));
  EXPECT_EQ(sliding(large).size(), 48u);
  EXPECT_EQ(rotating(large), sliding(large));
  EXPECT_EQ(group_of(large, 0).attention.left, 4095);
}

TEST(GgufLayers, BasesOfSlidingLayers) {
  const auto base = [](const std::string& name, bool own) {
    Model model = with_window(name, 9);
    if (own) model.number(".rope.freq_base_swa", 77);
    return base_of(read(model), 1);
  };
  for (const char* name : {"gemma3", "gemma3n", "gemma-embedding", "modern-bert"}) {
    EXPECT_EQ(base(name, false), 10'000) << name;
    EXPECT_EQ(base(name, true), 77) << name;
  }
  for (const char* name : {"afmoe", "llama4", "smallthinker"}) {
    EXPECT_EQ(base(name, false), 500'000) << name;
    EXPECT_EQ(base(name, true), 77) << name;
  }
  for (const char* name : {"gemma2", "gpt-oss"}) {
    const auto model = read(with_window(name).number(".rope.freq_base_swa", 77));
    EXPECT_EQ(base_of(model, 0), 77) << name;
    EXPECT_EQ(base_of(model, 1), 500'000) << name;
  }
  for (const char* name : {"cohere2", "olmo2", "lfm2", "llama"})
    EXPECT_EQ(base(name, true), 500'000) << name;
  EXPECT_THAT(read(with_window("olmo2").number(".rope.freq_base_swa", 77)).notes,
              Contains(HasSubstr("rope.freq_base_swa is not used")));
  // Without a window, the base of all layers is freq_base.
  const auto full = read(Model("gemma3", {.layers = 7}).number(".rope.freq_base", 500'000));
  EXPECT_EQ(full.groups.size(), 1u);
  EXPECT_THAT(full.notes,
              Contains("attention.sliding_window is not given: in llama.cpp, no layer slides"));
  EXPECT_THAT(read(Model("olmo2")).notes, Not(Contains(HasSubstr("sliding_window"))));
  EXPECT_EQ(base_of(full, 0), 500'000);
}

TEST(GgufLayers, ScalingOfSlidingLayers) {
  const auto scaling = [](const std::string& name, const std::string& type, float scale = 1) {
    Model model = with_window(name, 9);
    model.word(".rope.scaling.type", type).number(".rope.scaling.factor", 4);
    model.number(".rope.scaling.attn_factor", scale);
    return rotary_of(read(model), 1).scaling;
  };
  for (const char* name : {"gemma3", "gemma3n", "gemma-embedding", "modern-bert", "olmo2"})
    for (const char* type : {"linear", "yarn"})
      EXPECT_EQ(scaling(name, type), RopeScaling(NoScaling{})) << name;
  for (const char* name : {"cohere2", "afmoe", "llama4", "smallthinker", "lfm2"})
    EXPECT_EQ(scaling(name, "linear"), RopeScaling(LinearScaling{4})) << name;
  // The type "none" removes the factor of full layers only.
  EXPECT_EQ(scaling("afmoe", "none"), RopeScaling(LinearScaling{4}));
  EXPECT_EQ(scaling("cohere2", "none"), RopeScaling(NoScaling{}));
  // attn_factor scales cos and sin of all layers, except in OLMo 3's graph.
  EXPECT_EQ(std::get<LongRopeScaling>(scaling("gemma3", "linear", 1.5f)).attention_factor, 1.5);
  EXPECT_EQ(scaling("olmo2", "linear", 1.5f), RopeScaling(NoScaling{}));
}

TEST(GgufLayers, LayersThatDoNotRotate) {
  EXPECT_THAT(rotating(read(with_window("cohere2"))), ElementsAre(0, 1, 2, 4, 5, 6));
  EXPECT_THAT(rotating(read(with_window("afmoe").size(".attention.sliding_window_pattern", 2))),
              ElementsAre(0, 1, 2, 4, 5, 6));
  EXPECT_THAT(rotating(read(with_window("smallthinker"))), ElementsAre(1, 2, 3, 5, 6, 7));
  EXPECT_EQ(rotating(read(Model("smallthinker"))).size(), 4u);
  EXPECT_EQ(rotating(read(with_window("smallthinker", 4))).size(), 4u);
  Model none("llama4", {.layers = 8});
  none.u32("llama4.attention.sliding_window", 0);
  EXPECT_EQ(rotating(read(none)).size(), 8u);
  // Granite 4 H has no positions: the file says that the rotation is not trained.
  for (const char* name : {"granite", "granitehybrid"}) {
    Model file(name);
    file.entry(file.key(".rope.scaling.finetuned"), testing::gguf_bool, std::string(1, '\0'));
    EXPECT_THAT(rotating(read(file)), IsEmpty()) << name;
  }
  for (const char* name : {"granitemoe", "llama"}) {
    Model file(name);
    file.entry(file.key(".rope.scaling.finetuned"), testing::gguf_bool, std::string(1, '\0'));
    EXPECT_EQ(rotating(read(file)).size(), 4u) << name;
  }
  EXPECT_EQ(rotating(read(Model("granite"))).size(), 4u);
  // Baichuan: 7B rotates, 13B has ALiBi.
  EXPECT_EQ(kind_of(read(Model("baichuan", {.layers = 40})).groups[0]), "alibi");
  EXPECT_EQ(kind_of(read(Model("baichuan", {.layers = 32})).groups[0]), "rotary");
  EXPECT_EQ(kind_of(read(Model("baichuan")).groups[0]), "none");
}

TEST(GgufLayers, LayersWithoutAttention) {
  for (const char* name : {"lfm2", "lfm2moe", "granitehybrid", "jamba", "nemotron_h"}) {
    const auto model = read(Model(name).integers(".attention.head_count_kv", {0, 2, 0, 4}));
    EXPECT_THAT(attending(model), ElementsAre(1, 3)) << name;
    EXPECT_EQ(group_of(model, 1).key_heads, 2) << name;
    EXPECT_EQ(group_of(model, 3).key_heads, 4) << name;
    EXPECT_EQ(group_of(model, 3).unsupported, "") << name;
    EXPECT_EQ(group_of(model, 0).position.size(), 0u) << name;
  }
  const auto notes = [](const char* name, std::vector<std::int32_t> heads) {
    return read(Model(name).integers(".attention.head_count_kv", heads)).notes;
  };
  const auto told =
      Contains(HasSubstr("runs all layers of eurobert with the heads of the first"));
  EXPECT_THAT(notes("eurobert", {2, 2, 0, 2}), told);
  Model embedding("llama-embed");
  embedding.integers(".attention.head_count_kv", {2, 0, 2, 2});
  embedding.entry(embedding.key(".attention.causal"), testing::gguf_bool, std::string(1, '\0'));
  EXPECT_THAT(read(embedding).notes,
              Contains(HasSubstr("runs all layers of llama-embed with the heads")));
  EXPECT_THAT(notes("eurobert", {2, 2, 2, 2}), Not(told));
  // Layers with a feed-forward block have no attention.
  EXPECT_THAT(attending(read(Model("nemotron_h")
                                 .integers(".attention.head_count_kv", {0, 2, 2, 4})
                                 .integers(".feed_forward_length", {0, 8, 0, 0}))),
              ElementsAre(2, 3));
  const std::vector<std::int32_t> sections = {3, 3, 2, 0};
  for (const char* name : {"qwen3next", "qwen35", "qwen35moe"}) {
    const auto hybrid = [&] {
      return Model(name, {.layers = 8}).integers(".rope.dimension_sections", sections);
    };
    EXPECT_THAT(attending(read(hybrid())), ElementsAre(3, 7)) << name;
    EXPECT_THAT(attending(read(hybrid().size(".full_attention_interval", 3))),
                ElementsAre(2, 5))
        << name;
    EXPECT_THAT(attending(read(hybrid().integers(".attention.recurrent_layers",
                                                 {1, 0, 1, 1, 1, 1, 1, 0}))),
                ElementsAre(1, 7))
        << name;
  }
}

TEST(GgufLayers, SizesByLayer) {
  // OpenELM: heads and key heads differ by layer.
  Model openelm("openelm", {.heads = 0});
  openelm.integers(".attention.head_count", {4, 6, 8, 8});
  openelm.integers(".attention.head_count_kv", {1, 2, 2, 4}).size(".attention.key_length", 16);
  const auto grown = read(openelm);
  for (const auto& [layer, heads, keys] :
       {std::tuple(0, 4, 1), {1, 6, 2}, {2, 8, 2}, {3, 8, 4}}) {
    EXPECT_EQ(group_of(grown, layer).heads, heads);
    EXPECT_EQ(group_of(grown, layer).key_heads, keys);
    EXPECT_EQ(group_of(grown, layer).head_dim, 16);
    EXPECT_EQ(group_of(grown, layer).unsupported, "");
  }
  refused(Model("openelm").integers(".attention.head_count_kv", {2, 3, 2, 2}),
          "attention.head_count_kv must divide the heads 4, got 3", ".attention.head_count_kv");
  // Gemma 4: sliding layers have narrower heads, more key heads and another base.
  Model gemma("gemma4", {.layers = 3});
  gemma.booleans(".attention.sliding_window_pattern", {1, 1, 0});
  gemma.size(".attention.sliding_window", 8).integers(".attention.head_count_kv", {4, 4, 2});
  gemma.size(".attention.key_length", 32).size(".attention.value_length", 32);
  gemma.size(".attention.key_length_swa", 16).size(".attention.value_length_swa", 16);
  gemma.size(".rope.dimension_count", 32).size(".rope.dimension_count_swa", 16);
  gemma.number(".rope.freq_base", 1e6f)
      .factors("blk.0.attn_q_norm.weight", std::vector<float>(16, 1));
  const auto model = read(gemma);
  ASSERT_EQ(model.groups.size(), 2u);
  const LayerGroup &full = group_of(model, 2), &narrow = group_of(model, 0);
  EXPECT_EQ(std::tuple(full.head_dim, full.value_dim, full.key_heads), std::tuple(32, 32, 2));
  EXPECT_EQ(std::tuple(narrow.head_dim, narrow.value_dim, narrow.key_heads),
            std::tuple(16, 16, 4));
  EXPECT_EQ(rotary_of(model, 2).rotary.rotary_dim, 32);
  EXPECT_EQ(rotary_of(model, 0).rotary.rotary_dim, 16);
  EXPECT_EQ(base_of(model, 0), 10'000);
  for (const LayerGroup& group : model.groups) {
    EXPECT_EQ(group.unsupported, "");
    EXPECT_EQ(group.attention.softmax_scale, 1);
    EXPECT_EQ(group.attention.query_norm->norm.scope, NormScope::head);
  }
  // Only sliding layers attend in both directions, if any do.
  Model both = gemma;
  both.entry(both.key(".attention.causal"), testing::gguf_bool, std::string(1, '\0'));
  EXPECT_EQ(group_of(read(both), 0).attention.visibility, Visibility::bidirectional);
  EXPECT_EQ(group_of(read(both), 2).attention.visibility, Visibility::causal);
  const auto shared = read(gemma.size(".attention.shared_kv_layers", 1));
  EXPECT_EQ(group_of(shared, 2).unsupported, "keys and values of an earlier layer");
  EXPECT_EQ(group_of(shared, 0).unsupported, "");
  // Latent attention: the file has the one head of the compressed keys.
  Model latent("deepseek2");
  latent.size(".attention.head_count_kv", 1).size(".attention.key_length_mla", 24);
  EXPECT_EQ(group_of(read(latent), 0).key_heads, 4);
}

// StableLM: each head has weights of its own.
TEST(GgufLayers, NormsByHead) {
  const auto rows = [](const std::vector<std::uint64_t>& extents) {
    Model file("stablelm");
    std::string bytes;
    for (std::uint64_t i = 0; i < extents[0] * (extents.size() > 1 ? extents[1] : 1); ++i)
      bytes += testing::gguf_bytes(1.0f);
    file.tensor("blk.0.attn_q_norm.weight", extents, 0, bytes);
    const auto model = read(file);
    EXPECT_EQ(model.groups.at(0).unsupported, "");
    EXPECT_EQ(model.groups[0].attention.query_norm->norm.scope, NormScope::head);
    return layer_parameters(model.groups[0]).at(0).rows;
  };
  EXPECT_EQ(rows({16, 4}), 4);
  EXPECT_EQ(rows({16}), 1);
  EXPECT_EQ(rows({16, 1}), 1);
}

TEST(GgufLayers, LayersOfFurtherTokens) {
  Model model = with_window("gemma3", 13);
  const auto read_model = read(model.size(".nextn_predict_layers", 1));
  EXPECT_EQ(read_model.layers, 12);
  EXPECT_THAT(read_model.notes, Contains(HasSubstr("the last layers (1 of 13)")));
  refused(with_window("gemma3", 2).size(".nextn_predict_layers", 2),
          "gemma3.nextn_predict_layers must be 0 to 1, got 2", ".nextn_predict_layers");
}

}  // namespace gguf_layers_test
}  // namespace gnomon::model
