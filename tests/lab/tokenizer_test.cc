#include "apps/lab/data/tokenizer.h"
#include "apps/lab/tasks/make_model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "apps/lab/model/evaluate.h"
#include "apps/lab/report/report.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/runs/session.h"
#include "apps/lab/statistics/results.h"
#include "gnomon/io/file.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace tokenizer_test {

namespace fs = std::filesystem;

// A few hundred different words.
std::string words(int count) {
  static const char* const parts[] = {"ba", "ko", "ri", "shu", "né", "tal", "om", "ve", "dri"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (int n = i * 7 % 101 + 40; n > 0; n /= 6) text += parts[n % 9];
    text += i % 9 == 8 ? "\n" : i % 4 == 3 ? ", " : " ";
  }
  return text;
}

std::shared_ptr<const Tokenizer> trained() {
  static const auto tokenizer = [] {
    const std::string text = words(4000);
    return Tokenizer::train({text}, 512);
  }();
  return tokenizer;
}

std::string joined(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += trained()->bytes(token);
  return text;
}

TEST(ParseTokens, AcceptsBytesAndASize) {
  EXPECT_FALSE(parse_tokens("bytes"));
  EXPECT_EQ(parse_tokens("bpe:512"), 512);
  EXPECT_EQ(parse_tokens("bpe:32000"), 32000);
  for (const char* other : {"", "bpe", "bpe:", "bpe:511", "bpe:32001", "bpe:1e3", "bpe:600x",
                            "bpe:-600", "bpe:99999999999999999999", "words"})
    EXPECT_THROW(parse_tokens(other), std::invalid_argument) << other;
}

TEST(Tokenizer, TheBytesOfTheTokensAreTheText) {
  for (const std::string& text :
       {words(50), std::string("unseen: 日本語 \t x\r\n\n  two  spaces "), std::string(),
        std::string("\n"), std::string(" ")})
    EXPECT_EQ(joined(trained()->encode(text)), text);
  const std::string text = words(500);
  EXPECT_LT(2 * trained()->encode(text).size(), text.size());
}

TEST(Tokenizer, HasATokenForEveryByte) {
  EXPECT_EQ(trained()->size(), 512);
  std::set<std::string> single;
  for (std::int64_t token = 0; token < 512; ++token)
    if (trained()->bytes(token).size() == 1) single.insert(trained()->bytes(token));
  EXPECT_EQ(single.size(), 256u);
}

TEST(Tokenizer, IsAFunctionOfTheText) {
  const std::string text = words(4000);
  EXPECT_EQ(Tokenizer::train({text}, 512)->serialized(), trained()->serialized());
  const auto again = Tokenizer::load(trained()->serialized());
  EXPECT_EQ(again->encode(words(60)), trained()->encode(words(60)));
}

TEST(Tokenizer, RefusesOtherInput) {
  for (const char* text : {"a\xff", "\xe2\x96\x81", "\xc3"})
    EXPECT_THROW(trained()->encode(text), std::invalid_argument);
  EXPECT_THROW(Tokenizer::train({"ab"}, 600), std::invalid_argument);
  EXPECT_THROW(Tokenizer::load("no model"), std::invalid_argument);
  EXPECT_THROW(Tokenizer::load(""), std::invalid_argument);
}

TEST(Tokenizer, TheNovelsOfTheLabHaveTokensToo) {
  Settings settings = gnomon::testing::tiny();
  settings.tokens = "bpe:512";
  const Corpus corpus = load_corpus(settings);
  ASSERT_TRUE(corpus.tokenizer);
  EXPECT_LT(corpus.train[0].size(), std::ssize(corpus.train[0].bytes));
}

class BytePairs : public ::testing::Test {
 protected:
  BytePairs() {
    settings_.tokens = "bpe:512";
    settings_.encodings = {"alibi"};
    const fs::path file = folder_ / "words.txt";
    fs::create_directories(folder_);
    io::write_atomically(file, words(4000));
    settings_.texts = {file.string()};
    corpus_ = load_corpus(settings_);
  }
  ~BytePairs() override { fs::remove_all(folder_); }

  fs::path folder_ =
      fs::temp_directory_path() / ("gnomon-byte-pairs-" + std::to_string(getpid()));
  Settings settings_ = gnomon::testing::tiny();
  Corpus corpus_;
};

