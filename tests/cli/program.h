// A temporary folder and the program, for the tests of all commands.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "io/temporary.h"
#include "process.h"
#include "testing.h"

namespace gnomon::cli {

class InFolder : public ::testing::Test {
 protected:
  std::string folder() const { return (folder_ / "").string(); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  testing::Outcome run(const std::vector<std::string>& arguments) const {
    return testing::run(GNOMON_PROGRAM, arguments, testing::Streams::separate);
  }
  // Runs a command that must fail: one line on stderr, nothing on stdout, exit status 2.
  std::string refused(const std::vector<std::string>& arguments) const {
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.output, "");
    EXPECT_THAT(outcome.errors, ::testing::StartsWith("gnomon: ["));
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
    return outcome.errors;
  }
  std::string done(const std::vector<std::string>& arguments) const {
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    return outcome.output;
  }
  // The files of the folder or of a subfolder, sorted, including hidden files.
  std::vector<std::string> names(const std::string& below = "") const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / below))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  testing::TemporaryFolder folder_;
};

}  // namespace gnomon::cli
