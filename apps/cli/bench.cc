// `gnomon bench`: time, share of the roof and error of every kernel on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "apps/cli/command.h"
#include "apps/cli/output.h"
#include "apps/cli/peak_memory.h"
#include "apps/command_line/terminal.h"
#include "bench/kernels/kernels.h"
#include "gnomon/error.h"
#include "gnomon/isa.h"
#include "gnomon/parallel.h"

namespace gnomon::cli {
namespace {

constexpr const char* bench_help =
    R"(Usage: gnomon bench [NAME] [--tokens N] [--isa NAME] [--threads N] [--explain]
                    [--device D] [--json]

Times the kernels whose names begin with NAME (default: all): fill, table, add,
fourier, projection, rotate (32 + 8 heads), angles (of tokens), decode, append,
shift, rerotate, bias, attention ('attention alibi', plain, t5, dense, decode,
paged, batch), beside ('beside fox': attention with an encoding), normalise,
segment, encoding ('encoding shaw': a training step), lower. Each alternates
with its roof: the same bytes updated in place, written or read; for products,
sgemm of OpenBLAS or oneDNN, whichever is faster, or the call without encoding.
`share`: the rate of the kernel divided by that of the roof. `error`: the
largest difference from an oracle in double on a sample (q and k in [-1, 1]:
half an ulp of bf16 is up to 4e-3). `extra`: the memory that one call requires.

  --tokens N    only this length
  --isa NAME    portable, sse4, avx2, avx512 or neon; all: every available one
  --threads N   number of threads (default: OMP_NUM_THREADS, or all cores)
  --device D    cuda: rotate, decode, append, table, add on a GPU, beside a copy
                of the same bytes there (default: cpu)
  --explain     also which kernel a call of attention takes, and why
  --json        one JSON document on stdout

Example: gnomon bench rotate --threads 1 --tokens 4096
)";

struct BenchOptions {
  std::string name, isa, device = "cpu";
  std::optional<std::int64_t> tokens;
  std::optional<int> threads;
  bool explain = false, json = false;
};

using Clock = std::chrono::steady_clock;

using Run = std::function<void()>;

// finish: waits for runs that are only started, or empty.
double seconds_of(const Run& run, const Run& finish, int times) {
  const auto begin = Clock::now();
  for (int i = 0; i < times; ++i) run();
  if (finish) finish();
  return std::chrono::duration<double>(Clock::now() - begin).count() / times;
}

struct Pace {
  int times = 1;       // calls that take at least a millisecond together
  double seconds = 0;  // duration of a turn
};

Pace pace_of(const Run& run, const Run& finish) {
  const double once = std::max(seconds_of(run, finish, 1), 1e-8);
  const auto times = static_cast<int>(std::clamp(1e-3 / once, 1.0, 1e5));
  return {times, once * times};
}

double median(std::vector<double> numbers) {
  std::nth_element(numbers.begin(),
                   numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2),
                   numbers.end());
  return numbers[numbers.size() / 2];
}

// Growth below 0.1 MB is noise: the system counts pages in batches.
std::string megabytes(const Json& bytes) {
  return bytes.is_null() ? "" : fmt::format("{:.1f} MB", bytes.get<double>() * 1e-6);
}

