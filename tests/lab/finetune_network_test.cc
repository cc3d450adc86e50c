#include "apps/lab/tasks/finetune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gnomon/rotary/scaling.h"
#include "lab/finetune_models.h"

namespace gnomon::lab {
namespace finetune_network_test {

namespace fs = std::filesystem;
using finetune::Network;
using ::testing::HasSubstr;
using testing::released_models;
using testing::ReleasedFolder;

std::unique_ptr<Network> load(const fs::path& folder) {
  return std::make_unique<Network>(finetune::read_config(folder),
                                   std::make_shared<io::Checkpoint>(folder));
}

at::Tensor logits_of(Network& network) {
  const at::NoGradGuard no_grad;
  const auto tokens = released_models()["tokens"].get<std::vector<std::int64_t>>();
  return network.forward(at::tensor(tokens, at::kLong).unsqueeze(0))[0];
}

std::string error_of(const fs::path& folder) {
  try {
    load(folder);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

class ModelsOfTransformers : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, ModelsOfTransformers,
                         ::testing::Values("llama", "llama-tied-bias", "llama-linear",
                                           "llama-dynamic", "llama-yarn", "mistral", "qwen2",
                                           "gpt2", "bert"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(ModelsOfTransformers, HaveEqualLogits) {
  const ReleasedFolder folder(GetParam());
  const auto network = load(folder.path());
  const at::Tensor logits = logits_of(*network);
  const Json& expected = released_models()["models"][GetParam()]["logits"];
  const Json& columns = released_models()["columns"];
  double worst = 0, largest = 0;
  for (std::size_t t = 0; t < expected.size(); ++t)
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const double want = expected[t][c].get<double>();
      const double got =
          logits[static_cast<std::int64_t>(t)][columns[c].get<std::int64_t>()].item<double>();
      worst = std::max(worst, std::abs(got - want));
      largest = std::max(largest, std::abs(want));
    }
  EXPECT_LT(worst, 1e-5 * (1 + largest));
  EXPECT_GT(largest, 0.1);
}

TEST_P(ModelsOfTransformers, AreSavedAsTheyWere) {
  const ReleasedFolder folder(GetParam());
  folder.write_text("vocab.txt", "a\n");
  const auto network = load(folder.path());
  const fs::path saved = folder.path() / "saved";
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor& one : network->parameters()) one.mul_(1.25);
  }
  network->save_folder(saved);
  EXPECT_TRUE(fs::exists(saved / "vocab.txt"));
  const io::SafeTensors file(saved / "model.safetensors");
  EXPECT_EQ(file.tensors().size(), folder.tensors.size());
  for (const ReleasedFolder::Tensor& one : folder.tensors) {
    const io::TensorEntry* entry = file.find(one.name);
    ASSERT_TRUE(entry) << one.name;
    EXPECT_EQ(entry->shape, one.shape) << one.name;
    const std::vector<double> values = file.tensor(one.name).to_doubles();
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], static_cast<double>(1.25F * one.values[i])) << one.name << " " << i;
  }
  EXPECT_TRUE(logits_of(*load(saved)).equal(logits_of(*network)));
}

