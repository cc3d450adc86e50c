// The smaller programs of docs/examples. Each checks a property of itself and exits with 1 if
// it does not hold; the tests read the printed numbers too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "examples/programs.h"
#include "io/temporary.h"

namespace gnomon {
namespace examples_test {

using ::testing::HasSubstr;

TEST_F(Examples, PaddingDoesNotChangeTheClassOfBert) {
  const std::string output = done("bert");
  const auto changes = numbers(output);
  ASSERT_EQ(changes.size(), 3u) << output;
  EXPECT_LE(changes[0], 1e-5);
  EXPECT_LE(changes[1], 1e-5);
  EXPECT_GE(changes[2], 1e-2);
}

TEST_F(Examples, GptGeneratesTheSameTokensWithAndWithoutItsCache) {
  const std::string output = done("gpt");
  std::smatch cached, full;
  ASSERT_TRUE(std::regex_search(output, cached, std::regex("with the cache: ([0-9 ]+)\n")));
  ASSERT_TRUE(std::regex_search(output, full, std::regex("full passes: ([0-9 ]+)\n")));
  EXPECT_EQ(cached[1], full[1]);
  const std::string tokens = cached[1];
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), ' '), 16);  // 5 of the prompt, 12 more
  EXPECT_LE(numbers(output).at(0), 1e-4);
}

TEST_F(Examples, T5TranslatesStepByStepAsInOnePass) {
  const auto changes = numbers(done("t5"));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_LE(changes[0], 1e-4);
  EXPECT_GE(changes[1], 1e-2);
}

TEST_F(Examples, LlamaTakesPositionFromItsConfigAlone) {
  const std::string output = done("llama");
  EXPECT_THAT(output, HasSubstr("llama, 32 layers: rotary-scaled in 32 layers\n"));
  EXPECT_LE(numbers(output).at(0), 1e-3);

  const std::string models = GNOMON_SOURCE_DIR "/tests/model/engine/";
  EXPECT_THAT(done("llama", {models + "bloom/config.json"}),
              HasSubstr("bloom, 3 layers: alibi in 3 layers\n"));
  const testing::TemporaryFolder folder;
  testing::put(folder / "config.json", R"({"model_type": "mistral", "hidden_size": 32,
    "num_hidden_layers": 2, "num_attention_heads": 4, "sliding_window": 4,
    "max_position_embeddings": 64})");
  EXPECT_LE(numbers(done("llama", {folder / "config.json"})).at(0), 1e-3);

  const auto refused = run("llama", {models + "gemma3_text/config.json"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.errors, HasSubstr("the checkpoint must have a tensor for query_norm"));
}

TEST_F(Examples, BatchingGivesTheBitsOfSeparateCalls) {
  const std::string output = done("batching");
  EXPECT_THAT(output, HasSubstr("step with 21 tokens of 3 sequences: the bits of"));
  EXPECT_EQ(output.find("different"), std::string::npos);
}

TEST_F(Examples, VitTellsPatchesApartByTheirRowsOfTheTable) {
  const auto changes = numbers(done("vit"));
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0], 0);
  EXPECT_GE(changes[1], 1e-3);
  EXPECT_LE(changes[2], 1e-5);
}

}  // namespace examples_test
}  // namespace gnomon
