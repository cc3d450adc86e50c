// gnomon batches: other programs read the batches that the lab trains and tests on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/runs/plan.h"
#include "apps/lab/tasks/make_model.h"
#include "gnomon/version.h"
#include "io/temporary.h"
#include "lab/tiny.h"
#include "process.h"

namespace gnomon::lab {
namespace batches_test {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Record {
  std::int32_t rows = 0, tokens = 0, index = 0, group = 0;
  std::vector<std::vector<std::int32_t>> arrays = {};
};
struct Stream {
  Json header;
  std::vector<Record> records;
};

Stream parsed(const std::string& bytes) {
  const std::size_t line = bytes.find('\n');
  Stream all{Json::parse(bytes.substr(0, line)), {}};
  const char *at = bytes.data() + line + 1, *const end = bytes.data() + bytes.size();
  const auto numbers = [&](std::size_t count) {
    std::vector<std::int32_t> found(count);
    EXPECT_LE(count * 4, static_cast<std::size_t>(end - at));
    if (count * 4 > static_cast<std::size_t>(end - at)) return found;
    std::memcpy(found.data(), at, count * 4);
    at += count * 4;
    return found;
  };
  while (at < end && !::testing::Test::HasFailure()) {
    const auto head = numbers(4);
    Record& one = all.records.emplace_back(Record{head[0], head[1], head[2], head[3]});
    for (std::size_t i = 0; i < all.header.at("arrays").size(); ++i)
      one.arrays.push_back(
          numbers(static_cast<std::size_t>(one.rows) * static_cast<std::size_t>(one.tokens)));
  }
  return all;
}

class Batches : public ::testing::Test {
 protected:
  testing::Outcome run(const Words& words) const {
    Words all{"batches", folder_ / "plan.json"};
    all.insert(all.end(), words.begin(), words.end());
    return testing::run(GNOMON_LAB_PROGRAM, all, testing::Streams::separate);
  }
  void store(const Settings& settings, const Corpus& corpus,
             const std::string& version = GNOMON_VERSION) const {
    testing::put(folder_ / "plan.json",
                 to_json(StoredSettings{settings, fingerprint(corpus), "", version}).dump());
  }
  Stream stream(const Words& words) const {
    const testing::Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return outcome.code ? Stream{} : parsed(outcome.output);
  }
  const testing::TemporaryFolder folder_;
};

Settings settings_of(const char* task) {
  Settings settings = testing::tiny();
  settings.task = &find_task(task);
  settings.encodings = {"none", "own:mine"};
  return settings;
}

void expect_equal(const Record& record, const Batch& batch) {
  ASSERT_EQ(batch.inputs.sizes().vec(),
            (std::vector<std::int64_t>{record.rows, record.tokens}));
  for (std::size_t k = 0; k < 2; ++k) {
    const at::Tensor wanted = (k == 0 ? batch.inputs : batch.targets).contiguous();
    const auto* numbers = wanted.data_ptr<std::int64_t>();
    EXPECT_TRUE(std::equal(record.arrays[k].begin(), record.arrays[k].end(), numbers,
                           [](std::int64_t a, std::int64_t b) { return a == b; }));
  }
}

TEST_F(Batches, AreThoseOfTheTraining) {
  for (const char* task : {"text", "masked", "copy"}) {
    SCOPED_TRACE(task);
    const Settings settings = settings_of(task);
    const Corpus corpus = load_corpus(settings);
    store(settings, corpus);
    const Stream train = stream({"--seed", "3", "--from", "2"});
    ASSERT_EQ(train.records.size(), 6u);
    EXPECT_EQ(train.header.at("vocabulary"), 256);
    for (int i = 0; i < 6; ++i) {
      const Record& one = train.records[static_cast<std::size_t>(i)];
      EXPECT_EQ(one.index, i + 2);
      expect_equal(
          one, batch_of(settings, corpus, Part::train, 3, static_cast<std::uint64_t>(i) + 2));
    }
    const Stream validation = stream({"--part", "validation"});
    ASSERT_EQ(validation.records.size(), 4u);
    expect_equal(validation.records[3],
                 batch_of(settings, corpus, Part::validation, validation_seed, 3));
  }
}

TEST_F(Batches, OfBytePairsCountTheirBytes) {
  Settings settings = settings_of("text");
  settings.tokens = "bpe:512";
  settings.texts = {testing::put(
      folder_ / "text.txt", load_corpus(settings_of("text")).train[0].bytes.substr(0, 40000))};
  store(settings, load_corpus(settings));
  const Stream test = stream({"--part", "test"});
  const auto bytes = test.header.at("token_bytes").get<std::vector<std::int64_t>>();
  ASSERT_EQ(bytes.size(), 512u);
  EXPECT_GT(*std::max_element(bytes.begin(), bytes.end()), 2);
  for (const Record& one : test.records)
    for (const std::int32_t token : one.arrays[1]) EXPECT_LT(token, 512);

  // The texts are elsewhere.
  const fs::path moved = folder_ / "moved";
  fs::create_directory(moved);
  fs::rename(folder_ / "text.txt", moved / "text.txt");
  EXPECT_EQ(run({"--seed", "1"}).code, 2);
  EXPECT_EQ(stream({moved / "text.txt", "--seed", "1"}).records.size(), 8u);
}

// A plan of --list-runs has the tokenizer, so SentencePiece is not trained again.
TEST_F(Batches, OfAPlanHaveItsTokens) {
  const std::string text = testing::put(
      folder_ / "text.txt", load_corpus(settings_of("text")).train[0].bytes.substr(0, 40000));
  const testing::Outcome listed = testing::run(GNOMON_LAB_PROGRAM,
                                               {"lab",
                                                text,
                                                "--encodings",
                                                "none,own:mine",
                                                "--tokens",
                                                "bpe:512",
                                                "--layers",
                                                "1",
                                                "--width",
                                                "16",
                                                "--heads",
                                                "2",
                                                "--train-length",
                                                "16",
                                                "--eval-lengths",
                                                "32",
                                                "--steps",
                                                "5",
                                                "--seeds",
                                                "1",
                                                "--list-runs"},
                                               testing::Streams::separate);
  ASSERT_EQ(listed.code, 0) << listed.errors;
  testing::put(folder_ / "plan.json", listed.output);
  const Plan plan = read_plan(folder_ / "plan.json");
  EXPECT_EQ(plan.runs.at(1).name(), "own.mine-seed1");
  const Stream train = stream({"--seed", "1"});
  ASSERT_EQ(train.records.size(), 5u);
  expect_equal(
      train.records[4],
      batch_of(plan.settings, load_corpus(plan.settings, plan.tokenizer), Part::train, 1, 4));
  Json changed = Json::parse(listed.output);
  changed["tokenizer"] = "AAAA";
  testing::put(folder_ / "plan.json", changed.dump());
  EXPECT_EQ(run({"--seed", "1"}).code, 2);
}

// The tail of the segments has the same targets at every length, each once, and so have the
// adjacent windows.
TEST_F(Batches, OfTheTestCountEveryTargetOnce) {
  for (const char* task : {"text", "masked"}) {
    SCOPED_TRACE(task);
    const Settings settings = settings_of(task);
    store(settings, load_corpus(settings));
    const Stream test = stream({"--part", "test"});
    EXPECT_EQ(test.header.at("lengths"), Json(settings.eval_lengths));
    ASSERT_EQ(test.records.size(), 6u);  // three segments at two lengths
    for (const std::int32_t role : {1, 2}) {
      std::vector<std::vector<std::int32_t>> targets(6);
      for (std::size_t i = 0; i < 6; ++i) {
        const Record& one = test.records[i];
        EXPECT_EQ(one.index, static_cast<int>(i % 3));
        EXPECT_EQ(one.tokens, settings.eval_lengths[static_cast<std::size_t>(one.group)]);
        for (std::size_t at = 0; at < one.arrays[1].size(); ++at)
          if (one.arrays[2][at] & role) targets[i].push_back(one.arrays[1][at]);
        EXPECT_EQ(std::count(targets[i].begin(), targets[i].end(), -1), 0);
        EXPECT_EQ(targets[i].size(), settings.task->predicts == Predicts::next ? 32u : 4u);
      }
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(targets[i], targets[i + 3]) << role;
    }
  }
}

TEST_F(Batches, OfExamplesAreByStretch) {
  const Settings settings = settings_of("copy");
  store(settings, {});
  const Stream test = stream({"--part", "test"});
  const Json& stretches = test.header.at("stretches");
  const std::vector<Stretch> wanted = length_stretches(settings);
  ASSERT_EQ(stretches.size(), wanted.size());
  EXPECT_EQ(test.header.at("window_tokens"), settings.task->window_tokens(16));
  std::vector<std::int64_t> rows(wanted.size());
  for (const Record& one : test.records) {
    const auto group = static_cast<std::size_t>(one.group);
    EXPECT_EQ(one.index, rows[group]);
    rows[group] += one.rows;
    EXPECT_LE(one.tokens, stretches[group].at("tokens"));
    for (std::size_t i = 0; i < one.arrays[1].size(); ++i)
      EXPECT_EQ(one.arrays[2][i], one.arrays[1][i] == -1 ? 0 : 3);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(stretches[i].at("to"), wanted[i].to);
    EXPECT_EQ(rows[i], 2 * settings.eval_segments);
    EXPECT_EQ(stretches[i].at("examples"), rows[i]);
  }
}

TEST_F(Batches, AreRefusedInOneLine) {
  const Settings settings = settings_of("text");
  const Corpus corpus = load_corpus(settings);
  const auto expect_refused = [&](const Words& words, const std::string& message) {
    const testing::Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.output, "");
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
    EXPECT_NE(outcome.errors.find(message), std::string::npos) << outcome.errors;
  };
  store(settings, corpus);
  expect_refused({}, "either --seed or --part validation or test must be given, got neither");
  expect_refused({"--seed", "1", "--part", "test"}, "must be given, got both");
  expect_refused({"--seed", "1", "--from", "9"}, "[batches] --from must be at most 8, got 9");
  store(settings, {});
  expect_refused({"--seed", "1"}, "TEXT must be the texts of");
  store(settings, corpus, "0.0.1");
  expect_refused({"--seed", "1"}, "must be of version " GNOMON_VERSION ", got 0.0.1");
  Settings image = settings;
  image.task = &find_task("image");
  image.encodings = {"none"};
  image.train_length = 4, image.eval_lengths = {4, 8};
  store(image, {});
  expect_refused({"--seed", "1"},
                 "gnomon batches requires --task text, masked, copy, copy-ascii, ");
}

}  // namespace batches_test
}  // namespace gnomon::lab
