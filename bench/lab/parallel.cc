// Time of a training step of the lab by number of workers, and the share of the exchange of
// gradients that is hidden behind the backward pass.
//
//   build/release/bench/gnomon_parallel [STEPS] [WIDTH]
//
// The medians of the steps, with the default task and t5. "hidden": 1 - waiting time / exchange
// time. The exchange includes the wait for slower members.
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "apps/lab/batches.h"
#include "apps/lab/micro_batches.h"
#include "apps/lab/run.h"

namespace {

using namespace gnomon::lab;
using Clock = std::chrono::steady_clock;

double median(std::vector<double> numbers) {
  std::nth_element(numbers.begin(), numbers.begin() + std::ssize(numbers) / 2, numbers.end());
  return numbers[numbers.size() / 2];
}

// Calls `step` and returns the median of its times in ms, without the first two.
template <typename Step>
double milliseconds(int steps, Step&& step) {
  std::vector<double> times;
  for (int i = 0; i < steps + 2; ++i) {
    const auto start = Clock::now();
    step(static_cast<std::uint64_t>(i));
    if (i > 1)
      times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return median(times);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 40;
  at::set_num_threads(1);
  at::globalContext().setFlushDenormal(true);
  Settings settings;
  settings.width = argc > 2 ? std::atoi(argv[2]) : settings.width;
  settings.eval_lengths = {settings.train_length};
  const Corpus corpus = load_corpus(settings);
  const auto model = make_model(settings, corpus, "t5", 1);
  std::printf("%ld parameters. Forward and backward pass of a batch of %ld:\n",
              static_cast<long>(model->parameter_count()), static_cast<long>(settings.batch));
  std::printf("  1 worker, one piece        %7.1f ms\n", milliseconds(steps, [&](auto step) {
                model->module().zero_grad();
                model->loss(Part::train, 1, step, {0, settings.batch}).nats.backward();
              }));
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int workers = 1; workers <= std::min(cores, 8); workers *= 2)
    for (const Overlap overlap : {Overlap::with_backward, Overlap::after_backward}) {
      if (workers == 1 && overlap == Overlap::after_backward) continue;
      on_team(workers, [&](Team& team) {
        const auto own = make_model(settings, corpus, "t5", 1);
        MicroBatches micro_batches(*own, settings.batch, team, {.overlap = overlap});
        const double time =
            milliseconds(steps, [&](auto step) { micro_batches.backward(1, step); });
        if (!team.leads()) return;
        std::printf("  %d worker%s, micro-batches    %7.1f ms", workers,
                    workers > 1 ? "s" : " ", time);
        if (workers > 1) {
          const double exchange = micro_batches.exchange_seconds() / (steps + 2),
                       waiting = micro_batches.waiting_seconds() / (steps + 2);
          std::printf(", %s: exchange %.1f ms a step, %.0f %% hidden",
                      overlap == Overlap::with_backward ? "overlapped" : "afterwards",
                      1e3 * exchange, 100 * std::max(0.0, 1 - waiting / exchange));
        }
        std::printf("\n");
      });
    }
}
