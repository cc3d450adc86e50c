// GGUF files of many architectures, compared with llama.cpp's formulas: build 10256,
// src/llama-context.cpp and ggml's rope.
#include "gnomon/model/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "model/gguf_model.h"

namespace gnomon::model {
namespace gguf_model_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// theta_scale^i, divided by the `freq_factors` of rope.
std::vector<double> plain(double base, int dim, const std::vector<double>& over = {}) {
  std::vector<double> turns;
  for (int i = 0; i < dim / 2; ++i)
    turns.push_back(std::pow(base, -2.0 * i / dim) /
                    (over.empty() ? 1 : over[static_cast<std::size_t>(i)]));
  return turns;
}

// rope_yarn of ggml: a mixture of interpolated and extrapolated angles.
std::vector<double> yarn(double base, int dim, double factor, double original,
                         double beta_fast = 32, double beta_slow = 1) {
  const auto corrected = [&](double turns) {
    return dim * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(corrected(beta_fast)));
  const double high = std::min(dim - 1.0, std::ceil(corrected(beta_slow)));
  std::vector<double> turns = plain(base, dim);
  for (int i = 0; i < dim / 2; ++i) {
    const double mix = 1 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
    double& one = turns[static_cast<std::size_t>(i)];
    one = one / factor * (1 - mix) + one * mix;
  }
  return turns;
}

// get_mscale of llama-context.cpp.
double magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

constexpr double tolerance = 8e-15;  // error of the oracle's pow, in double

void expect_frequencies(const LayerGroup& group, const std::vector<double>& wanted,
                        std::int64_t length = 4096) {
  const auto got = resolve(group, length).frequencies.inv_freq;
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], tolerance * wanted[i]) << i;
}
void expect_scales(const LayerGroup& group, double table, double softmax,
                   std::int64_t length = 4096) {
  const auto resolved = resolve(group, length);
  EXPECT_NEAR(resolved.frequencies.table_scale, table, tolerance * table);
  EXPECT_NEAR(resolved.softmax_scale, softmax, tolerance * softmax);
}

