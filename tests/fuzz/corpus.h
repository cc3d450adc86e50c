// Runs the seeds of the fuzzers of a folder, so that seeds and readers stay valid.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "fuzz/target.h"

namespace gnomon::fuzz {

// FOLDER/NAME_fuzz.cc has its seeds in FOLDER/corpus/NAME.
inline std::filesystem::path corpus(const char* folder) {
  return std::filesystem::path(GNOMON_SOURCE_DIR) / folder / "corpus";
}

// Exactly the bytes of the file, so that sanitizers detect reads past the end.
inline std::vector<std::byte> contents(const std::filesystem::path& path) {
  std::vector<std::byte> bytes(std::filesystem::file_size(path));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// A seed has the format if its name begins with "good"; otherwise it is refused.
inline void expect_answers(const std::filesystem::path& corpus) {
  ASSERT_FALSE(targets().empty());
  for (const Target& target : targets()) {
    int good = 0, bad = 0;
    ASSERT_TRUE(std::filesystem::is_directory(corpus / target.name))
        << target.name << " has no seeds";
    for (const auto& seed : std::filesystem::directory_iterator(corpus / target.name)) {
      SCOPED_TRACE(seed.path());
      const bool expected = seed.path().filename().string().starts_with("good");
      EXPECT_EQ(target.reader(contents(seed.path())), expected);
      ++(expected ? good : bad);
    }
    EXPECT_GT(good, 0) << target.name;
    EXPECT_GT(bad, 0) << target.name;
  }
}

inline void expect_readers(const std::filesystem::path& corpus) {
  std::set<std::string> names;
  for (const Target& target : targets()) names.emplace(target.name);
  for (const auto& folder : std::filesystem::directory_iterator(corpus))
    EXPECT_TRUE(names.contains(folder.path().filename().string())) << folder.path();
}

// Each seed, shortened, or with one changed byte, at about that many places.
inline void change_seeds(const std::filesystem::path& corpus, std::size_t places) {
  for (const Target& target : targets())
    for (const auto& seed : std::filesystem::directory_iterator(corpus / target.name)) {
      const std::vector<std::byte> whole = contents(seed.path());
      const std::size_t step = 1 + whole.size() / places;
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

}  // namespace gnomon::fuzz
