// A worker's side of a session on several machines: the list of runs is that of rank 0.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/lab/runs/wire.h"
#include "apps/lab/runs/work_list.h"

namespace gnomon::lab {

// The list of rank 0, over a connection that has joined. All methods throw ConnectionLost if
// rank 0 does not answer.
class RemoteWorkList final : public WorkList {
 public:
  // `folder`: for the files of this worker, until they are sent.
  RemoteWorkList(Connection& connection, double lease_seconds, const std::vector<Job>& jobs,
                 std::filesystem::path folder);
  ~RemoteWorkList() override;

  std::optional<Claim> claim() override;
  const std::filesystem::path& folder() const override { return folder_; }
  void trained(const Claim& claim, std::int64_t step, double bits, double rate) override;
  bool stopped() const override;
  void keep(const Claim& claim) override;
  bool finish(const Claim& claim, const RunResult& result) override;
  void release(const Claim& claim) override;

  // Tells rank 0 that this worker lives, and the progress of its runs. Called by a thread of
  // this object, several times in a lease.
  void beat();
  // Whether rank 0 has ended the session.
  bool ended() const { return ended_; }
  // Why the connection was lost. Empty if it was not.
  std::string failure() const;

 private:
  struct Training {
    std::int64_t generation, step;
    double bits, rate;
  };

  Message exchange(const Message& request);
  // `more`: keys beside op, run and generation.
  Message exchange(const char* op, const Claim& claim, const Json& more = Json::object(),
                   std::string data = {});
  void send_file(const Claim& claim, const std::string& name, std::string_view bytes);
  void heartbeats();

  Connection& connection_;
  const std::chrono::milliseconds lease_;
  const std::vector<Job>& jobs_;
  const std::filesystem::path folder_;
  std::atomic<bool> ended_{false}, lost_{false};
  std::mutex exchange_mutex_;  // one request at a time
  mutable std::mutex mutex_;   // guards the members after it
  std::condition_variable wake_;
  bool closing_ = false;
  std::string failure_;
  std::map<std::size_t, Training> training_;  // by run
  std::thread thread_;
};

// Joins rank 0 at options.world.address and trains runs until all are done. Returns the exit
// status. Throws std::invalid_argument if rank 0 refuses this worker or ends.
int join_session(const Options& options, std::FILE* stream);

}  // namespace gnomon::lab
