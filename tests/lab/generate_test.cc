// The KV cache, the stored model, attention weights and samples, for every encoding.
#include "apps/lab/model/evaluate.h"
#include "apps/lab/tasks/make_model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "apps/lab/data/batches.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/runs/folder.h"
#include "apps/lab/runs/run.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace generate_test {

namespace fs = std::filesystem;

using testing::tiny;

std::vector<std::string> usable_names() {
  std::vector<std::string> names{"rotary@random", "rotary+alibi*1/none"};
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  for (const auto& one : model::encodings())
    if (!unusable(std::string(one.name), settings, corpus)) names.emplace_back(one.name);
  return names;
}

class Model : public ::testing::TestWithParam<std::string> {
 protected:
  // Parameters of encodings that start at 0 or a constant get random values: they must matter.
  Transformer drawn_model() {
    Transformer model = transformer_for(settings_, find_candidate(GetParam()), 16, 1);
    const at::NoGradGuard no_grad;
    torch::manual_seed(1);
    for (auto& item : model->named_parameters())
      if (item.key().rfind("position.", 0) == 0)
        item.value().add_(0.1 * torch::rand_like(item.value()));
    return model;
  }
  Settings settings_ = tiny();
};
INSTANTIATE_TEST_SUITE_P(, Model, ::testing::ValuesIn(usable_names()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

at::Tensor bytes_of(std::int64_t count) {
  return torch::randint(1, 256, {1, count}, torch::kLong);
}

TEST_P(Model, OneByteAfterTheOtherGivesTheLogitsOfTheWholeText) {
  const at::NoGradGuard no_grad;
  Transformer model = drawn_model();
  const at::Tensor text = bytes_of(16);
  const at::Tensor whole = model->forward(text);
  KeyValues cache;
  std::vector<at::Tensor> parts;
  parts.push_back(model->forward(text.slice(1, 0, 7), {.cache = &cache}));
  for (std::int64_t t = 7; t < 16; ++t)
    parts.push_back(model->forward(text.slice(1, t, t + 1), {.cache = &cache}));
  EXPECT_EQ(cache.tokens(), 16);
  const at::Tensor difference = at::cat(parts, 1) - whole;
  EXPECT_LT(difference.abs().max().item<double>(), 1e-4 * whole.abs().max().item<double>());
}

TEST_P(Model, AttentionWeightsSumToOneAndSeeNoLaterKey) {
  const at::NoGradGuard no_grad;
  Transformer model = drawn_model();
  std::vector<at::Tensor> layers;
  model->forward(bytes_of(16), {.weights = &layers});
  ASSERT_EQ(layers.size(), 2u);
  for (const at::Tensor& weights : layers) {
    if (GetParam() == "stick-breaking")  // a part of the stick is left
      EXPECT_LT(weights.sum(3).max().item<double>(), 1 + 1e-5);
    else
      EXPECT_LT((weights.sum(3) - 1).abs().max().item<double>(), 1e-5);
    EXPECT_GT(weights.min().item<double>(), -1e-5);
    for (std::int64_t q = 0; q < 15; ++q)
      EXPECT_LT(weights.select(1, q).slice(2, q + 1).abs().max().item<double>(), 1e-5);
  }
}

TEST_P(Model, AStoredModelIsTheSameModel) {
  const fs::path folder =
      fs::temp_directory_path() /
      ("gnomon-model-" + std::to_string(getpid()) + "-" + file_name(GetParam()));
  const Corpus corpus = load_corpus(settings_);
  TrainingRun run(settings_, corpus, GetParam(), 1);
  run.train_step();
  save_model(folder, run.transformer(), run.summary(), settings_);
  TrainedModel stored = load_model(folder);
  fs::remove_all(folder);
  const at::NoGradGuard no_grad;
  const at::Tensor text = bytes_of(16);
  EXPECT_TRUE(stored.model->forward(text).equal(run.transformer()->forward(text)));
  settings_.encodings = {GetParam()};
  EXPECT_EQ(stored.config.settings, settings_);
}

TEST(Generate, TheCacheStartsAgainWithTheSecondHalfOfItsBytes) {
  const Settings settings = tiny();
  Transformer model = transformer_for(settings, find_candidate("alibi"), 16, 1);
  const std::string prompt = "abcdefg";
  const std::string text =
      prompt + generate(model, prompt, {.bytes = 12, .context = 8, .temperature = 0});
  // Definition: the likeliest byte after the bytes that the cache holds.
  const at::NoGradGuard no_grad;
  std::size_t begin = 0;
  for (std::size_t i = prompt.size(); i < text.size(); ++i) {
    if (i - begin > 8) begin = i - 4;
    at::Tensor seen = at::empty({1, static_cast<std::int64_t>(i - begin)}, at::kLong);
    for (std::size_t k = begin; k < i; ++k)
      seen[0][static_cast<std::int64_t>(k - begin)] = static_cast<unsigned char>(text[k]);
    const auto best = model->forward(seen)[0][-1].argmax().item<std::int64_t>();
    EXPECT_EQ(static_cast<unsigned char>(text[i]), best) << i;
  }
}

TEST(Generate, DrawsWithTheProbabilitiesOfTheSoftmax) {
  Settings settings = tiny();
  settings.layers = 1;
  Transformer model = transformer_for(settings, find_candidate("none"), 16, 1);
  const at::NoGradGuard no_grad;
  const double temperature = 0.5;
  const at::Tensor probability = at::softmax(
      model->forward(torch::full({1, 1}, 'a', torch::kLong))[0][0].to(torch::kDouble) /
          temperature,
      0);
  std::vector<double> counts(256);
  constexpr int draws = 4000;
  for (int seed = 1; seed <= draws; ++seed)
    counts[static_cast<unsigned char>(
        generate(model, "a",
                 {.bytes = 1,
                  .context = 2,
                  .temperature = temperature,
                  .seed = static_cast<std::uint64_t>(seed)})[0])] += 1;
  double chi = 0;  // 255 degrees of freedom: mean 255, deviation 22.6
  for (std::int64_t i = 0; i < 256; ++i) {
    const double expected = draws * probability[i].item<double>();
    chi += (counts[static_cast<std::size_t>(i)] - expected) *
           (counts[static_cast<std::size_t>(i)] - expected) / expected;
  }
  EXPECT_LT(chi, 255 + 6 * 22.6);
}

TEST(Samples, ShowTextMaskedBytesAndAnswers) {
  Settings settings = tiny();
  for (const char* task : {"text", "masked", "copy", "recall"}) {
    settings.task = &find_task(task);
    const Corpus corpus = load_corpus(settings);
    Transformer model = transformer_for(settings, find_candidate("t5"), 64, 1);
    const auto all = samples(model, settings, corpus);
    ASSERT_FALSE(all.empty()) << task;
    for (const Sample& one : all) {
      EXPECT_FALSE(one.prompt.empty()) << task;
      EXPECT_FALSE(one.text.empty()) << task;
      EXPECT_EQ(one.expected.empty(), std::string(task) == "text");
    }
  }
}

class StoredModel : public ::testing::Test {
 protected:
  StoredModel() {
    const Corpus corpus = load_corpus(settings_);
    TrainingRun run(settings_, corpus, "t5", 1);
    save_model(folder_, run.transformer(), run.summary(), settings_);
  }
  ~StoredModel() override { fs::remove_all(folder_); }
  std::string refusal() const {
    try {
      load_model(folder_);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  void replace(const std::string& from, const std::string& to) const {
    std::ifstream in(folder_ / "config.json");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, from.size(), to);
    std::ofstream(folder_ / "config.json") << text;
  }

  Settings settings_ = tiny();
  fs::path folder_ = fs::temp_directory_path() / ("gnomon-stored-" + std::to_string(getpid()));
};

TEST_F(StoredModel, RefusesAnotherWidthThanThatOfTheWeights) {
  replace("\"width\": 16", "\"width\": 4096");
  EXPECT_NE(refusal().find("embedding.weight in"), std::string::npos) << refusal();
}
TEST_F(StoredModel, RefusesMoreLayersThanTheWeightsHave) {
  replace("\"layers\": 2,", "\"layers\": 64,");
  EXPECT_NE(refusal().find("must have the tensor block2.feed_in.weight, got none"),
            std::string::npos)
      << refusal();
}
TEST_F(StoredModel, RefusesAnotherEncoding) {
  replace("\"encoding\": \"t5\"", "\"encoding\": \"alibi\"");
  EXPECT_NE(refusal().find("must have the position of alibi"), std::string::npos) << refusal();
}
TEST_F(StoredModel, RefusesAnotherModelType) {
  replace("gnomon-lab", "llama");
  EXPECT_NE(refusal().find("another model_type"), std::string::npos) << refusal();
}
TEST_F(StoredModel, OfASessionWithAnExtensionIsRead) {
  replace("\"extend\": []", "\"extend\": [\"yarn\"]");
  EXPECT_EQ(refusal(), "");
}
TEST_F(StoredModel, RefusesACutFile) {
  fs::resize_file(folder_ / "model.safetensors",
                  fs::file_size(folder_ / "model.safetensors") - 4);
  EXPECT_NE(refusal().find("model.safetensors"), std::string::npos) << refusal();
}

}  // namespace generate_test
}  // namespace gnomon::lab
