// A team: the workers that train one run together. The members are threads of this process
// (on_team) or processes (process_team.h). Every member makes the same calls in the same order.
//
// Each function waits for the other members. It throws TeamError if a member fails or does not
// answer before the timeout. After a TeamError the team cannot be used.
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace at {
class Tensor;  // not its header, which takes 8 s to compile, for main.cc and the work client
}

namespace gnomon::lab {

// A member of the team failed or does not answer. The run can continue from its checkpoint.
class TeamError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Sums of neighbors, until one is left: ((p0 + p1) + (p2 + p3)) + ((p4 + p5) + (p6 + p7)). The
// number of parts is a power of two.
template <typename T>
T tree_sum(std::vector<T> parts) {
  for (std::size_t count = parts.size(); count > 1; count /= 2)
    for (std::size_t i = 0; i < count / 2; ++i) parts[i] = parts[2 * i] + parts[2 * i + 1];
  return std::move(parts[0]);
}

// By default, the team of one worker.
class Team {
 public:
  static constexpr std::chrono::milliseconds default_timeout = std::chrono::minutes(5);

  virtual ~Team() = default;
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }  // a power of two
  bool leads() const noexcept { return rank_ == 0; }

  // The tree_sum of the tensors of all members, in the order of their ranks. part: [N] on the
  // CPU, contiguous, with the same N and type for all members. Every member gets the same bits.
  // Each member sends and receives 2 (size - 1) / size N elements if N is large: it sums one
  // slice for all members.
  at::Tensor sum(const at::Tensor& part);
  // The tensor of rank 0. All members pass tensors of the same shape and type.
  virtual at::Tensor broadcast(const at::Tensor& tensor);
  // The value of rank 0.
  std::int64_t decide(std::int64_t value);

  // Tells the other members that this one has failed, if that is possible: their calls throw.
  virtual void fail(const std::string&) {}

 protected:
  friend Team& no_team();
  Team(int rank, int size);
  // part: [size, n]. Returns row rank() of the tensors of all members.
  virtual std::vector<at::Tensor> exchange_rows(const at::Tensor& part);
  // Returns the tensors of all members.
  virtual std::vector<at::Tensor> gather(const at::Tensor& part);

 private:
  int rank_, size_;
};

// Returns the team of one worker.
Team& no_team();

// Calls `work` for each member of a team of threads, for rank 0 in the calling thread. The
// floating-point environment of the threads is that of the calling thread. The first exception
// of a member ends the team and is rethrown.
void on_team(int size, const std::function<void(Team&)>& work,
             std::chrono::milliseconds timeout = Team::default_timeout);

}  // namespace gnomon::lab
