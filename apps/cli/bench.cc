// `gnomon bench`: time, share of the roof and error of every kernel on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "apps/cli/command.h"
#include "apps/cli/kernels.h"
#include "apps/cli/output.h"
#include "gnomon/error.h"
#include "gnomon/isa.h"
#include "gnomon/parallel.h"

namespace gnomon::cli {
namespace {

constexpr const char* help =
    R"(Usage: gnomon bench [NAME] [--threads N] [--json]

Times the kernels whose names begin with NAME (all): fill, table, add, rotate,
bias, attention (causal). Each runs in turns with its roof, so noise meets both:

  memory       the same bytes touched or written in place
  arithmetic   as many multiply-adds on floats in registers

`share` is roof time / kernel time; `error` the worst difference from an oracle
in double on a sample.

  --threads N   threads to use (OMP_NUM_THREADS, or the cores)
  --json        one JSON document on stdout

GNOMON_ISA=avx2 (or portable, sse4, avx512, neon) chooses the instruction set.

Example: gnomon bench rotate --threads 1
)";

struct Options {
  std::string name;
  int threads = 0;
  bool json = false;
};

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& run, int times) {
  const auto begin = Clock::now();
  for (int i = 0; i < times; ++i) run();
  return std::chrono::duration<double>(Clock::now() - begin).count() / times;
}

// Runs that take at least a millisecond together.
int times_of(const std::function<void()>& run) {
  run();
  const double once = seconds_of(run, 1);
  return static_cast<int>(std::clamp(1e-3 / std::max(once, 1e-8), 1.0, 1e5));
}

double median(std::vector<double> numbers) {
  std::nth_element(numbers.begin(),
                   numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2),
                   numbers.end());
  return numbers[numbers.size() / 2];
}

std::string duration(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}

Json measure(const Kernel& kernel) {
  constexpr int rounds = 15;
  const int times = times_of(kernel.run), roof_times = times_of(kernel.run_roof);
  std::vector<double> mine, roofs;
  for (int i = 0; i < rounds; ++i) {
    mine.push_back(seconds_of(kernel.run, times));
    roofs.push_back(seconds_of(kernel.run_roof, roof_times));
  }
  const double seconds = median(mine), roof = median(roofs);
  return {{"kernel", kernel.name},
          {"detail", kernel.detail},
          {"seconds", seconds},
          {"roof", kernel.roof == Roof::memory ? "memory" : "arithmetic"},
          {"roof_seconds", roof},
          {"share", roof / seconds},
          {kernel.roof == Roof::memory ? "bytes" : "operations", kernel.work},
          {"error", kernel.error()}};
}

int run(const Options& o) {
  if (o.threads < 0) refuse("bench", "--threads must not be negative", o.threads);
  if (o.threads) set_threads(o.threads);
  const auto list = kernels(o.name);
  if (list.empty())
    refuse("bench", "NAME must begin fill, table, add, rotate, bias or attention", o.name);
  Json results = Json::array();
  if (!o.json) {
    fmt::print("{} threads, {}\n\n", threads(), name(current_isa()));
    fmt::print("{:<10}{:<33}{:>10}{:>14}{:>6}{:>7}\n", "kernel", "", "time", "rate", "share",
               "error");
  }
  for (const auto& make : list) {
    const Kernel kernel = make();
    const Json result = measure(kernel);
    results.push_back(result);
    if (o.json) continue;
    const double rate = kernel.work / result.at("seconds").get<double>() * 1e-9;
    fmt::print("{:<10}{:<33}{:>10}{:>14}{:>5.0f}%{:>7.0e}\n", kernel.name, kernel.detail,
               duration(result.at("seconds")),
               fmt::format("{:.1f} {}", rate, kernel.roof == Roof::memory ? "GB/s" : "GFLOP/s"),
               100 * result.at("share").get<double>(), result.at("error").get<double>());
    std::fflush(stdout);
  }
  if (o.json)
    print_json({{"threads", threads()}, {"isa", name(current_isa())}, {"kernels", results}});
  return 0;
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* app = add_app(program, "bench", help);
  auto o = std::make_shared<Options>();
  app->add_option("NAME", o->name);
  app->add_option("--threads", o->threads);
  app->add_flag("--json", o->json);
  return {app, help, [o] { return run(*o); }};
}

}  // namespace gnomon::cli
