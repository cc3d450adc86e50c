// Every task and every kind of token, from the command line to the page, and once more with
// --resume.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "apps/lab/data/task.h"
#include "gnomon/io/file.h"
#include "io/temporary.h"
#include "process.h"

namespace gnomon::lab {
namespace every_task_test {

namespace fs = std::filesystem;

struct Call {
  std::string name;
  std::vector<std::string> options;
};

std::vector<Call> calls(const fs::path& folder) {
  std::vector<Call> all;
  for (const Task* one : tasks()) {
    const std::string name(one->name);
    // tasks_test.cc runs all tasks of letters. These have bytes that are not UTF-8, answers of
    // several lengths, and answers of one byte.
    if (one->letters.draw && name != "recall" && name != "scan" && name != "lego") continue;
    all.push_back({name, {"--task", name, "--layers", "2", "--width", "16", "--heads", "2"}});
  }
  all.push_back(
      {"bpe", {"--tokens", "bpe:512", "--layers", "2", "--width", "16", "--heads", "2"}});
  // Texts whose bytes and names are not for a terminal: escapes, and a byte that is not UTF-8.
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += "It is a truth " + std::string(i % 9 ? "\u202euniversally " : "\x1b[2J\xff\u009b") +
            "acknowledged, that a single man in possession of a good fortune\n";
  std::vector<std::string> bytes{"--layers", "2", "--width", "16", "--heads", "2"};
  for (const char* name : {"\x1b[2J.txt", "\u202e\u009b.txt"}) {
    bytes.push_back(folder / name);
    io::write_atomically(bytes.back(), text);
  }
  all.push_back({"bytes", bytes});
  return all;
}

class EveryTask : public ::testing::Test {
 protected:
  ~EveryTask() override { fs::remove_all(folder_); }
  const fs::path folder_ = testing::new_folder();
};

void run_and_resume(const Call& call, const fs::path& out) {
  std::vector<std::string> arguments = call.options;
  arguments.insert(arguments.end(), {"--steps", "1", "--batch", "2", "--encodings", "none",
                                     "--jobs", "1", "--seeds", "1", "--no-cost", "--out", out});
  for (const char* when : {"first", "resumed"}) {
    const auto found = testing::run(GNOMON_LAB_PROGRAM, arguments, testing::Streams::joined);
    EXPECT_EQ(found.code, 0) << call.name << ", " << when << "\n" << found.output;
    if (found.code != 0) return;
    for (const char* bad : {"\x1b", "\u009b", "\u202e", "\xff"})
      EXPECT_EQ(found.output.find(bad), std::string::npos) << call.name << ": " << found.output;
    std::ifstream stream(out / "results.json");
    const auto results = nlohmann::json::parse(stream);
    EXPECT_EQ(results.at("runs").size(), 1u) << call.name;
    EXPECT_FALSE(results.at("answer").empty()) << call.name;
    for (const auto& sample : results.at("runs")[0].at("samples"))
      EXPECT_FALSE(sample.at("text").empty() && sample.at("prompt").empty()) << call.name;
    EXPECT_GT(fs::file_size(out / "index.html"), 10'000u) << call.name;
    std::ifstream page(out / "index.html");
    const std::string html{std::istreambuf_iterator<char>(page), {}};
    const auto shows = [&](const char* text) { return html.find(text) != std::string::npos; };
    const Task* task =
        call.name == "bpe" || call.name == "bytes" ? &text_task : &find_task(call.name);
    EXPECT_EQ(shows(">The task</h2>"), task->has_examples()) << call.name;
    EXPECT_EQ(shows("At best: 100 %"), task->letters.draw != nullptr) << call.name;
    for (const char* text : {"A command in words, then its actions. By chance (the best guess",
                             "<h3>Example, 6 actions</h3>"})
      EXPECT_EQ(shows(text), call.name == "scan") << text;
    EXPECT_GT(fs::file_size(out / "results.csv"), 100u) << call.name;
    fs::remove(out / "index.html");
    arguments.emplace_back("--resume");
  }
}

TEST_F(EveryTask, RunsToItsPageAndResumes) {
  const std::vector<Call> all = calls(folder_);
  std::mutex mutex;
  std::size_t next = 0;
  const auto work = [&] {
    for (;;) {
      std::size_t mine;
      {
        const std::lock_guard lock(mutex);
        if (next == all.size()) return;
        mine = next++;
      }
      run_and_resume(all[mine], folder_ / all[mine].name);
    }
  };
  std::thread other(work);
  work();
  other.join();
}

TEST_F(EveryTask, RefusesArgumentsThatCannotBeStored) {
  const auto found = testing::run(GNOMON_LAB_PROGRAM, {"\xff\x1b.txt", "--out", folder_},
                                  testing::Streams::joined);
  EXPECT_EQ(found.code, 2);
  EXPECT_EQ(found.output.rfind("gnomon: [lab] arguments must be UTF-8, got ", 0), 0u)
      << found.output;
  for (const char* bad : {"\x1b", "\xff"})
    EXPECT_EQ(found.output.find(bad), std::string::npos) << found.output;
}

}  // namespace every_task_test
}  // namespace gnomon::lab
