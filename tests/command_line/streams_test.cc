// What the programs say of errors of the system. Closed and full streams: tests/faults.
#include "apps/command_line/streams.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

namespace gnomon {
namespace streams_test {

TEST(ErrorText, NamesTheFileAndTheReason) {
  const auto full = std::make_error_code(std::errc::no_space_on_device);
  EXPECT_EQ(
      error_text(std::filesystem::filesystem_error("cannot rename", "a/b", "c", full), "lab"),
      "[a/b] must be a file or folder that this user can access, got No space left on device");
  EXPECT_EQ(
      error_text(std::filesystem::filesystem_error("cannot advance", full), "lab"),
      "[lab] must be a file or folder that this user can access, got No space left on device");
}

TEST(ErrorText, NamesThreadsMemoryAndOtherRules) {
  const auto no_thread = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EQ(error_text(std::system_error(no_thread), "lab"),
            "[lab] a thread or process must start, got Resource temporarily unavailable");
  EXPECT_EQ(error_text(std::bad_alloc(), "gnomon"),
            "[gnomon] the result must fit in memory, got more");
  EXPECT_EQ(error_text(std::invalid_argument("[rotary] dim must be even, got 7"), "gnomon"),
            "[rotary] dim must be even, got 7");
}

}  // namespace streams_test
}  // namespace gnomon
