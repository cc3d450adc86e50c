// Every architecture that llama.cpp names is read, or refused with a reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "gnomon/model/layer.h"
#include "model/gguf_model.h"
#include "src/model/families/family.h"
#include "testing.h"

namespace gnomon::model {
namespace gguf_architectures_test {

using ::testing::Contains;
using ::testing::HasSubstr;

std::vector<std::string> names_of_llama_cpp() {
  std::ifstream in(GNOMON_SOURCE_DIR "/tests/model/recorded/llama_cpp_architectures.txt");
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with('#')) names.push_back(line);
  return names;
}

// A file with every key that an architecture requires.
Model model_of(const std::string& architecture) {
  Model model(architecture, {.layers = 8, .heads = 4, .width = 64, .length = 4096});
  model.size(".attention.head_count_kv", 4)
      .size(".attention.sliding_window", 32)
      .size(".attention.relative_buckets_count", 32)
      .integers(".rope.dimension_sections", {2, 3, 3, 0})
      .booleans(".attention.sliding_window_pattern", {1, 1, 0, 1, 1, 0, 1, 1});
  return model;
}

TEST(GgufArchitectures, EveryNameOfLlamaCppIsReadOrRefusedWithAReason) {
  const std::vector<std::string> names = names_of_llama_cpp();
  ASSERT_GT(names.size(), 150u);
  std::size_t refused_names = 0;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const internal::Family* const row = internal::find_architecture(name);
    ASSERT_TRUE(row) << "no row: a file of this architecture is refused as unknown";
    if (row->gguf.refused.empty()) {
      const ModelDescription model = read(model_of(name));
      EXPECT_EQ(model.model_type, name);
      EXPECT_EQ(model.layers, 8);
      continue;
    }
    ++refused_names;
    refused(model_of(name),
            "the architecture " + name + " is not read: " + std::string(row->gguf.refused),
            "general.architecture");
  }
  EXPECT_LT(refused_names, 10u);
}

TEST(GgufArchitectures, EveryRowIsAnArchitectureOfLlamaCpp) {
  const auto list = names_of_llama_cpp();
  const std::set<std::string> names(list.begin(), list.end());
  for (const internal::Family& row : internal::all_families())
    EXPECT_TRUE(row.gguf.architecture.empty() ||
                names.contains(std::string(row.gguf.architecture)))
        << row.gguf.architecture;
}

TEST(GgufArchitectures, TheListNamesThemAll) {
  std::set<std::string> listed;
  for (const ArchitectureInfo& one : architectures()) {
    EXPECT_TRUE(listed.insert(one.name).second) << one.name;
    EXPECT_FALSE(one.position.empty() && one.read.starts_with("yes")) << one.name;
    EXPECT_TRUE(one.read.starts_with("yes") || one.read.starts_with("no: ")) << one.read;
  }
  for (const std::string& name : names_of_llama_cpp())
    EXPECT_TRUE(listed.contains(name)) << name;
}

// Layers 2 and 5 of 8 are full, the others have a window of 32.
Model sliding(const std::string& architecture) { return model_of(architecture); }

const LayerGroup& layer(const ModelDescription& model, std::int64_t number) {
  return group_of(model, number);
}

RotaryFrequencies frequencies(const LayerGroup& group) {
  return resolve(group, 4096).frequencies;
}

TEST(GgufArchitectures, LeadingDenseLayersOfCohere2MoeRotate) {
  const auto model = read(sliding("cohere2moe").size(".leading_dense_block_count", 3));
  EXPECT_TRUE(layer(model, 0).attention.left && !layer(model, 0).position.empty());
  EXPECT_TRUE(!layer(model, 2).attention.left && !layer(model, 2).position.empty());
  EXPECT_TRUE(layer(model, 5).position.empty());
}

TEST(GgufArchitectures, LoopsRepeatTheLayersOfNanbeige) {
  const auto model = read(model_of("nanbeige").size(".num_loops", 3));
  EXPECT_EQ(model.layers, 24);
  EXPECT_THAT(model.notes, Contains(HasSubstr("num_loops 3")));
  EXPECT_EQ(read(model_of("llama").size(".num_loops", 3)).layers, 8);
  refused(model_of("nanbeige").size(".num_loops", 1 << 14),
          "block_count times num_loops must be at most 65536, got 8 x 16384", ".num_loops");
}

