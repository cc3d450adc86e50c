// `gnomon bench`: time, share of the roof and error of every kernel on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "apps/cli/command.h"
#include "apps/cli/kernels.h"
#include "apps/cli/output.h"
#include "gnomon/error.h"
#include "gnomon/isa.h"
#include "gnomon/parallel.h"

namespace gnomon::cli {
namespace {

constexpr const char* help =
    R"(Usage: gnomon bench [NAME] [--tokens N] [--isa NAME] [--threads N] [--json]

Times the kernels whose names begin with NAME (all): fill, table, add, rotate
(32 + 8 heads), append, decode, bias, attention (causal), for one token, 512,
8192 and more than the last cache holds. Each runs in turns with its roof:

  memory       the same bytes touched or written in place
  arithmetic   as many multiply-adds on floats in registers

`share` is roof time / kernel time; `error` the worst difference from an oracle
in double on a sample. (q and k in [-1, 1]: half an ulp of bf16 is up to 4e-3.)

  --tokens N    only this length
  --isa NAME    portable, sse4, avx2, avx512 or neon; all: each that there is
  --threads N   threads to use (OMP_NUM_THREADS, or the cores)
  --json        one JSON document on stdout

Example: gnomon bench rotate --threads 1 --tokens 4096
)";

struct Options {
  std::string name, isa;
  std::optional<std::int64_t> tokens;
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
  std::vector<double> mine, roofs, shares;
  for (int i = 0; i < rounds; ++i) {
    mine.push_back(seconds_of(kernel.run, times));
    roofs.push_back(seconds_of(kernel.run_roof, roof_times));
    shares.push_back(roofs.back() / mine.back());
  }
  return {{"kernel", kernel.name},
          {"detail", kernel.detail},
          {"isa", name(current_isa())},
          {"seconds", median(mine)},
          {"roof", kernel.roof == Roof::memory ? "memory" : "arithmetic"},
          {"roof_seconds", median(roofs)},
          {"share", median(shares)},
          {kernel.roof == Roof::memory ? "bytes" : "operations", kernel.work},
          {"error", kernel.error()}};
}

void print_row(const Kernel& kernel, const Json& result) {
  const double rate = kernel.work / result.at("seconds").get<double>() * 1e-9;
  fmt::print("{:<10}{:<36}{:>9}{:>13}{:>5.0f}%{:>7.0e}\n", kernel.name, kernel.detail,
             duration(result.at("seconds")),
             fmt::format("{:.1f} {}", rate, kernel.roof == Roof::memory ? "GB/s" : "Gflop/s"),
             100 * result.at("share").get<double>(), result.at("error").get<double>());
  std::fflush(stdout);
}

std::vector<Isa> wanted_isas(const std::string& wanted) {
  const std::vector<Isa> available = available_isas();
  if (wanted.empty()) return {current_isa()};
  if (wanted == "all") return available;
  std::string list;
  for (const Isa isa : available) {
    if (name(isa) == wanted) return {isa};
    list += std::string(name(isa)) + ", ";
  }
  refuse("bench", "--isa must be one of " + list + "all", wanted);
}

int run(const Options& o) {
  if (o.threads < 0) refuse("bench", "--threads must not be negative", o.threads);
  if (o.threads) set_threads(o.threads);
  if (o.tokens && *o.tokens < 1) refuse("bench", "--tokens must be at least 1", *o.tokens);
  const auto list = kernels(o.name, o.tokens);
  if (list.empty())
    refuse("bench",
           "NAME must begin fill, table, add, rotate, append, decode, bias or attention",
           o.name);
  Json results = Json::array();
  for (const Isa isa : wanted_isas(o.isa)) {
    const ScopedIsa scoped(isa);
    if (!o.json) {
      fmt::print("{}{} threads, {}\n\n", results.empty() ? "" : "\n", threads(), name(isa));
      fmt::print("{:<10}{:<36}{:>9}{:>13}{:>6}{:>7}\n", "kernel", "", "time", "rate", "share",
                 "error");
    }
    for (const KernelMaker& maker : list) {
      const Kernel kernel = maker.make();
      results.push_back(measure(kernel));
      if (!o.json) print_row(kernel, results.back());
    }
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
  app->add_option("--tokens", o->tokens);
  app->add_option("--isa", o->isa);
  app->add_option("--threads", o->threads);
  app->add_flag("--json", o->json);
  return {app, help, [o] { return run(*o); }};
}

}  // namespace gnomon::cli
