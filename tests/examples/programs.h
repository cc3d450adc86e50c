// Runs the smaller programs of docs/examples for tests.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "process.h"

namespace gnomon::examples_test {

class Examples : public ::testing::Test {
 protected:
  void SetUp() override {
    if (*GNOMON_EMULATOR) GTEST_SKIP() << "programs run without an emulator only";
  }
};

inline testing::Outcome run(const std::string& name,
                            const std::vector<std::string>& arguments = {}) {
  return testing::run(GNOMON_EXAMPLES "/gnomon_example_" + name, arguments,
                      testing::Streams::separate);
}

inline std::string done(const std::string& name,
                        const std::vector<std::string>& arguments = {}) {
  const auto outcome = run(name, arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  return outcome.output;
}

// A number of the form 1.2e-03.
inline const std::regex number("[0-9]\\.[0-9]e[+-][0-9]{2}");

inline std::vector<double> numbers(const std::string& text) {
  std::vector<double> all;
  for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at)
    all.push_back(std::stod(at->str()));
  return all;
}

}  // namespace gnomon::examples_test
