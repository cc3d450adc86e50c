// The suffixes @memory and @window of --task text.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <random>

#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/transformer.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/make_model.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace text_memory_test {

// A text of four letters. Each letter is that of `period` letters before it, except for one in
// twenty, which is random.
std::string periodic_text(std::size_t size, std::size_t period, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < size)
    text += text.size() < period || random() % 20 == 0 ? static_cast<char>('a' + random() % 4)
                                                       : text[text.size() - period];
  return text;
}

Corpus periodic_corpus(std::size_t period) {
  Corpus corpus;
  corpus.train = {{"train", periodic_text(20000, period, 1)}};
  corpus.validation = {{"validation", periodic_text(1000, period, 2)}};
  corpus.test = {{"test", periodic_text(2000, period, 3)}};
  return corpus;
}

Settings short_segments() {
  Settings settings = testing::tiny();
  settings.train_length = 8;
  settings.eval_lengths = {8, 16, 32};
  settings.layers = 1;
  settings.batch = 16;
  settings.steps = 500;
  settings.learning_rate = 1e-2;
  settings.eval_segments = 20;
  return settings;
}

Evaluation trained(const Settings& settings, const Corpus& corpus, const char* name) {
  TrainingRun run(settings, corpus, name, 1);
  while (!run.trained()) run.train_step();
  return *run.model().evaluate([] { return false; });
}

// The letter that repeats is 9 before the predicted one, and a segment has 8.
TEST(TextMemory, FindsTheLetterBeforeTheSegment) {
  const Settings settings = short_segments();
  const Corpus corpus = periodic_corpus(9);
  const Evaluation memory = trained(settings, corpus, "shaw@memory"),
                   window = trained(settings, corpus, "shaw@window");
  for (const LengthLoss& one : window.lengths) {
    ASSERT_TRUE(one.applicable);
    EXPECT_GT(one.tail_bits, 1.9);  // 2: four letters that are equally likely
    EXPECT_EQ(one.tail_bits, window.lengths[0].tail_bits);
  }
  EXPECT_GT(memory.lengths[0].tail_bits, 1.9);
  for (const std::size_t longer : {1, 2})
    EXPECT_LT(memory.lengths[longer].tail_bits, window.lengths[longer].tail_bits - 0.25);
}

// @window is trained and tested at the training length as the model without a suffix.
TEST(TextMemory, AWindowIsTheModelWithItsContextCut) {
  Settings settings = short_segments();
  settings.steps = 3;
  const Corpus corpus = periodic_corpus(9);
  const Evaluation window = trained(settings, corpus, "t5@window"),
                   whole = trained(settings, corpus, "t5");
  EXPECT_EQ(window.lengths[0], whole.lengths[0]);
  for (const LengthLoss& one : window.lengths) {
    EXPECT_EQ(one.tail_bits, whole.lengths[0].tail_bits);
    EXPECT_EQ(one.windows, whole.lengths[0].windows);
  }
  EXPECT_NE(whole.lengths[1].tail_bits, whole.lengths[0].tail_bits);
  EXPECT_EQ(window.by_position->length, 8);
}

// A table has positions for two segments, and a window for every length.
TEST(TextMemory, IsTestedWhereThereArePositions) {
  Settings settings = short_segments();
  settings.steps = 1;
  const Corpus corpus = periodic_corpus(9);
  const auto applicable = [&](const char* name) {
    std::vector<bool> all;
    for (const LengthLoss& one : trained(settings, corpus, name).lengths)
      all.push_back(one.applicable);
    return all;
  };
  EXPECT_EQ(applicable("learned"), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(applicable("learned@memory"), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(applicable("learned@window"), (std::vector<bool>{true, true, true}));
}

// Every second row has a memory, which changes its loss. The loss of a batch is the sum of
// those of its rows.
TEST(TextMemory, TrainsWithAndWithoutAMemory) {
  const at::NoGradGuard no_grad;
  Settings settings = short_segments();
  settings.batch = 4;
  const Corpus corpus = periodic_corpus(9);
  const auto memory = make_model(settings, corpus, "t5@memory", 1),
             plain = make_model(settings, corpus, "t5", 1);
  for (const Part part : {Part::train, Part::validation}) {
    const auto loss = [&](TaskModel& model, std::int64_t begin, std::int64_t end) {
      const LossSum sum = model.loss(part, 1, 4, {begin, end});
      EXPECT_EQ(sum.targets, 8 * (end - begin));
      return sum.nats.item<double>();
    };
    double rows = 0;
    for (std::int64_t row = 0; row < 4; ++row) {
      rows += loss(*memory, row, row + 1);
      const double difference =
          std::abs(loss(*memory, row, row + 1) - loss(*plain, row, row + 1));
      EXPECT_EQ(difference > 1e-4, row % 2 == 1) << row << ": " << difference;
    }
    EXPECT_NEAR(loss(*memory, 0, 4), rows, 1e-4 * rows);
  }
}

// The logits of a segment depend on the memory, but no gradient passes into it.
TEST(SegmentReader, GivesTheMemoryNoGradient) {
  const Settings settings = short_segments();
  Transformer model = transformer_for(settings, find_candidate("alibi"), 8, 1);
  SegmentReader reader(settings);
  const auto logits = [&](std::int64_t before) {
    reader.read(model, at::full({1, 8}, before, at::kLong));
    return reader.read_next(model, at::full({1, 8}, 'b', at::kLong));
  };
  const at::Tensor a = logits('a');
  EXPECT_GT((a - logits('c')).abs().max().item<double>(), 1e-5);
  EXPECT_EQ((a - logits('a')).abs().max().item<double>(), 0);
  logits('a').pow(2).sum().backward();
  const at::Tensor gradient = model->named_parameters()["embedding.weight"].grad();
  EXPECT_EQ(gradient['a'].abs().max().item<double>(), 0);
  EXPECT_GT(gradient['b'].abs().max().item<double>(), 0);
}

// With one layer, a query sees the same 8 tokens before it as in a window that begins there.
TEST(SegmentReader, SeesAsManyTokensAsTheMemoryHolds) {
  const at::NoGradGuard no_grad;
  const Settings settings = short_segments();
  for (const char* name : {"alibi", "rotary", "shaw", "t5"}) {
    Transformer model = transformer_for(settings, find_candidate(name), 8, 1);
    SegmentReader reader(settings);
    at::Tensor tokens = at::randint('a', 'e', {1, 40}, at::kLong);
    const at::Tensor read = reader.read(model, tokens);
    for (const std::int64_t at : {8, 15, 16, 23, 39}) {
      const at::Tensor alone = model->forward(tokens.slice(1, at - 8, at + 1))[0][8];
      EXPECT_LT((read[0][at] - alone).abs().max().item<double>(), 1e-4) << name << at;
    }
    const at::Tensor first = model->forward(tokens.slice(1, 0, 8));
    EXPECT_LT((read.slice(1, 0, 8) - first).abs().max().item<double>(), 1e-4) << name;
  }
}

}  // namespace text_memory_test
}  // namespace gnomon::lab
