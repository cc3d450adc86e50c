#include "apps/lab/model/candidate.h"
#include "apps/lab/data/task.h"
#include "apps/lab/tasks/make_model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "apps/lab/model/transformer.h"

namespace gnomon::lab {
namespace candidate_test {

Settings tiny() {
  Settings settings;
  settings.train_length = 16;
  settings.eval_lengths = {16, 64};
  settings.layers = 2;
  settings.width = 16;
  settings.heads = 2;
  return settings;
}

TEST(FindCandidate, ReadsNamesSchemesAndRandomIds) {
  const Candidate plain = find_candidate("rotary");
  EXPECT_EQ(plain.title, "Rotary (RoPE)");
  EXPECT_EQ(plain.enters, "queries and keys");
  EXPECT_FALSE(plain.has_random_positions());

  const Candidate mixed = find_candidate("rotary+alibi*3/none");
  EXPECT_EQ(mixed.title, "rotary+alibi*3/none");
  EXPECT_EQ(mixed.enters, "queries and keys, scores");
  EXPECT_NE(mixed.source.find("Press et al."), std::string::npos);

  const Candidate random = find_candidate("learned@random");
  EXPECT_EQ(random.scheme, "learned");
  EXPECT_TRUE(random.has_random_positions());
  EXPECT_EQ(random.title, "Learned table, random positions");

  EXPECT_EQ(random.suffix, "random");
  EXPECT_NE(random.source.find("Ruoss"), std::string::npos);

  EXPECT_THROW(find_candidate("rotary@often"), std::invalid_argument);
  EXPECT_THROW(find_candidate("rotray"), std::invalid_argument);
  EXPECT_THROW(find_candidate(""), std::invalid_argument);
}

TEST(CheckSuffix, NamesTheSuffixesOfTheTask) {
  const Candidate memory = find_candidate("t5@memory");
  EXPECT_EQ(memory.title, "T5 bias, segment memory");
  EXPECT_FALSE(memory.has_random_positions());
  Settings settings = tiny();
  check_suffix(find_candidate("t5@random"), settings);
  check_suffix(find_candidate("t5"), settings);
  settings.task = &find_task("masked");
  try {
    check_suffix(memory, settings);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        error.what(),
        "[lab] with --task masked the suffix after @ in --encodings must be one of random, "
        "drope, got memory");
  }
  for (const char* task : {"dialogue", "text"}) {
    settings.task = &find_task(task);
    check_suffix(memory, settings);
  }
}

TEST(TransformerFor, RandomIdsReachTheLongestLength) {
  const at::NoGradGuard no_grad;
  const Settings settings = tiny();
  Transformer counted = transformer_for(settings, find_candidate("learned"), 16, 1);
  Transformer random = transformer_for(settings, find_candidate("learned@random"), 16, 1);
  const at::Tensor bytes = at::zeros({1, 64}, at::kLong);
  EXPECT_THROW(counted->forward(bytes), std::invalid_argument);
  EXPECT_EQ(random->forward(bytes).size(1), 64);
}

// A segment has positions after those of the segment before it.
TEST(TransformerFor, AMemoryOfTextHasASecondSegment) {
  const at::NoGradGuard no_grad;
  Settings settings = tiny();
  const auto rows = [&](const char* name) {
    return *model::capacity(transformer_for(settings, find_candidate(name), 16, 1)->scheme());
  };
  EXPECT_EQ(rows("learned@memory"), 32);
  EXPECT_EQ(rows("learned@window"), 16);
  settings.task = &find_task("dialogue");
  EXPECT_EQ(rows("learned@memory"), 16);
}

TEST(TransformerFor, ABidirectionalBiasTellsWhatLiesAhead) {
  Settings settings = tiny();
  const auto parameters = [&](const char* name) {
    return parameter_count(*transformer_for(settings, find_candidate(name), 16, 1), "position");
  };
  const std::int64_t before = parameters("clipped");
  settings.task = &find_task("masked");
  EXPECT_EQ(parameters("clipped"), 31 * 2);
  EXPECT_EQ(before, 16 * 2);
}

TEST(Unusable, SaysWhy) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  EXPECT_FALSE(unusable("rotary*1/none", settings, corpus));
  EXPECT_TRUE(unusable("rotary*7/none", settings, corpus));
  const auto twice = unusable("alibi+t5", settings, corpus);
  ASSERT_TRUE(twice);
  EXPECT_EQ(twice->front(), '[');
}

TEST(FileName, HasNoFolders) {
  EXPECT_EQ(file_name("rotary*3/none"), "rotary*3,none");
  EXPECT_EQ(file_name("rotary"), "rotary");
}

}  // namespace candidate_test
}  // namespace gnomon::lab
