// Rank 0 of a session on several machines: gives runs to workers and stores their results.
//
// A worker has one connection. Its claims end with the connection, or if no message arrives for
// the time of the lease, measured by rank 0 alone. Everything that arrives is checked: it may
// come from a port scanner, and a connection that is not a worker's has no effect but one line.
//
// Requests are JSON with the key "op", each has one answer:
//
//   hello    token, gnomon, libtorch, isa, host     settings, encodings, lease, checkpoint,
//                                                   end; or rule and got if the worker is
//                                                   refused
//   ready    fingerprint                            {}, or rule and got
//   claim                                           run, generation, checkpoint (bytes); {} if
//                                                   no run is free now; end
//   read     run, generation, offset                data of the checkpoint
//   write    run, generation, file, offset; data    {}
//   keep     run, generation                        stores the checkpoint that was written
//   finish   run, generation                        stores the result; accepted
//   release  run, generation                        {}
//   beat     runs: run, generation, step, bits,     end: the worker must stop
//            rate
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/lab/runs/progress.h"
#include "apps/lab/runs/wire.h"
#include "apps/lab/runs/work_list.h"
#include "apps/lab/tasks/stored.h"

namespace gnomon::lab {

// The settings that a worker must have to join, and the data that it receives.
struct Invitation {
  StoredSettings stored;               // as in settings.json
  std::vector<std::string> encodings;  // that take part
  std::string token;
  double lease_seconds = 60, checkpoint_seconds = 20;
};

class WorkServer {
 public:
  using Finished = std::function<void(std::size_t run, RunResult result)>;

  // Accepts workers until end(). `finished` is called for every accepted result. `settings`
  // have the encodings that take part. The references must live longer.
  WorkServer(Listener& listener, Invitation invitation, const Settings& settings,
             const std::vector<Job>& jobs, RunTable& table, std::filesystem::path out,
             Progress& progress, Finished finished);
  ~WorkServer();
  WorkServer(const WorkServer&) = delete;
  WorkServer& operator=(const WorkServer&) = delete;

  // Asks the workers to end, and waits for the checkpoints of their runs (at most 20 s). Unless
  // the session is stopped, also waits until `expected` workers have connected (at most 10 s),
  // so that those that start late know that the session has ended.
  void end(std::int64_t expected);

 private:
  struct Peer {
    Peer(int file, std::int64_t number) : connection(file), id(number) {}

    Connection connection;
    const std::int64_t id;
    std::string host = {};
    std::atomic<bool> over{false};
    std::thread thread = {};
  };

  void accept_loop();
  void serve(Peer& peer);
  // The checks of "hello" and "ready". Throw ConnectionLost if the worker is refused.
  void greet(Peer& peer);
  void prepare(Peer& peer);
  void require(Peer& peer, const std::string& rule, const std::string& wanted,
               const std::string& got);
  Message answer(Peer& peer, const Message& request);
  bool has_ended() const;  // nothing is left to train
  Message read_checkpoint(const Claim& claim, const Json& head) const;
  void write_file(const Claim& claim, const Message& request) const;
  Message keep(const Claim& claim);
  Message finish(Peer& peer, const Claim& claim);
  // The folder for files of a claim until they are complete.
  std::filesystem::path incoming(const Claim& claim) const;
  std::filesystem::path checkpoint(const Claim& claim) const;

  Listener& listener_;
  const Invitation invitation_;
  const Settings& settings_;
  const std::vector<Job>& jobs_;
  RunTable& table_;
  const std::filesystem::path out_;
  Progress& progress_;
  const Finished finished_;
  std::atomic<bool> ending_{false}, closing_{false}, unidentified_seen_{false};
  std::atomic<int> unidentified_{0}, workers_{0};  // connections without and with greeting
  std::atomic<std::int64_t> greeted_{0};           // workers so far
  std::list<std::unique_ptr<Peer>> peers_;         // used by accept_loop only
  std::thread thread_;
};

}  // namespace gnomon::lab
