#include "apps/lab/tasks/dialogue.h"
#include "apps/lab/data/task.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "apps/lab/model/candidate.h"
#include "apps/lab/runs/run.h"
#include "tests/lab/tiny.h"

namespace gnomon::lab {
namespace dialogue_test {

using namespace dialogue_examples;

Settings settings_of(std::int64_t layers = 2) {
  Settings settings = testing::tiny();
  settings.task = &find_task("dialogue");
  settings.train_length = 4;
  settings.eval_lengths = {4, 8};
  settings.encodings = {"rotary"};
  settings.layers = layers;
  return settings;
}

// A model with random weights that are large enough for differences above rounding.
std::unique_ptr<DialogueModel> model_of(const Settings& settings, const std::string& encoding) {
  auto model = make_model(settings, {}, encoding, 1);
  const at::NoGradGuard no_grad;
  for (at::Tensor weight : model->module().parameters()) weight.mul_(3);
  return std::unique_ptr<DialogueModel>(dynamic_cast<DialogueModel*>(model.release()));
}

at::Tensor last_logits(DialogueModel& model, const Dialogue& one) {
  return model.logits({one}, {{one.questions.back().answer}});
}
double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

// What a reader of the text knows: the words of each turn.
std::vector<std::vector<std::string>> turns_of(const Dialogue& dialogue) {
  std::istringstream lines(readable(dialogue, std::ssize(dialogue.tokens)));
  std::vector<std::vector<std::string>> turns;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    turns.emplace_back();
    for (std::string word; words >> word;)
      if (word != "/") turns.back().push_back(word);
  }
  return turns;
}

TEST(Dialogue, AnswersAreTheValuesThatWereToldLast) {
  std::int64_t updates = 0, all = 0;
  for (const std::int64_t length : {1, 4, 10, 30})
    for (std::uint64_t number = 0; number < 50; ++number) {
      const Dialogue one = dialogue(length, 10, Part::train, 3, number);
      const auto turns = turns_of(one);
      ASSERT_EQ(std::ssize(turns), std::max<std::int64_t>(length, 10) + other_turns);
      std::map<std::string, std::string> told, replaced;
      std::map<std::string, std::int64_t> told_at;
      std::size_t question = 0;
      for (std::int64_t turn = 0; turn < std::ssize(turns); ++turn) {
        const auto& words = turns[static_cast<std::size_t>(turn)];
        EXPECT_LE(std::ssize(words), most_tokens_of_turn);
        if (words[2] == "is") {
          const std::string& key = words[1];
          replaced[key] = told.count(key) ? told[key] : "";
          EXPECT_NE(replaced[key], words[3]);
          told[key] = words[3];
          told_at[key] = turn;
        } else if (words[2] == "?") {
          const std::string& key = words[1];
          ASSERT_TRUE(told_at.count(key));  // told, and not asked since
          EXPECT_EQ(words[4], told[key]);
          const Question& found = one.questions.at(question++);
          EXPECT_EQ(found.distance, turn - told_at[key]);
          EXPECT_EQ(word(one.tokens[static_cast<std::size_t>(found.answer)]), told[key]);
          EXPECT_EQ(found.outdated < 0 ? "" : word(found.outdated), replaced[key]);
          ++all;
          updates += found.outdated >= 0;
          told_at.erase(key);
        }
      }
      EXPECT_EQ(question, one.questions.size());
      EXPECT_EQ(one.questions.back().distance, length);
      EXPECT_GE(one.questions.back().outdated, 0);
      EXPECT_EQ(one.questions.back().answer, std::ssize(one.tokens) - 1);
    }
  EXPECT_GT(all, 600);          // more than the last questions of 200 dialogues
  EXPECT_GT(updates, all / 2);  // order matters for most of them
}

TEST(Dialogue, IsAFunctionOfItsArguments) {
  const auto text = [](Part part, std::uint64_t seed, std::uint64_t number) {
    const Dialogue one = dialogue(5, 10, part, seed, number);
    return readable(one, std::ssize(one.tokens));
  };
  EXPECT_EQ(text(Part::train, 1, 2), text(Part::train, 1, 2));
  const std::set<std::string> others{text(Part::train, 1, 2), text(Part::validation, 1, 2),
                                     text(Part::test, 1, 2), text(Part::train, 2, 2),
                                     text(Part::train, 1, 3)};
  EXPECT_EQ(others.size(), 5u);
}

// Measures the best guess without the earlier turns: the most frequent answer to each question,
// and the most frequent pair of answer and outdated answer.
TEST(Dialogue, ChanceIsWhatTheBestGuesserReaches) {
  constexpr int rounds = 40000;
  std::map<std::int64_t, std::map<std::int64_t, double>> answers, told;
  for (int i = 0; i < rounds; ++i) {
    const Dialogue one = dialogue(1, 1, Part::test, 5, static_cast<std::uint64_t>(i));
    const Question& last = one.questions.back();
    const auto at = static_cast<std::size_t>(last.answer);
    const std::int64_t key = one.tokens[at - 3];
    ++answers[key][one.tokens[at]];
    ++told[key][one.tokens[at]];
    ++told[key][last.outdated];
  }
  EXPECT_EQ(answers.size(), 6u);
  const auto best = [](const auto& by_key) {
    double sum = 0;
    for (const auto& [key, counts] : by_key)
      sum += std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) {
               return a.second < b.second;
             })->second;
    return sum / rounds;
  };
  Settings settings = settings_of();
  settings.eval_segments = 1;
  const auto found = make_model(settings, {}, "none", 1)->evaluate([] { return false; });
  // The largest of 16 counts is about 2 deviations above their mean, a tenth of it.
  EXPECT_NEAR(best(answers), found->stretches[0].chance_score, 0.01);
  EXPECT_NEAR(best(told), found->stretches[0].chance_second, 0.01);
}

