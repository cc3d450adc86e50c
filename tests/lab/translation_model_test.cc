#include "apps/lab/data/task.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"
#include "apps/lab/tasks/translation.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "apps/lab/model/candidate.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/runs/run.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace translation_model_test {

using namespace translation_examples;

// A model refers to its settings.
const Settings& tiny_translation() {
  static const Settings settings = [] {
    Settings made = testing::tiny();
    made.task = &find_task("translation");
    made.train_length = 8;
    made.eval_lengths = {8, 16};
    return made;
  }();
  return settings;
}

const Corpus& corpus() {
  static const Corpus corpus = load(tiny_translation());
  return corpus;
}

// A model with weights so large that its outputs depend on all inputs.
Translator translator(const std::string& encoding, std::int64_t tokens = 40) {
  const Settings& s = tiny_translation();
  const auto scheme = [&](Visibility reads) {
    return model::parse_scheme(encoding, {s.width, s.heads, tokens, reads}, 2);
  };
  Translator made(
      s, Sizes{20, 30, scheme(Visibility::bidirectional), scheme(Visibility::causal)}, 1);
  const at::NoGradGuard no_grad;
  for (const auto& item : made->named_parameters())
    if (item.value().dim() > 1)
      item.value().mul_(item.key().find("embedding") == std::string::npos ? 40 : 4);
  return made;
}

at::Tensor tokens(std::int64_t rows, std::int64_t count, std::int64_t below,
                  std::uint64_t seed) {
  Draws draws{seed};
  at::Tensor all = at::empty({rows, count}, at::kLong);
  auto* id = all.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < all.numel(); ++i) id[i] = draws.below(below);
  return all;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

class ModelOfEach : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, ModelOfEach,
                         ::testing::Values("none", "sinusoidal", "learned", "rotary", "alibi",
                                           "t5", "shaw"));

TEST_P(ModelOfEach, ReadsTheOrderOfTheSourceIfItHasPositions) {
  const at::NoGradGuard no_grad;
  Translator made = translator(GetParam());
  const at::Tensor source = tokens(2, 6, 20, 1), inputs = tokens(2, 5, 30, 2);
  const auto logits = [&](const at::Tensor& sentence) {
    return made->decode(made->encode(sentence), inputs);
  };
  const at::Tensor order = at::tensor({2, 0, 1, 5, 3, 4}, at::kLong);
  const double change = difference(logits(source), logits(source.index_select(1, order))),
               reversal = difference(logits(source), logits(source.flip(1)));
  constexpr double rounding = 1e-3, clear = 0.05;
  if (GetParam() == "none")
    EXPECT_LT(change, rounding);
  else
    EXPECT_GT(change, clear);
  // A bias by the absolute distance is the same from both ends.
  if (GetParam() == "none" || GetParam() == "alibi")
    EXPECT_LT(reversal, rounding);
  else
    EXPECT_GT(reversal, clear);
}

TEST_P(ModelOfEach, HasNoPositionsAcross) {
  const at::NoGradGuard no_grad;
  Translator made = translator(GetParam());
  const at::Tensor memory = made->encode(tokens(2, 6, 20, 1)), inputs = tokens(2, 9, 30, 2);
  const at::Tensor order = at::tensor({2, 0, 1, 5, 3, 4}, at::kLong);
  EXPECT_LT(difference(made->decode(memory, inputs),
                       made->decode(memory.index_select(1, order), inputs)),
            1e-3);
  EXPECT_GT(difference(made->decode(memory, inputs), made->decode(memory.flip(0), inputs)),
            0.05)
      << "the decoder reads the source";
}

