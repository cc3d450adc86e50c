// What the report shows of a trained model: attention by head, encodings before training, and
// the loss with a shuffled context.
#include "apps/lab/tasks/make_model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "apps/lab/model/candidate.h"
#include "apps/lab/model/evaluate.h"
#include "apps/lab/runs/run.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace picture_test {

using testing::tiny;

TEST(TrainedAttention, SharesOfAHeadAreThoseOfItsDefinition) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  Transformer model = transformer_for(settings, find_candidate("alibi"), 16, 1);
  for (auto& item : model->named_parameters())
    if (item.key().find("qkv") != std::string::npos) item.value().detach().zero_();
  const TrainedAttention found = *trained_attention(model, settings, corpus);
  EXPECT_EQ(found.range_ends, (std::vector<std::int64_t>{0, 1, 3, 7, 15}));
  ASSERT_EQ(found.heads.size(), 4u);  // 2 layers, 2 heads
  for (const HeadAttention& one : found.heads) {
    // Queries and keys are 0, so weights are proportional to exp(-slope distance), with the
    // slopes 2^-4 and 2^-8 (Press et al. 2022).
    const double slope = std::exp2(-4.0 * static_cast<double>(one.head + 1));
    std::vector<double> shares(5);
    double mean_distance = 0;
    for (int query = 8; query < 16; ++query) {
      double total = 0;
      for (int d = 0; d <= query; ++d) total += std::exp(-slope * d);
      for (int d = 0; d <= query; ++d) {
        const double weight = std::exp(-slope * d) / total / 8;
        shares[d < 2 ? d : d < 4 ? 2 : d < 8 ? 3 : 4] += weight;
        mean_distance += weight * d;
      }
    }
    ASSERT_EQ(one.shares.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(one.shares[i], shares[i], 1e-6) << i;
    EXPECT_NEAR(one.mean_distance, mean_distance, 1e-5);
  }
}

TEST(TrainedAttention, TheMeanOfTheHeadsIsTheCurve) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  for (const char* task : {"text", "masked"}) {
    Settings here = settings;
    here.task = &find_task(task);
    Transformer model = transformer_for(here, find_candidate("t5"), 16, 1);
    const TrainedAttention found = *trained_attention(model, here, corpus);
    for (std::size_t i = 0; i < found.range_ends.size(); ++i) {
      double share = 0;
      for (const HeadAttention& head : found.heads)
        for (std::size_t k = 0; k <= i; ++k) share += head.shares[k] / 4;
      const auto place =
          std::find(found.distances.begin(), found.distances.end(), found.range_ends[i]);
      ASSERT_NE(place, found.distances.end());
      EXPECT_NEAR(
          share, found.shares[static_cast<std::size_t>(place - found.distances.begin())], 1e-9);
    }
  }
}

TEST(Picture, HasTheInitialValuesOfWhatTrainingChanges) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  for (const auto& [name, table, bias] : {std::tuple{"learned", true, false},
                                          {"t5", false, true},
                                          {"kerple", false, true},
                                          {"fire", false, true},
                                          {"alibi", false, false},
                                          {"sinusoidal", false, false},
                                          {"rotary", false, false}}) {
    TrainingRun run(settings, corpus, name, 1);
    RunResult untrained = run.summary(), trained;
    run.model().describe(untrained);
    EXPECT_FALSE(untrained.picture.initial_table || untrained.picture.initial_bias) << name;
    for (int step = 0; step < 2; ++step) run.train_step();
    trained = run.summary();
    run.model().describe(trained);
    EXPECT_EQ(trained.picture.initial_table.has_value(), table) << name;
    EXPECT_EQ(trained.picture.initial_bias.has_value(), bias) << name;
    if (trained.picture.initial_table) {
      EXPECT_EQ(trained.picture.initial_table->values, untrained.picture.table->values);
    }
    if (trained.picture.initial_bias) {
      EXPECT_EQ(trained.picture.initial_bias->heads, untrained.picture.bias->heads);
    }
  }
}

TEST(ShuffledLosses, AreEqualIfTheModelCannotReadTheOrder) {
  // One layer without position adds up the bytes before the last one.
  Settings settings = tiny();
  settings.layers = 1;
  const Corpus corpus = load_corpus(settings);
  const auto loss = [&](const char* name, std::int64_t kept) {
    Transformer model = transformer_for(settings, find_candidate(name), 16, 1);
    // Larger weights than at the start, when attention has little influence.
    for (at::Tensor& weight : model->parameters()) weight.detach().mul_(4);
    const auto all = shuffled_losses(model, settings, corpus, kept);
    EXPECT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].length, 16);
    EXPECT_EQ(all[0].targets, 12);  // 3 segments of 32 bytes
    EXPECT_EQ(all[1].targets, 6);
    return all[0];
  };
  EXPECT_NEAR(loss("none", 1).shuffled_bits, loss("none", 1).bits, 1e-4);
  EXPECT_GT(std::abs(loss("none", 0).shuffled_bits - loss("none", 0).bits), 1e-3);
  EXPECT_GT(std::abs(loss("rotary", 1).shuffled_bits - loss("rotary", 1).bits), 1e-3);
  // With 15 of 16 bytes kept, one byte is left, and its order is that of the text.
  EXPECT_EQ(loss("rotary", 15).shuffled_bits, loss("rotary", 15).bits);
  EXPECT_GT(loss("rotary", 0).margin, 0);
}

TEST(ShuffledLosses, HaveNoLengthsWithoutPositions) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  Transformer model = transformer_for(settings, find_candidate("learned"), 16, 1);
  EXPECT_EQ(shuffled_losses(model, settings, corpus, 0).size(), 1u);
  EXPECT_TRUE(shuffled_losses(model, settings, corpus, 16).empty());
}

}  // namespace picture_test
}  // namespace gnomon::lab
