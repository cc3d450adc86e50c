#include "apps/lab/tasks/finetune.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <numeric>

#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/stored.h"
#include "lab/finetune_models.h"

namespace gnomon::lab {
namespace finetune_test {

namespace fs = std::filesystem;
using finetune::Data;
using finetune::Tokens;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReleasedFolder;

// 4000 bytes with a pattern that a model learns in a few steps.
std::string pattern() {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "abcd";
  return text;
}

class Finetune : public ::testing::TestWithParam<std::string> {
 protected:
  explicit Finetune(const std::string& model = GetParam()) : folder_(model) {
    folder_.write_text("text", pattern());
    settings_.finetune = folder_.path().string();
    settings_.texts = {(folder_.path() / "text").string()};
    settings_.train_length = 0;
    finetune::take_sizes(settings_, finetune::read_config(settings_.finetune));
    settings_.eval_lengths = {settings_.train_length, 2 * settings_.train_length};
    settings_.steps = 30;
    settings_.batch = 4;
    settings_.learning_rate = 1e-2;
    settings_.eval_segments = 2;
    settings_.encodings = finetune::entries(settings_.extend);
  }
  ReleasedFolder folder_;
  Settings settings_;
};
INSTANTIATE_TEST_SUITE_P(, Finetune, ::testing::Values("llama", "gpt2", "bert"));

const auto never = [] { return false; };

TEST_P(Finetune, LowersTheLossAndSavesTheModel) {
  const Corpus corpus = load_corpus(settings_);
  EXPECT_EQ(settings_.task->name, GetParam() == "bert" ? "masked" : "text");
  TrainingRun released(settings_, corpus, "released", 1);
  EXPECT_TRUE(released.trained());
  const auto before = released.model().evaluate(never);
  TrainingRun tuned(settings_, corpus, "released@tuned", 1);
  while (!tuned.trained()) tuned.train_step();
  const auto after = tuned.model().evaluate(never);
  ASSERT_TRUE(before && after);
  EXPECT_GT(before->lengths[0].tail_bits, 5);
  EXPECT_LT(after->lengths[0].tail_bits, 0.6 * before->lengths[0].tail_bits);
  // A learned table has no positions for the longer length.
  EXPECT_EQ(after->lengths[1].applicable, GetParam() == "llama");

  const fs::path saved = folder_.path() / "saved";
  tuned.model().save(saved, {});
  Settings again = settings_;
  again.finetune = saved.string();
  const Corpus same = load_corpus(again);
  EXPECT_NE(same.digest, corpus.digest);
  TrainingRun reloaded(again, same, "released", 1);
  EXPECT_EQ(reloaded.model().evaluate(never)->lengths[0], after->lengths[0]);
}

TEST_P(Finetune, RowsOfABatchDoNotDependOnOtherRows) {
  const Corpus corpus = load_corpus(settings_);
  finetune::Model model(settings_, corpus, "released");
  const LossSum all = model.loss(Part::train, 1, 5, {0, 4}),
                first = model.loss(Part::train, 1, 5, {0, 1}),
                rest = model.loss(Part::train, 1, 5, {1, 4});
  EXPECT_EQ(all.targets, first.targets + rest.targets);
  EXPECT_NEAR(all.nats.item<double>(), first.nats.item<double>() + rest.nats.item<double>(),
              1e-4);
  EXPECT_NE(model.loss(Part::train, 1, 6, {0, 4}).nats.item<double>(), all.nats.item<double>());
}

TEST_P(Finetune, EqualLogitsGiveTheBitsOfTheVocabulary) {
  if (GetParam() == "llama") {
    std::fill(folder_.tensor("lm_head.weight").values.begin(),
              folder_.tensor("lm_head.weight").values.end(), 0.0F);
  } else {
    const char* table = GetParam() == "gpt2" ? "transformer.wte.weight"
                                             : "bert.embeddings.word_embeddings.weight";
    std::fill(folder_.tensor(table).values.begin(), folder_.tensor(table).values.end(), 0.0F);
    if (GetParam() == "bert")
      std::fill(folder_.tensor("cls.predictions.bias").values.begin(),
                folder_.tensor("cls.predictions.bias").values.end(), 0.0F);
  }
  folder_.write();
  const Corpus corpus = load_corpus(settings_);
  finetune::Model model(settings_, corpus, "released");
  const auto found = model.evaluate(never);
  EXPECT_NEAR(found->lengths[0].tail_bits, 8, 1e-5);
  EXPECT_NEAR(found->lengths[0].window_bits, 8, 1e-5);
}

class FinetuneOfLlama : public Finetune {
 protected:
  FinetuneOfLlama() : Finetune("llama") {}
};

// Each loss by a forward pass over its window alone.
TEST_F(FinetuneOfLlama, TheLossIsThatOfEachTargetInItsWindow) {
  const Corpus corpus = load_corpus(settings_);
  finetune::Model model(settings_, corpus, "released");
  const auto found = model.evaluate(never);
  const std::string& text = corpus.test[0].bytes;
  auto& network = dynamic_cast<finetune::Network&>(model.module());
  const at::NoGradGuard no_grad;
  // The first segment: targets 9 to 24, with windows of 8 tokens that end every 4 tokens.
  double sum = 0;
  for (std::int64_t target = 9; target < 9 + 16; ++target) {
    const std::int64_t end = 9 + (target - 9) / 4 * 4 + 3;  // last target of the window
    std::vector<std::int64_t> window;
    for (std::int64_t i = end - 8; i < end; ++i)
      window.push_back(static_cast<unsigned char>(text[static_cast<std::size_t>(i)]));
    const at::Tensor p =
        network.forward(at::tensor(window, at::kLong).unsqueeze(0))[0].softmax(-1);
    const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(target)]);
    sum -= std::log2(p[target - end + 7][byte].item<double>());
  }
  EXPECT_NEAR(found->lengths[0].tail_by_segment[0], sum / 16, 1e-4);
  EXPECT_EQ(found->by_position->length, 16);
  EXPECT_THAT(found->by_position->positions,
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16));
}

