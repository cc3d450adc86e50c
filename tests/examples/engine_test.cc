// The engine of docs/examples on whole models, against the logits and tokens of transformers
// and of llama.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "gnomon/io/npy.h"
#include "io/temporary.h"
#include "process.h"

namespace gnomon {
namespace engine_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path models = fs::path(GNOMON_SOURCE_DIR) / "tests/model/engine";

testing::Outcome run_engine(const std::vector<std::string>& arguments) {
  return testing::run(GNOMON_ENGINE, arguments, testing::Streams::separate);
}

// Runs a prompt in one pass, then one pass for each new token, with a cache.
void expect_same(const fs::path& model, const fs::path& expected_json) {
  const Json expected = Json::parse(testing::contents(expected_json));
  const auto steps = expected["steps"].get<std::vector<long>>();
  const auto logits = expected["logits"].get<std::vector<std::vector<double>>>();
  const testing::TemporaryFolder out;
  std::vector<std::string> arguments{model, "--steps", std::to_string(steps.size()), "--logits",
                                     out / "logits.npy"};
  for (const Json& id : expected["prompt"]) arguments.push_back(id.dump());
  const auto outcome = run_engine(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;

  std::istringstream printed(outcome.output);
  EXPECT_EQ(std::vector<long>(std::istream_iterator<long>(printed), {}), steps);
  const io::Array array = io::read_npy(out / "logits.npy");
  const auto got = array.view<double, 2>();
  ASSERT_EQ(got.extent(0), std::ssize(logits));
  ASSERT_EQ(got.extent(1), std::ssize(logits[0]));
  double most = 0, worst = 0;
  for (std::ptrdiff_t t = 0; t < got.extent(0); ++t)
    for (std::ptrdiff_t v = 0; v < got.extent(1); ++v) {
      const double one = logits[static_cast<std::size_t>(t)][static_cast<std::size_t>(v)];
      ASSERT_TRUE(std::isfinite(got(t, v))) << t;
      most = std::max(most, std::abs(one));
      worst = std::max(worst, std::abs(got(t, v) - one));
    }
  EXPECT_LE(worst, 1e-5 * most);
}

class Engine : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (*GNOMON_EMULATOR) GTEST_SKIP() << "programs run without an emulator only";
  }
};

TEST_P(Engine, GivesTheLogitsAndTokensOfTransformers) {
  expect_same(models / GetParam(), models / GetParam() / "expected.json");
}

std::string test_name(const ::testing::TestParamInfo<std::string>& one) {
  std::string name = one.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, Engine,
                         ::testing::Values("gemma3_text", "bloom", "phi3-longrope"), test_name);
INSTANTIATE_TEST_SUITE_P(LatentAttention, Engine,
                         ::testing::Values("deepseek_v2", "deepseek_v2-lite", "deepseek_v3",
                                           "deepseek_v3-halves", "glm4_moe_lite", "minicpm3",
                                           "longcat_flash", "mistral4", "axk1", "youtu"),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Mixtures, Engine,
                         ::testing::Values("mixtral", "minimax_m2", "qwen2_moe", "qwen3_moe",
                                           "olmoe", "flex_olmo", "gpt_oss", "glm4_moe",
                                           "ernie4_5_moe", "granitemoe", "granitemoeshared",
                                           "hunyuan_v1_moe", "dots1", "exaone_moe",
                                           "solar_open", "mellum", "hy_v3"),
                         test_name);

// Copies a model, with `other` in place of each `text`.
void copy_model(const char* model, const std::string& text, const std::string& other,
                const testing::TemporaryFolder& to) {
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::string all = testing::contents(models / model / name);
    for (std::size_t at = 0; (at = all.find(text, at)) != std::string::npos; at += other.size())
      all.replace(at, text.size(), other);
    testing::put(to / name, all);
  }
}

TEST(EngineModels, KimiK2IsDeepSeekV3) {
  if (*GNOMON_EMULATOR) GTEST_SKIP() << "programs run without an emulator only";
  const testing::TemporaryFolder copy;
  copy_model("deepseek_v3", "\"deepseek_v3\"", "\"kimi_k2\"", copy);
  expect_same(copy.path(), models / "deepseek_v3" / "expected.json");
}

TEST(EngineModels, HunyuanListsTheExpertsOfEachLayer) {
  if (*GNOMON_EMULATOR) GTEST_SKIP() << "programs run without an emulator only";
  const testing::TemporaryFolder copy;
  copy_model("hunyuan_v1_moe", "\"moe_topk\": 2", "\"moe_topk\": [2, 2]", copy);
  expect_same(copy.path(), models / "hunyuan_v1_moe" / "expected.json");
}

using GgufEngine = Engine;

TEST_P(GgufEngine, GivesTheLogitsAndTokensOfLlamaCpp) {
  expect_same(models / "gguf" / (GetParam() + ".gguf"),
              models / "gguf" / (GetParam() + ".json"));
}

