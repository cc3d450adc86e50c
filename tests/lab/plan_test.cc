// Plans: as written they are read again, keys may be absent, and all other files are refused.
#include "apps/lab/runs/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/lab/data/run_json.h"
#include "apps/lab/data/task.h"
#include "gnomon/version.h"
#include "io/temporary.h"
#include "lab/processes.h"

namespace gnomon::lab {
namespace plan_test {

using processes::parsed;
using processes::Words;

Settings listed(Words words) {
  words.insert(words.begin(), "--list-runs");
  return parsed(words).settings;
}

class Plans : public ::testing::Test {
 protected:
  Plan read(const std::string& text) const { return read_plan(testing::put(path_, text)); }
  std::string refusal(const std::string& text) const {
    try {
      read(text);
      return "accepted";
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what(),
                        rule = "[lab] " + path_.string() +
                               " must be a plan as --list-runs prints it, got ";
      EXPECT_EQ(message.substr(0, rule.size()), rule);
      return message.substr(std::min(message.size(), rule.size()));
    }
  }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "plan.json";
};

TEST_F(Plans, AreReadAsWritten) {
  for (const Words& words : std::vector<Words>{
           {},
           {"--tokens", "bpe:600", "--extend", "yarn,ntk", "--steps", "7", "--", "a.txt", "-b"},
           {"--task", "image", "--seeds", "4,9", "--learning-rate", "0.00123"},
           {"--encodings", "t5,t5@8x256,alibi@random", "--preset", "full"},
           {"--sizes", "2x64,1x32", "--encodings", "none,rotary"},
           {"--workers-per-run", "2", "--eval-lengths", "256,512", "--train-length", "64"}}) {
    Plan plan{.settings = listed(words), .fingerprint = "0123"};
    plan.runs = jobs_of(plan.settings);
    if (plan.settings.tokens != "bytes") plan.tokenizer = std::string("a\0b\xff", 4);
    const Plan again = read(to_json(plan).dump());
    EXPECT_EQ(to_json(again.settings), to_json(plan.settings));
    EXPECT_EQ(to_json(again), to_json(plan));
    EXPECT_EQ(again.tokenizer, plan.tokenizer);
    EXPECT_EQ(again.runs, plan.runs);
  }
}

TEST_F(Plans, MayLeaveOutKeys) {
  const Plan least = read("{\"protocol\": 1, \"settings\": {}}");
  EXPECT_EQ(to_json(least.settings), to_json(listed({})));
  EXPECT_TRUE(least.runs.empty());
  // sha256sum of the file.
  EXPECT_EQ(least.sha256, "91f5b26157a06ca9d198922769f4bf16975a1f3cb9c32c213cdaf3f7a69731e1");
  const Json settings{{"task", "copy"},
                      {"encodings", {"RoPE", "t5"}},
                      {"seeds", 3},
                      {"extend", Json::array()},
                      {"eval_segments", 5}};
  Settings wanted = listed({"--task", "copy", "--encodings", "rotary,t5", "--seeds", "3"});
  wanted.eval_segments = 5;
  const Json file{{"protocol", 1},
                  {"settings", settings},
                  {"statements", {"rotary is best", {{"any", "thing"}}}}};
  const Plan some = read(file.dump());
  EXPECT_EQ(to_json(some.settings), to_json(wanted));
  EXPECT_EQ(jobs_of(some.settings).size(), 6u);
}

TEST_F(Plans, AreRefusedWithTheReason) {
  const auto with_settings = [](const std::string& settings) {
    return "{\"protocol\":1,\"settings\":{" + settings + "}}";
  };
  const auto with = [](const std::string& more) {
    return "{\"protocol\":1,\"settings\":{\"encodings\":[\"none\"]}," + more + "}";
  };
  EXPECT_EQ(refusal(with("\"fingerprint\":\"x\"")), "accepted");
  EXPECT_EQ(refusal(with("\"runs\":[{\"name\":\"none-seed1\",\"encoding\":\"none\","
                         "\"seed\":1}]")),
            "accepted");
  for (const auto& [text, reason] : std::map<std::string, std::string>{
           {"", "[lab] the file must be JSON"},
           {"[]", "a value must be an object"},
           {"{\"settings\":{}}", "protocol \"null\""},
           {"{\"protocol\":2,\"settings\":{}}", "protocol \"2\""},
           {"{\"protocol\":1}", "no key settings"},
           {"{\"protocol\":1,\"settings\":[]}", "a value must be an object"},
           {std::string(100, '[') + std::string(100, ']'), "at most 64 levels"},
           {with_settings("\"widht\":8"), "the key \"widht\" in settings"},
           {with_settings("\"width\":\"64\""), "another type at the key \"width\""},
           {with_settings("\"width\":{}"), "another type at the key width"},
           {with_settings("\"width\":null"), "another type at the key"},
           {with_settings("\"width\":1e300"), "[lab] --width must be an integer"},
           {with_settings("\"width\":7"), "--width must be 8 to 4096"},
           {with_settings("\"device\":\"-h\""), "--device must be cpu or cuda"},
           {with_settings("\"device\":\"--help\""), "--device must be cpu or cuda"},
           {with_settings("\"encodings\":\"none\""), "another type at the key \"encodings\""},
           {with_settings("\"encodings\":[\"rotray\"]"), "nearest: rotary"},
           {with_settings("\"seeds\":[1,1]"), "--seeds must be distinct"},
           {with_settings("\"seeds\":101"), "--seeds must be at most 100"},
           {with_settings("\"steps\":0"), "--steps must be at least 1"},
           {with_settings("\"texts\":[7]"), "another type at the key texts"},
           {with_settings("\"eval_segments\":0"), "eval_segments must be at least 1"},
           {with_settings("\"eval_segments\":100001"), "more than 100000 test segments"},
           {with_settings("\"micro_batches\":4"), "micro_batches must be 8"},
           {with_settings("\"minutes\":4"), "the key \"minutes\" in settings"},
           {with_settings("\"finetune\":\"/nowhere\""), "/nowhere"},
           {with("\"gnomon\":\"99.0\""), "a plan of version \"99.0\""},
           {with("\"author\":\"me\""), "the key \"author\""},
           {with("\"fingerprint\":7"), "another type at the key \"fingerprint\""},
           {with("\"tokenizer\":\"AAAA\""), "a tokenizer without --tokens bpe"},
           {with("\"tokenizer\":\"A\""), "a tokenizer that is not base64"},
           {with("\"tokenizer\":\"AB==\""), "a tokenizer that is not base64"},
           {with("\"statements\":{}"), "another type at the key \"statements\""},
           {with("\"runs\":{}"), "another type at the key \"runs\""},
           {with("\"runs\":[1]"), "a value must be an object"},
           {with("\"runs\":[{\"name\":\"none-seed2\",\"encoding\":\"none\",\"seed\":2}]"),
            "a run that is not of the settings, or twice: \"none-seed2\""},
           {with("\"runs\":[{\"name\":\"../x\",\"encoding\":\"none\",\"seed\":1}]"),
            "a run that is not of the settings"}})
    EXPECT_NE(refusal(text).find(reason), std::string::npos) << text << "\n"
                                                             << refusal(text) << "\n"
                                                             << reason;
}

// A plan without `runs` has those of the usable encodings.
TEST_F(Plans, HaveTheRunsOfTheirUsableEncodings) {
  const Settings all = listed({"--encodings", "none,t5", "--seeds", "1,3"});
  Settings usable = all;
  usable.encodings = {"none"};
  EXPECT_EQ(runs_of({.settings = all}, usable), jobs_of(usable));
  Plan plan{.settings = all, .runs = {{"none", 3}, {"none", 1}}};
  EXPECT_EQ(runs_of(plan, usable), plan.runs);
  for (const std::vector<Job>& runs :
       {std::vector<Job>{{"none", 1}}, {{"none", 1}, {"none", 3}, {"t5", 1}}}) {
    plan.runs = runs;
    EXPECT_THROW(runs_of(plan, usable), std::invalid_argument);
  }
}

}  // namespace plan_test
}  // namespace gnomon::lab