TEST(GgufArchitectures, FullLayersOfStep35RotateHalf) {
  const std::vector<float> factors = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto with = [&](const std::string& name) {
    return read(sliding(name).factors("rope_freqs.weight", factors));
  };
  const auto model = with("step35");
  EXPECT_EQ(frequencies(layer(model, 0)).inv_freq.size(), 8u);
  const auto full = frequencies(layer(model, 2)).inv_freq;
  ASSERT_EQ(full.size(), 4u);
  EXPECT_NEAR(full[3], std::pow(10000, -3.0 / 4) / 4, 1e-12);
  EXPECT_EQ(frequencies(layer(with("spark2_5"), 2)).inv_freq.size(), 8u);
  const Model three = sliding("step35").factors("rope_freqs.weight", {1, 2, 3});
  EXPECT_THAT(testing::message_of([&] { read(three); }),
              HasSubstr("must have one factor for each of 4 pairs, got 3"));
}

// Most graphs of llama.cpp take the rotated dimension of the first layer for all layers.
TEST(GgufArchitectures, MostGraphsRotateAllLayersAsTheFirst) {
  const auto pairs = [](const std::string& name, std::vector<std::uint8_t> slides) {
    const auto model = read(Model(name, {.layers = 2})
                                .size(".attention.sliding_window", 32)
                                .booleans(".attention.sliding_window_pattern", slides)
                                .size(".rope.dimension_count", 8)
                                .size(".rope.dimension_count_swa", 4));
    return std::vector<std::size_t>{frequencies(layer(model, 0)).inv_freq.size(),
                                    frequencies(layer(model, 1)).inv_freq.size()};
  };
  using Pairs = std::vector<std::size_t>;
  EXPECT_EQ(pairs("spark2_5", {1, 0}), (Pairs{2, 4}));
  EXPECT_EQ(pairs("mimo2", {1, 0}), (Pairs{2, 2}));
  EXPECT_EQ(pairs("mimo2", {0, 1}), (Pairs{4, 4}));
}

TEST(GgufArchitectures, FactorsThatLlamaCppDoesNotReadAreNotUsed) {
  const std::vector<float> factors = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const char* name : {"falcon-h1", "llada", "pangu-embedded"}) {
    SCOPED_TRACE(name);
    const auto model = read(model_of(name).factors("rope_freqs.weight", factors));
    EXPECT_NEAR(frequencies(layer(model, 0)).inv_freq[7], std::pow(10000, -7.0 / 8), 1e-12);
    EXPECT_THAT(model.notes, Contains(HasSubstr("rope_freqs.weight is not used")));
  }
}

TEST(GgufArchitectures, TheScaleOfPlamo2IsThatOfItsValues) {
  const auto scale = [](const std::string& name) {
    const auto model = read(model_of(name).size(".attention.value_length", 64));
    return layer(model, 0).attention.softmax_scale;
  };
  EXPECT_DOUBLE_EQ(scale("plamo2"), 1.0 / 8);
  EXPECT_DOUBLE_EQ(scale("plamo3"), 1.0 / 4);
}

TEST(GgufArchitectures, DeepseekOcrHasNoScaling) {
  refused(model_of("deepseek2-ocr").number(".rope.scaling.factor", 4),
          "rope.scaling.factor must be 1, because llama.cpp scales the softmax by it but not",
          ".rope.scaling.factor");
  EXPECT_EQ(frequencies(layer(read(model_of("deepseek2-ocr")), 0)).inv_freq.size(), 8u);
}

TEST(GgufArchitectures, TheEpsilonOfChameleonsNormsIsFixed) {
  const std::vector<float> weight(16, 1.0f);
  const auto epsilon = [&](const std::string& name) {
    const auto model = read(model_of(name)
                                .number(".attention.layer_norm_epsilon", 0.25f)
                                .factors("blk.0.attn_q_norm.weight", weight));
    return layer(model, 0).attention.query_norm->norm.epsilon;
  };
  EXPECT_EQ(epsilon("chameleon"), 1e-5);
  EXPECT_EQ(epsilon("command-r"), 0.25);
}

