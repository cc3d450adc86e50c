// The kernels of OpenBLAS that gnomon-lab selects, whoever starts it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "process.h"
#include "src/core/openblas.h"

namespace gnomon::lab {
namespace blas_kernels_test {

using internal::openblas_core;
using internal::openblas_variable;

// Sets a variable of the environment, or removes it, until the end of its scope.
class Variable {
 public:
  Variable(const char* name, std::optional<std::string> value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }

 private:
  void set(const std::optional<std::string>& value) {
    value ? setenv(name_, value->c_str(), 1) : unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

// The output of a command that fails, after everything that may be printed at the start.
std::string output() {
  return testing::run(GNOMON_LAB_PROGRAM, {"compare", "/none", "/none"},
                      testing::Streams::joined)
      .output;
}

// The cores that OpenBLAS prints when it is loaded.
std::string cores(std::optional<std::string> value) {
  const Variable core(openblas_variable, std::move(value)), verbose("OPENBLAS_VERBOSE", "2");
  const std::string text = output();
  std::string found;
  for (std::size_t at = 0; (at = text.find("Core: ", at)) != text.npos; at += 6)
    found += text.substr(at + 6, text.find('\n', at) - at - 6) + " ";
  return found;
}

TEST(BlasKernels, FollowTheInstructionSetsOfTheProcessor) {
  if (!dlsym(RTLD_DEFAULT, "openblas_get_corename"))
    GTEST_SKIP() << "the BLAS of LibTorch is not OpenBLAS";
  if (!openblas_core()) GTEST_SKIP() << "OpenBLAS selects the kernels of this processor";
  EXPECT_EQ(cores({}), openblas_core() + std::string(" "));  // loaded once
  EXPECT_EQ(cores("Prescott"), "Prescott ") << "the user's choice was changed";
}

// Simulates a processor that OpenBLAS does not know.
TEST(BlasKernels, AnUnknownProcessorPrintsNothing) {
  const Variable quiet("OPENBLAS_VERBOSE", {});
  for (const std::optional<std::string>& value :
       {std::optional<std::string>(), {"Prescott"}, {"unknown"}}) {
    const Variable core(openblas_variable, value);
    const std::string text = output();
    EXPECT_EQ(text.rfind("gnomon: [lab] /none", 0), 0u) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
}

}  // namespace blas_kernels_test
}  // namespace gnomon::lab