std::string duration(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

Json measure(const bench::Kernel& kernel) {
  double first = 0;
  const std::optional<std::int64_t> extra =
      peak_growth([&] { first = seconds_of(kernel.run, kernel.finish, 1); });
  const bench::RoofRun roof = kernel.make_roof();
  seconds_of(roof.run, kernel.finish, 1);
  const Pace roof_pace = pace_of(roof.run, kernel.finish);
  // Duration of the roof for the work of the kernel, divided by the duration of one run.
  const double whole = kernel.work / roof.work;
  // Each turn takes the faster of the roof before and the roof after. A roof that was
  // interrupted would make a slow kernel look good.
  std::vector<double> times, roofs, shares;
  double before = whole * seconds_of(roof.run, kernel.finish, roof_pace.times);
  const auto take = [&](double mine) {
    const double after = whole * seconds_of(roof.run, kernel.finish, roof_pace.times);
    times.push_back(mine);
    roofs.push_back(std::min(before, after));
    shares.push_back(roofs.back() / mine);
    before = after;
  };
  if (first > 2) {  // warm-up does not matter for long calls
    take(first);
  } else {
    const Pace mine = pace_of(kernel.run, kernel.finish);
    const double round = mine.seconds + roof_pace.seconds;
    for (double left = std::clamp(1.2 / round, 5.0, 15.0); left >= 1; --left)
      take(seconds_of(kernel.run, kernel.finish, mine.times));
  }
  const bool memory = kernel.roof == bench::Roof::memory;
  Json result = {{"kernel", kernel.name},
                 {"detail", kernel.detail},
                 {"isa", name(current_isa())},
                 {"seconds", median(times)},
                 {"roof", memory ? "memory" : "arithmetic"},
                 {"roof_seconds", median(roofs)},
                 {"share", median(shares)},
                 {memory ? "bytes" : "operations", kernel.work},
                 {"error", kernel.error ? Json(kernel.error()) : Json()},
                 {"extra_bytes", extra ? Json(*extra) : Json()}};
  if (!roof.name.empty()) result["roof_name"] = roof.name;
  if (kernel.explain) result["explanation"] = kernel.explain();
  if (kernel.dense_bytes > 0) result["dense_bias_bytes"] = kernel.dense_bytes;
  return result;
}

// Columns: the detail, then the numbers, 80 in all. A longer detail has a line of its own.
constexpr int detail_width = 37;

void print_heading() {
  fmt::print("{:<{}}{:>9}{:>13}{:>6}{:>6}{:>9}\n", "kernel", detail_width, "time", "rate",
             "share", "error", "extra");
}

void print_row(const bench::Kernel& kernel, const Json& result) {
  const double rate = kernel.work / result.at("seconds").get<double>() * 1e-9;
  std::string detail = "  " + kernel.detail;
  if (detail.size() > detail_width) {
    fmt::print("{}\n", detail);
    detail.clear();
  }
  fmt::print(
      "{:<{}}{:>9}{:>13}{:>5.0f}%{:>6}{:>9}\n", detail, detail_width,
      duration(result.at("seconds")),
      fmt::format("{:.{}f} {}", rate, rate < 100 ? 1 : 0,
                  result.contains("bytes") ? "GB/s" : "Gflop/s"),
      100 * result.at("share").get<double>(),
      result["error"].is_null() ? "" : fmt::format("{:.0e}", result["error"].get<double>()),
      megabytes(result.at("extra_bytes")));
  std::fflush(stdout);
}

// Prints the roof of products, and the size of its biases as matrices.
void print_notes(const Json& results) {
  std::map<std::string, std::vector<double>> rates;
  double dense = 0;
  for (const Json& result : results) {
    if (result.contains("roof_name"))
      rates[result["roof_name"]].push_back(result["operations"].get<double>() /
                                           result["roof_seconds"].get<double>());
    dense = std::max(dense, result.value("dense_bias_bytes", 0.0));
  }
  if (!rates.empty() || dense > 0) fmt::print("\n");
  for (const auto& [roof, of_rows] : rates)
    fmt::print("Roof of products: {}: {:.0f} Gflop/s\n", roof, median(of_rows) * 1e-9);
  if (dense > 0)
    fmt::print("Size of the largest bias as a dense matrix: {:.1f} MB\n", dense * 1e-6);
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

void measure_all(const std::vector<bench::KernelMaker>& list, const BenchOptions& o,
                 Json& results) {
  const bool json = o.json;
  if (!json) print_heading();
  std::string last;
  for (const bench::KernelMaker& maker : list) {
    const bench::Kernel kernel = maker.make();
    results.push_back(measure(kernel));
    if (json) continue;
    if (kernel.name != last) fmt::print("{}\n", styled(Style::bold, kernel.name));
    last = kernel.name;
    print_row(kernel, results.back());
    if (o.explain && results.back().contains("explanation"))
      print_wrapped(results.back()["explanation"].get<std::string>(), "    ", "    ");
  }
}

int run_on_gpu(const BenchOptions& o) {
  if (!o.isa.empty()) refuse("bench", "--isa must be left out with --device cuda", o.isa);
  const auto list = bench::cuda_kernels(o.name, o.tokens);
  Json results = Json::array();
  if (!o.json) fmt::print("{}\n\n", bench::cuda_device());
  measure_all(list, o, results);
  for (Json& result : results) result["isa"] = "cuda";
  if (o.json) print_json({{"device", bench::cuda_device()}, {"kernels", results}});
  return 0;
}

int run_bench(const BenchOptions& o) {
  if (o.device != "cpu" && o.device != "cuda")
    refuse("bench", "--device must be cpu or cuda", o.device);
  if (o.device == "cuda") return run_on_gpu(o);
  if (o.threads) set_threads(*o.threads);
  const auto list = bench::kernels(o.name, o.tokens);
  if (list.empty())
    refuse("bench", "NAME must begin with one of " + bench::kernel_names(), o.name);
  Json results = Json::array();
  for (const Isa isa : wanted_isas(o.isa)) {
    const ScopedIsa scoped(isa);
    if (!o.json)
      fmt::print("{}{} thread{}, {}\n\n", results.empty() ? "" : "\n", threads(),
                 threads() == 1 ? "" : "s", name(isa));
    measure_all(list, o, results);
  }
  if (!o.json) print_notes(results);
  if (o.json)
    print_json({{"threads", threads()}, {"isa", name(current_isa())}, {"kernels", results}});
  return 0;
}

}  // namespace

Command bench_command() {
  Command command("bench", bench_help);
  auto o = std::make_shared<BenchOptions>();
  command.option("NAME", &o->name);
  command.option("--tokens", &o->tokens).at_least(1);
  command.option("--isa", &o->isa);
  command.option("--device", &o->device);
  command.option("--threads", &o->threads).at_least(1);
  command.flag("--explain", &o->explain);
  command.flag("--json", &o->json);
  command.run = [o] { return run_bench(*o); };
  return command;
}

}  // namespace gnomon::cli