TEST(GgufModel, LlamaRotatesAdjacentPairs) {
  const auto model = read(Model("llama").number(".rope.freq_base", 500000));
  EXPECT_EQ(model.source, "x.gguf");
  EXPECT_EQ(model.model_type, "llama");
  EXPECT_EQ(model.layers, 4);
  EXPECT_EQ(model.length, 4096);
  ASSERT_EQ(model.groups.size(), 1u);
  const LayerGroup& group = model.groups[0];
  EXPECT_EQ(kind_of(group), "rotary");
  EXPECT_THAT(group.layers, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(group.head_dim, 16);
  const Rotary& rotary = spec_of<ScaledRotary>(group).rotary;
  EXPECT_EQ(rotary.pairing, Pairing::adjacent);
  EXPECT_EQ(rotary.rotary_dim, 16);
  EXPECT_EQ(rotary.head_offset, 0);
  expect_frequencies(group, plain(500000, 16));
  expect_scales(group, 1, 0.25);
  EXPECT_THAT(model.notes, ElementsAre(HasSubstr("pairs are adjacent")));
  EXPECT_THAT(read(Model("llama")).notes, Contains("rope.freq_base is not given: 10000"));
}

TEST(GgufModel, FactorsDivideTheAngles) {
  const std::vector<float> stored = {1, 1, 1.25f, 2, 4, 8, 8, 8};
  const std::vector<double> over(stored.begin(), stored.end());
  expect_frequencies(read(Model("llama").factors("rope_freqs.weight", stored)).groups[0],
                     plain(10000, 16, over));
  // freq_scale also applies, unless the type is none.
  std::vector<double> doubled = over;
  for (double& one : doubled) one *= 2;
  for (const auto& [type, wanted] : {std::pair("linear", doubled), {"none", over}})
    expect_frequencies(read(Model("llama")
                                .factors("rope_freqs.weight", stored)
                                .word(".rope.scaling.type", type)
                                .number(".rope.scaling.factor", 2))
                           .groups[0],
                       plain(10000, 16, wanted));
  // Halves (float16) are accepted as floats.
  Model halves("llama");
  std::string bytes;
  for (const float value : stored) bytes += testing::gguf_bytes(static_cast<Half>(value));
  halves.tensor("rope_freqs.weight", {8}, 1, bytes);
  expect_frequencies(read(halves).groups[0], plain(10000, 16, over));
}

TEST(GgufModel, LinearInBothSpellings) {
  const std::vector<double> slowed = plain(10000, 16, std::vector<double>(8, 4));
  expect_frequencies(read(Model("qwen2").number(".rope.scaling.factor", 4)).groups[0], slowed);
  expect_frequencies(read(Model("qwen2").number(".rope.scale_linear", 4)).groups[0], slowed);
  expect_frequencies(read(Model("qwen2").number(".rope.scaling.factor", 0)).groups[0],
                     plain(10000, 16));
}

Model yarn_model(const std::string& architecture, Sizes sizes = {}) {
  Model model(architecture, sizes);
  model.word(".rope.scaling.type", "yarn").number(".rope.scaling.factor", 4);
  model.size(".rope.scaling.original_context_length", 1024);
  return model;
}

TEST(GgufModel, Yarn) {
  const auto qwen = read(yarn_model("qwen2", {.width = 256}));
  EXPECT_EQ(spec_of<ScaledRotary>(qwen.groups[0]).rotary.pairing, Pairing::halves);
  expect_frequencies(qwen.groups[0], yarn(10000, 64, 4, 1024));
  expect_scales(qwen.groups[0], magnitude(4, 1), 0.125);
  EXPECT_THAT(qwen.notes, ElementsAre("rope.freq_base is not given: 10000"));

  Model more = yarn_model("mistral3", {.width = 256});
  more.number(".rope.scaling.yarn_beta_fast", 16).number(".rope.scaling.yarn_beta_slow", 2);
  more.number(".rope.scaling.attn_factor", 1.5).number(".rope.scaling.yarn_attn_factor", 3);
  expect_frequencies(read(more).groups[0], yarn(10000, 64, 4, 1024, 16, 2));
  expect_scales(read(more).groups[0], 1.5 * magnitude(4, 1), 0.125);
  EXPECT_THAT(read(more).notes, Contains(HasSubstr("yarn_attn_factor 3 is not used")));
  // Most graphs read none of the other keys.
  Model unread = yarn_model("qwen2", {.width = 256});
  unread.number(".rope.scaling.yarn_beta_fast", 16).number(".rope.scaling.yarn_ext_factor", 0);
  unread.number(".rope.scaling.yarn_log_multiplier", 0.5f);
  expect_frequencies(read(unread).groups[0], yarn(10000, 64, 4, 1024));
  expect_scales(read(unread).groups[0], magnitude(4, 1), 0.125);
  for (const char* key : {"yarn_beta_fast 16", "yarn_ext_factor 0", "yarn_log_multiplier 0.5"})
    EXPECT_THAT(read(unread).notes,
                Contains("rope.scaling." + std::string(key) +
                         " is not used: llama.cpp does not read it for qwen2"));

  Model unsaid("qwen2", {.width = 256});
  unsaid.word(".rope.scaling.type", "yarn").number(".rope.scaling.factor", 4);
  expect_frequencies(read(unsaid).groups[0], yarn(10000, 64, 4, 4096));
  EXPECT_THAT(
      read(unsaid).notes,
      Contains("rope.scaling.original_context_length is not given: context_length is used"));
}

TEST(GgufModel, YarnOfDividedFrequencies) {
  const std::vector<float> stored = {1, 1, 1.25f, 2, 4, 8, 8, 8};
  std::vector<double> wanted = yarn(10000, 16, 4, 1024);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] /= stored[i];
  const auto model = read(yarn_model("llama").factors("rope_freqs.weight", stored));
  expect_frequencies(model.groups[0], wanted);
  expect_scales(model.groups[0], magnitude(4, 1), 0.25);
}

