#include "apps/lab/runs/run.h"
#include "apps/lab/data/task.h"
#include "apps/lab/tasks/make_model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "apps/lab/data/batches.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/evaluate.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace run_test {

namespace fs = std::filesystem;

using testing::tiny;

class RunOfEach : public ::testing::TestWithParam<std::string> {
 protected:
  Settings settings_ = tiny();
  Corpus corpus_ = load_corpus(settings_);
  fs::path path_ = fs::temp_directory_path() / ("gnomon-run-" + std::to_string(getpid()) + "-" +
                                                file_name(GetParam()) + ".safetensors");
};
INSTANTIATE_TEST_SUITE_P(, RunOfEach,
                         ::testing::Values("none", "learned", "rotary", "t5", "t5@random",
                                           "rotary+alibi*1/none", "rotary@drope"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

TEST_P(RunOfEach, ResumedFromACheckpointEndsInTheSameBits) {
  TrainingRun whole(settings_, corpus_, GetParam(), 1);
  while (!whole.trained()) whole.train_step();
  {
    TrainingRun first(settings_, corpus_, GetParam(), 1);
    for (int step = 0; step < 5; ++step) first.train_step();
    first.save(path_);
  }
  TrainingRun second(settings_, corpus_, GetParam(), 1);
  second.load(path_);
  fs::remove(path_);
  EXPECT_EQ(second.step(), 5);
  while (!second.trained()) second.train_step();
  const auto a = whole.transformer()->parameters(), b = second.transformer()->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;
  EXPECT_EQ(whole.summary().curve, second.summary().curve);
  const auto never = [] { return false; };
  EXPECT_EQ(evaluate(whole.transformer(), settings_, corpus_, never),
            evaluate(second.transformer(), settings_, corpus_, never));
}

TEST_P(RunOfEach, LearnsSomething) {
  settings_.steps = 60;
  settings_.learning_rate = 5e-3;
  TrainingRun run(settings_, corpus_, GetParam(), 1);
  const double first = run.train_step();
  EXPECT_NEAR(first, 8, 0.5);  // 256 equally likely bytes
  double last = 0;
  while (!run.trained()) last = run.train_step();
  EXPECT_LT(last, 5);  // the entropy of single bytes is 4.46
}

TEST(TrainingRun, SharedWeightsAndBatchesAreTheSameForEveryEncoding) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  TrainingRun none(settings, corpus, "none", 3), learned(settings, corpus, "learned", 3);
  const auto shared = none.transformer()->named_parameters();
  const auto all = learned.transformer()->named_parameters();
  for (const auto& item : shared)
    EXPECT_TRUE(item.value().equal(all[item.key()])) << item.key();
  EXPECT_EQ(all.size(), shared.size() + 1);
}

TEST(Evaluate, ReportsALearnedTableAsNotApplicableBeyondItsEnd) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  TrainingRun run(settings, corpus, "learned", 1);
  const Evaluation found = *evaluate(run.transformer(), settings, corpus, [] { return false; });
  EXPECT_TRUE(found.lengths[0].applicable);
  EXPECT_EQ(found.lengths[1], (LengthLoss{.length = 32}));
  EXPECT_EQ(found.by_position->length, 16);
}

// Without weights, all bytes are equally likely at each position.
TEST(Evaluate, TheLossByPositionIsAMean) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  TrainingRun run(settings, corpus, "rotary", 1);
  {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& one : run.transformer()->parameters()) one.zero_();
  }
  const Evaluation found = *evaluate(run.transformer(), settings, corpus, [] { return false; });
  ASSERT_GT(found.by_position->bits.size(), 4u);
  for (const double bits : found.by_position->bits) EXPECT_NEAR(bits, 8, 1e-6);
}