TEST(GgufArchitectures, OneRowOfBiasesIsForAllHeadsOfANorm) {
  Model file("chameleon", {.heads = 2, .width = 8});
  file.tensor("blk.0.attn_q_norm.weight", {4, 2}, 0, std::string(32, 'w'));
  const ModelDescription model = read(file);
  std::vector<std::vector<float>> values;
  for (const Parameter& one : layer_parameters(layer(model, 0)))
    values.emplace_back((one.name.ends_with("weight") ? 2 : 1) * one.columns);
  ASSERT_EQ(values.size(), 4u);
  values[0] = {1, 2, 3, 4, 5, 6, 7, 8}, values[1] = {10, 20, 30, 40};
  std::vector<View<const float, 2>> views;
  for (const auto& one : values) views.push_back({one.data(), {std::ssize(one) / 4, 4}});
  const Positions tokens = consecutive(3);
  const LayerPlan plan = lower_layer(model, 0, "", {.queries = {&tokens, 1}}, views);
  EXPECT_EQ(plan.query_norm->heads, 2);
  EXPECT_EQ(plan.query_norm->weight, values[0]);
  EXPECT_EQ(plan.query_norm->bias, (std::vector<float>{10, 20, 30, 40, 10, 20, 30, 40}));

  // Three rows would be read for two heads, or two rows for three.
  const std::vector<float> three(12);
  views[1] = {three.data(), {3, 4}};
  EXPECT_EQ(
      testing::message_of([&] { lower_layer(model, 0, "", {.queries = {&tokens, 1}}, views); }),
      "[model] query_norm.bias must have 2 or 1 rows of 4 elements, got 3 x 4");
}

TEST(GgufArchitectures, OnlyLayersWithAnIndexerAreUnsupported) {
  const auto with = [](std::uint32_t keys) {
    return read(model_of("hy_v4")
                    .size(".attention.indexer.top_k", keys)
                    .size(".attention.key_length_mla", 16));
  };
  EXPECT_EQ(layer(with(0), 0).unsupported, "");
  EXPECT_THAT(layer(with(100'000), 0).unsupported, HasSubstr("an indexer"));
  const auto model = read(
      model_of("qwen4exp").integers(".attention.compress_ratios", {0, 0, 0, 0, 0, 0, 0, 4}));
  EXPECT_EQ(layer(model, 3).unsupported, "");
  EXPECT_THAT(layer(model, 7).unsupported, HasSubstr("an indexer"));
  refused(model_of("qwen4exp").integers(".attention.compress_ratios", {0, 4}),
          "must have one value for each of 8 layers, got 2", ".attention.compress_ratios");
}

TEST(GgufArchitectures, LatentHeadsOfSlidingLayersHaveTheirOwnSize) {
  const auto model = read(sliding("dots3note")
                              .size(".attention.kv_lora_rank", 8)
                              .size(".rope.dimension_count", 8)
                              .size(".attention.key_length_mla", 24)
                              .size(".attention.key_length_mla_swa", 32)
                              .size(".attention.value_length_mla", 20)
                              .size(".attention.value_length_mla_swa", 28)
                              .number(".rope.freq_base_swa", 500));
  const auto facts = [&](std::int64_t number) {
    const LayerGroup& group = layer(model, number);
    const auto& rotary = std::get<ScaledRotary>(group.position.at(0)).rotary;
    return std::vector<double>{double(group.head_dim), double(group.value_dim),
                               double(rotary.head_offset), rotary.base};
  };
  EXPECT_EQ(facts(0), (std::vector<double>{32, 28, 24, 500}));
  EXPECT_EQ(facts(2), (std::vector<double>{24, 20, 16, 10000}));
}

// llama.cpp has no KV cache for these models, and no causal mask.
TEST(GgufArchitectures, ModelsWithoutACacheAreBidirectional) {
  for (const char* name : {"bert", "dream", "eurobert", "llada", "llada-moe", "rnd1"}) {
    SCOPED_TRACE(name);
    Model model = model_of(name);
    model.entry(model.key(".attention.causal"), testing::gguf_bool, "\x01");
    const auto description = read(model);
    EXPECT_EQ(layer(description, 0).attention.visibility, Visibility::bidirectional);
    EXPECT_THAT(description.notes, Contains(HasSubstr("attention.causal is not used")));
  }
}

}  // namespace gguf_architectures_test
}  // namespace gnomon::model