// Grok's graph reads all of them. Without a mixture, the frequencies are interpolated linearly.
TEST(GgufModel, YarnOfGrok) {
  expect_frequencies(read(yarn_model("grok", {.width = 256})).groups[0],
                     yarn(10000, 64, 4, 1024, 8));
  Model linear = yarn_model("grok");
  linear.number(".rope.scaling.yarn_ext_factor", 0).number(".rope.scaling.attn_factor", 1.5);
  linear.number(".rope.scaling.yarn_attn_factor", 2);
  expect_frequencies(read(linear).groups[0], plain(10000, 16, std::vector<double>(8, 4)));
  const double scale = 0.08838834764831845;
  expect_scales(read(linear).groups[0], 3, scale);
  EXPECT_EQ(read(linear).groups[0].attention.softcap, 30);
  linear.number(".attention.output_scale", 0.25).number(".attn_logit_softcapping", 20);
  expect_scales(read(linear).groups[0], 3, 0.25);
  EXPECT_EQ(read(linear).groups[0].attention.softcap, 20);
}

// The factors depend on whether the context exceeds the original one.
TEST(GgufModel, LongRope) {
  const std::vector<float> shorter = {1, 1, 1, 1.5f, 1.5f, 2, 2, 2};
  const std::vector<float> longer = {1, 2, 4, 8, 16, 32, 64, 64};
  Model phi("phi3");
  phi.factors("rope_factors_short.weight", shorter).factors("rope_factors_long.weight", longer);
  phi.size(".rope.scaling.original_context_length", 1024);
  phi.number(".rope.scaling.attn_factor", 1.25);
  const auto model = read(phi);
  for (const std::int64_t length : {1, 1024})
    expect_frequencies(model.groups[0], plain(10000, 16, {shorter.begin(), shorter.end()}),
                       length);
  for (const std::int64_t length : {1025, 131072})
    expect_frequencies(model.groups[0], plain(10000, 16, {longer.begin(), longer.end()}),
                       length);
  expect_scales(model.groups[0], 1.25, 0.25);
  EXPECT_THAT(model.notes,
              Contains(HasSubstr("the long factors apply to contexts above 1024")));
  phi.number(".rope.scaling.factor", 2);
  std::vector<double> doubled(longer.begin(), longer.end());
  for (double& one : doubled) one *= 2;
  expect_frequencies(read(phi).groups[0], plain(10000, 16, doubled), 4096);
}

TEST(GgufModel, GemmaHasABaseForLayersThatSlide) {
  Model gemma("gemma3", {.layers = 12});
  gemma.number(".rope.freq_base", 1000000).number(".rope.scaling.factor", 8);
  gemma.size(".attention.sliding_window", 64);
  const auto model = read(gemma);
  ASSERT_EQ(model.groups.size(), 2u);
  EXPECT_THAT(model.groups[0].layers, ElementsAre(5, 11));
  expect_frequencies(model.groups[0], plain(1000000, 16, std::vector<double>(8, 8)));
  EXPECT_EQ(model.groups[1].layers.size(), 10u);
  expect_frequencies(model.groups[1], plain(10000, 16));
  expect_scales(model.groups[1], 1, 0.25);
  gemma.number(".rope.freq_base_swa", 20000);
  expect_frequencies(read(gemma).groups[1], plain(20000, 16));
  Model listed("gemma3", {.layers = 3});
  listed.number(".rope.freq_base", 1000000).size(".attention.sliding_window", 64);
  listed.booleans(".attention.sliding_window_pattern", {1, 0, 1});
  EXPECT_THAT(read(listed).groups[0].layers, ElementsAre(1));
  // Only 27B scales by the head dimension embedding_length / heads.
  Model large("gemma3", {.layers = 62, .heads = 32, .width = 5376});
  large.size(".attention.key_length", 128);
  expect_scales(read(large).groups[0], 1, 1 / std::sqrt(5376.0 / 32));
}

Model latent(const std::string& architecture, float multiplier) {
  Model model = yarn_model(architecture, {.length = 16384});
  model.size(".attention.key_length", 72).size(".attention.key_length_mla", 24);
  model.size(".attention.kv_lora_rank", 64).size(".rope.dimension_count", 8);
  if (multiplier != 0) model.number(".rope.scaling.yarn_log_multiplier", multiplier);
  return model;
}