// Each target is computed alone, and its bits are divided by the bytes of all targets.
TEST_F(BytePairs, LossesAreInBitsPerByte) {
  TrainingRun run(settings_, corpus_, "alibi", 1);
  const Evaluation found = *run.model().evaluate([] { return false; });
  const at::NoGradGuard no_grad;
  const Text& text = corpus_.test[0];
  const std::int64_t longest = settings_.longest(), context = longest / 2 + 1;
  const std::int64_t all = (text.size() - context) / longest;
  ASSERT_GE(all, 3);
  for (std::size_t l = 0; l < settings_.eval_lengths.size(); ++l) {
    const std::int64_t length = settings_.eval_lengths[l];
    double mean = 0;
    for (std::int64_t s = 0; s < settings_.eval_segments; ++s) {
      double bits = 0, bytes = 0;
      for (std::int64_t i = 0; i < longest; ++i) {
        const std::int64_t target = context + s * all / 3 * longest + i;
        const std::int64_t begin = target - 1 - length / 2 - i % (length / 2);
        at::Tensor window = at::empty({1, length}, at::kLong);
        for (std::int64_t p = 0; p < length; ++p) window[0][p] = text.token(begin + p);
        const at::Tensor logits = run.transformer()->forward(window)[0][target - 1 - begin];
        bits -= torch::log_softmax(logits, 0)[text.token(target)].item<double>() * bits_per_nat;
        bytes += static_cast<double>(corpus_.tokenizer->bytes(text.token(target)).size());
      }
      mean += bits / bytes / 3;
    }
    EXPECT_NEAR(found.lengths[l].tail_bits, mean, 1e-4) << length;
  }
}

TEST_F(BytePairs, TheTrainingLossIsInBitsPerByteToo) {
  TrainingRun run(settings_, corpus_, "alibi", 1);
  const double bytes_per_token = static_cast<double>(corpus_.train[0].bytes.size()) /
                                 static_cast<double>(corpus_.train[0].size());
  EXPECT_GT(bytes_per_token, 2);
  EXPECT_NEAR(run.train_step(), 9 / bytes_per_token, 0.5);  // 512 equally likely tokens
}

TEST_F(BytePairs, CountsTheBytesOfATokenAndTheLossOfTokenFrequencies) {
  ASSERT_TRUE(corpus_.tokens);
  const Text& text = corpus_.test[0];
  double all = 512, bits = 0;
  std::map<std::int64_t, double> counts;
  for (std::int64_t i = 0; i < corpus_.train[0].size(); ++i)
    ++counts[corpus_.train[0].token(i)], ++all;
  for (std::int64_t i = 0; i < text.size(); ++i)
    bits -= std::log2((counts[text.token(i)] + 1) / all);
  const auto bytes = static_cast<double>(text.bytes.size());
  EXPECT_NEAR(corpus_.tokens->frequency_bits, bits / bytes, 1e-9);
  EXPECT_NEAR(corpus_.tokens->bytes_per_token, bytes / static_cast<double>(text.size()), 1e-9);
}

// No length has the unit bytes, and its first mention has its bytes.
TEST_F(BytePairs, LengthsOfTheResultsAreTokens) {
  settings_.encodings = {"alibi"};
  SessionResult session;
  session.settings = settings_;
  TrainingRun run(settings_, corpus_, "alibi", 1);
  while (!run.trained()) run.train_step();
  RunResult& one = session.runs.emplace_back(run.summary());
  one.unfinished = false;
  one.tests = *run.model().evaluate([] { return false; });
  const Results results = assemble_results(session, corpus_);
  EXPECT_EQ(length_text(results, 16).find("16 tokens (about "), 0u);
  fs::create_directories(folder_ / "report");
  write_report(folder_ / "report", results);
  const std::string all =
      std::string(io::MappedFile(folder_ / "report" / "index.html").text()) +
      terminal_summary(results, Colour::never);
  const std::string page = std::regex_replace(
      all, std::regex("\\(about [0-9]+ bytes\\)|has [0-9.]+ bytes on average"), "");
  EXPECT_LT(page.size(), all.size());
  std::smatch found;
  EXPECT_FALSE(std::regex_search(
      page, found, std::regex("[0-9] bytes|\\(bytes\\)|length in bytes|number of bytes that")))
      << found.prefix().str().size() << found.str();
  EXPECT_NE(page.find("context length (tokens)"), std::string::npos);
}

TEST_F(BytePairs, AStoredModelHasItsTokenizer) {
  TrainingRun run(settings_, corpus_, "alibi", 1);
  run.train_step();
  const fs::path folder = folder_ / "model";
  run.model().save(folder, run.summary());
  TrainedModel stored = load_model(folder);
  ASSERT_TRUE(stored.tokenizer);
  const auto continued = [](Transformer& model, const Tokenizer* tokenizer) {
    return generate(model, "ba ko",
                    {.bytes = 40, .context = 16, .seed = 3, .tokenizer = tokenizer});
  };
  const std::string text = continued(stored.model, stored.tokenizer.get());
  EXPECT_EQ(text, continued(run.transformer(), corpus_.tokenizer.get()));
  EXPECT_GE(text.size(), 40u);
  io::write_atomically(folder / "tokenizer.model", "no model");
  EXPECT_THROW(load_model(folder), std::invalid_argument);
  fs::remove(folder / "tokenizer.model");
  EXPECT_THROW(load_model(folder), std::invalid_argument);
}

}  // namespace tokenizer_test
}  // namespace gnomon::lab
