// Entries own:NAME: runs that another program trained.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "apps/lab/data/numbers.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/tasks/settings_check.h"
#include "apps/lab/tasks/stored.h"
#include "lab/processes.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace own_test {

using namespace processes;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
    return {};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(OwnEncoding, HasItsNameAsTitle) {
  const Candidate own = find_candidate("own:my_decay-2");
  EXPECT_EQ(own.title, "my_decay-2");
  EXPECT_EQ(own.summary, "trained outside of the lab");
  EXPECT_TRUE(own.suffix.empty());
  EXPECT_EQ(find_candidate("own:decay@2x16").title, "decay, 2x16");
  EXPECT_TRUE(is_own("own:decay@2x16"));
  EXPECT_FALSE(is_own("rotary"));
  EXPECT_EQ(file_name("own:decay"), "own.decay");
  for (const std::string bad : {"own:", "own:a/b", "own:a+b", "own:a*2", "own:a b", "own:../a",
                                "own:a@random", "own:\xc3\xa4"})
    EXPECT_EQ(refusal([&] { find_candidate(bad); }),
              "[lab] own:NAME must have 1 to 64 letters, digits, - and _, got " + bad);
  EXPECT_NE(refusal([] { find_candidate("own:" + std::string(65, 'a')); }), "");
}

TEST(OwnEncoding, IsAnEntryOfTasksWithTokens) {
  Settings settings = testing::tiny();
  settings.encodings = {"none", "own:decay"};
  for (const char* task : {"text", "masked", "copy"}) {
    settings.task = &find_task(task);
    check_settings(settings);
  }
  settings.task = &find_task("translation");
  EXPECT_EQ(
      refusal([&] { check_settings(settings); }),
      "[lab] own:NAME requires --task text, masked, copy, copy-ascii, copy-repeated, "
      "reverse, addition, recall, sum, polynomial, parity, lego, sort, sort-numbers, scan, "
      "pcfg, needle, variables, flipflop, count, got translation");
}

TEST(OwnEncoding, HasAScoreOfEachKindForEachExample) {
  Settings settings = testing::tiny();
  settings.task = &find_task("copy");
  RunResult run;
  run.steps = settings.steps;
  run.tests.stretches = length_stretches(settings);
  for (Stretch& one : run.tests.stretches) {
    one.applicable = true;
    one.examples = 2;
    one.scores = {1, 0}, one.seconds = {1, 0.5};
  }
  check_run(run, settings);
  run.tests.stretches[1].seconds = {1};
  EXPECT_EQ(refusal([&] { check_run(run, settings); }), "another number of scores");
}

class OwnRuns : public OfFolders {
 protected:
  OwnRuns() {
    const Outcome lab =
        run({"lab", "--layers",       "1",     "--width",     "16",          "--heads",
             "2",   "--batch",        "4",     "--encodings", "none,rotary", "--train-length",
             "16",  "--eval-lengths", "32",    "--steps",     "30",          "--seeds",
             "2",   "--no-cost",      "--out", out("lab")});
    EXPECT_EQ(lab.code, 0) << lab.output;
    // The results of `none` with lower losses, and without what only the lab knows.
    fs::create_directories(out("own") + "/runs");
    Json settings = json(out("lab") + "/settings.json");
    settings["settings"]["encodings"] = {"own:mine"};
    settings["settings"]["texts"] = Json::array();
    settings.erase("command");
    write("own/settings.json", settings);
    for (const std::string seed : {"1", "2"}) {
      Json one = json(out("lab") + "/runs/none-seed" + seed + ".json");
      one["encoding"] = "own:mine";
      one["specification"] = {{"kind", "own:mine"}};
      one["trainer"] = "Trainer 7 <b>";
      for (const char* key : {"samples", "attention"}) one.erase(key);
      one["picture"] = Json::object();
      for (Json& length : one["lengths"]) {
        length["tail_bits"] = length["tail_bits"].get<double>() - 3;
        for (Json& bits : length["tail_by_segment"]) bits = bits.get<double>() - 3;
      }
      write("own/runs/own.mine-seed" + seed + ".json", one);
    }
  }

  static Outcome run(const Words& words) {
    return testing::run(GNOMON_LAB_PROGRAM, words, testing::Streams::joined);
  }
  Outcome merge() const {
    return run({"lab", "--merge", out("lab"), out("own"), "--out", out("both")});
  }
  void write(const std::string& name, const Json& content) const {
    testing::put(folder_ / name, content.dump(1));
  }
  void expect_refused(const std::string& name, const std::function<void(Json&)>& change,
                      const std::string& message) const {
    const Json before = json(folder_ / name);
    Json changed = before;
    change(changed);
    write(name, changed);
    const Outcome outcome = merge();
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.output.find(message), std::string::npos) << outcome.output;
    EXPECT_FALSE(fs::exists(out("both"))) << message;
    write(name, before);
  }
};