INSTANTIATE_TEST_SUITE_P(Files, GgufEngine,
                         ::testing::Values("llama", "qwen2", "qwen3", "gemma2", "gemma3",
                                           "phi3", "gpt2", "gptneox", "bloom", "starcoder2",
                                           "olmo2", "granite", "stablelm", "cohere2", "smollm3",
                                           "gpt-oss", "deepseek2", "deepseek2-kv_b", "minicpm3",
                                           "qwen2moe", "glm4moe", "llama-f16", "llama-bf16",
                                           "llama-q8_0", "llama-q4_0"),
                         test_name);

// Returns the engine's error for a model in which `other` replaces each `text`.
std::string error_after(const char* model, const std::string& text, const std::string& other) {
  const testing::TemporaryFolder copy;
  copy_model(model, text, other, copy);
  const auto outcome = run_engine({copy.path(), "3", "4"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  return outcome.errors;
}

TEST(EngineErrors, NameWhatTheEngineDoesNotKnow) {
  if (*GNOMON_EMULATOR) GTEST_SKIP() << "programs run without an emulator only";
  const char* const model = "phi3-longrope";
  EXPECT_EQ(error_after(model, "layers.2.input_layernorm", "layers.2.input_layerabcd"),
            "engine: no support for model.layers.2.input_layerabcd.weight\n");
  EXPECT_EQ(error_after(model, "layers.2.mlp.gate_up_proj", "layers.2.mlp.experts_proj"),
            "engine: no support for model.layers.2.mlp.experts_proj.weight\n");
  EXPECT_EQ(error_after(model, "silu", "mish"), "engine: no support for the activation mish\n");
}

TEST(EngineErrors, NameWhatTheEngineDoesNotKnowOfAMixture) {
  if (*GNOMON_EMULATOR) GTEST_SKIP() << "programs run without an emulator only";
  EXPECT_EQ(error_after("mixtral", "\"mixtral\"", "\"phimoe\""),
            "engine: no support for "
            "model.layers.0.block_sparse_moe.experts.0.w1.weight\n");
  EXPECT_EQ(error_after("mixtral", "experts.3.w2", "experts.3.w9"),
            "engine: no support for its number of experts\n");
  EXPECT_EQ(error_after("mixtral", "num_experts_per_tok\": 2", "num_experts_per_tok\": 5"),
            "engine: no support for its number of experts\n");
  EXPECT_EQ(error_after("deepseek_v3",
                        "\"hidden_act\": ", "\"scoring_func\": \"softmax\", \"hidden_act\": "),
            "engine: no support for scoring_func softmax\n");
  EXPECT_EQ(error_after("hunyuan_v1_moe", "\"moe_topk\": 2", "\"moe_topk\": [2, 1]"),
            "engine: no support for its number of experts\n");
  EXPECT_EQ(error_after("deepseek_v3", "topk_group\": 2", "topk_group\": 4"),
            "engine: no support for its groups of experts\n");
  EXPECT_EQ(error_after("deepseek_v2", "group_limited_greedy", "noaux_tc"),
            "engine: no support for topk_method noaux_tc\n");
  EXPECT_EQ(error_after("deepseek_v3", "model.layers.2.eh", "model.layers.3.eh"),
            "engine: no support for model.layers.3.eh_proj.weight\n");
  EXPECT_EQ(error_after("deepseek_v3", "layers.1.self_attn.kv_b", "layers.1.self_attn.kv_x"),
            "engine: no support for model.layers.1.self_attn.kv_x_proj.weight\n");
}

// Returns the engine's error for a GGUF file in which `other` replaces each `text` of the same
// length.
std::string gguf_error_after(const char* file, const std::string& text,
                             const std::string& other) {
  std::string all = testing::contents(models / "gguf" / file);
  for (std::size_t at = 0; (at = all.find(text, at)) != std::string::npos; at += text.size())
    all.replace(at, text.size(), other);
  const testing::TemporaryFolder copy;
  testing::put(copy / "changed.gguf", all);
  const auto outcome = run_engine({copy / "changed.gguf", "3", "4"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  return outcome.errors;
}

TEST(EngineErrors, NameWhatTheEngineDoesNotKnowOfAGgufFile) {
  if (*GNOMON_EMULATOR) GTEST_SKIP() << "programs run without an emulator only";
  EXPECT_EQ(gguf_error_after("llama.gguf", "blk.1.ffn_gate.", "blk.1.ffn_abcd."),
            "engine: no support for blk.1.ffn_abcd.weight\n");
  EXPECT_EQ(gguf_error_after("llama.gguf", "blk.1.attn_k.", "blk.1.attn_x."),
            "engine: no support for blk.1.attn_x.weight\n");
  EXPECT_EQ(gguf_error_after("gemma2.gguf", "gemma2", "bitnet"),
            "engine: no support for bitnet\n");
  EXPECT_EQ(gguf_error_after("deepseek2.gguf", "blk.1.attn_v_b.", "blk.1.attn_v_x."),
            "engine: no support for blk.1.attn_v_x.weight\n");
  EXPECT_EQ(gguf_error_after("qwen2moe.gguf", "blk.1.ffn_gate_inp.", "blk.1.ffn_gate_abc."),
            "engine: no support for blk.1.ffn_down_exps.weight\n");
}

}  // namespace engine_test
}  // namespace gnomon
