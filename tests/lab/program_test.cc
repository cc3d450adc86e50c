// gnomon-lab from the command line: outputs, interruption and --resume, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "apps/lab/data/task.h"
#include "lab/processes.h"
#include "process.h"

namespace gnomon::lab {
namespace lab_program_test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

using testing::Child;
using testing::Outcome;

Child start(const std::vector<std::string>& arguments) {
  return testing::start(GNOMON_LAB_PROGRAM, arguments, testing::Streams::joined);
}
Outcome run(const std::vector<std::string>& arguments) {
  return testing::run(GNOMON_LAB_PROGRAM, arguments, testing::Streams::joined);
}

class Program : public ::testing::Test {
 protected:
  ~Program() override { fs::remove_all(folder_); }

  std::string out(const std::string& name = "out") const { return folder_ / name; }
  std::vector<std::string> tiny(std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"--layers",       "1",  "--width",     "16",
                                 "--heads",        "2",  "--batch",     "4",
                                 "--train-length", "16", "--encodings", "rotary,learned,t5",
                                 "--eval-lengths", "32", "--no-cost"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Json json(const fs::path& path) {
    std::ifstream stream(path);
    return Json::parse(stream);
  }
  // The results that must not depend on the time or the machine.
  static Json numbers(const fs::path& out) {
    Json encodings = json(out / "results.json").at("encodings");
    for (Json& one : encodings)
      for (const char* key : {"tokens_per_second", "train_seconds", "test_seconds"})
        one.erase(key);
    return encodings;
  }

  // Starts a lab with one run at a time, and sends it a signal after the first of three. If it
  // ends before, it is started again with more steps. Returns its settings.
  std::vector<std::string> signalled(int number, int code, std::string& output) const {
    for (int steps = 60;; steps *= 2) {
      const auto settings = tiny({"--steps", std::to_string(steps), "--jobs", "1"});
      auto arguments = settings;
      arguments.insert(arguments.end(), {"--out", out("ended")});
      const Child child = start(arguments);
      testing::wait_for(child,
                        [&] { return fs::exists(out("ended") + "/runs/rotary-seed1.json"); });
      kill(child.pid, number);
      output = child.read_all();
      const int got = child.wait();
      if (got == code && !fs::exists(out("ended") + "/runs/t5-seed1.json")) return settings;
      EXPECT_TRUE(got == 0 || got == code || got == 128 + number) << got << output;
      fs::remove_all(out("ended"));
    }
  }

  const fs::path folder_ = testing::new_folder();
};

TEST_F(Program, WritesAReportAndSaysWhere) {
  std::vector<std::string> arguments = tiny({"--steps", "3", "--out", out()});
  std::erase(arguments, "--no-cost");
  const Outcome first = run(arguments);
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_NE(first.output.find("Report: " + out() + "/index.html"), std::string::npos);
  EXPECT_NE(first.output.find("Rotary (RoPE)"), std::string::npos);
  const Json results = json(out() + "/results.json");
  EXPECT_EQ(results.at("encodings").size(), 3u);
  EXPECT_FALSE(results.at("stopped"));
  EXPECT_EQ(results.at("cost").size(), 3u);
  EXPECT_EQ(results.at("command").get<std::string>().rfind("gnomon lab --layers 1", 0), 0u);
  // Three steps are too few for advice.
  EXPECT_NE(results.at("answer")[0].get<std::string>().find(
                "No advice: no encoding is trained enough."),
            std::string::npos);
  for (const Json& sentence : results.at("answer"))
    EXPECT_EQ(sentence.get<std::string>().find("Use "), std::string::npos) << sentence;
  EXPECT_GT(fs::file_size(out() + "/results.csv"), 100u);
  EXPECT_FALSE(results.at("encodings")[1].at("lengths")[1].at("applicable"));
  EXPECT_GT(fs::file_size(out() + "/index.html"), 10000u);
  EXPECT_FALSE(fs::exists(out() + "/checkpoints"));
}

// The bytes of every file of a folder, by its path.
std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& one : fs::recursive_directory_iterator(folder)) {
    std::ifstream stream(one.path(), std::ios::binary);
    if (one.is_regular_file())
      all[one.path().string()].assign(std::istreambuf_iterator<char>(stream), {});
  }
  return all;
}