TEST_P(ModelOfEach, SeesAllOfTheSourceAndOnlyEarlierTargets) {
  const at::NoGradGuard no_grad;
  Translator made = translator(GetParam());
  const at::Tensor source = tokens(1, 6, 20, 1), inputs = tokens(1, 5, 30, 2);
  const at::Tensor logits = made->decode(made->encode(source), inputs);
  at::Tensor other = inputs.clone();
  other[0][3] = (other[0][3].item<std::int64_t>() + 1) % 30;
  const at::Tensor changed = made->decode(made->encode(source), other);
  EXPECT_EQ(difference(logits.narrow(1, 0, 3), changed.narrow(1, 0, 3)), 0);
  EXPECT_GT(difference(logits.narrow(1, 4, 1), changed.narrow(1, 4, 1)), 0);
  at::Tensor last = source.clone();
  last[0][5] = (last[0][5].item<std::int64_t>() + 1) % 20;
  EXPECT_GT(difference(logits.narrow(1, 0, 1),
                       made->decode(made->encode(last), inputs).narrow(1, 0, 1)),
            1e-3);
}

TEST_P(ModelOfEach, DecodesGreedilyLikeTheWholeForwardPass) {
  const at::NoGradGuard no_grad;
  Translator made = translator(GetParam());
  const at::Tensor source = tokens(3, 6, 20, 1);
  constexpr std::int64_t most = 12;
  const std::vector<Ids> found = made->translate(source, most);
  ASSERT_EQ(found.size(), 3u);
  for (std::int64_t row = 0; row < 3; ++row) {
    Ids wanted{Vocabulary::end};
    while (std::ssize(wanted) <= most) {
      const at::Tensor inputs = at::tensor(wanted, at::kLong).view({1, -1});
      const std::int64_t next = made->decode(made->encode(source.narrow(0, row, 1)), inputs)
                                    .select(1, -1)
                                    .argmax()
                                    .item<std::int64_t>();
      if (next == Vocabulary::end) break;
      wanted.push_back(next);
    }
    EXPECT_EQ(found[static_cast<std::size_t>(row)], Ids(wanted.begin() + 1, wanted.end()));
  }
}

TEST_P(ModelOfEach, HasTheLossOfItsRows) {
  const at::NoGradGuard no_grad;
  const auto made = make_model(tiny_translation(), corpus(), GetParam(), 1);
  const LossSum all = made->loss(Part::train, 1, 3, {0, 4});
  double nats = 0;
  std::int64_t targets = 0;
  for (const BatchRange rows : {BatchRange{0, 1}, BatchRange{1, 4}}) {
    const LossSum some = made->loss(Part::train, 1, 3, rows);
    nats += some.nats.item<double>();
    targets += some.targets;
  }
  EXPECT_EQ(targets, all.targets);
  EXPECT_NEAR(nats, all.nats.item<double>(), 1e-4 * nats);
  // Untrained: all tokens are about equally likely.
  const auto& data = dynamic_cast<const Data&>(*corpus().data);
  EXPECT_NEAR(nats / static_cast<double>(targets),
              std::log(static_cast<double>(data.target.size())), 0.3);
}

TEST(TranslationModel, SharesWeightsBetweenEncodings) {
  const auto none = make_model(tiny_translation(), corpus(), "none", 3),
             t5 = make_model(tiny_translation(), corpus(), "t5", 3),
             other = make_model(tiny_translation(), corpus(), "none", 4);
  const auto all = t5->module().named_parameters(), others = other->module().named_parameters();
  for (const auto& item : none->module().named_parameters()) {
    EXPECT_TRUE(item.value().equal(all[item.key()])) << item.key();
    if (item.value().dim() > 1) {
      EXPECT_FALSE(item.value().equal(others[item.key()])) << item.key();
    }
  }
  EXPECT_EQ(parameter_count(none->module(), "position"), 0);
  // Buckets of 2 heads, 32 each, in the encoder and in the decoder.
  EXPECT_EQ(parameter_count(t5->module(), "position"), 2 * 2 * 32);
  EXPECT_NE(t5->specification().at("encoder"), t5->specification().at("decoder"));
}

