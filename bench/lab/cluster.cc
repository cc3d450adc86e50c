// Simulates a session on many machines: one process is rank 0, another has the workers as
// threads. They claim runs, sleep instead of training, and send checkpoints and results of the
// size of a real session. First one worker measures the CPU time of rank 0 for each request.
// From it follows a prediction for all workers, which the simulation confirms or not.
//
// Usage: gnomon_cluster_simulation FOLDER WORKERS RUNS RUN_SECONDS CHECKPOINT_SECONDS
//   FOLDER: the output of a finished `gnomon lab`. RUNS: runs of each worker.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "apps/lab/data/run_json.h"
#include "apps/lab/runs/checkpoint.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/runs/work_client.h"
#include "apps/lab/runs/work_server.h"
#include "apps/lab/statistics/results_json.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/isa.h"
#include "gnomon/version.h"

namespace {

using namespace gnomon::lab;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// CPU seconds of rank 0, the parent process.
double server_seconds() {
  clockid_t clock{};
  clock_getcpuclockid(getppid(), &clock);
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Scenario {
  fs::path folder;
  int workers = 0, runs = 0;
  double run_seconds = 0, checkpoint_seconds = 0;
  Settings settings = {};
  RunResult result = {};  // result of one real run
  fs::path model = {};
  std::vector<Job> jobs = {};
};

// A checkpoint has the weights and two moments.
constexpr std::uint64_t checkpoint_parts = 3;

// The files of each job under the names that a worker would give them.
void write_files(const Scenario& all, const at::Tensor& weights, const fs::path& scratch,
                 const Job& job) {
  fs::create_directories(scratch / "checkpoints");
  fs::create_directories(scratch / "models" / job.name());
  torch::nn::Module module;
  const at::Tensor parameter = module.register_parameter("all", weights.detach());
  write_checkpoint(job.checkpoint(scratch), job, {}, module,
                   torch::optim::AdamW(std::vector<at::Tensor>{parameter}));
  for (const auto& one : fs::directory_iterator(all.model))
    fs::copy_file(one.path(), scratch / "models" / job.name() / one.path().filename(),
                  fs::copy_options::overwrite_existing);
}

struct Times {
  std::vector<double> claim, checkpoint, result;

  void add(const Times& other) {
    claim.insert(claim.end(), other.claim.begin(), other.claim.end());
    checkpoint.insert(checkpoint.end(), other.checkpoint.begin(), other.checkpoint.end());
    result.insert(result.end(), other.result.begin(), other.result.end());
  }
};

class Worker {
 public:
  Worker(const Scenario& all, std::uint16_t port, const fs::path& scratch, at::Tensor weights)
      : all_(all),
        scratch_(scratch),
        weights_(std::move(weights)),
        connection_(connect_to({"127.0.0.1", port}, std::chrono::seconds(10), [] {})) {
    ask({{"op", "hello"},
         {"token", ""},
         {"gnomon", GNOMON_VERSION},
         {"libtorch", TORCH_VERSION},
         {"isa", gnomon::name(gnomon::current_isa())},
         {"host", "simulated"}});
    ask({{"op", "ready"}, {"fingerprint", ""}});
    work_.emplace(connection_, 60, all.jobs, scratch);
  }

  void beat() { work_->beat(); }
  std::optional<Claim> claim(Times& times) {
    const auto start = Clock::now();
    const auto claim = work_->claim();
    if (!claim) return {};
    times.claim.push_back(since(start));
    write_files(all_, weights_, scratch_, all_.jobs[claim->run]);
    return claim;
  }
  void keep(const Claim& claim, Times& times) {
    const auto start = Clock::now();
    work_->keep(claim);
    times.checkpoint.push_back(since(start));
  }
  void finish(const Claim& claim, Times& times) {
    RunResult result = all_.result;
    result.encoding = all_.jobs[claim.run].encoding;
    result.seed = all_.jobs[claim.run].seed;
    const auto start = Clock::now();
    if (!work_->finish(claim, result)) std::abort();
    times.result.push_back(since(start));
  }
  void release(const Claim& claim) { work_->release(claim); }

 private:
  void ask(Json head) {
    const auto time = std::chrono::minutes(10);
    connection_.send({.head = std::move(head)}, time);
    connection_.receive(message_limits, time);
  }

  const Scenario& all_;
  const fs::path scratch_;
  const at::Tensor weights_;
  Connection connection_;
  std::optional<RemoteWorkList> work_;
};

double quantile(std::vector<double> numbers, double share) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  return numbers[static_cast<std::size_t>(share * static_cast<double>(numbers.size() - 1))];
}

// CPU seconds of rank 0 for one call of `work`, the mean of `count`.
template <typename Work>
double cost_of(int count, Work&& work) {
  const double before = server_seconds();
  for (int i = 0; i < count; ++i) work();
  return (server_seconds() - before) / count;
}

int simulate(const Scenario& all, std::uint16_t port, const fs::path& scratch) {
  const auto model_bytes = fs::file_size(all.model / "model.safetensors");
  const auto checkpoint_bytes = checkpoint_parts * model_bytes;
  const at::Tensor weights =
      at::arange(static_cast<std::int64_t>(checkpoint_bytes / sizeof(float)), at::kFloat);
  const std::size_t result_bytes = to_json(all.result).dump(1).size();
  fmt::print("checkpoint {:.2f} MB, model {:.2f} MB, result {:.3f} MB\n",
             1e-6 * static_cast<double>(checkpoint_bytes),
             1e-6 * static_cast<double>(model_bytes), 1e-6 * static_cast<double>(result_bytes));

  Times alone;
  double beat_cost = 0, claim_cost = 0, checkpoint_cost = 0, result_cost = 0, beat_time = 0;
  {
    Worker one(all, port, scratch / "first", weights);
    pause(0.2);  // the first of its own beats
    const auto start = Clock::now();
    constexpr int beats = 1000;
    beat_cost = cost_of(beats, [&] { one.beat(); });
    beat_time = since(start) / beats;
    claim_cost = cost_of(50, [&] { one.release(*one.claim(alone)); });
    const Claim claim = *one.claim(alone);
    checkpoint_cost = cost_of(10, [&] { one.keep(claim, alone); });
    result_cost = cost_of(1, [&] { one.finish(claim, alone); });
    result_cost = cost_of(5, [&] { one.finish(*one.claim(alone), alone); }) - claim_cost;
  }
  fmt::print("one worker      claim        heartbeat    checkpoint   result\n");
  fmt::print("  time          {:7.3f} ms   {:7.3f} ms   {:7.1f} ms   {:7.1f} ms\n",
             1e3 * quantile(alone.claim, 0.5), 1e3 * beat_time,
             1e3 * quantile(alone.checkpoint, 0.5), 1e3 * quantile(alone.result, 0.5));
  fmt::print("  CPU of rank 0 {:7.3f} ms   {:7.3f} ms   {:7.1f} ms   {:7.1f} ms\n",
             1e3 * claim_cost, 1e3 * beat_cost, 1e3 * checkpoint_cost, 1e3 * result_cost);

  Times times;
  std::mutex mutex;
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  const double cpu = server_seconds();
  for (int w = 0; w < all.workers; ++w)
    threads.emplace_back([&, w] {
      Times own;
      Worker worker(all, port, scratch / std::to_string(w), weights);
      for (int run = 0; run < all.runs; ++run) {
        const auto claim = worker.claim(own);
        if (!claim) break;
        // Workers begin at different times of the interval, as runs of different length do.
        double left = all.run_seconds;
        double next = all.checkpoint_seconds * (run ? 1 : (w + 1.0) / all.workers);
        while (left > next) {
          pause(next);
          left -= next;
          next = all.checkpoint_seconds;
          worker.keep(*claim, own);
        }
        pause(left);
        worker.finish(*claim, own);
      }
      const std::lock_guard lock(mutex);
      times.add(own);
    });
  for (std::thread& thread : threads) thread.join();
  const double wall = since(start), used = server_seconds() - cpu;
  const auto number = [](const std::vector<double>& list) {
    return static_cast<double>(list.size());
  };
  const double beats = wall / 2 * all.workers;
  const double predicted = beats * beat_cost + number(times.claim) * claim_cost +
                           number(times.checkpoint) * checkpoint_cost +
                           number(times.result) * result_cost;
  fmt::print("{} workers: {} runs, {} checkpoints, about {:.0f} heartbeats in {:.1f} s\n",
             all.workers, times.result.size(), times.checkpoint.size(), beats, wall);
  fmt::print("  claim       median {:.1f} ms, 99 % {:.1f} ms\n",
             1e3 * quantile(times.claim, 0.5), 1e3 * quantile(times.claim, 0.99));
  fmt::print("  checkpoint  median {:.0f} ms, 99 % {:.0f} ms\n",
             1e3 * quantile(times.checkpoint, 0.5), 1e3 * quantile(times.checkpoint, 0.99));
  fmt::print("  result      median {:.0f} ms, 99 % {:.0f} ms\n",
             1e3 * quantile(times.result, 0.5), 1e3 * quantile(times.result, 0.99));
  fmt::print("  CPU of rank 0: {:.2f} s, predicted {:.2f} s, ratio {:.2f}\n", used, predicted,
             used / predicted);
  fmt::print("  received: {:.1f} MB/s\n",
             1e-6 *
                 (number(times.checkpoint) * static_cast<double>(checkpoint_bytes) +
                  number(times.result) * static_cast<double>(model_bytes + result_bytes)) /
                 wall);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "Usage: {} FOLDER WORKERS RUNS RUN_SECONDS CHECKPOINT_SECONDS\n",
               argv[0]);
    return 2;
  }
  keep_freed_memory();  // as in gnomon-lab
  Scenario all{argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atof(argv[4]),
               std::atof(argv[5])};
  all.settings = read_settings(all.folder / "settings.json").settings;
  const std::string real = all.settings.encodings.at(0);
  all.settings.encodings = {real};
  const std::string name = jobs_of(all.settings, {}).at(0).name();
  all.result = read_run(all.folder / "runs" / (name + ".json"), all.settings, real, 1);
  all.model = all.folder / "models" / name;
  constexpr int of_first_phase = 6;
  all.settings.seeds =
      seeds_up_to(static_cast<std::int64_t>(all.workers) * all.runs + of_first_phase);
  all.jobs = jobs_of(all.settings, {});

  const fs::path scratch = fs::temp_directory_path() / fmt::format("gnomon-sim-{}", getpid());
  for (const char* part : {"checkpoints", "runs", "models"})
    fs::create_directories(scratch / "out" / part);
  Listener listener({"127.0.0.1", 0});
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int status = simulate(all, listener.port(), scratch);
    std::fflush(stdout);
    _exit(status);
  }
  {
    RunTable table(all.jobs.size());
    std::FILE* const nothing = std::fopen("/dev/null", "w");
    Progress progress(all.settings, nothing);
    WorkServer server(listener, Invitation{{all.settings, "", "", GNOMON_VERSION}, {real}, ""},
                      all.settings, all.jobs, table, scratch / "out", progress,
                      [](std::size_t, RunResult) {});
    int status = 0;
    waitpid(child, &status, 0);
    server.end(0);
    if (!table.all_done()) fmt::print("some runs have no result\n");
  }
  fs::remove_all(scratch);
  return 0;
}