// The loss of the model on each target, computed window by window.
TEST(Evaluate, AveragesTheSameTargetsAtEveryLength) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  TrainingRun run(settings, corpus, "rotary", 1);
  const Evaluation found = *evaluate(run.transformer(), settings, corpus, [] { return false; });
  const at::NoGradGuard no_grad;
  const std::string& text = corpus.test[0].bytes;
  const std::int64_t context = settings.longest() / 2 + 1;
  const std::int64_t all =
      (static_cast<std::int64_t>(text.size()) - context) / settings.longest();
  for (std::size_t l = 0; l < settings.eval_lengths.size(); ++l) {
    const std::int64_t length = settings.eval_lengths[l];
    double tail = 0;
    for (std::int64_t s = 0; s < settings.eval_segments; ++s)
      for (std::int64_t i = 0; i < settings.longest(); ++i) {
        const std::int64_t target = context + (s * all / 3) * settings.longest() + i;
        const std::int64_t begin = target - 1 - length / 2 - i % (length / 2);
        at::Tensor window = at::empty({1, length}, at::kLong);
        for (std::int64_t p = 0; p < length; ++p)
          window[0][p] = static_cast<unsigned char>(text[static_cast<std::size_t>(begin + p)]);
        const at::Tensor logits = run.transformer()->forward(window)[0][target - 1 - begin];
        tail -=
            torch::log_softmax(
                logits, 0)[static_cast<unsigned char>(text[static_cast<std::size_t>(target)])]
                .item<double>() *
            bits_per_nat;
      }
    tail /= static_cast<double>(settings.eval_segments * settings.longest());
    EXPECT_NEAR(found.lengths[l].tail_bits, tail, 1e-4) << length;
  }
}

TEST(RandomPositions, ChangeTrainingAndNotTheTest) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  TrainingRun counted(settings, corpus, "rotary", 1),
      random(settings, corpus, "rotary@random", 1);
  const auto never = [] { return false; };
  EXPECT_EQ(evaluate(counted.transformer(), settings, corpus, never),
            evaluate(random.transformer(), settings, corpus, never));
  double apart = 0;
  for (int step = 0; step < 5; ++step)
    apart = std::max(apart, std::abs(counted.train_step() - random.train_step()));
  EXPECT_GT(apart, 0);
}

// Without position a window is a bag of bytes: permuting the other bytes does not change the
// prediction of masked bytes.
TEST(MaskedText, OrderIsNotSeenWithoutPosition) {
  const at::NoGradGuard no_grad;
  Settings settings = tiny();
  settings.task = &find_task("masked");
  const Corpus corpus = load_corpus(settings);
  const Batch batch = masked_batch(corpus.test, 1, 16, 1, 1);
  const at::Tensor hidden = batch.targets.ne(uncounted);
  const at::Tensor places = hidden.logical_not().view(-1).nonzero().view(-1);
  at::Tensor permuted = batch.inputs.clone();
  permuted[0].index_copy_(0, places, batch.inputs[0].index_select(0, places.flip(0)));
  ASSERT_FALSE(permuted.equal(batch.inputs));
  const auto difference = [&](const char* encoding) {
    TrainingRun run(settings, corpus, encoding, 1);
    // Larger weights than at the start, when attention has little influence.
    for (at::Tensor& weight : run.transformer()->parameters()) weight.mul_(4);
    const ForwardOptions both{.visibility = Visibility::bidirectional};
    const at::Tensor a = run.transformer()->forward(batch.inputs, both),
                     b = run.transformer()->forward(permuted, both);
    return (a - b).abs().amax(2).masked_select(hidden).max().item<double>();
  };
  EXPECT_LT(difference("none"), 1e-4);
  for (const char* encoding : {"sinusoidal", "rotary", "alibi", "t5"})
    EXPECT_GT(difference(encoding), 1e-3) << encoding;
}

TEST(MaskedText, IsTestedOnTheSameBytesAtEveryLength) {
  Settings settings = tiny();
  settings.task = &find_task("masked");
  const Corpus corpus = load_corpus(settings);
  TrainingRun run(settings, corpus, "t5", 1);
  const double first = run.train_step();
  EXPECT_NEAR(first, 8, 0.5);
  const Evaluation found = *evaluate(run.transformer(), settings, corpus, [] { return false; });
  for (const LengthLoss& at : found.lengths) EXPECT_NEAR(at.tail_bits, 8, 0.5);
  EXPECT_EQ(found.by_position->length, 32);
}

}  // namespace run_test
}  // namespace gnomon::lab
