#include "gnomon/isa.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "testing.h"

namespace gnomon {
namespace isa_test {

TEST(Isa, TheForcedOneIsTheOneThatRuns) {
  const Isa before = running_isa();
  for (Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    EXPECT_EQ(running_isa(), isa) << name(isa);
  }
  EXPECT_EQ(running_isa(), before);
}

TEST(Isa, ThePortableOneIsAlwaysThere) { EXPECT_EQ(available_isas().front(), Isa::portable); }

// GNOMON_ISA is read once in a process, so this runs the test binary again with the test below.
std::string run_with(const std::string& isa) {
  std::array<char, 4096> self{};
  if (!realpath("/proc/self/exe", self.data())) return {};
  const std::string command = "GNOMON_ISA=" + isa + " GNOMON_REPORT_ISA=1 " + GNOMON_EMULATOR +
                              " '" + self.data() + "' --gtest_filter=Isa.ReportsWhenAsked 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {};
  std::string output;
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe)) output += buffer.data();
  pclose(pipe);
  return output;
}

TEST(Isa, ReportsWhenAsked) {
  if (!std::getenv("GNOMON_REPORT_ISA")) return;
  try {
    std::printf("runs=%s\n", std::string(name(running_isa())).c_str());
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
}

TEST(Isa, TheEnvironmentForcesIt) {
  for (Isa isa : available_isas())
    EXPECT_NE(run_with(std::string(name(isa))).find("runs=" + std::string(name(isa))),
              std::string::npos)
        << name(isa);
}

TEST(Isa, AnUnknownNameIsRefusedWithTheList) {
  const std::string output = run_with("mmx");
  EXPECT_NE(output.find("[isa] GNOMON_ISA must be one of portable"), std::string::npos)
      << output;
  EXPECT_NE(output.find("got mmx"), std::string::npos) << output;
}

}  // namespace isa_test
}  // namespace gnomon
