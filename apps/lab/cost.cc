#include "apps/lab/cost.h"

#include <ATen/Parallel.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>

#include "apps/lab/batches.h"
#include "apps/lab/candidate.h"
#include "apps/lab/run.h"
#include "apps/lab/transformer.h"

namespace gnomon::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* reference = "none";
constexpr std::int64_t memory_lengths[] = {1024, 4096, 16384};
constexpr double most_pass_seconds = 6, most_step_seconds = 3;
constexpr int warm_steps = 2, timed_steps = 6;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the result of `work`, executed in a child process, whose memory is separate and
// released.
template <typename Work>
std::optional<std::vector<double>> in_child(Work&& work) {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]), close(ends[1]);
    return std::nullopt;
  }
  if (child == 0) {
    close(ends[0]);
    int code = 1;
    try {
      at::set_num_threads(1);
      const std::vector<double> numbers = work();
      const auto bytes = static_cast<ssize_t>(numbers.size() * sizeof(double));
      code = write(ends[1], numbers.data(), static_cast<std::size_t>(bytes)) == bytes ? 0 : 1;
    } catch (const std::exception&) {
    }
    _exit(code);
  }
  close(ends[1]);
  std::vector<double> numbers;
  for (double number; read(ends[0], &number, sizeof number) == sizeof number;)
    numbers.push_back(number);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) return std::nullopt;
  return numbers;
}

// A line of /proc/self/status, in bytes.
double status(const std::string& key) {
  std::ifstream stream("/proc/self/status");
  for (std::string line; std::getline(stream, line);)
    if (line.rfind(key + ":", 0) == 0) return 1024 * std::stod(line.substr(key.size() + 1));
  return 0;
}

double step_seconds(const Settings& settings, const Corpus& corpus, const std::string& name) {
  TrainingRun run(settings, corpus, name, 1);
  const auto start = Clock::now();
  double fastest = 1e9;  // other processes only slow a step down
  for (int n = 0; n < warm_steps + timed_steps && (n < 2 || since(start) < most_step_seconds);
       ++n) {
    const auto before = Clock::now();
    run.train_step();
    if (n >= warm_steps || n == 1) fastest = std::min(fastest, since(before));
  }
  return fastest;
}

// Bytes and seconds of a pass over one window of zeros.
std::vector<double> pass(const Settings& settings, const std::string& name,
                         std::int64_t tokens) {
  Transformer model = transformer_for(settings, find_candidate(name), tokens, 1);
  const at::Tensor window = at::zeros({1, tokens}, at::kLong);
  std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak
  const double before = status("VmRSS");
  const auto start = Clock::now();
  mean_loss(model->forward(window, {.visibility = visibility(settings)}), window).backward();
  return {status("VmHWM") - before, since(start)};
}

}  // namespace

std::vector<MeasuredCost> measure_cost(const Settings& settings, const Corpus& corpus,
                                       const std::function<bool()>& stop) {
  std::vector<MeasuredCost> all;
  if (settings.device != "cpu") return all;
  Settings of_a_few_steps = settings;  // without validation
  of_a_few_steps.steps = 1000;
  std::vector<std::string> names{reference};
  for (const std::string& name : settings.encodings)
    if (name != reference) names.push_back(name);
  for (const std::string& name : names) {
    MeasuredCost one{.encoding = name};
    if (stop()) return {};
    const auto step =
        in_child([&] { return std::vector{step_seconds(of_a_few_steps, corpus, name)}; });
    if (step && step->size() == 1) one.step_seconds = step->front();
    double seconds = 0;
    for (const std::int64_t tokens : memory_lengths) {
      if (stop()) return {};
      if (tokens > 4096 && settings.preset != "full") break;
      if (16 * seconds > most_pass_seconds) break;  // attention takes O(tokens^2)
      const auto found = in_child([&] { return pass(settings, name, tokens); });
      if (!found || found->size() != 2) break;
      one.memory.push_back({.tokens = tokens, .bytes = found->front()});
      seconds = found->back();
    }
    all.push_back(one);
  }
  return all;
}

std::vector<EncodingCost> cost_results(const std::vector<MeasuredCost>& measured,
                                       const std::vector<EncodingResult>& encodings) {
  const auto of = [&](const std::string& name) {
    return std::find_if(measured.begin(), measured.end(),
                        [&](const MeasuredCost& one) { return one.encoding == name; });
  };
  const auto plain = of(reference);
  std::vector<EncodingCost> all;
  if (plain == measured.end()) return all;
  for (const EncodingResult& one : encodings) {
    const auto found = of(one.name);
    if (found == measured.end()) continue;
    EncodingCost row{one.name, one.title,    one.position_parameters, found->step_seconds,
                     {},       found->memory};
    if (row.step_seconds && plain->step_seconds)
      row.relative_step = *row.step_seconds / *plain->step_seconds;
    for (std::size_t i = 0; i < std::min(row.memory.size(), plain->memory.size()); ++i)
      row.memory[i].extra_bytes = row.memory[i].bytes - plain->memory[i].bytes;
    all.push_back(row);
  }
  return all;
}

}  // namespace gnomon::lab