TEST(DialogueModel, LossOfRowsDoesNotDependOnTheOtherRows) {
  const at::NoGradGuard no_grad;
  const Settings settings = settings_of();
  for (const char* name :
       {"rotary", "rotary@random", "t5@restart", "alibi@packed", "shaw@memory", "t5@window"}) {
    auto model = model_of(settings, name);
    const auto of = [&](BatchRange rows) { return model->loss(Part::train, 7, 3, rows); };
    const LossSum all = of({0, 4}), first = of({0, 1}), others = of({1, 4});
    EXPECT_EQ(all.targets, first.targets + others.targets) << name;
    EXPECT_NEAR(all.nats.item<double>(), (first.nats + others.nats).item<double>(),
                1e-5 * all.nats.item<double>())
        << name;
  }
}

// If all tokens fit into the memory, the result is that of the whole context.
TEST(DialogueModel, ALongMemoryIsTheWholeContext) {
  const at::NoGradGuard no_grad;
  Settings settings = settings_of();
  settings.train_length = 10;
  settings.eval_lengths = {10};
  const Dialogue one = dialogue(10, 10, Part::test, 1, 0);
  ASSERT_LE(std::ssize(one.tokens), memory_tokens(10));
  ASSERT_GT(std::ssize(one.tokens), 2 * segment_tokens(10));
  for (const char* name : {"transformer-xl", "t5", "alibi", "rotary", "sinusoidal"}) {
    auto whole = model_of(settings, name),
         memory = model_of(settings, name + std::string("@memory"));
    const at::Tensor expected = last_logits(*whole, one);
    EXPECT_LT(difference(expected, last_logits(*memory, one)), 1e-4) << name;
    EXPECT_LT(difference(expected, last_logits(*memory, one)), 1e-4) << name << ", again";
  }
}

// The effect of another word at `distance` tokens before the last query.
double effect(DialogueModel& model, Dialogue one, std::int64_t distance) {
  const at::Tensor before = last_logits(model, one);
  const auto at = static_cast<std::size_t>(one.questions.back().answer - 1 - distance);
  one.tokens[at] = one.tokens[at] == 5 ? 6 : 5;
  return difference(before, last_logits(model, one));
}

TEST(DialogueModel, OneLayerReachesTheMemoryAndNotFurther) {
  const at::NoGradGuard no_grad;
  const Settings settings = settings_of(1);
  const Dialogue one = dialogue(16, 4, Part::test, 1, 0);
  const std::int64_t memory = memory_tokens(4), window = segment_tokens(4);
  ASSERT_GT(std::ssize(one.tokens), memory + 2);
  auto with_memory = model_of(settings, "t5@memory"),
       with_window = model_of(settings, "t5@window"), whole = model_of(settings, "t5");
  EXPECT_GT(effect(*with_memory, one, memory), 1e-6);
  EXPECT_EQ(effect(*with_memory, one, memory + 1), 0);
  EXPECT_GT(effect(*with_window, one, window - 1), 1e-6);
  EXPECT_EQ(effect(*with_window, one, window), 0);
  EXPECT_GT(effect(*whole, one, memory + 1), 1e-6);
}

// A word of the first segment gets a gradient from a later segment only without a memory.
TEST(DialogueModel, MemoryGetsNoGradient) {
  const Settings settings = settings_of(1);
  for (const char* name : {"alibi", "alibi@memory"}) {
    auto model = model_of(settings, name);
    Dialogue one = dialogue(4, 4, Part::test, 1, 0);
    constexpr std::int64_t rare = 200;
    one.tokens[3] = rare;
    last_logits(*model, one).square().sum().backward();
    const at::Tensor gradient = model->module().named_parameters()["embedding.weight"].grad();
    EXPECT_EQ(gradient[rare].abs().sum().item<double>() > 0, name == std::string("alibi"));
    EXPECT_GT(gradient[assistant].abs().sum().item<double>(), 0);
  }
}

