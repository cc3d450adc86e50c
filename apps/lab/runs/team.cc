#include "apps/lab/runs/team.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cfenv>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

// Fewer elements are gathered and summed by every member: one exchange instead of two.
constexpr std::int64_t least_sliced = 4096;

// The place where the threads of a team exchange tensors.
class MeetingPoint {
 public:
  MeetingPoint(int size, std::chrono::milliseconds timeout)
      : timeout_(timeout), tensors_(static_cast<std::size_t>(size)) {}

  // Returns the tensors of all members when all have called. The tensors share their memory, so
  // nobody may change a tensor that was exchanged.
  std::vector<at::Tensor> exchange(int rank, const at::Tensor& tensor) {
    std::unique_lock lock(mutex_);
    check();
    tensors_[static_cast<std::size_t>(rank)] = tensor;
    if (++arrived_ == tensors_.size()) {
      // The next round may begin before every member has read this one.
      complete_ = std::exchange(tensors_, std::vector<at::Tensor>(tensors_.size()));
      arrived_ = 0;
      ++round_;
      wake_.notify_all();
      return complete_;
    }
    const std::uint64_t round = round_;
    if (!wake_.wait_for(lock, timeout_, [&] { return round_ != round || !failure_.empty(); })) {
      failure_ = "a member did not answer within " + std::to_string(timeout_.count()) + " ms";
      wake_.notify_all();
    }
    if (round_ == round) check();
    return complete_;
  }
  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = reason;
    wake_.notify_all();
  }

 private:
  void check() const {
    if (!failure_.empty())
      throw TeamError("[lab] the team of workers failed, got: " + failure_);
  }

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<at::Tensor> tensors_, complete_;
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;
  std::string failure_;
};

class ThreadTeam final : public Team {
 public:
  ThreadTeam(int rank, int size, MeetingPoint& place) : Team(rank, size), place_(place) {}
  at::Tensor broadcast(const at::Tensor& tensor) override {
    return place_.exchange(rank(), tensor)[0];
  }
  void fail(const std::string& reason) override { place_.fail(reason); }

 protected:
  std::vector<at::Tensor> exchange_rows(const at::Tensor& part) override {
    std::vector<at::Tensor> rows;
    for (const at::Tensor& one : place_.exchange(rank(), part)) rows.push_back(one[rank()]);
    return rows;
  }
  std::vector<at::Tensor> gather(const at::Tensor& part) override {
    return place_.exchange(rank(), part);
  }

 private:
  MeetingPoint& place_;
};

}  // namespace

at::Tensor Team::broadcast(const at::Tensor& tensor) { return tensor; }
std::vector<at::Tensor> Team::exchange_rows(const at::Tensor& part) { return {part[0]}; }
std::vector<at::Tensor> Team::gather(const at::Tensor& part) { return {part}; }

Team::Team(int rank, int size) : rank_(rank), size_(size) {
  if (size < 1 || (size & (size - 1)) != 0)
    refuse("lab", "the size of a team must be a power of two", std::int64_t{size});
  if (rank < 0 || rank >= size)
    refuse("lab", "the rank in a team must be less than its size", std::int64_t{rank});
}

at::Tensor Team::sum(const at::Tensor& part) {
  if (size_ == 1) return part;
  const std::int64_t count = part.numel();
  if (count < least_sliced) return tree_sum(gather(part));
  const std::int64_t rest = (size_ - count % size_) % size_;
  const at::Tensor padded = rest ? at::constant_pad_nd(part, {0, rest}) : part;
  const at::Tensor slice = tree_sum(exchange_rows(padded.view({size_, -1})));
  const at::Tensor all = at::cat(gather(slice));
  return rest ? all.narrow(0, 0, count) : all;
}

std::int64_t Team::decide(std::int64_t value) {
  if (size_ == 1) return value;
  return broadcast(at::full({1}, value, at::kLong)).item<std::int64_t>();
}

Team& no_team() {
  static Team one(0, 1);
  return one;
}

void on_team(int size, const std::function<void(Team&)>& work,
             std::chrono::milliseconds timeout) {
  if (size == 1) return work(no_team());
  MeetingPoint place(size, timeout);
  std::exception_ptr failure;  // the first one, or the first one that is its cause
  bool has_cause = false;
  std::mutex mutex;
  std::fenv_t environment;  // includes the mode for denormal numbers
  std::fegetenv(&environment);
  const auto member = [&](int rank) {
    try {
      ThreadTeam team(rank, size, place);
      work(team);
    } catch (const std::exception& error) {
      place.fail(error.what());
      const bool is_cause = !dynamic_cast<const TeamError*>(&error);
      const std::lock_guard lock(mutex);
      if (!failure || (is_cause && !has_cause)) failure = std::current_exception();
      has_cause = has_cause || is_cause;
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 1; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        at::set_num_threads(1);
        std::fesetenv(&environment);
        member(rank);
      });
    member(0);
  } catch (const std::system_error& error) {  // the system has no more threads
    place.fail(error.what());
    const std::lock_guard lock(mutex);
    failure = std::current_exception();
    has_cause = true;
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gnomon::lab