TEST(GgufModel, LatentAttentionRotatesTheLastPart) {
  // DeepSeek V2's mscale and mscale_all_dim are 0.707, V3's are 1. The file stores a tenth.
  for (const double all_dim : {1.0, 0.707}) {
    const auto multiplier = static_cast<float>(0.1 * all_dim);
    const auto model = read(latent("deepseek2", multiplier));
    const LayerGroup& group = model.groups[0];
    EXPECT_EQ(group.head_dim, 24);
    const Rotary& rotary = spec_of<ScaledRotary>(group).rotary;
    EXPECT_EQ(rotary.head_offset, 16);
    EXPECT_EQ(rotary.pairing, Pairing::adjacent);
    expect_frequencies(group, yarn(10000, 8, 4, 1024));
    const double mscale = magnitude(4, double{multiplier} / 0.1);
    expect_scales(group, 1, mscale * mscale / std::sqrt(24.0));
  }
  // Without it, the graph uses the scale of cos and sin.
  const double plain_mscale = magnitude(4, 1);
  expect_scales(read(latent("deepseek2", 0)).groups[0], plain_mscale,
                plain_mscale * plain_mscale / std::sqrt(24.0));
}

// Mistral's graph differs from DeepSeek's: the file stores all of mscale_all_dim, and the
// softmax scale does not change.
TEST(GgufModel, MistralsMultiplierAndTemperature) {
  Model mistral = yarn_model("mistral3");
  mistral.number(".rope.scaling.yarn_log_multiplier", 1);
  expect_scales(read(mistral).groups[0], 1, 0.25);
  EXPECT_EQ(read(mistral).groups[0].attention.query_scale, std::nullopt);
  Model none = yarn_model("mistral3");
  none.number(".rope.scaling.yarn_log_multiplier", 0);
  expect_scales(read(none).groups[0], magnitude(4, 1), 0.25);
  mistral.number(".attention.temperature_scale", 0.125);
  EXPECT_EQ(read(mistral).groups[0].attention.query_scale, (QueryTemperature{0.125, 1024, 0}));
  // Mistral's graph uses the original length, DeepSeek's that of the temperature.
  mistral.size(".attention.temperature_length", 2048);
  EXPECT_EQ(read(mistral).groups[0].attention.query_scale, (QueryTemperature{0.125, 1024, 0}));
  for (const char* name : {"deepseek2", "mistral4"}) {
    Model tempered = yarn_model(name);
    tempered.number(".attention.temperature_scale", 0.125);
    refused(tempered, "attention.temperature_length is missing");
    tempered.size(".attention.temperature_length", 2048);
    EXPECT_EQ(read(tempered).groups[0].attention.query_scale,
              (QueryTemperature{0.125, 2048, 0}));
  }
  EXPECT_EQ(read(Model("llama").number(".attention.temperature_scale", 1))
                .groups[0]
                .attention.query_scale,
            std::nullopt);
}

// The axis of each pair: sections in sequence, or h and w at every third pair up to their
// sizes.
TEST(GgufModel, Sections) {
  const std::vector<std::int32_t> sections = {24, 20, 20, 0};
  std::vector<std::int32_t> sequential, interleaved;
  for (int i = 0; i < 64; ++i) {
    sequential.push_back(i < 24 ? 0 : i < 44 ? 1 : 2);
    interleaved.push_back(i % 3 == 1 && i < 60   ? 1
                          : i % 3 == 2 && i < 60 ? 2
                          : i % 3 == 0 && i < 72 ? 0
                                                 : 3);
  }
  for (const auto& [architecture, axes] :
       {std::pair("qwen2vl", sequential), {"qwen3vl", interleaved}}) {
    Model vl(architecture, {.width = 512});
    vl.integers(".rope.dimension_sections", sections);
    const auto model = read(vl);
    EXPECT_EQ(spec_of<ScaledRotary>(model.groups[0]).axes, axes) << architecture;
    EXPECT_EQ(spec_of<ScaledRotary>(model.groups[0]).rotary.pairing, Pairing::halves);
    expect_frequencies(model.groups[0], plain(10000, 128));
  }
}

