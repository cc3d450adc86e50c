#include "apps/lab/runs/calibration.h"

#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/model_size.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/transformer.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/runs/run.h"

namespace gnomon::lab {
namespace {

constexpr std::int64_t memory_lengths[] = {1024, 4096, 16384};
constexpr double most_pass_seconds = 6;
// The measurement of pairs of steps ends if its confidence interval has this half width.
constexpr double most_step_seconds = 3, wanted_half_width = 0.01;
constexpr std::size_t least_pairs = 6, most_pairs = 100;

// The numbers that `work` returns in a child process, whose memory is separate and released.
class Child {
 public:
  template <typename Work>
  explicit Child(Work&& work) {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      // A killed lab must not keep its port or the lock of its folder in a child.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
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
    output_ = ends[0];
  }
  // Waits for the child. Returns `count` numbers, or nothing if it failed.
  std::optional<std::vector<double>> numbers(std::size_t count) {
    if (output_ < 0) return std::nullopt;
    std::vector<double> all;
    for (double number; read(output_, &number, sizeof number) == sizeof number;)
      all.push_back(number);
    close(output_);
    int status = 1;
    if (pid_ > 0) waitpid(pid_, &status, 0);
    if (status != 0 || all.size() != count) return std::nullopt;
    return all;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

// A line of /proc/self/status, in bytes.
double status(const std::string& key) {
  std::ifstream stream("/proc/self/status");
  for (std::string line; std::getline(stream, line);)
    if (line.rfind(key + ":", 0) == 0) return 1024 * std::stod(line.substr(key.size() + 1));
  return 0;
}

double timed_step(TrainingRun& run) {
  const auto start = Clock::now();
  run.train_step();
  return seconds_since(start);
}

// The median time of a step, and the median and the interval of its ratio to the encoding none.
// NaN for the ratio if there are too few pairs.
std::vector<double> step_times(const Settings& settings, const Corpus& corpus,
                               const std::string& name, double limit) {
  TrainingRun run(settings, corpus, name, 1), plain(settings, corpus, reference_of(name), 1);
  timed_step(run), timed_step(plain);  // allocate their memory
  const auto start = Clock::now();
  std::vector<double> seconds, ratios;
  RelativeTime ratio{NAN, NAN, NAN};
  while (seconds.empty() || (seconds_since(start) < std::min(limit, most_step_seconds) &&
                             ratios.size() < most_pairs)) {
    // Alternating order, so that a slow drift of the machine cancels.
    const bool first = seconds.size() % 2 == 0;
    const double before = first ? 0 : timed_step(plain);
    seconds.push_back(timed_step(run));
    ratios.push_back(seconds.back() / (first ? timed_step(plain) : before));
    if (ratios.size() < least_pairs) continue;
    ratio = median_interval(ratios);
    if (ratio.high - ratio.low <= 2 * wanted_half_width * ratio.median) break;
  }
  return {median_interval(seconds).median, ratio.median, ratio.low, ratio.high};
}

// Bytes and seconds of a pass over one window of zeros.
std::vector<double> pass(const Settings& settings, const std::string& name,
                         std::int64_t tokens) {
  Transformer model = transformer_for(sized(settings, name), find_candidate(name), tokens, 1);
  const at::Tensor window = at::zeros({1, tokens}, at::kLong);
  std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak
  const double before = status("VmRSS");
  const auto start = Clock::now();
  sum_of_losses(model->forward(window, {.visibility = visibility(settings)}), window)
      .backward();
  return {status("VmHWM") - before, seconds_since(start)};
}

}  // namespace

// Order statistics: (n - 1.96 sqrt(n)) / 2 of n numbers are below the interval.
RelativeTime median_interval(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const auto n = static_cast<double>(numbers.size());
  const auto outside =
      static_cast<std::size_t>(std::max(0.0, std::floor((n - 1.96 * std::sqrt(n)) / 2)));
  const std::size_t middle = numbers.size() / 2;
  return {numbers.size() % 2 ? numbers[middle] : 0.5 * (numbers[middle - 1] + numbers[middle]),
          numbers[outside], numbers[numbers.size() - 1 - outside]};
}

std::string reference_of(const std::string& name) {
  const auto size = split_size(name).size;
  return size ? "none@" + size->text() : "none";
}

std::vector<MeasuredCost> measure_cost(const Settings& settings, const Corpus& corpus,
                                       double seconds, const Stop& stop) {
  const auto start = Clock::now();
  std::vector<MeasuredCost> all;
  if (settings.device != "cpu") return all;
  Settings of_a_few_steps = settings;  // leaves out validation
  of_a_few_steps.steps = 1000;
  std::vector<std::string> names;
  for (const std::string& name : settings.encodings)
    for (const std::string& one : {reference_of(name), name})
      if (!is_own(one)) add_once(names, one);
  // Equal times, so that the last encodings are measured, too.
  const double each = seconds / static_cast<double>(std::max<std::size_t>(1, names.size()));
  for (const std::string& name : names) {
    MeasuredCost one{.encoding = name};
    if (stop()) return {};
    if (seconds_since(start) > seconds) break;
    if (const auto step = Child([&] {
                            return step_times(of_a_few_steps, corpus, name, 0.6 * each);
                          }).numbers(4)) {
      one.step_seconds = step->at(0);
      if (!std::isnan(step->at(1)))
        one.relative_step = RelativeTime{step->at(1), step->at(2), step->at(3)};
    }
    double pass_seconds = 0;
    for (const std::int64_t tokens : memory_lengths) {
      if (settings.task->model) break;  // not a Transformer over bytes
      if (stop()) return {};
      if (tokens > 4096 && settings.preset != "full") break;
      if (16 * pass_seconds > std::min(0.4 * each, most_pass_seconds))
        break;  // attention takes O(tokens^2)
      const auto work = [&] { return pass(settings, name, tokens); };
      Child first(work), second(work);  // run at the same time: their memory is separate
      const auto a = first.numbers(2), b = second.numbers(2);
      if (!a || !b) break;
      one.memory.push_back({.tokens = tokens,
                            .bytes = 0.5 * (a->at(0) + b->at(0)),
                            .spread = std::abs(a->at(0) - b->at(0))});
      pass_seconds = std::min(a->at(1), b->at(1));
    }
    all.push_back(one);
  }
  return all;
}

}  // namespace gnomon::lab