TEST_F(Program, NeverChangesAFolderThatHasFiles) {
  ASSERT_EQ(run(tiny({"--steps", "3", "--out", out()})).code, 0);
  const auto before = files_of(out());
  const Outcome again = run(tiny({"--steps", "4", "--out", out()}));
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(
      again.output,
      "gnomon: [lab] --out must be a new or empty folder: continue its run with --resume, "
      "or give another folder, got " +
          out() + ", which has a finished run\n");
  EXPECT_EQ(files_of(out()), before);

  fs::create_directories(out("own"));
  std::ofstream(out("own") + "/index.html") << "mine";
  const Outcome own = run(tiny({"--steps", "3", "--out", out("own")}));
  EXPECT_EQ(own.code, 2);
  EXPECT_NE(own.output.find("which has the file index.html"), std::string::npos) << own.output;
  EXPECT_EQ(files_of(out("own")).size(), 1u);
}

TEST_F(Program, NumbersTheFolderIfNoneIsGiven) {
  fs::create_directories(folder_);
  const auto inside = [&](const std::vector<std::string>& more) {
    return testing::run(GNOMON_LAB_PROGRAM, tiny(more), testing::Streams::joined, folder_);
  };
  ASSERT_EQ(inside({"--steps", "3"}).code, 0);
  const auto before = files_of(out("report"));
  const Outcome second = inside({"--steps", "4"});
  EXPECT_EQ(second.code, 0);
  EXPECT_NE(second.output.find("Output folder: report-2\n"), std::string::npos)
      << second.output;
  EXPECT_EQ(files_of(out("report")), before);
  EXPECT_EQ(json(out("report-2/results.json")).at("settings").at("steps"), 4);
  // --resume continues the last one.
  const Outcome resumed = inside({"--resume", "--steps", "4"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_NE(resumed.output.find("Output folder: report-2\n"), std::string::npos);
  EXPECT_EQ(files_of(out("report")), before);
}

TEST_F(Program, TwoLabsDoNotShareAFolder) {
  const Child child = start(tiny({"--steps", "100000", "--out", out()}));
  EXPECT_TRUE(testing::wait_for(child, [&] { return fs::exists(out() + "/settings.json"); }));
  const Outcome other = run({"--resume", "--out", out()});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.output.find("--out must not be in use by another lab"), std::string::npos)
      << other.output;
  kill(child.pid, SIGINT);
  child.read_all();
  EXPECT_EQ(child.wait(), 130);
}

TEST_F(Program, TheNumberOfJobsChangesNothing) {
  EXPECT_EQ(run(tiny({"--steps", "3", "--jobs", "1", "--out", out("one")})).code, 0);
  EXPECT_EQ(run(tiny({"--steps", "3", "--jobs", "3", "--out", out("three")})).code, 0);
  EXPECT_EQ(numbers(out("one")), numbers(out("three")));
}

TEST_F(Program, InterruptedItReportsAndResumesToTheSameNumbers) {
  std::string output;
  auto straight = signalled(SIGTERM, 130, output);
  const std::string steps = *(std::find(straight.begin(), straight.end(), "--steps") + 1);
  straight.insert(straight.end(), {"--out", out("straight")});
  ASSERT_EQ(run(straight).code, 0);
  EXPECT_NE(output.find("Stopped."), std::string::npos) << output;
  const Json results = json(out("ended") + "/results.json");
  EXPECT_TRUE(results.at("stopped"));
  EXPECT_LT(results.at("encodings").size(), 3u);
  EXPECT_TRUE(fs::exists(out("ended") + "/index.html"));

  const Outcome other = run({"--resume", "--steps", "59", "--out", out("ended")});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.output.find("--resume requires steps " + steps + ", got 59"),
            std::string::npos)
      << other.output;
  const Outcome resumed = run({"--resume", "--out", out("ended")});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(numbers(out("ended")), numbers(out("straight")));
  // The command that began the run, not the one that finished it.
  EXPECT_EQ(json(out("ended") + "/results.json").at("command"), results.at("command"));
}

TEST_F(Program, KilledItResumesToTheSameNumbers) {
  std::string output;
  const auto settings = signalled(SIGKILL, 128 + SIGKILL, output);
  auto straight = settings, killed = settings;
  straight.insert(straight.end(), {"--out", out("straight")});
  ASSERT_EQ(run(straight).code, 0);
  killed.insert(killed.end(), {"--out", out("ended"), "--resume"});
  EXPECT_EQ(run(killed).code, 0);
  EXPECT_EQ(numbers(out("ended")), numbers(out("straight")));
}

TEST_F(Program, SaysBeforeTrainingThatOutCannotBeWritten) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  const Outcome outcome = run(tiny({"--steps", "1", "--out", folder_ / "file" / "report"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.output.find("gnomon: [lab] --out must be a writable folder"),
            std::string::npos)
      << outcome.output;
}

Outcome use(const std::string& command, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), command);
  return run(arguments);
}

