// Runs a test in several processes. Each is a member: this test program with that test, in
// which Member::here() is true.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "process.h"

namespace gnomon::testing {

// What a member knows.
struct Member {
  int rank, size;
  c10::intrusive_ptr<c10d::Store> store;

  static bool here() { return std::getenv("GNOMON_MEMBER_RANK") != nullptr; }
  static Member get() {
    const auto number = [](const char* name) { return std::atoi(std::getenv(name)); };
    const int size = number("GNOMON_MEMBER_SIZE");
    return {number("GNOMON_MEMBER_RANK"), size,
            c10::make_intrusive<c10d::FileStore>(std::getenv("GNOMON_MEMBER_STORE"), size)};
  }
  // A member of the pairs (0, 1), (2, 3), ...
  Member of_pair() const {
    return {rank % 2, 2, with_prefix("pair" + std::to_string(rank / 2)).store};
  }
  // The same member with keys of its own in the store.
  Member with_prefix(const std::string& prefix) const {
    return {rank, size, c10::make_intrusive<c10d::PrefixStore>(prefix, store)};
  }
  // Waits until all members have started.
  void meet() const {
    for (std::int64_t met = store->add("met", 1); met < size; met = store->add("met", 0))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
};

// The members of the present test, by rank.
class Members {
 public:
  // Starts them.
  explicit Members(int size)
      : store_(std::filesystem::temp_directory_path() /
               ("gnomon-members-" + std::to_string(getpid()))) {
    std::filesystem::remove(store_);
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter =
        std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name();
    setenv("GNOMON_MEMBER_SIZE", std::to_string(size).c_str(), 1);
    setenv("GNOMON_MEMBER_STORE", store_.c_str(), 1);
    for (int rank = 0; rank < size; ++rank) {
      setenv("GNOMON_MEMBER_RANK", std::to_string(rank).c_str(), 1);
      children_.push_back(
          start("/proc/self/exe", {filter, "--gtest_brief=1"}, Streams::joined));
    }
    unsetenv("GNOMON_MEMBER_RANK");
  }
  ~Members() { std::filesystem::remove(store_); }
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  const Child& operator[](std::size_t rank) const { return children_[rank]; }
  // Waits for all. Each must have run its test and succeeded.
  void expect_success() const {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) expect_success(rank);
  }
  // Returns the output.
  std::string expect_success(std::size_t rank) const {
    const std::string output = children_[rank].read_all();
    EXPECT_EQ(children_[rank].wait(), 0) << output;
    EXPECT_NE(output.find("member done"), std::string::npos) << output;
    return output;
  }
  static void done() { std::puts("member done"); }

 private:
  std::filesystem::path store_;
  std::vector<Child> children_;
};

}  // namespace gnomon::testing
