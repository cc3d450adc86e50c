// Time of the forward and backward pass of the lab by number of workers, and the share of the
// exchange of gradients that is hidden behind the backward pass.
//
//   build/release/bench/gnomon_parallel [STEPS] [WIDTH]
//
// Prints medians, for the default task with t5. "hidden": 1 - waiting time / exchange time. The
// exchange includes the wait for slower members. Two processes exchange over local TCP.
#include <ATen/Parallel.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <vector>

#include "apps/lab/runs/micro_batches.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/runs/process_team.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/make_model.h"

namespace {

using namespace gnomon::lab;
using Clock = std::chrono::steady_clock;

// The median time of `step` in ms, without the first two calls.
double milliseconds(int steps, const std::function<void(std::uint64_t)>& step) {
  std::vector<double> times;
  for (int i = 0; i < steps + 2; ++i) {
    const auto start = Clock::now();
    step(static_cast<std::uint64_t>(i));
    if (i > 1)
      times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

struct Measurement {
  int steps;
  Settings settings;
  Corpus corpus;

  void whole() const {
    const auto model = make_model(settings, corpus, "t5", 1);
    std::printf("%ld parameters, a batch of %ld\n",
                static_cast<long>(parameter_count(model->module())),
                static_cast<long>(settings.batch));
    std::printf("1 worker, one piece          %7.1f ms\n", milliseconds(steps, [&](auto step) {
                  model->module().zero_grad();
                  model->loss(Part::train, 1, step, {0, settings.batch}).nats.backward();
                }));
  }
  void micro_batches(Team& team, const char* kind) const {
    for (const Overlap overlap : {Overlap::with_backward, Overlap::after_backward}) {
      const auto model = make_model(settings, corpus, "t5", 1);
      MicroBatches work(*model, settings.batch, team, {.overlap = overlap});
      const double time = milliseconds(steps, [&](auto step) { work.backward(1, step); });
      if (!team.leads()) continue;
      std::printf("%d %-9s micro-batches     %7.1f ms", team.size(), kind, time);
      if (team.size() > 1) {
        const double exchange = 1e3 * work.exchange_seconds() / (steps + 2),
                     waiting = 1e3 * work.waiting_seconds() / (steps + 2);
        std::printf(", exchange %s: %5.1f ms a step, %3.0f %% hidden",
                    overlap == Overlap::with_backward ? "overlapped" : "afterwards", exchange,
                    100 * std::max(0.0, 1 - waiting / exchange));
      }
      std::printf("\n");
      std::fflush(stdout);
      if (team.size() == 1) return;
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto store =
      std::filesystem::temp_directory_path() / ("gnomon-parallel-" + std::to_string(getpid()));
  // LibTorch has no threads yet. The second process waits for the first one.
  const pid_t second = fork();
  keep_freed_memory();
  set_blas_threads();
  at::set_num_threads(1);
  at::globalContext().setFlushDenormal(true);
  Settings settings;
  if (argc > 2) settings.width = std::atoi(argv[2]);
  settings.eval_lengths = {settings.train_length};
  const Measurement measurement{argc > 1 ? std::atoi(argv[1]) : 40, settings,
                                load_corpus(settings)};
  if (second != 0) {
    measurement.whole();
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    for (int workers = 1; workers <= std::min(cores, 8); workers *= 2)
      on_team(workers, [&](Team& team) { measurement.micro_batches(team, "threads,"); });
  }
  {
    const auto team = process_team(c10::make_intrusive<c10d::FileStore>(store, 2),
                                   second == 0 ? 1 : 0, 2, "127.0.0.1", std::chrono::hours(1));
    measurement.micro_batches(*team, "processes");
  }
  if (second == 0) _exit(0);
  waitpid(second, nullptr, 0);
  std::filesystem::remove(store);
}
