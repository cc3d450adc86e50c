// Runs the seeds of the fuzzers in the ordinary tests, so that seeds and readers stay valid.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace fuzz_corpus_test {

namespace fs = std::filesystem;

const fs::path corpus = fs::path(GNOMON_SOURCE_DIR) / "tests/fuzz/corpus";

// Exactly the bytes of the file, so that sanitizers detect reads past the end.
std::vector<std::byte> contents(const fs::path& path) {
  std::vector<std::byte> bytes(fs::file_size(path));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// A seed has the format if its name begins with "good"; otherwise it is refused.
TEST(Corpus, EveryReaderAnswersEverySeed) {
  ASSERT_FALSE(targets().empty());
  for (const Target& target : targets()) {
    int good = 0, bad = 0;
    ASSERT_TRUE(fs::is_directory(corpus / target.name)) << target.name << " has no seeds";
    for (const auto& seed : fs::directory_iterator(corpus / target.name)) {
      SCOPED_TRACE(seed.path());
      const bool expected = seed.path().filename().string().starts_with("good");
      EXPECT_EQ(target.reader(contents(seed.path())), expected);
      ++(expected ? good : bad);
    }
    EXPECT_GT(good, 0) << target.name;
    EXPECT_GT(bad, 0) << target.name;
  }
}

TEST(Corpus, EverySeedHasAReader) {
  std::set<std::string> names;
  for (const Target& target : targets()) names.emplace(target.name);
  for (const auto& folder : fs::directory_iterator(corpus))
    EXPECT_TRUE(names.contains(folder.path().filename().string())) << folder.path();
}

// Each seed, shortened, or with one changed byte.
TEST(Corpus, EveryReaderSurvivesChangedSeeds) {
  for (const Target& target : targets())
    for (const auto& seed : fs::directory_iterator(corpus / target.name)) {
      const std::vector<std::byte> whole = contents(seed.path());
      const std::size_t step = 1 + whole.size() / 64;
      for (std::size_t at = 0; at < whole.size(); at += step) {
        target.reader(std::vector<std::byte>(whole.begin(),
                                             whole.begin() + static_cast<std::ptrdiff_t>(at)));
        for (const int mask : {1, 0x80}) {
          std::vector<std::byte> changed = whole;
          changed[at] ^= static_cast<std::byte>(mask);
          target.reader(changed);
        }
      }
    }
}

}  // namespace fuzz_corpus_test
}  // namespace gnomon::fuzz
