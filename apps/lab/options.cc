#include "apps/lab/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "apps/lab/candidate.h"
#include "apps/lab/extend.h"
#include "apps/lab/process.h"
#include "apps/lab/results_json.h"
#include "apps/lab/tasks.h"
#include "gnomon/error.h"
#include "gnomon/model/encoding.h"

namespace gnomon::lab {
namespace {

constexpr const char* help = R"(Usage: gnomon lab [TEXT...] [options]

Compares position encodings on TEXT: which one predicts it best, and how far
beyond its training length each one holds. Trains one small Transformer per
encoding from the same weights on the same batches, tests each far beyond the
training length, and writes a report. Without TEXT: Jane Austen's novels.

  --encodings A,B,..   none,sinusoidal,learned,rotary,alibi,t5, .. or all; A+B
                       for both, A*3/B by layers, A@random for random positions
  --task NAME          text, masked (text), copy, reverse, addition, recall
  --extend M,..        then extend rotary: linear,ntk,dynamic-ntk,yarn,drope
  --preset NAME        default (minutes) or full (3 seeds, an hour)
  --train-length N     bytes of a training window (128); letters of a task (20)
  --eval-lengths A,..  lengths to test (1, 2, 4, 8 x the training length)
  --layers --width --heads N    size of the Transformer (4, 128, 4)
  --seeds N  --batch N --learning-rate R
  --steps N | --minutes M       training budget, equal steps for every encoding
  --device cpu|cuda    --jobs N (runs at the same time; default: cores)
  --out DIR (report)   --resume (continue a stopped run)  --json

Example: gnomon lab --encodings rotary,alibi --minutes 2 --out /tmp/report
)";

struct Preset {
  const char* name;
  std::int64_t seeds, steps, segments;
  double minutes;
};
constexpr Preset presets[] = {{"default", 1, 600, 48, 6.5}, {"full", 3, 1200, 96, 58}};

// The defaults of a task for lengths, batches and steps. Examples are a third as long as a
// window of text, and more steps are required.
struct Usual {
  std::int64_t train_length, batch, steps;  // steps: a factor on the steps of the preset
  std::vector<std::int64_t> times;          // eval lengths, relative to train_length
};
Usual usual(Task task) {
  if (has_examples(task)) return {20, 48, 4, {2, 4}};
  return {128, 16, 1, {2, 4, 8}};
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void need(bool holds, const char* rule, std::int64_t got) {
  if (!holds) refuse("lab", rule, got);
}

void check_lengths_of_text(const Settings& s) {
  need(s.train_length >= 8, "--train-length must be at least 8", s.train_length);
  need(s.train_length % 2 == 0, "--train-length must be even", s.train_length);
  for (std::int64_t length : s.eval_lengths) {
    need(length % 2 == 0, "--eval-lengths must be even", length);
    need(s.longest() % length == 0, "each of --eval-lengths must divide the longest", length);
  }
}

void check_lengths_of_examples(const Settings& s, Task task) {
  if (!s.texts.empty()) refuse("lab", "--task " + s.task + " must have no TEXT", s.texts[0]);
  if (const auto most = longest_example(task); most && s.longest() > *most)
    refuse("lab",
           "lengths of --task " + s.task + " must be at most " + std::to_string(*most) + " " +
               std::string(find_task(s.task).unit),
           s.longest());
}

std::vector<std::string> encoding_names(const std::string& list) {
  std::vector<std::string> names;
  if (list == "all") {
    for (const auto& one : model::encodings()) names.emplace_back(one.name);
    return names;
  }
  for (const std::string& name : split(list))
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  if (names.empty()) refuse("lab", "--encodings must have at least one name", "none");
  return names;
}

std::vector<std::string> extension_names(const std::string& text) {
  std::vector<std::string> names;
  if (text == "all") {
    for (const ExtensionInfo& one : extensions()) names.emplace_back(one.name);
    return names;
  }
  for (const std::string& name : split(text))
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

}  // namespace

void check_settings(const Settings& s) {
  const Task task = task_of(s);
  need(s.train_length >= 1, "--train-length must be positive", s.train_length);
  need(s.train_length <= 65536, "--train-length must be at most 65536", s.train_length);
  for (std::int64_t length : s.eval_lengths)
    need(length >= s.train_length, "--eval-lengths must be at least the training length",
         length);
  if (s.eval_lengths.empty() || s.eval_lengths.front() != s.train_length ||
      !std::is_sorted(s.eval_lengths.begin(), s.eval_lengths.end(), std::less_equal<>()))
    refuse("lab", "--eval-lengths must begin with the training length and ascend", "others");
  if (s.encodings.empty()) refuse("lab", "--encodings must have at least one name", "none");
  need(s.eval_segments >= 1, "eval_segments must be at least 1", s.eval_segments);
  if (has_examples(task))
    check_lengths_of_examples(s, task);
  else
    check_lengths_of_text(s);
  need(s.layers >= 1 && s.layers <= 64, "--layers must be 1 to 64", s.layers);
  need(s.heads >= 1 && s.heads <= 128, "--heads must be 1 to 128", s.heads);
  need(s.width >= 8 && s.width <= 4096, "--width must be 8 to 4096", s.width);
  need(s.width % (2 * s.heads) == 0,
       "--width must be a multiple of twice --heads, because rotary requires pairs", s.width);
  need(s.seeds >= 1 && s.seeds <= 100, "--seeds must be 1 to 100", s.seeds);
  need(s.steps >= 1, "--steps must be at least 1", s.steps);
  need(s.batch >= 1 && s.batch <= 4096, "--batch must be 1 to 4096", s.batch);
  if (!(s.learning_rate > 0 && s.learning_rate < 1))
    refuse("lab", "--learning-rate must be between 0 and 1", s.learning_rate);
  for (const std::string& name : s.encodings) find_candidate(name);
  for (const std::string& name : s.extend) find_extension(name);
  if (!s.extend.empty()) {
    if (task != Task::text) refuse("lab", "--extend requires --task text", s.task);
    if (std::none_of(s.encodings.begin(), s.encodings.end(), extends))
      refuse("lab", "--extend requires rotary in --encodings", "none");
  }
  if (s.device != "cpu" && s.device != "cuda")
    refuse("lab", "--device must be cpu or cuda", s.device);
  if (s.device == "cuda" && !cuda_is_available())
    refuse("lab", "--device cuda requires a GPU and a LibTorch built for CUDA", "none");
}

Options parse_options(int argc, char** argv) {
  Options options;
  Settings& s = options.settings;
  std::string encodings = "none,sinusoidal,learned,rotary,alibi,t5", lengths, methods;
  std::int64_t steps = 0, seeds = 0, train_length = 0, batch = 0;
  double minutes = 0;

  CLI::App app;
  app.set_help_flag();  // the help text above is written to fit a screen
  bool wants_help = false;
  app.add_flag("-h,--help", wants_help);
  std::vector<std::pair<const char*, CLI::Option*>> settings_options;
  const auto setting = [&](const char* key, const char* flag, auto& value) {
    settings_options.emplace_back(key, app.add_option(flag, value));
    return settings_options.back().second;
  };
  setting("texts", "texts", s.texts);
  setting("encodings", "--encodings", encodings);
  setting("task", "--task", s.task);
  setting("extend", "--extend", methods);
  setting("preset", "--preset", s.preset);
  const auto* train_length_given = setting("train_length", "--train-length", train_length);
  setting("eval_lengths", "--eval-lengths", lengths);
  setting("layers", "--layers", s.layers);
  setting("width", "--width", s.width);
  setting("heads", "--heads", s.heads);
  const auto* seeds_given = setting("seeds", "--seeds", seeds);
  const auto* batch_given = setting("batch", "--batch", batch);
  setting("learning_rate", "--learning-rate", s.learning_rate);
  const auto* steps_given = setting("steps", "--steps", steps);
  setting("device", "--device", s.device);
  const auto* minutes_given = app.add_option("--minutes", minutes);
  app.add_option("--jobs", options.jobs);
  app.add_option("--out", options.out);
  app.add_flag("--resume", options.resume);
  app.add_flag("--json", options.json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    throw std::invalid_argument("[lab] " + std::string(error.what()) +
                                "; see gnomon lab --help");
  }
  if (wants_help) {
    std::fputs(help, stdout);
    std::exit(0);
  }

  for (const auto& [key, option] : settings_options)
    if (*option) options.given.emplace_back(key);

  const auto preset = std::find_if(std::begin(presets), std::end(presets),
                                   [&](const Preset& one) { return s.preset == one.name; });
  if (preset == std::end(presets)) refuse("lab", "--preset must be default or full", s.preset);
  const Usual task = usual(task_of(s));
  s.train_length = *train_length_given ? train_length : task.train_length;
  s.batch = *batch_given ? batch : task.batch;
  s.seeds = *seeds_given ? seeds : preset->seeds;
  s.steps = *steps_given ? steps : preset->steps * task.steps;
  s.eval_segments = preset->segments;
  if (*minutes_given) {
    if (*steps_given) refuse("lab", "--steps and --minutes must not both be given", "both");
    if (!(minutes > 0)) refuse("lab", "--minutes must be positive", minutes);
    options.minutes = minutes;
    options.steps_follow_minutes = true;
  } else if (!*steps_given) {
    options.minutes = preset->minutes;
  }

  s.encodings = encoding_names(encodings);
  s.extend = extension_names(methods);
  std::set<std::int64_t> sorted{s.train_length};
  for (const std::string& part : split(lengths)) {
    std::size_t used = 0;
    std::int64_t length = 0;
    try {
      length = std::stoll(part, &used);
    } catch (const std::exception&) {
    }
    if (used != part.size() || length < 1)
      refuse("lab", "--eval-lengths must be positive integers", part);
    sorted.insert(length);
  }
  if (lengths.empty())
    for (std::int64_t times : task.times) sorted.insert(times * s.train_length);
  s.eval_lengths.assign(sorted.begin(), sorted.end());
  check_settings(s);

  if (options.jobs < 0) refuse("lab", "--jobs must not be negative", options.jobs);
  if (options.jobs == 0)
    options.jobs = s.device == "cuda"
                       ? 1
                       : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return options;
}

Settings resumed_settings(const Options& options, const Settings& stored) {
  const Json asked = to_json(options.settings), begun = to_json(stored);
  for (const std::string& key : options.given)
    if (asked.at(key) != begun.at(key))
      refuse("lab", "--resume requires " + key + " " + begun.at(key).dump(),
             asked.at(key).dump());
  return stored;
}

}  // namespace gnomon::lab