TEST(TranslationModel, LeavesOutLengthsWithoutPositions) {
  const auto made = make_model(tiny_translation(), corpus(), "learned", 1);
  const auto found = made->evaluate([] { return false; });
  ASSERT_TRUE(found);
  ASSERT_EQ(found->stretches.size(), 8u);
  for (const Stretch& one : found->stretches) {
    EXPECT_EQ(one.applicable, one.to <= 8) << one.to;
    if (!one.applicable) continue;
    EXPECT_GT(one.examples, 2);
    EXPECT_GT(one.chance_score, 0.1);
    EXPECT_LT(one.chance_score, 0.5);
    EXPECT_LT(one.score, 0.2);
    EXPECT_GT(one.bits, 4);
  }
  EXPECT_FALSE(made->evaluate([] { return true; }));
  RunResult run;
  made->describe(run);
  ASSERT_EQ(run.samples.size(), 1u);
  EXPECT_EQ(run.samples[0].context, 8);
  EXPECT_FALSE(run.samples[0].expected.empty());
}

TEST(TranslationModel, TrainsOnRandomPositions) {
  const auto made = make_model(tiny_translation(), corpus(), "learned@random", 1);
  made->loss(Part::train, 1, 0, {0, 4});
  const auto found = made->evaluate([] { return false; });
  for (const Stretch& one : found->stretches) EXPECT_TRUE(one.applicable);
}

// Two pairs and their repetitions: a model that has learned them translates them, in the words
// of the reference.
TEST(TranslationModel, TranslatesWhatItHasLearned) {
  Settings settings = tiny_translation();
  settings.steps = 40;
  settings.width = 32;
  settings.learning_rate = 1e-2;
  settings.eval_lengths = {8};
  auto data = std::make_shared<Data>();
  const SentencePair pairs[] = {{"dog ran", "darit u kela"}, {"cat ran", "miro darit"}};
  std::vector<std::string_view> sources, targets;
  for (int i = 0; i < 5; ++i)
    for (const SentencePair& one : pairs)
      sources.push_back(one.source), targets.push_back(one.target);
  data->source = Vocabulary(sources);
  data->target = Vocabulary(targets);
  for (auto* part : {&data->train, &data->validation, &data->test}) {
    part->resize(9);
    for (const SentencePair& one : pairs)
      (*part)[2].push_back({one, data->source.ids(one.source), data->target.ids(one.target)});
  }
  Corpus two;
  two.data = data;
  TrainingRun run(settings, two, "rotary", 1);
  while (!run.trained()) run.train_step();
  const auto found = run.model().evaluate([] { return false; });
  for (const Stretch& one : found->stretches) {
    EXPECT_EQ(one.score, 1);
    EXPECT_EQ(one.second, 1);
    EXPECT_LT(one.bits, 0.3);
    // The other sentence of training is the right one in half of the draws.
    EXPECT_NEAR(one.chance_second, 0.5, 0.4);
  }
  RunResult described;
  run.model().describe(described);
  EXPECT_EQ(described.samples[0].text, described.samples[0].expected);
}

TEST(TranslationSettings, AreChecked) {
  const auto error = [](auto change) -> std::string {
    Settings settings = tiny_translation();
    settings.encodings = {"none"};
    change(settings);
    try {
      check_settings(settings);
    } catch (const std::invalid_argument& thrown) {
      return thrown.what();
    }
    return "none";
  };
  EXPECT_EQ(error([](Settings&) {}), "none");
  EXPECT_EQ(error([](Settings& s) { s.texts = {"a", "b"}; }), "none");
  EXPECT_EQ(error([](Settings& s) { s.texts = {"a"}; }),
            "[lab] --task translation must have no TEXT or two, SOURCE and TARGET, got 1");
  EXPECT_NE(error([](Settings& s) { s.layers = 1; }).find("at least 2 --layers"),
            std::string::npos);
  EXPECT_NE(error([](Settings& s) {
              s.train_length = 4;
              s.eval_lengths = {4};
            }).find("must be at least 8, got 4"),
            std::string::npos);
}

}  // namespace translation_model_test
}  // namespace gnomon::lab