// A dialogue with two of its turns exchanged.
Dialogue exchanged(const Dialogue& one, std::int32_t a, std::int32_t b) {
  Dialogue other;
  for (std::int32_t turn = 0; turn <= one.turns.back(); ++turn) {
    const std::int32_t from = turn == a ? b : turn == b ? a : turn;
    for (std::size_t i = 0; i < one.turns.size(); ++i)
      if (one.turns[i] == from) {
        other.tokens.push_back(one.tokens[i]);
        other.turns.push_back(turn);
      }
  }
  other.questions = one.questions;
  return other;
}

// The keys of one layer do not depend on the other tokens.
TEST(DialogueModel, PositionsThatRestartDoNotTellTheOrderOfTurns) {
  const at::NoGradGuard no_grad;
  const Settings settings = settings_of(1);
  const Dialogue one = dialogue(4, 4, Part::test, 1, 0);
  const Dialogue other = exchanged(one, 2, 4);
  ASSERT_NE(one.tokens, other.tokens);
  for (const char* name : {"rotary", "t5", "learned", "alibi"}) {
    const auto change = [&](const std::string& encoding) {
      auto model = model_of(settings, encoding);
      return difference(last_logits(*model, one), last_logits(*model, other));
    };
    EXPECT_LT(change(name + std::string("@restart")), 2e-5) << name;
    EXPECT_EQ(change(name + std::string("@packed")), 0) << name;
    EXPECT_GT(change(name), 1e-4) << name;
  }
}

TEST(DialogueModel, PackedTurnsSeeNoEarlierTurn) {
  const at::NoGradGuard no_grad;
  const Settings settings = settings_of();
  const Dialogue one = dialogue(1, 4, Part::test, 1, 0);
  auto packed = model_of(settings, "rotary@packed"),
       restart = model_of(settings, "rotary@restart");
  // The question has three tokens before the role of its answer.
  EXPECT_GT(effect(*packed, one, 3), 1e-6);
  EXPECT_EQ(effect(*packed, one, 4), 0);
  EXPECT_GT(effect(*restart, one, 4), 1e-6);
}

TEST(DialogueModel, TestsEveryLengthThatTheEncodingHasPositionsFor) {
  const Settings settings = settings_of();
  const auto tested = [&](const char* name) {
    TrainingRun run(settings, {}, name, 1);
    run.train_step();
    return *run.model().evaluate([] { return false; });
  };
  const Evaluation whole = tested("learned"), restart = tested("learned@restart"),
                   window = tested("learned@window"), random = tested("learned@random");
  ASSERT_EQ(whole.stretches.size(), 8u);
  for (const Stretch& one : whole.stretches) EXPECT_EQ(one.applicable, one.to <= 4) << one.to;
  for (const Evaluation& all : {restart, window, random})
    for (const Stretch& one : all.stretches) {
      EXPECT_TRUE(one.applicable);
      EXPECT_EQ(one.examples, 2 * settings.eval_segments);
      EXPECT_GT(one.bits, 0);
      EXPECT_LE(one.score, one.second);
    }
  EXPECT_FALSE(TrainingRun(settings, {}, "t5", 1).model().evaluate([] { return true; }));
}

TEST(DialogueModel, ShowsADialogueWithItsAnswer) {
  const Settings settings = settings_of();
  TrainingRun run(settings, {}, "t5@memory", 1);
  RunResult result;
  run.model().describe(result);
  ASSERT_EQ(result.samples.size(), 2u);
  const Sample& one = result.samples[1];
  EXPECT_EQ(one.context, 8);
  EXPECT_EQ(one.prompt.substr(0, 6), "user: ");
  EXPECT_EQ(one.prompt.substr(one.prompt.size() - 10), "assistant:");
  EXPECT_FALSE(one.expected.empty());
  EXPECT_FALSE(one.text.empty());
}

TEST(DialogueTask, RefusesSuffixesOfOtherTasksAndText) {
  Settings settings = settings_of();
  settings.encodings = {"rotary@memory", "none@packed"};
  EXPECT_NO_THROW(check_settings(settings));
  settings.texts = {"a.txt"};
  EXPECT_THROW(check_settings(settings), std::invalid_argument);
  settings.texts.clear();
  settings.task = &find_task("copy");
  EXPECT_THROW(check_settings(settings), std::invalid_argument);
}

}  // namespace dialogue_test
}  // namespace gnomon::lab