TEST_F(OwnRuns, AreComparedWithThoseOfTheLab) {
  expect_refused(
      "own/runs/own.mine-seed2.json", [](Json& run) { run["format"] = 2; }, "another format");
  expect_refused(
      "own/settings.json", [](Json& stored) { stored["format"] = 2; }, "another format");
  expect_refused(
      "own/settings.json", [](Json& stored) { stored["settings"]["batch"] = 8; },
      "must have the batch of");
  expect_refused(
      "own/settings.json",
      [](Json& stored) { stored["settings"]["encodings"].push_back("own:other"); },
      "none of own.other-seed1 and own.other-seed2");
  expect_refused(
      "own/runs/own.mine-seed2.json",
      [](Json& run) {
        for (Json& length : run["lengths"]) {
          length["tail_by_segment"].erase(0);
          length["tail_bits"] = mean(length["tail_by_segment"].get<std::vector<double>>());
        }
      },
      "own.mine-seed2 must have 48 test segments, got 47");
  expect_refused(
      "own/runs/own.mine-seed2.json",
      [](Json& run) { run["lengths"][1]["tail_by_segment"].erase(0); }, "another length");

  const Outcome merged = merge();
  ASSERT_EQ(merged.code, 0) << merged.output;
  EXPECT_NE(merged.output.find("\nmine "), std::string::npos) << merged.output;
  const Json results = json(out("both") + "/results.json");
  const Json& own = results.at("encodings").at(2);
  EXPECT_EQ(own.at("name"), "own:mine");
  EXPECT_EQ(own.at("title"), "mine");
  EXPECT_EQ(own.at("seeds"), 2);
  EXPECT_TRUE(results.at("left_out").empty());
  EXPECT_EQ(results.at("rankings")[0].at("order")[0].at("name"), "own:mine");
  EXPECT_EQ(results.at("rankings")[0].at("order")[1].at("verdict"), "excluded");
  EXPECT_NE(results.at("answer").dump().find("mine"), std::string::npos);
  EXPECT_EQ(results.at("runs").size(), 6u);
  EXPECT_NE(bytes(out("both") + "/results.csv").find("\nown:mine,mine,2,0,16,whole,"),
            std::string::npos);
  const std::string page = bytes(out("both") + "/index.html");
  EXPECT_NE(page.find("Trained outside of the lab."), std::string::npos);
  EXPECT_NE(page.find("Trained by: Trainer 7 &lt;b&gt;"), std::string::npos);
  EXPECT_EQ(page.find("Trainer 7 <b>"), std::string::npos);

  const Outcome compared = run({"compare", out("lab"), out("both")});
  EXPECT_EQ(compared.code, 0) << compared.output;
  // Nothing is left to train.
  const Outcome resumed = run({"lab", "--resume", "--no-cost", "--out", out("both")});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  fs::remove(out("both") + "/runs/own.mine-seed2.json");
  const Outcome missing = run({"lab", "--resume", "--no-cost", "--out", out("both")});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.output.find("own encodings must be trained by another program and joined "
                                "with --merge, got own:mine"),
            std::string::npos)
      << missing.output;
}

TEST_F(OwnRuns, AreNotTrainedByTheLab) {
  const Outcome outcome = run({"lab", "--encodings", "none,own:mine", "--out", out("new")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(
      outcome.output.find("gnomon: [lab] own encodings must be trained by another program "
                          "and joined with --merge, got own:mine\n"),
      std::string::npos)
      << outcome.output;
  EXPECT_FALSE(fs::exists(out("new")));

  const auto list = [&](const std::string& entries) {
    return testing::run(GNOMON_LAB_PROGRAM,
                        {"lab", "--encodings", entries, "--layers", "1", "--width", "16",
                         "--heads", "2", "--minutes", "0.1", "--seeds", "1", "--list-runs"},
                        testing::Streams::separate);
  };
  const Outcome listed = list("none,own:mine");
  ASSERT_EQ(listed.code, 0) << listed.errors;
  EXPECT_EQ(Json::parse(listed.output).at("runs").at(1).at("name"), "own.mine-seed1");
  EXPECT_NE(list("own:mine").errors.find("require an encoding that the lab trains"),
            std::string::npos);
  testing::put(folder_ / "plan.json", listed.output);
  const Outcome one = run({"lab", "--protocol", folder_ / "plan.json", "--run",
                           "own.mine-seed1", "--out", out("new")});
  EXPECT_EQ(one.code, 2);
  EXPECT_NE(one.output.find("own encodings must be trained by another program"),
            std::string::npos)
      << one.output;
}

}  // namespace own_test
}  // namespace gnomon::lab