TEST(GgufModel, SectionsOfSomeFiles) {
  for (const char* name : {"glm4", "glm4moe", "hunyuan_vl"}) {
    Model text(name);
    EXPECT_TRUE(spec_of<ScaledRotary>(read(text).groups[0]).axes.empty()) << name;
    EXPECT_EQ(spec_of<ScaledRotary>(read(text).groups[0]).rotary.pairing,
              std::string(name) == "glm4" ? Pairing::adjacent : Pairing::halves);
    text.integers(".rope.dimension_sections", {2, 3, 3, 0});
    const ScaledRotary rotary = spec_of<ScaledRotary>(read(text).groups[0]);
    EXPECT_EQ(rotary.rotary.pairing, Pairing::halves) << name;
    EXPECT_THAT(rotary.axes, ElementsAre(0, 0, 1, 1, 1, 2, 2, 2)) << name;
  }
  // A fourth section, and sections that repeat.
  for (const auto& [sections, axes] :
       {std::pair(std::vector<std::int32_t>{2, 2, 2, 2}, std::vector{0, 0, 1, 1, 2, 2, 3, 3}),
        {{2, 1, 2, 0}, {0, 0, 1, 2, 2, 0, 0, 1}}}) {
    const auto model = read(Model("hunyuan_vl").integers(".rope.dimension_sections", sections));
    EXPECT_EQ(spec_of<ScaledRotary>(model.groups[0]).axes, axes);
  }
  Model alpha("hunyuan_vl");
  alpha.number(".rope.scaling.alpha", 1000);
  EXPECT_NEAR(spec_of<ScaledRotary>(read(alpha).groups[0]).rotary.base,
              10000 * std::pow(1000.0, 16.0 / 14), 1e-6);
  EXPECT_THAT(read(Model("llama").number(".rope.scaling.alpha", 1000)).notes,
              Contains(HasSubstr("rope.scaling.alpha 1000 is not used")));
}

TEST(GgufModel, Llama4TempersLayersThatDoNotRotate) {
  const auto model = read(Model("llama4", {.layers = 8}));
  ASSERT_EQ(model.groups.size(), 2u);
  for (const LayerGroup& group : model.groups) {
    const bool turns = kind_of(group) == "rotary";
    EXPECT_EQ(group.layers.size(), turns ? 6u : 2u);
    EXPECT_EQ(group.attention.query_scale,
              turns ? std::nullopt : std::optional(QueryTemperature{0.1, 8192, 1}));
  }
}

TEST(GgufModel, SoftmaxScales) {
  Model granite("granite");
  expect_scales(read(granite.number(".attention.scale", 0.015625)).groups[0], 1, 0.015625);
  expect_scales(read(Model("granite").number(".attention.scale", 0)).groups[0], 1, 0.25);
  expect_scales(read(Model("gemma3n").size(".attention.sliding_window", 64)).groups[0], 1, 1);
  EXPECT_EQ(read(Model("jais")).groups[0].attention.softmax_scale, 1.0 / 16);
  const auto qwen = read(Model("qwen2").number(".attention.scale", 0.5f));
  expect_scales(qwen.groups[0], 1, 0.25);
  EXPECT_THAT(
      qwen.notes,
      Contains("attention.scale 0.5 is not used: llama.cpp does not read it for qwen2"));
}

TEST(GgufModel, AShareOfTheHead) {
  const auto model = read(Model("phi2").size(".rope.dimension_count", 6));
  EXPECT_EQ(model.groups[0].head_dim, 16);
  expect_frequencies(model.groups[0], plain(10000, 6));
  const auto wide = read(Model("qwen3").size(".attention.key_length", 32));
  EXPECT_EQ(wide.groups[0].head_dim, 32);
  expect_frequencies(wide.groups[0], plain(10000, 32));
}

