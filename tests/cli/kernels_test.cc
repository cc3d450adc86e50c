// Every kernel of the registry agrees with its oracle. `gnomon bench` only prints the errors.
#include "bench/kernels/kernels.h"

#include <gtest/gtest.h>

#include <set>

namespace gnomon::bench {
namespace kernels_test {

// Bounds of one rounding of values below 8, or of sums in float.
double bound(const std::string& detail) {
  const auto has = [&](const char* type) { return detail.find(type) != std::string::npos; };
  return has("int8") ? 0x1p-5 : has("bf16") ? 0x1p-6 : has("f16") ? 0x1p-9 : 0x1p-16;
}

TEST(Kernels, AgreeWithTheirOracles) {
  for (const KernelMaker& maker : kernels("", 24)) {
    const Kernel kernel = maker.make();
    kernel.run();
    EXPECT_TRUE(maker.name.starts_with(kernel.name)) << maker.name;
    EXPECT_GT(kernel.work, 0) << maker.name;
    if (kernel.name == "lower" || kernel.name == "beside" ||
        (kernel.name == "angles" && !kernel.detail.starts_with("rotate")))
      EXPECT_FALSE(kernel.error) << "tests/ has the oracles of " << kernel.name;
    else
      EXPECT_LE(kernel.error(), bound(kernel.detail)) << kernel.name << " " << kernel.detail;
  }
}

TEST(Kernels, CountedKernelsHaveTheirOwnNames) {
  std::set<std::string> names;
  for (const CountedKernel& kernel : counted_kernels())
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
}

TEST(Kernels, AreFoundByTheBeginningOfTheirNames) {
  EXPECT_EQ(kernels("encoding alibi", 8).size(), 1u);
  EXPECT_EQ(kernels("nothing", 8).size(), 0u);
  EXPECT_TRUE(kernel_names().starts_with("fill, table, add, "));
}

}  // namespace kernels_test
}  // namespace gnomon::bench
