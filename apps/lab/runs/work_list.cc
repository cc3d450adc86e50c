#include "apps/lab/runs/work_list.h"

#include <algorithm>

#include "apps/lab/model/candidate.h"
#include "apps/lab/runs/threads.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/io/file.h"

namespace gnomon::lab {

std::string Job::name() const { return file_name(encoding) + "-seed" + std::to_string(seed); }

std::filesystem::path Job::checkpoint(const std::filesystem::path& folder) const {
  return folder / "checkpoints" / (name() + ".safetensors");
}

std::vector<Job> jobs_of(const Settings& settings, const std::optional<Shard>& shard) {
  std::vector<Job> jobs;
  std::int64_t number = 0;
  for (const std::int64_t seed : settings.seeds)
    for (const std::string& encoding : settings.encodings)
      if (!shard || number++ % shard->count == shard->index) jobs.push_back({encoding, seed});
  return jobs;
}

void RunTable::set_done(std::size_t run) {
  const std::lock_guard lock(mutex_);
  runs_[run].state = State::done;
}

std::optional<Claim> RunTable::claim(std::int64_t owner) {
  const std::lock_guard lock(mutex_);
  const auto free = std::find_if(runs_.begin(), runs_.end(),
                                 [](const Run& one) { return one.state == State::free; });
  if (free == runs_.end()) return {};
  free->state = State::held;
  free->owner = owner;
  return Claim{static_cast<std::size_t>(free - runs_.begin()), ++free->generation};
}

bool RunTable::current(const Claim& claim) const {
  return claim.run < runs_.size() && runs_[claim.run].state == State::held &&
         runs_[claim.run].generation == claim.generation;
}

bool RunTable::while_held(const Claim& claim, const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  if (!current(claim)) return false;
  if (work) work();
  return true;
}

bool RunTable::finish(const Claim& claim, const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  if (!current(claim)) return false;
  if (work) work();
  runs_[claim.run].state = State::done;
  changed_.notify_all();
  return true;
}

void RunTable::release(const Claim& claim) {
  const std::lock_guard lock(mutex_);
  if (!current(claim)) return;
  runs_[claim.run].state = State::free;
  changed_.notify_all();
}

std::vector<Claim> RunTable::release_all(std::int64_t owner) {
  const std::lock_guard lock(mutex_);
  std::vector<Claim> released;
  for (std::size_t i = 0; i < runs_.size(); ++i)
    if (runs_[i].state == State::held && runs_[i].owner == owner) {
      runs_[i].state = State::free;
      released.push_back({i, runs_[i].generation});
    }
  changed_.notify_all();
  return released;
}

bool RunTable::all_done() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(runs_.begin(), runs_.end(),
                     [](const Run& one) { return one.state == State::done; });
}

bool RunTable::any_remote() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(runs_.begin(), runs_.end(), [](const Run& one) {
    return one.state == State::held && one.owner != rank_0;
  });
}

void RunTable::wait(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time);
}

std::optional<Claim> LocalWorkList::claim() {
  while (!stop_asked && !table_.all_done()) {
    if (const auto claim = table_.claim(RunTable::rank_0)) return claim;
    table_.wait(std::chrono::milliseconds(100));  // a signal does not notify
  }
  return {};
}

bool LocalWorkList::stopped() const { return stop_asked; }

bool LocalWorkList::finish(const Claim& claim, const RunResult& result) {
  const std::string name = jobs_[claim.run].name();
  io::write_atomically(out_ / "runs" / (name + ".json"), to_json(result).dump(1));
  std::filesystem::remove(jobs_[claim.run].checkpoint(out_));
  return table_.finish(claim);
}

}  // namespace gnomon::lab