TEST_F(FinetuneOfLlama, AMethodIsTunedAtTheLongestLength) {
  settings_.extend = {"yarn"};
  settings_.encodings = finetune::entries(settings_.extend);
  EXPECT_THAT(settings_.encodings,
              ElementsAre("released", "released@tuned", "yarn", "yarn@tuned"));
  finetune::check(settings_, finetune::read_config(settings_.finetune));
  const Corpus corpus = load_corpus(settings_);
  finetune::Model model(settings_, corpus, "yarn@tuned");
  EXPECT_EQ(model.window(), 16);
  EXPECT_EQ(model.steps(), 30);
  EXPECT_EQ(model.specification()["scaling"]["type"], "yarn");
  const fs::path saved = folder_.path() / "saved";
  model.save(saved, {});
  const finetune::Config config = finetune::read_config(saved);
  EXPECT_EQ(config.length(), 16);
  EXPECT_EQ(finetune::parse_config(config.json, "x").scheme, config.scheme);
}

TEST_F(FinetuneOfLlama, ResultsAreReadWithoutTheModel) {
  const Corpus corpus = load_corpus(settings_);
  Evaluation found;
  RunResult released, tuned;
  {
    TrainingRun first(settings_, corpus, "released", 1),
        second(settings_, corpus, "released@tuned", 1);
    found = *first.model().evaluate(never);
    released = first.summary(), tuned = second.summary();
  }
  fs::remove_all(folder_.path());
  check_settings(settings_);
  released.tests = tuned.tests = found;
  check_run(released, settings_);
  EXPECT_THROW(check_run(tuned, settings_), std::invalid_argument);  // 0 of 30 steps
  const Candidate one = finetune::describe_entry("yarn@tuned", settings_, tuned.specification);
  EXPECT_EQ(one.title, "YaRN + fine-tune");
  EXPECT_EQ(one.enters, "queries and keys");
}

TEST(FinetuneDefaults, AreNotBeyondATable) {
  const auto times = [](const char* model) {
    const ReleasedFolder folder(model);
    Settings settings;
    settings.finetune = folder.path().string();
    settings.train_length = 0;
    return finetune::take_sizes(settings, finetune::read_config(settings.finetune)).times;
  };
  EXPECT_THAT(times("llama"), ElementsAre(2, 4));
  EXPECT_THAT(times("gpt2"), ElementsAre());
}

TEST_F(FinetuneOfLlama, RefusesSettingsThatDoNotFit) {
  const auto error = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const std::invalid_argument& problem) {
      return problem.what();
    }
    return "no error";
  };
  Settings wrong = settings_;
  wrong.train_length = 16;
  wrong.eval_lengths = {16, 32};
  EXPECT_THAT(error([&] { finetune::check(wrong, finetune::read_config(wrong.finetune)); }),
              HasSubstr("at most the trained context"));
  wrong = settings_;
  wrong.extend = {"yarn"};
  wrong.eval_lengths = {8};
  EXPECT_THAT(error([&] { finetune::check(wrong, finetune::read_config(wrong.finetune)); }),
              HasSubstr("--eval-lengths"));
  wrong = settings_;
  wrong.finetune = "/nonexistent";
  EXPECT_THAT(error([&] { finetune::check(wrong, finetune::read_config(wrong.finetune)); }),
              HasSubstr("/nonexistent/config.json"));
  folder_.write_text("model.safetensors", "short");
  EXPECT_THAT(error([&] { load_corpus(settings_); }), HasSubstr("model.safetensors"));
}

// The masked places are the same at every length, and none is at the border of a window.
TEST(FinetuneMasked, PlacesAreInsideTheWindow) {
  Data data;
  ReleasedFolder folder("bert");
  data.config = finetune::read_config(folder.path());
  data.tokenizer = finetune::read_tokenizer(folder.path(), 256);
  data.tokenizer->first = 250;
  data.tokenizer->last = 251;
  std::vector<Tokens> texts(1);
  for (std::int64_t i = 0; i < 100; ++i) {
    texts[0].ids.push_back(1 + i);
    texts[0].bytes.push_back(1 + i % 3);
  }
  std::int64_t counted = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const finetune::Windows windows =
        finetune::random_windows(data, texts, 10, {0, 3}, 1, step);
    for (std::int64_t w = 0; w < 3; ++w) {
      EXPECT_EQ(windows.inputs[w][0].item<std::int64_t>(), 250);
      EXPECT_EQ(windows.inputs[w][9].item<std::int64_t>(), 251);
      for (std::int64_t i = 0; i < 10; ++i) {
        const auto target = windows.targets[w][i].item<std::int64_t>();
        if (target == uncounted) continue;
        ++counted;
        EXPECT_EQ(windows.inputs[w][i].item<std::int64_t>(), 0);
        EXPECT_EQ(windows.bytes[w][i].item<std::int64_t>(), 1 + (target - 1) % 3);
        EXPECT_TRUE(i > 0 && i < 9);
      }
    }
  }
  EXPECT_EQ(counted, 20 * 3);  // 15 % of 8, rounded, is 1
}

}  // namespace finetune_test
}  // namespace gnomon::lab