TEST(FinetuneNetwork, ReadsShardsAndWritesHalfPrecision) {
  ReleasedFolder folder("llama");
  const at::Tensor whole = logits_of(*load(folder.path()));
  const std::size_t half = folder.tensors.size() / 2;
  fs::remove(folder.path() / "model.safetensors");
  folder.write_shard("a.safetensors", 0, half);
  folder.write_shard("b.safetensors", half, folder.tensors.size());
  Json map;
  for (std::size_t i = 0; i < folder.tensors.size(); ++i)
    map[folder.tensors[i].name] = i < half ? "a.safetensors" : "b.safetensors";
  folder.write_text("model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  EXPECT_TRUE(logits_of(*load(folder.path())).equal(whole));

  // bfloat16: the upper half of a float32.
  fs::remove(folder.path() / "model.safetensors.index.json");
  fs::remove(folder.path() / "a.safetensors");
  fs::remove(folder.path() / "b.safetensors");
  std::vector<std::vector<std::uint16_t>> halves;
  std::vector<io::NamedArray> arrays;
  for (const ReleasedFolder::Tensor& one : folder.tensors) {
    auto& values = halves.emplace_back();
    for (const float value : one.values)
      values.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  }
  for (std::size_t i = 0; i < halves.size(); ++i)
    arrays.push_back(
        {folder.tensors[i].name, io::Array(io::Element::bf16, folder.tensors[i].shape,
                                           std::as_bytes(std::span(halves[i])))});
  io::write_safetensors(folder.path() / "model.safetensors", arrays);
  const auto network = load(folder.path());
  network->save_folder(folder.path() / "saved");
  const io::SafeTensors before(folder.path() / "model.safetensors"),
      after(folder.path() / "saved" / "model.safetensors");
  for (const io::TensorEntry& entry : before.tensors()) {
    EXPECT_EQ(after.find(entry.name)->dtype, "BF16");
    EXPECT_EQ(before.tensor(entry.name).to_doubles(), after.tensor(entry.name).to_doubles());
  }
}

TEST(FinetuneNetwork, NamesTheTensorThatDoesNotFit) {
  {
    ReleasedFolder folder("llama");
    folder.tensors.pop_back();
    folder.write();
    EXPECT_THAT(error_of(folder.path()), HasSubstr("must have the tensor "));
  }
  {
    ReleasedFolder folder("llama");
    folder.config["intermediate_size"] = 32;
    folder.write();
    EXPECT_THAT(error_of(folder.path()),
                ::testing::AllOf(HasSubstr("mlp.gate_proj.weight"), HasSubstr("[32, 16]"),
                                 HasSubstr("got F32 [24, 16]")));
  }
  {
    ReleasedFolder folder("gpt2");
    folder.tensor("transformer.wpe.weight").values[3] = std::nanf("");
    folder.write();
    EXPECT_THAT(error_of(folder.path()), HasSubstr("transformer.wpe.weight in " +
                                                   folder.path().string() + " must be finite"));
  }
  {
    ReleasedFolder folder("llama");
    folder.tensors.push_back({"model.layers.0.self_attn.q_norm.weight", {4}, {1, 1, 1, 1}});
    folder.write();
    EXPECT_THAT(error_of(folder.path()),
                HasSubstr("got model.layers.0.self_attn.q_norm.weight"));
  }
  {
    ReleasedFolder folder("bert");
    folder.config["num_hidden_layers"] = 3;
    folder.write();
    EXPECT_THAT(error_of(folder.path()), HasSubstr("bert.encoder.layer.2."));
  }
}

TEST(FinetuneConfig, RefusesWhatTheNetworkDoesNotCompute) {
  const auto refused = [](const std::string& model, const Json& change) {
    ReleasedFolder folder(model);
    folder.config.update(change);
    folder.write();
    return error_of(folder.path());
  };
  EXPECT_EQ(refused("llama", {{"model_type", "qwen3"}}),
            "[finetune] model_type must be llama, mistral, qwen2, gpt2 or bert, got qwen3");
  EXPECT_THAT(refused("llama", {{"hidden_act", "quick_gelu"}}), HasSubstr("activation"));
  EXPECT_THAT(refused("llama", {{"hidden_act", 3}}), HasSubstr("hidden_act"));
  EXPECT_THAT(refused("llama", {{"vocab_size", -1}}), HasSubstr("vocab_size"));
  EXPECT_THAT(refused("llama", {{"rope_parameters", {{"rope_type", "other"}}}}),
              HasSubstr("config.json"));
  EXPECT_THAT(refused("gpt2", {{"add_cross_attention", true}}), HasSubstr("cross"));
  EXPECT_THAT(refused("bert", {{"is_decoder", true}}), HasSubstr("is_decoder"));
  ReleasedFolder folder("llama");
  folder.write_text("config.json", "{\"model_type\": \"llama\"");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("must be JSON"));
}

TEST(FinetuneConfig, AMethodGivesTheFrequenciesOfItsScaling) {
  const ReleasedFolder folder("llama");
  const finetune::Config config = finetune::read_config(folder.path());
  const Rotary rotary{.rotary_dim = 4, .pairing = Pairing::halves, .base = 100};
  const auto check = [&](const std::string& method, const RopeScaling& scaling,
                         std::int64_t length) {
    const finetune::Config changed = finetune::extended(config, method, 4);
    const auto got = model::rotary_frequencies(changed.scheme.layers[1][0], length);
    const auto want =
        lower(ScaledRotary{.rotary = rotary, .scaling = scaling, .length = length});
    ASSERT_TRUE(got) << method;
    for (std::size_t i = 0; i < want.inv_freq.size(); ++i)
      EXPECT_NEAR(got->inv_freq[i], want.inv_freq[i], 1e-14) << method;
  };
  check("linear", LinearScaling{.factor = 4}, 32);
  check("ntk", NtkScaling{.factor = 4}, 32);
  check("yarn", YarnScaling{.factor = 4, .original_length = 8}, 32);
  check("dynamic-ntk", DynamicNtkScaling{.factor = 2, .trained_length = 8}, 8);
  check("dynamic-ntk", DynamicNtkScaling{.factor = 2, .trained_length = 8}, 32);
  // The keys of transformers, and those of before version 5.
  EXPECT_EQ(finetune::extended(config, "yarn", 4).json["rope_parameters"],
            (Json{{"rope_theta", 100.0},
                  {"rope_type", "yarn"},
                  {"factor", 4.0},
                  {"original_max_position_embeddings", 8}}));
  Json older = config.json;
  older.erase("rope_parameters");
  older["rope_theta"] = 100.0;
  const finetune::Config old_config = finetune::parse_config(older, "config.json");
  const Json linear = finetune::extended(old_config, "linear", 4).json;
  EXPECT_EQ(linear["rope_scaling"], (Json{{"rope_type", "linear"}, {"factor", 4.0}}));
  EXPECT_EQ(linear["max_position_embeddings"], 32);
  EXPECT_NEAR(finetune::extended(old_config, "ntk", 4).json["rope_theta"].get<double>(), 1600,
              1e-9);
  EXPECT_THROW(finetune::extended(config, "drope", 4), std::invalid_argument);
}

TEST(FinetuneConfig, ExtendsPlainRotaryOnly) {
  for (const char* name : {"gpt2", "bert", "llama-yarn"}) {
    const ReleasedFolder folder(name);
    const finetune::Config config = finetune::read_config(folder.path());
    try {
      finetune::extended(config, "yarn", 4);
      ADD_FAILURE() << name;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("plain rotary")) << name;
    }
  }
}

}  // namespace finetune_network_test
}  // namespace gnomon::lab
