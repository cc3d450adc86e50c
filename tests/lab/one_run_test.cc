// gnomon-lab --list-runs, --protocol and --run: the runs of a session in separate processes.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/lab/commands.h"
#include "lab/finetune_models.h"
#include "lab/processes.h"

namespace gnomon::lab {
namespace one_run_test {

using namespace processes;

class OneRun : public OfFolders {
 protected:
  Outcome lab(const Words& words) const {
    return testing::run(GNOMON_LAB_PROGRAM, words, testing::Streams::separate);
  }
  // The same in this process, without the time of a start: its exit status and errors.
  static Outcome here(Words words) {
    words.insert(words.begin(), "gnomon-lab");
    std::vector<char*> pointers;
    for (std::string& one : words) pointers.push_back(one.data());
    ::testing::internal::CaptureStderr();
    const int code = run_program(static_cast<int>(pointers.size()), pointers.data());
    return {code, "", ::testing::internal::GetCapturedStderr()};
  }
  // The plan of settings, as --list-runs prints it.
  Json plan(const Words& settings, const std::string& name = "plan.json") const {
    const Outcome listed = lab(joined(settings, {"--list-runs"}));
    EXPECT_EQ(listed.code, 0) << listed.errors;
    testing::put(out(name), listed.output);
    return Json::parse(listed.output, nullptr, /*allow_exceptions=*/false);
  }
  Words one(const std::string& run, const std::string& folder = "runs") const {
    return {"--protocol", out("plan.json"), "--run",        run,
            "--out",      out(folder),      "--checkpoint", "0.02"};
  }
  Outcome merge(const Words& folders, const Words& more = {}) const {
    Words words{"--merge"};
    for (const std::string& name : folders) words.push_back(out(name));
    return lab(joined(joined(words, more), {"--out", out()}));
  }
  // The results of a plan, without times and the hash of the plan.
  static Json without_plan(const std::string& folder) {
    Json results = timeless(json(folder + "/results.json"));
    EXPECT_EQ(results.at("protocol").at("sha256").get<std::string>().size(), 64u);
    results.erase("protocol");
    return results;
  }
  // What the settings of a whole session give, and its runs one by one.
  void expect_same_as_session(const Words& settings) {
    const Outcome whole = lab(joined(settings, {"--out", out("whole")}));
    ASSERT_EQ(whole.code, 0) << whole.errors;
    const Json all = plan(settings);
    for (std::size_t i = 0; i < all.at("runs").size(); ++i) {
      const Outcome run = lab(one(std::to_string(i)));
      EXPECT_EQ(run.code, 0) << run.errors;
    }
    const Outcome merged = merge({"runs"});
    ASSERT_EQ(merged.code, 0) << merged.errors;
    EXPECT_EQ(without_plan(out()), timeless(json(out("whole") + "/results.json")));
    for (const auto& file : fs::recursive_directory_iterator(out("whole") + "/models"))
      if (file.is_regular_file()) {
        const fs::path path = file.path().lexically_relative(out("whole"));
        EXPECT_TRUE(bytes(out() / path) == bytes(file.path())) << path;
      }
    for (const char* name : {"whole", "runs", "out", "plan.json"}) fs::remove_all(out(name));
  }
};

TEST_F(OneRun, OfAPlanGivesTheResultsOfASession) {
  const Json all = plan(tiny({}));
  EXPECT_EQ(all.at("protocol"), 1);
  EXPECT_FALSE(all.contains("tokenizer"));
  EXPECT_EQ(all.at("runs").size(), 6u);
  EXPECT_EQ(all.at("runs")[3],
            (Json{{"name", "rotary-seed2"}, {"encoding", "rotary"}, {"seed", 2}}));
  // All at the same time, in two folders.
  std::vector<std::unique_ptr<Watched>> runs;
  for (int i = 0; i < 6; ++i)
    runs.push_back(std::make_unique<Watched>(one(
        i % 2 ? std::to_string(i)
              : all.at("runs").at(static_cast<std::size_t>(i)).at("name").get<std::string>(),
        i < 4 ? "a" : "b")));
  for (const auto& run : runs) EXPECT_EQ(run->end(), 0) << run->output();
  EXPECT_FALSE(fs::exists(out("a") + "/results.json"));

  const Outcome missing = merge({"a"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.errors.find("got none of learned-seed2 and t5-seed2"), std::string::npos)
      << missing.errors;
  EXPECT_FALSE(fs::exists(out()));
  const Outcome merged = merge({"a", "b"});
  ASSERT_EQ(merged.code, 0) << merged.errors;
  EXPECT_EQ(without_plan(out()), expected());
  EXPECT_TRUE(bytes(out() + "/models/t5-seed2/model.safetensors") == model());
  // A whole session of the plan.
  const Outcome session =
      lab({"--protocol", out("plan.json"), "--no-cost", "--out", out("session")});
  ASSERT_EQ(session.code, 0) << session.errors;
  EXPECT_EQ(timeless(json(out("session") + "/results.json")),
            timeless(json(out() + "/results.json")));
}

TEST_F(OneRun, IsRepeatedAndContinued) {
  plan(tiny({}, "20000"));
  {
    Watched killed(one("t5-seed1"));
    ASSERT_TRUE(killed.writes(out("runs") + "/checkpoints/t5-seed1.safetensors"));
    const Outcome second = lab(one("t5-seed1"));  // while it is trained
    EXPECT_EQ(second.code, 2);
    EXPECT_NE(second.errors.find("--run must not be in use by another process, got t5-seed1"),
              std::string::npos)
        << second.errors;
    killed.signal(SIGKILL);
  }
  // An engine may give the settings and the checkpoint only to the next process.
  for (const char* part : {"/runs", "/models"}) fs::remove_all(out("runs") + part);
  Watched stopped(one("t5-seed1"));
  EXPECT_GT(std::atoi(stopped.line_after("t5-seed1 continues at step ").c_str()), 0);
  stopped.signal(SIGTERM);
  EXPECT_EQ(stopped.end(), 130) << stopped.output();
  EXPECT_FALSE(fs::exists(out("runs") + "/runs/t5-seed1.json"));
}

TEST_F(OneRun, ThatIsFinishedIsNotTrainedAgain) {
  plan(tiny({}));
  ASSERT_EQ(lab(one("t5-seed2")).code, 0);
  const std::string result = bytes(out("runs") + "/runs/t5-seed2.json");
  const Outcome again = lab(joined(one("5"), {"--json"}));
  EXPECT_EQ(again.code, 0) << again.errors;
  const Json event = Json::parse(again.output);
  EXPECT_EQ(event.at("event"), "finished");
  EXPECT_EQ(event.at("run"), "t5-seed2");
  EXPECT_EQ(bytes(out("runs") + "/runs/t5-seed2.json"), result);
}

TEST_F(OneRun, PrintsItsProgressAsJson) {
  const Outcome run = lab(tiny({"--run", "t5-seed2", "--json", "--out", out("runs")}));
  ASSERT_EQ(run.code, 0) << run.errors;
  std::istringstream lines(run.output);
  std::vector<Json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(Json::parse(line));
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events[0].at("event"), "training");
  EXPECT_EQ(events[0].at("step"), 1);
  for (const Json& event : events) EXPECT_EQ(event.at("run"), "t5-seed2");
  const Json& last = events[events.size() - 3];
  EXPECT_EQ(last.at("step"), 80);
  EXPECT_EQ(last.at("steps"), 80);
  EXPECT_GT(last.at("bits"), 0);
  EXPECT_GT(last.at("tokens_per_second"), 0);
  EXPECT_EQ(events[events.size() - 2].at("event"), "testing");
  EXPECT_EQ(events.back().at("event"), "finished");
}

TEST_F(OneRun, IsRefusedInOneLine) {
  plan(tiny({}));
  ASSERT_EQ(lab(one("0")).code, 0);
  Json other = json(out("plan.json"));
  other["settings"]["width"] = 32;
  testing::put(out("other.json"), other.dump());
  other = json(out("plan.json"));
  other["statements"] = Json::array();
  testing::put(out("stated.json"), other.dump());
  other["fingerprint"] = "0123";
  testing::put(out("texts.json"), other.dump());
  testing::put(out("file"), "x");
  const std::string run = "rotary-seed2", runs = out("runs");
  for (const auto& [words, message] : std::map<Words, std::string>{
           {{"--protocol", out("plan.json"), "--run", "none-seed1", "--out", runs},
            "--run must be the name of a run, as rotary-seed1, or a number from 0 to 5, got "
            "none-seed1"},
           {{"--protocol", out("plan.json"), "--run", "6", "--out", runs}, "got 6"},
           {{"--protocol", out("other.json"), "--run", run, "--out", runs},
            runs + " must have the width of this run, 32, got 16"},
           {{"--protocol", out("stated.json"), "--run", run, "--out", runs},
            runs + " must have the protocol of this run, got another protocol"},
           {{"--protocol", out("texts.json"), "--run", run, "--out", runs},
            "--protocol requires the texts of the plan, got different texts"},
           {{"--protocol", out("plan.json"), "--run", run, "--out", folder_},
            "--out must be a new or empty folder, or have runs of the same session, got"},
           {{"--protocol", out("plan.json"), "--run", run}, "--run requires --out"},
           {{"--protocol", out("nowhere"), "--run", run, "--out", runs}, "No such file"},
           {{"--protocol", out("plan.json"), "--width", "16"},
            "--protocol must be without other settings, got width"},
           {tiny({"--run", run, "--minutes", "1", "--out", runs}), "--minutes"},
           {tiny({"--run", run, "--resume", "--out", runs}), "--resume"}}) {
    const Outcome refused = here(words);
    EXPECT_EQ(refused.code, 2) << message;
    EXPECT_NE(refused.errors.find(message), std::string::npos) << refused.errors << "\n"
                                                               << message;
    EXPECT_EQ(std::count(refused.errors.begin(), refused.errors.end(), '\n'), 1)
        << refused.errors;
  }
}

// Settings that change the examples or the model of a run. A released model that is not tuned
// has no training steps and no files.
TEST_F(OneRun, HasOtherTokensTasksAndReleasedModels) {
  const testing::ReleasedFolder released("llama");
  std::string text;
  for (int word = 0; word < 4000; ++word) {
    for (int letter = 0, rest = word * word; letter < 4; ++letter, rest /= 5)
      text += static_cast<char>('a' + rest % 5);
    text += ' ';
  }
  released.write_text("text", text);
  const std::string file = released.path() / "text";
  const Words few{"--steps", "4", "--seeds", "1", "--no-cost"};
  const Words small = joined(few, {"--layers", "1", "--width", "16", "--heads", "2"});
  const Words tokens = joined(small, {file, "--train-length", "16", "--eval-lengths", "32",
                                      "--encodings", "none", "--tokens", "bpe:512"});
  EXPECT_GT(plan(tokens, "tokens.json").at("tokenizer").get<std::string>().size(), 1000u);
  for (const Words& settings : {tokens,
                                joined(small, {"--encodings", "laplacian", "--train-length",
                                               "8", "--eval-lengths", "16", "--task", "graph"}),
                                joined(few, {"--sizes", "1x32,1x64", "--encodings", "none",
                                             "--train-length", "16", "--eval-lengths", "32"}),
                                joined(few, {file, "--finetune", released.path()})}) {
    SCOPED_TRACE(settings.back());
    expect_same_as_session(settings);
  }
}

// Texts at other paths, with the same names and contents.
TEST_F(OneRun, ReadsTheTextsOfAPlanElsewhere) {
  const auto put = [&](const std::string& folder, const std::string& last) {
    fs::create_directories(out(folder));
    std::string text;
    for (int i = 0; i < 800; ++i) text += "line " + std::to_string(i * i) + "\n";
    return testing::put(out(folder) + "/text.txt", text + last).string();
  };
  const std::string here = put("here", "a"), moved = put("moved", "a"),
                    other = put("other", "b");
  plan(tiny({here}));
  EXPECT_EQ(lab(joined(one("0"), {moved})).code, 0);
  EXPECT_EQ(json(out("runs") + "/settings.json").at("settings").at("texts")[0], here);
  const Outcome refused = lab(joined(one("1"), {other}));
  EXPECT_NE(refused.errors.find("--protocol requires the texts of the plan"), std::string::npos)
      << refused.errors;
  // A session of them, resumed.
  Watched session(tiny({here, "--out", out()}, "20000"));
  ASSERT_TRUE(session.writes(out() + "/checkpoints/rotary-seed1.safetensors"));
  session.signal(SIGINT);
  EXPECT_EQ(session.end(), 130) << session.output();
  fs::remove(here);
  const Outcome resumed = lab({"--resume", "--out", out(), other});
  EXPECT_NE(resumed.errors.find("--resume requires the same texts, got different texts"),
            std::string::npos)
      << resumed.errors;
  Watched again({"--resume", "--out", out(), moved});
  EXPECT_TRUE(again.prints("continues at step")) << again.output();
  again.signal(SIGINT);
  EXPECT_EQ(again.end(), 130) << again.output();
}

TEST_F(OneRun, IsComparedWithoutMissingOnes) {
  plan(tiny({}));
  for (const char* run : {"rotary-seed1", "rotary-seed2", "t5-seed2"})
    ASSERT_EQ(lab(one(run)).code, 0);
  const Outcome partial = merge({"runs"}, {"--partial"});
  ASSERT_EQ(partial.code, 0) << partial.errors;
  const Json results = json(out() + "/results.json");
  EXPECT_EQ(results.at("missing"), (Json{"learned-seed1", "t5-seed1", "learned-seed2"}));
  EXPECT_EQ(results.at("answer")[0],
            "Merged without 3 of 6 runs, and only the others are compared. Missing: "
            "learned-seed1, t5-seed1 and learned-seed2.");
  std::map<std::string, int> seeds;
  for (const Json& one : results.at("encodings")) seeds[one.at("name")] = one.at("seeds");
  EXPECT_EQ(seeds, (std::map<std::string, int>{{"rotary", 2}, {"t5", 1}}));
  // The rest can be trained there.
  EXPECT_EQ(lab({"--resume", "--out", out()}).code, 0);
  EXPECT_FALSE(json(out() + "/results.json").contains("missing"));
  EXPECT_EQ(json(out() + "/results.json").at("runs").size(), 6u);
}

// With --minutes, the plan has the number of steps of this machine.
TEST_F(OneRun, HasTheStepsOfItsPlan) {
  Words settings = tiny({});
  settings.erase(std::find(settings.begin(), settings.end(), "--steps"),
                 std::find(settings.begin(), settings.end(), "--steps") + 2);
  EXPECT_EQ(plan(settings).at("settings").at("steps"), 600);
  const Json measured = plan(joined(settings, {"--minutes", "0.001"}));
  EXPECT_LT(measured.at("settings").at("steps"), 600);
  EXPECT_GE(measured.at("settings").at("steps"), 1);
}

}  // namespace one_run_test
}  // namespace gnomon::lab