TEST(GgufModel, Biases) {
  for (const char* name : {"bloom", "refact", "jina-bert-v2"}) {
    const auto model = read(Model(name));
    ASSERT_EQ(kind_of(model.groups[0]), "alibi") << name;
    EXPECT_EQ(spec_of<Alibi>(model.groups[0]), (Alibi{.heads = 4, .max_bias = 8}));
  }
  const auto mpt = read(Model("mpt").number(".attention.max_alibi_bias", 16));
  EXPECT_EQ(spec_of<Alibi>(mpt.groups[0]), (Alibi{.heads = 4, .max_bias = 16}));
  EXPECT_EQ(kind_of(read(Model("mpt")).groups[0]), "none");
  EXPECT_EQ(
      spec_of<Alibi>(read(Model("bloom").number(".attention.max_alibi_bias", 4)).groups[0])
          .max_bias,
      8);
  EXPECT_EQ(kind_of(read(Model("gpt2").number(".attention.max_alibi_bias", 4)).groups[0]),
            "none");

  Model t5("t5");
  t5.size(".attention.relative_buckets_count", 32).size(".decoder_block_count", 2);
  const auto both = read(t5);
  ASSERT_EQ(both.groups.size(), 2u);
  EXPECT_EQ(spec_of<T5Bias>(both.groups[0]),
            (T5Bias{.heads = 4, .direction = T5Direction::bidirectional}));
  EXPECT_EQ(both.groups[0].part, "encoder");
  EXPECT_EQ(spec_of<T5Bias>(both.groups[1]).direction, T5Direction::causal);
  EXPECT_THAT(both.groups[1].layers, ElementsAre(0, 1));
  EXPECT_EQ(both.groups[0].attention.softmax_scale, 1);
  EXPECT_EQ(both.groups[1].attention.visibility, Visibility::causal);
  t5.entry("t5.attention.causal", testing::gguf_bool, std::string(1, '\0'));
  EXPECT_EQ(read(t5).groups[1].attention.visibility, Visibility::bidirectional);
  Model encoder("t5encoder");
  EXPECT_EQ(read(encoder.size(".attention.relative_buckets_count", 32)).groups.size(), 1u);
}

TEST(GgufModel, TablesAndNothing) {
  Model gpt2("gpt2");
  gpt2.tensor("position_embd.weight", {64, 3}, 0, std::string(64 * 3 * 4, '\0'));
  const auto table = read(gpt2);
  EXPECT_EQ(spec_of<Learned>(table.groups[0]), (Learned{.rows = 3, .width = 64}));
  EXPECT_EQ(spec_of<Learned>(read(Model("bert")).groups[0]),
            (Learned{.rows = 4096, .width = 64}));
  EXPECT_EQ(kind_of(read(Model("gpt2")).groups[0]), "none");
  // State-space models have no heads, or a number of 0.
  for (const bool zero : {false, true}) {
    Model mamba("mamba", {.heads = 0});
    if (zero) mamba.u32("mamba.attention.head_count", 0);
    const auto model = read(mamba);
    EXPECT_EQ(kind_of(model.groups[0]), "none");
    EXPECT_THAT(model.groups[0].layers, ElementsAre(0, 1, 2, 3));
    EXPECT_EQ(model.length, 4096);
  }
  // Some layers have no heads.
  Model hybrid("falcon-h1", {.heads = 0});
  hybrid.integers(".attention.head_count", {0, 4, 0, 4});
  const auto model = read(hybrid);
  ASSERT_EQ(model.groups.size(), 2u);
  EXPECT_THAT(model.groups[0].layers, ElementsAre(1, 3));
  EXPECT_EQ(kind_of(model.groups[1]), "none");
  EXPECT_EQ(model.groups[1].head_dim, 0);
}

TEST(GgufModel, ReadsHeadsWindowsAndCaps) {
  const auto model = read(Model("gemma2", {.layers = 4})
                              .size(".attention.sliding_window", 64)
                              .size(".attention.head_count_kv", 1)
                              .number(".attn_logit_softcapping", 30));
  ASSERT_EQ(model.groups.size(), 2u);
  EXPECT_THAT(model.groups[0].layers, ElementsAre(1, 3));
  EXPECT_EQ(model.groups[0].attention.left, std::nullopt);
  EXPECT_EQ(model.groups[1].attention.left, 63);
  for (const LayerGroup& group : model.groups) {
    EXPECT_EQ(group.key_heads, 1);
    EXPECT_EQ(group.attention.softcap, 30);
    EXPECT_EQ(group.attention.visibility, Visibility::causal);
    EXPECT_EQ(group.unsupported, "");
  }
}

}  // namespace gguf_model_test
}  // namespace gnomon::model
