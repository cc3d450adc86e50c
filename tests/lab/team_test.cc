// Teams of threads and of processes: sums, broadcasts, failures.
#include "apps/lab/runs/team.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <string>
#include <vector>

#include "apps/lab/runs/process_team.h"
#include "members.h"

namespace gnomon::lab {
namespace team_test {

using gnomon::testing::Member;
using gnomon::testing::Members;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The numbers of a member, with very different sizes, so that another order gives other bits.
at::Tensor numbers(int rank, std::int64_t count) {
  const at::Tensor base = at::arange(count, at::kFloat) * 0.37F + 1.1F;
  return base * std::pow(7.3F, static_cast<float>(rank % 5)) * (rank % 2 ? -1.F : 1.F) +
         static_cast<float>(rank);
}

// The sum in a loop over single floats, written out for each size.
std::vector<float> wanted_sum(int size, std::int64_t count) {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < size; ++rank) {
    const at::Tensor one = numbers(rank, count);
    x.emplace_back(one.data_ptr<float>(), one.data_ptr<float>() + count);
  }
  std::vector<float> sums;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const auto pair = [&](std::size_t r) { return x[r][i] + x[r + 1][i]; };
    if (size == 1) sums.push_back(x[0][i]);
    if (size == 2) sums.push_back(pair(0));
    if (size == 4) sums.push_back(pair(0) + pair(2));
    if (size == 8) sums.push_back((pair(0) + pair(2)) + (pair(4) + pair(6)));
  }
  return sums;
}

std::vector<float> values(const at::Tensor& x) {
  return {x.data_ptr<float>(), x.data_ptr<float>() + x.numel()};
}

// 5 elements are gathered; 10001 are summed in slices of unequal size.
void expect_sums(Team& team) {
  for (const std::int64_t count : {5, 10001})
    EXPECT_EQ(values(team.sum(numbers(team.rank(), count))), wanted_sum(team.size(), count))
        << "rank " << team.rank() << " of " << team.size() << ", " << count;
  const at::Tensor sent = team.broadcast(at::full({3}, 10 + team.rank(), at::kLong));
  EXPECT_TRUE(sent.equal(at::full({3}, 10, at::kLong)));
  EXPECT_EQ(team.decide(std::int64_t{40} + team.rank()), 40);
  EXPECT_TRUE(team.decide(team.leads()));
  EXPECT_FALSE(team.decide(!team.leads()));
}

TEST(TreeSum, AddsNeighborsFirst) {
  std::vector<std::string> parts;
  for (const char* one : {"0", "1", "2", "3", "4", "5", "6", "7"}) parts.emplace_back(one);
  struct Term {
    std::string text;
    Term operator+(const Term& other) const { return {"(" + text + other.text + ")"}; }
  };
  std::vector<Term> terms;
  for (const std::string& one : parts) terms.push_back({one});
  EXPECT_EQ(tree_sum(terms).text, "(((01)(23))((45)(67)))");
  EXPECT_EQ(tree_sum(std::vector<int>{3}), 3);
}

class TeamOf : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, TeamOf, ::testing::Values(1, 2, 4, 8));

TEST_P(TeamOf, ThreadsSumsInTheTree) {
  for (int repeat = 0; repeat < 20; ++repeat) on_team(GetParam(), expect_sums);
}

TEST(Team, MustHaveASizeThatIsAPowerOfTwo) {
  EXPECT_THROW(on_team(3, [](Team&) {}), std::invalid_argument);
}

TEST(Team, OfThreadsEndsWithTheFirstException) {
  std::string others;
  try {
    on_team(4, [&](Team& team) {
      team.decide(true);
      if (team.rank() == 2) throw std::out_of_range("rank 2 stopped");
      try {
        for (;;) team.sum(at::ones({3}));
      } catch (const TeamError& error) {
        if (team.leads()) others = error.what();
        throw;
      }
    });
    ADD_FAILURE();
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "rank 2 stopped");
  }
  EXPECT_EQ(others, "[lab] the team of workers failed, got: rank 2 stopped");
}

// A member that only waits may end before the one that it waits for.
TEST(Team, OfThreadsEndsWithTheCauseAlsoIfOthersEndBefore) {
  const auto call = [] {
    on_team(2, [](Team& team) {
      if (team.leads()) throw TeamError("ended first");
      try {
        for (;;) team.sum(at::ones({3}));
      } catch (const TeamError&) {
        std::this_thread::sleep_for(milliseconds(100));
        throw std::out_of_range("the cause");
      }
    });
  };
  EXPECT_THROW(call(), std::out_of_range);
}

TEST(Team, OfThreadsNoticesAMemberThatDoesNotAnswer) {
  try {
    std::atomic<bool> noticed{false};
    on_team(
        2,
        [&](Team& team) {
          if (!team.leads()) {
            while (!noticed) std::this_thread::sleep_for(milliseconds(1));
            return;
          }
          try {
            team.sum(at::ones({3}));
          } catch (...) {
            noticed = true;
            throw;
          }
        },
        milliseconds(50));
    ADD_FAILURE();
  } catch (const TeamError& error) {
    EXPECT_NE(std::string(error.what()).find("did not answer within 50 ms"), std::string::npos)
        << error.what();
  }
}

TEST(AddressTowards, IsThatOfTheRoute) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_THROW(address_towards("no.such.host.invalid"), std::invalid_argument);
}

#if TORCH_VERSION_MAJOR == 1

std::unique_ptr<Team> team_of(const Member& member, milliseconds timeout = seconds(60)) {
  return process_team(member.store, member.rank, member.size, "127.0.0.1", timeout);
}

// A member of four that sum. Then they form two pairs: in the first one rank 1 dies, in the
// second one it hangs. Rank 0 must get a TeamError.
[[noreturn]] void sum_and_be_left_alone() {
  const Member member = Member::get(), of_pair = member.of_pair();
  const bool dies = member.rank < 2;
  expect_sums(*team_of(member));
  const auto pair = team_of(of_pair, dies ? seconds(60) : seconds(1));
  expect_sums(*pair);
  if (!pair->leads()) raise(dies ? SIGKILL : SIGSTOP);
  try {
    pair->sum(at::ones({10000}));
    ADD_FAILURE() << "no error";
  } catch (const TeamError& error) {
    std::puts(error.what());
    Members::done();
  }
  std::fflush(stdout);
  _exit(::testing::Test::HasFailure());  // does not wait for the other member
}
TEST(Team, OfProcessesSumsInTheTreeAndNoticesADeadAndAStoppedMember) {
  if (Member::here()) sum_and_be_left_alone();
  const Members members(4);
  for (const std::size_t rank : {0, 2})
    EXPECT_NE(members.expect_success(rank).find(
                  "[lab] the team of workers failed (rank 0 of 2), got: "),
              std::string::npos);
  kill(members[3].pid, SIGKILL);
  for (const std::size_t rank : {1, 3}) {
    EXPECT_EQ(members[rank].read_all().find("Failure"), std::string::npos);
    EXPECT_EQ(members[rank].wait(), 128 + SIGKILL);
  }
}

#endif

}  // namespace team_test
}  // namespace gnomon::lab