TEST_F(Program, UsesATrainedModel) {
  ASSERT_EQ(run(tiny({"--steps", "3", "--out", out()})).code, 0);
  const std::string rotary = out() + "/models/rotary-seed1", text = folder_ / "text.txt";
  const Outcome once = use("generate", {rotary, "It is", "--bytes", "40", "--json"});
  ASSERT_EQ(once.code, 0) << once.output;
  EXPECT_FALSE(Json::parse(once.output).at("continuation").get<std::string>().empty());
  EXPECT_EQ(use("generate", {rotary, "It is", "--bytes", "40", "--json"}).output, once.output);
  EXPECT_NE(use("generate", {rotary, "It is", "--bytes", "40", "--json", "--seed", "2"}).output,
            once.output);

  // A name with controls of a terminal (C1, direction of text) is printed as escapes.
  const std::string hostile = out() + "/models/\u009b\u202e";
  std::filesystem::copy(rotary, hostile);
  for (const auto& more : {std::vector<std::string>{}, {"--json"}}) {
    std::vector<std::string> words{hostile, "\u202e", "--bytes", "4"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome shown = use("generate", words);
    EXPECT_EQ(shown.code, 0) << shown.output;
    for (const char* raw : {"\u009b", "\u202e"})
      EXPECT_EQ(shown.output.find(raw), std::string::npos) << shown.output;
  }

  std::ofstream(text) << std::string(400, 'x') + std::string(400, 'y');
  const Outcome losses = use("evaluate", {rotary, text, "--lengths", "8,16,64", "--json"});
  ASSERT_EQ(losses.code, 0) << losses.output;
  const Json found = Json::parse(losses.output);
  EXPECT_EQ(found.at("lengths").size(), 3u);
  EXPECT_NEAR(found.at("byte_entropy").get<double>(), 1, 1e-12);
  const Outcome shuffled = use("evaluate", {rotary, text, "--shuffle", "1", "--json"});
  ASSERT_EQ(shuffled.code, 0) << shuffled.output;
  EXPECT_EQ(Json::parse(shuffled.output).at("shuffled").size(), 2u);
  EXPECT_NE(use("evaluate", {rotary, text, "--shuffle", "0"}).output.find("in random order"),
            std::string::npos);
  // A learned table ends at the training length.
  const Outcome learned = use("evaluate", {out() + "/models/learned-seed1", text});
  EXPECT_NE(learned.output.find("n/a"), std::string::npos) << learned.output;

  for (const auto& [command, arguments, message] :
       std::vector<std::tuple<std::string, std::vector<std::string>, std::string>>{
           {"generate", {rotary, ""}, "TEXT must not be empty"},
           {"generate", {rotary}, "[generate] TEXT is required"},
           {"generate", {out(), "x"}, "config.json"},
           {"generate",
            {out() + "/models/learned-seed1", "x", "--context", "17"},
            "--context must be at most 16, the positions of learned, got 17"},
           {"generate",
            {rotary, "x", "--temperature", "101"},
            "--temperature must be 0 to 100, got 101"},
           {"generate",
            {rotary, "x", "--temperature=-1"},
            "--temperature must be 0 to 100, got -1"},
           {"evaluate",
            {rotary, text, "--shuffle", "32"},
            "--shuffle must be below the longest length, got 32"},
           {"evaluate", {rotary}, "a model of text must have a TEXT, got none"},
           {"evaluate", {rotary, text, "--lengths", "7"}, "--lengths must be even, got 7"},
           {"evaluate", {rotary, text, "--lengths", "6,16"}, "must divide the longest, got 6"},
           {"evaluate", {rotary, text, "--lengths", "4096"}, "TEXT must have at least 6145"}}) {
    const Outcome outcome = use(command, arguments);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_EQ(outcome.output.rfind("gnomon: [", 0), 0u) << outcome.output;
    EXPECT_NE(outcome.output.find(message), std::string::npos) << outcome.output;
  }
}

TEST_F(Program, ComparesTwoFolders) {
  ASSERT_EQ(run(tiny({"--steps", "3", "--out", out("a")})).code, 0);
  ASSERT_EQ(run(tiny({"--steps", "30", "--seeds", "2", "--out", out("b")})).code, 0);
  const Outcome found = use("compare", {out("a"), out("b"), "--json"});
  ASSERT_EQ(found.code, 0) << found.output;
  const Json json = Json::parse(found.output);
  EXPECT_EQ(json.at("settings").size(), 2u);  // seeds, steps
  // Lengths 16 and 32 bytes; the learned table has no positions for 32.
  EXPECT_EQ(json.at("differences").size(), 5u);
  const double at_16 = json.at("differences")[0].at("b").get<double>();
  EXPECT_NEAR(at_16,
              this->json(out("b") + "/results.json")
                  .at("encodings")[0]
                  .at("lengths")[0]
                  .at("tail_bits")
                  .get<double>(),
              1e-12);
  EXPECT_TRUE(json.at("warnings").empty());
  const Outcome text = use("compare", {out("a"), out("b")});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(
      text.output.find("Settings that differ\n  seeds           [1,2,3] in A, [1,2] in B\n"),
      std::string::npos)
      << text.output;

  const Outcome copy =
      run({"--task", "copy", "--layers", "1", "--width", "16", "--heads", "2", "--encodings",
           "none", "--train-length", "2", "--steps", "1", "--no-cost", "--out", out("copy")});
  ASSERT_EQ(copy.code, 0) << copy.output;
  for (const auto& [other, message] :
       {std::pair{out("copy"),
                  "[compare] both folders must have the same task, got text and copy"},
        {out("none"), "results.json"}}) {
    const Outcome refused = use("compare", {out("a"), other});
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.output.find(message), std::string::npos) << refused.output;
  }
}

