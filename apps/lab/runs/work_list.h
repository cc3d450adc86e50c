// The list of runs of a session and their claims. A run is trained by the thread, process or
// machine that has claimed it.
//
// Every claim of a run has a generation, one higher than the claim before. Only the latest
// claim of a run can store a checkpoint or a result, and only one result of a run is accepted.
// So two workers that both consider a run theirs cannot both count.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/run_result.h"
#include "apps/lab/runs/options.h"

namespace gnomon::lab {

class Progress;

// A run of the list.
struct Job {
  std::string encoding;
  std::int64_t seed = 0;

  std::string name() const;  // file name without extension: NAME-seedN
  std::filesystem::path checkpoint(const std::filesystem::path& folder) const;
};
// The runs of the settings, by seed, then by encoding; with --shard i/n the runs i, i + n, ...
std::vector<Job> jobs_of(const Settings& settings, const std::optional<Shard>& shard);

struct Claim {
  std::size_t run = 0;  // index in the list
  std::int64_t generation = 0;

  bool operator==(const Claim&) const = default;
};

// The claims of all runs, in the process of rank 0. Thread-safe.
class RunTable {
 public:
  // Owners of claims: rank 0 itself, or the number of a connection from 1.
  static constexpr std::int64_t rank_0 = 0;

  explicit RunTable(std::size_t runs) : runs_(runs) {}

  // Marks a run whose result an earlier session stored.
  void set_done(std::size_t run);
  // Claims the first free run. Empty if there is none.
  std::optional<Claim> claim(std::int64_t owner);
  // Calls `work` if this is the latest claim of a run that is not done or released; no other
  // claim changes meanwhile. Returns whether it is.
  bool while_held(const Claim& claim, const std::function<void()>& work = {});
  // Like while_held, and then the run is done.
  bool finish(const Claim& claim, const std::function<void()>& work = {});
  void release(const Claim& claim);
  // Releases all claims of an owner, and returns them.
  std::vector<Claim> release_all(std::int64_t owner);

  bool all_done() const;
  // Whether another owner than rank 0 has a claim.
  bool any_remote() const;
  // Returns after a change, at the latest after `time`.
  void wait(std::chrono::milliseconds time) const;

 private:
  enum class State { free = 1, held, done };
  struct Run {
    State state = State::free;
    std::int64_t generation = 0, owner = 0;
  };
  bool current(const Claim& claim) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Run> runs_;
};

// The list as the threads that train see it.
class WorkList {
 public:
  virtual ~WorkList() = default;

  // Waits for a free run. Its checkpoint, if there is one, is in folder(). Empty if all runs
  // are done or the session is stopped.
  virtual std::optional<Claim> claim() = 0;
  // The folder of checkpoints/ and models/ of this process.
  virtual const std::filesystem::path& folder() const = 0;
  // Called after each step.
  virtual void trained(const Claim&, std::int64_t /*step*/, double /*bits*/, double /*rate*/) {}
  // Whether training must stop.
  virtual bool stopped() const = 0;
  // Stores the checkpoint that was written to folder().
  virtual void keep(const Claim& claim) = 0;
  // Stores the result and the model that was written to folder(). Returns false if another
  // result was accepted before.
  virtual bool finish(const Claim& claim, const RunResult& result) = 0;
  // Gives up the claim of a stopped run, after keep().
  virtual void release(const Claim& claim) = 0;
};

// The list for the threads of rank 0.
class LocalWorkList final : public WorkList {
 public:
  LocalWorkList(RunTable& table, const std::vector<Job>& jobs, std::filesystem::path out)
      : table_(table), jobs_(jobs), out_(std::move(out)) {}

  std::optional<Claim> claim() override;
  const std::filesystem::path& folder() const override { return out_; }
  bool stopped() const override;
  void keep(const Claim&) override {}
  bool finish(const Claim& claim, const RunResult& result) override;
  void release(const Claim& claim) override { table_.release(claim); }

 private:
  RunTable& table_;
  const std::vector<Job>& jobs_;
  const std::filesystem::path out_;
};

}  // namespace gnomon::lab
