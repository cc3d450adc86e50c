// gnomon-lab --merge: one report of several folders.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/lab/runs/session.h"
#include "apps/lab/tasks/make_model.h"
#include "gnomon/version.h"
#include "lab/processes.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace merge_test {

// The files and folders that were synced, if set.
thread_local std::optional<std::set<ino_t>> synced;

}  // namespace merge_test
}  // namespace gnomon::lab

// Takes the place of fsync of the C library in this program.
extern "C" int fsync(int file) {
  struct stat status{};
  if (auto& synced = gnomon::lab::merge_test::synced; synced && fstat(file, &status) == 0)
    synced->insert(status.st_ino);
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace gnomon::lab {
namespace merge_test {

using namespace processes;

using Merge = OfFolders;

TEST_F(Merge, OfPartsIsTheWhole) {
  const auto merge = [&](const Words& names) {
    Words words{"--merge", "--out", out()};
    for (const std::string& one : names) words.push_back(out(one));
    return testing::run(GNOMON_LAB_PROGRAM, words, testing::Streams::joined);
  };
  Watched whole(tiny({"--out", out("a")}));
  ASSERT_EQ(whole.end(), 0) << whole.output();
  fs::copy(out("a"), out("b"), fs::copy_options::recursive);
  for (const auto& [folder, runs] :
       {std::pair<std::string, Words>{"a", {"learned-seed1", "rotary-seed2", "t5-seed2"}},
        {"b", {"rotary-seed1", "t5-seed1", "learned-seed2"}}})
    for (const std::string& name : runs) {
      fs::remove(out(folder) + "/runs/" + name + ".json");
      fs::remove_all(out(folder) + "/models/" + name);
    }

  const Outcome missing = merge({"a"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(
      missing.output.find("--merge requires the results of every run, or --partial and one "
                          "of them, got none of "
                          "learned-seed1, rotary-seed2 and t5-seed2"),
      std::string::npos)
      << missing.output;
  EXPECT_FALSE(fs::exists(out()));

  // A run in two folders counts once if the results are equal.
  fs::copy(out("b") + "/runs/rotary-seed2.json", out("a") + "/runs");
  fs::copy(out("b") + "/models/rotary-seed2", out("a") + "/models/rotary-seed2");
  const Outcome merged = merge({"a", "b"});
  EXPECT_EQ(merged.code, 0) << merged.output;
  expect_same(out(), merged.output);
  fs::remove_all(out());

  Json changed = json(out("a") + "/runs/rotary-seed2.json");
  changed["parameters"] = 1;
  std::ofstream(out("a") + "/runs/rotary-seed2.json") << changed;
  const Outcome different = merge({"a", "b"});
  EXPECT_EQ(different.code, 2);
  EXPECT_NE(different.output.find("rotary-seed2 must have one result, got different ones in"),
            std::string::npos)
      << different.output;
}

// A folder of a session with one run.
struct OneRun {
  explicit OneRun(const std::string& folder) : name(folder) {
    const Outcome outcome = testing::run(
        GNOMON_LAB_PROGRAM,
        {"--layers",    "1",    "--width",        "16",  "--heads",        "2",  "--batch", "4",
         "--encodings", "none", "--train-length", "16",  "--eval-lengths", "32", "--steps", "3",
         "--seeds",     "1",    "--out",          folder},
        testing::Streams::joined);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }
  const fs::path name;
};

TEST_F(Merge, MergeIsOnTheDisk) {
  const OneRun run(out("a"));
  const Parts parts = read_parts({run.name});
  const Corpus corpus = load_corpus(parts.stored.settings);
  fs::create_directories(out());
  synced = std::set<ino_t>{};
  merge_parts(parts, {}, corpus, out(), stderr);
  const std::set<ino_t> found = *std::exchange(synced, std::nullopt);
  const auto expect_synced = [&](const fs::path& path) {
    struct stat status{};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_TRUE(found.contains(status.st_ino)) << path;
  };
  expect_synced(folder_);
  expect_synced(out());
  int files = 0;
  for (const auto& one : fs::recursive_directory_iterator(out())) {
    expect_synced(one.path());
    files += one.is_regular_file();
  }
  EXPECT_EQ(files, 5);  // settings, cost, run, and the two files of the model
  EXPECT_EQ(bytes(out() + "/models/none-seed1/model.safetensors"),
            bytes(run.name / "models/none-seed1/model.safetensors"));
}

TEST_F(Merge, MergeRefusesLinksAndPipes) {
  const OneRun run(out("a"));
  const fs::path aside = folder_ / "aside";
  const auto expect_refused = [&](const fs::path& part, const std::string& got) {
    try {
      read_parts({run.name});
      ADD_FAILURE() << part;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), "[lab] --merge requires folders of files, without links: " +
                                  part.string() + ", got " + got);
    }
  };
  for (const char* name : {"settings.json", "cost.json", "runs", "runs/none-seed1.json",
                           "models", "models/none-seed1", "models/none-seed1/config.json"}) {
    const fs::path part = run.name / name;
    fs::rename(part, aside);
    fs::create_symlink(aside, part);
    expect_refused(part, "a link");
    fs::remove(part);
    if (mkfifo(part.c_str(), 0600) == 0) expect_refused(part, "a pipe, socket or device");
    fs::remove(part);
    fs::rename(aside, part);
  }
  EXPECT_EQ(read_parts({run.name}).folders.size(), 1u);
}

// Settings that only some folders have in settings.json are compared, too, but not the paths of
// the texts.
TEST_F(Merge, MustHaveEqualSettings) {
  const auto store = [&](const std::string& name, const Settings& settings) {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "settings.json")
        << to_json(StoredSettings{settings, "1", "", GNOMON_VERSION});
    return (folder_ / name).string();
  };
  Settings plain = testing::tiny();
  plain.encodings = {"none"};
  plain.batch = 8;
  Settings divided = plain, moved = plain;
  divided.micro_batches = micro_batch_count;
  moved.texts = {"moved.txt"};
  const std::string a = store("a", plain), b = store("b", divided), c = store("c", moved);
  EXPECT_EQ(read_parts({a, c}).folders.size(), 2u);
  for (const std::vector<std::string>& folders : {std::vector{a, b}, {b, a}}) try {
      read_parts(folders);
      ADD_FAILURE();
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("must have the micro_batches of"),
                std::string::npos)
          << error.what();
    }
}

TEST(MergeOptions, AreFoldersOnly) {
  for (const Words& words : {Words{"--merge"}, {"--merge", "part", "--steps", "4"}}) try {
      parsed(words);
      ADD_FAILURE();
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(
          std::string(error.what()).find("--merge requires folders and no settings, got "),
          std::string::npos)
          << error.what();
    }
}

}  // namespace merge_test
}  // namespace gnomon::lab