struct Refusal {
  std::vector<std::string> arguments;
  const char* message;
};
TEST_F(Program, RefusesBadUsageInOneLine) {
  for (const Refusal& one : std::vector<Refusal>{
           {{"--train-length", "7"}, "--train-length must be at least 8, got 7"},
           {{"--task", "parity", "--train-length", "3"},
            "--train-length of --task parity must be at least 4 bits, got 3"},
           {{"--task", "scan", "--eval-lengths", "49"},
            "lengths of --task scan must be at most 48 actions, got 49"},
           {{"--eval-lengths", "64"}, "--eval-lengths must be at least the training length"},
           {{"--eval-lengths", "128,x"}, "--eval-lengths must be positive integers, got x"},
           {{"--width", "100", "--heads", "3"}, "--width must be a multiple of twice --heads"},
           {{"--steps", "5", "--minutes", "1"},
            "--minutes must not be given with --steps, got both"},
           {{"--device", "tpu"}, "--device must be cpu or cuda, got tpu"},
           {{"--preset", "huge"}, "--preset must be default or full, got huge"},
           {{"--nonsense"}, "--nonsense"}}) {
    try {
      processes::parsed(one.arguments);
      ADD_FAILURE() << one.message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(one.message), std::string::npos) << error.what();
    }
  }
  for (const Refusal& one : std::vector<Refusal>{
           {{"--encodings", "rotray"}, "got rotray; nearest: rotary"},
           {{"/nowhere/text.txt"}, "/nowhere/text.txt: No such file or directory"}}) {
    auto arguments = one.arguments;
    arguments.insert(arguments.end(), {"--out", out()});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << one.message;
    EXPECT_EQ(outcome.output.rfind("gnomon: [", 0), 0u) << outcome.output;
    EXPECT_NE(outcome.output.find(one.message), std::string::npos) << outcome.output;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1)
        << outcome.output;
    EXPECT_FALSE(fs::exists(out()));
  }
}

// Text that is nested 100000 levels deep, in place of each file that a command reads.
TEST_F(Program, RefusesDeepJsonInOneLine) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const auto folder = [&](const std::string& name) {
    fs::create_directories(fs::path(out(name)).parent_path());
    std::ofstream(out(name)) << deep;
    return fs::path(out(name)).parent_path().string();
  };
  const auto refused = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_TRUE(
        std::regex_search(outcome.output, std::regex("(^|\n)gnomon: .*at most 64 levels.*\n$")))
        << outcome.output;
  };
  const std::string results = folder("a/results.json");
  refused({"compare", results, results});
  refused({"generate", folder("model/config.json"), "It is"});
  refused({"--finetune", folder("released/config.json"), "--out", out()});
  refused(tiny({"--resume", "--out", folder("b/settings.json")}));
  ASSERT_EQ(run(tiny({"--steps", "3", "--out", out()})).code, 0);
  for (const auto& one : fs::directory_iterator(out("out/runs")))
    std::ofstream(one.path()) << deep;
  refused(tiny({"--resume", "--steps", "3", "--out", out()}));
}

TEST_F(Program, HelpFitsAScreen) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_LE(std::count(help.output.begin(), help.output.end(), '\n'), 24);
  std::size_t widest = 0;
  for (std::size_t begin = 0; begin < help.output.size();) {
    const std::size_t end = help.output.find('\n', begin);
    widest = std::max(widest, end - begin);
    begin = end + 1;
  }
  EXPECT_LE(widest, 80u);
}

TEST_F(Program, ListsTheTasks) {
  const Outcome list = run({"--task", "list"});
  EXPECT_EQ(list.code, 0);
  EXPECT_EQ(std::count(list.output.begin(), list.output.end(), '\n'), std::ssize(tasks()));
}

}  // namespace lab_program_test
}  // namespace gnomon::lab
