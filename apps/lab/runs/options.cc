#include "apps/lab/runs/options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "apps/command_line/command_line.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/model_size.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/tokenizer.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/halting.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/tasks/finetune_config.h"
#include "apps/lab/tasks/settings_check.h"
#include "gnomon/error.h"
#include "gnomon/model/encoding.h"
#include "src/core/text.h"

namespace gnomon::lab {

const char* const lab_help = R"(Usage: gnomon lab [TEXT...] [options]

Compares position encodings: which one predicts TEXT or solves a task best, and
how far beyond its training length each one holds. Trains one small Transformer
per encoding from the same weights on the same batches, and writes a report.
Without TEXT: Jane Austen's novels, or generated examples of the task.

  --task NAME          text, masked, translation, dialogue, image, graph, copy,
                       sort, needle, flipflop, count, .. (list: prints all)
  --encodings A,B,..   none,sinusoidal,learned,rotary,alibi,t5, .. or all; A+B
                       for both, A*3/B by layers, A@random for random positions
  --extend M,..        then extend rotary: linear,ntk,dynamic-ntk,yarn,drope
  --finetune DIR       test and fine-tune a released Llama, GPT-2 or BERT model
  --tokens bpe:N (byte pairs)  --preset default|full (minutes, or an hour)
  --train-length N  --eval-lengths A,..  in tokens, or in the unit of the task
  --layers N  --width N  --heads N  or --sizes 2x64,8x256 (layers x width)
  --model universal  --ponder-cost W  (one layer, run up to --layers times)
  --batch N  --steps N | --minutes M (for everything)  --device cpu|cuda
  --learning-rate R | --sweep R,.. (best of each encoding)  --seeds N|A,B,..
  --jobs N  --workers-per-run 1|2|4|8  --drop-position STEP (of entries A@drope)
  --list-runs | --protocol PLAN [--run NAME] | --merge DIR.. [--partial]  --json
  --out DIR (new or empty)  --resume (go on in --out)  --no-cost

Example: gnomon lab --encodings rotary,alibi --minutes 2 --out /tmp/report
)";

namespace {

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

// The names of a list, each once, or all of them for "all". `canonical`: of a name.
template <typename List, typename Function>
std::vector<std::string> names_of(const std::string& text, const List& list,
                                  Function&& canonical) {
  std::vector<std::string> names;
  if (text == "all")
    for (const auto& one : list) names.emplace_back(one.name);
  else
    for (const std::string& name : split(text)) add_once(names, canonical(name));
  return names;
}

std::vector<std::string> encoding_names(const std::string& text) {
  std::vector<std::string> names =
      names_of(text, model::encodings(), [](const std::string& name) {
        return is_own(name) ? name : model::canonical_names(name);
      });
  if (names.empty()) refuse("lab", "--encodings must have at least one name", "none");
  return names;
}

// The numbers of a list, ascending, each once.
template <typename Number>
std::vector<Number> parse_numbers(const std::string& rule, const std::string& text,
                                  bool (*allowed)(Number)) {
  std::set<Number> numbers;
  for (const std::string& part : split(text)) {
    std::size_t used = 0;
    Number number = 0;
    try {
      if constexpr (std::is_integral_v<Number>)
        number = std::stoll(part, &used);
      else
        number = std::stod(part, &used);
    } catch (const std::exception&) {
    }
    if (used != part.size() || !allowed(number)) refuse("lab", rule, part);
    numbers.insert(number);
  }
  return {numbers.begin(), numbers.end()};
}

// The rates of --sweep: at least two, ascending.
std::vector<double> parse_rates(const std::string& text) {
  if (text.empty()) return {};
  const auto rates =
      parse_numbers<double>("--sweep must be learning rates between 0 and 1", text,
                            [](double rate) { return rate > 0 && rate < 1; });
  need(rates.size() >= 2 && rates.size() <= 16, "--sweep must have 2 to 16 learning rates",
       std::ssize(rates));
  return rates;
}

// The seeds 1, 2, 3 from "3", 1, 4, 7 from "1,4,7", and 4 from "4,".
std::vector<std::int64_t> parse_seeds(const std::string& text) {
  std::vector<std::int64_t> seeds = parse_lengths("--seeds", text);
  if (text.find(',') == std::string::npos) {
    need(seeds[0] <= most_seeds, "--seeds must be at most 100; A,B,.. is a list", seeds[0]);
    return seeds_up_to(seeds[0]);
  }
  if (seeds.size() != split(text).size()) refuse("lab", "--seeds must be distinct", text);
  return seeds;
}

// "--train-length" as "train_length", TEXT as "texts".
std::string key_of(std::string name) {
  if (name == "TEXT") return "texts";
  name.erase(0, 2);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// The command line as a user can repeat it in a shell.
std::string quoted_command(int argc, char** argv) {
  constexpr const char* plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=@+*%";
  std::string text = "gnomon lab";
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word.empty() || word.find_first_not_of(plain) != std::string::npos) {
      for (std::size_t at = 0; (at = word.find('\'', at)) != std::string::npos; at += 4)
        word.replace(at, 1, "'\\''");
      word = "'" + word + "'";
    }
    text += " " + word;
  }
  return text;
}

// Replaces the settings by those of a plan.
void take_plan(Options& options, const std::string& path, bool has_workers) {
  for (const std::string& key : options.given)
    if (key != "texts" && key != "micro_batches")
      refuse("lab", "--protocol must be without other settings", key);
  options.plan = read_plan(path);
  options.settings = options.plan->settings;
  if (options.settings.texts.empty()) options.settings.texts = options.texts;
  if ((has_workers || options.world.size > 1) && !options.settings.micro_batches)
    refuse("lab",
           "--protocol requires micro_batches in its settings for several workers of a run",
           "none");
  options.minutes.reset();
  options.seeds_follow_minutes = false;
  options.given.clear();
  const Json all = to_json(options.settings);
  for (const auto& [key, value] : all.items()) options.given.push_back(key);
}

}  // namespace

std::vector<std::int64_t> parse_lengths(const char* option, const std::string& text) {
  const std::string rule = std::string(option) + " must be positive integers";
  const auto lengths =
      parse_numbers<std::int64_t>(rule, text, [](std::int64_t length) { return length >= 1; });
  if (lengths.empty()) refuse("lab", rule, "none");
  return lengths;
}

bool parse_command_line(CommandLine& command, int argc, char** argv, const char* help) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (const std::string& word : words)  // they are stored, as JSON
    if (gnomon::internal::ill_formed_utf8(word) != std::string::npos)
      refuse("lab", "arguments must be UTF-8", gnomon::internal::shown(word));
  for (const std::string& word : words)
    if (word == "--help" || word == "-h") {
      std::fputs(help, stdout);
      return false;
    }
  command.parse(words);
  return true;
}

Options parse_options(int argc, char** argv) {
  Options options;
  Settings& s = options.settings;
  std::string task_name = "text", encodings, lengths, methods, sizes, seeds, sweep;
  std::optional<std::int64_t> steps, train_length, batch, layers, width, heads;
  std::optional<double> minutes, learning_rate;

  CommandLine command("lab");
  std::vector<const char*> settings_options;  // names without hyphens
  const auto setting = [&](const char* name, CommandLine::Target value) {
    command.option(name, value);
    settings_options.push_back(name);
  };
  setting("TEXT", &s.texts);
  setting("--encodings", &encodings);
  setting("--task", &task_name);
  setting("--tokens", &s.tokens);
  setting("--extend", &methods);
  setting("--finetune", &s.finetune);
  setting("--preset", &s.preset);
  setting("--train-length", &train_length);
  setting("--eval-lengths", &lengths);
  command.option("--sizes", &sizes).not_with({"--layers", "--width", "--heads"});
  setting("--layers", &layers);
  setting("--width", &width);
  setting("--heads", &heads);
  setting("--model", &s.model);
  command.choices({"transformer", universal_model});
  setting("--ponder-cost", &s.ponder_cost);
  command.only_with({"--model"});
  setting("--drop-position", &s.drop_position);
  command.only_with({"--steps"});
  setting("--seeds", &seeds);
  setting("--batch", &batch);
  setting("--learning-rate", &learning_rate);
  setting("--position-rate", &s.position_rate);
  command.option("--sweep", &sweep).not_with({"--learning-rate"});
  setting("--steps", &steps);
  setting("--device", &s.device);
  command.option("--minutes", &minutes).not_with({"--steps"});
  std::optional<int> jobs;
  std::optional<std::int64_t> workers;
  command.option("--jobs", &jobs).at_least(1);
  command.option("--workers-per-run", &workers);
  std::string protocol;
  command.flag("--list-runs", &options.list_runs).not_with({"--out", "--json"});
  command.option("--protocol", &protocol).not_with({"--minutes", "--sizes"}).file();
  command.option("--run", &options.run).not_with({"--list-runs", "--minutes", "--jobs"});
  command.flag("--merge", &options.merge).not_with({"--list-runs", "--protocol", "--run"});
  command.flag("--partial", &options.partial).only_with({"--merge"});
  command.option("--checkpoint", &options.checkpoint_seconds).unlisted();
  command.option("--out", &options.out);
  command.flag("--resume", &options.resume).not_with({"--list-runs", "--run", "--merge"});
  bool no_cost = false;
  command.flag("--json", &options.json).flag("--no-cost", &no_cost);
  if (!parse_command_line(command, argc, argv, lab_help)) std::exit(0);
  options.cost = !no_cost && s.finetune.empty();
  options.command = quoted_command(argc, argv);
  for (const char* name : settings_options)
    if (command.given(name)) options.given.push_back(key_of(name));

  if (command.given("--sizes")) options.given.emplace_back("encodings");
  options.texts = s.texts;
  if (!options.run.empty() && options.out.empty())
    refuse("lab", "--run requires --out", "none");

  if (s.model == "transformer") s.model.clear();
  if (s.model == universal_model && !s.ponder_cost) s.ponder_cost = Halting::default_cost;
  const Preset& preset = find_preset(s.preset);
  const bool tunes = !s.finetune.empty();
  if (tunes)
    for (const char* name : {"--task", "--tokens", "--encodings", "--sizes", "--layers",
                             "--width", "--heads", "--model", "--drop-position"})
      if (command.given(name))
        refuse("lab", "--finetune must be without " + std::string(name), "both");
  if (task_name == "list") {
    std::fputs(task_list().c_str(), stdout);
    std::exit(0);
  }
  s.task = &find_task(task_name);
  TaskDefaults task = s.task->defaults();
  s.train_length = train_length.value_or(tunes ? 0 : task.train_length);
  s.layers = layers.value_or(task.layers);
  s.width = width.value_or(task.width);
  s.heads = heads.value_or(task.heads);
  std::optional<finetune::Config> released;
  if (tunes) {
    released = finetune::read_config(s.finetune);
    task = finetune::take_sizes(s, *released);
  }
  s.learning_rate = learning_rate.value_or(task.learning_rate);
  s.seeds = seeds.empty() ? seeds_up_to(preset.seeds) : parse_seeds(seeds);
  s.steps = steps.value_or(tunes ? task.steps : preset_steps(s));
  s.eval_segments = preset.segments;
  if (!options.merge && !options.list_runs) options.world = find_world(environment);
  if (workers) options.workers_per_run = team_size("--workers-per-run", *workers);
  if (options.world.size > 1)
    need(options.workers_per_run == 1, "--workers-per-run must be 1 with several processes",
         options.workers_per_run);
  if (workers || options.world.size > 1) {
    s.micro_batches = micro_batch_count;
    options.given.emplace_back("micro_batches");
  }
  if (minutes) {
    if (!(*minutes > 0)) refuse("lab", "--minutes must be positive", *minutes);
    options.minutes = minutes;
    options.steps_follow_minutes = true;
  } else if (!steps && options.run.empty() && !options.list_runs) {
    options.minutes = preset.minutes;
  }
  options.seeds_follow_minutes = options.minutes && seeds.empty() && s.preset == "default";

  options.sweep = parse_rates(sweep);
  s.extend = names_of(methods, extensions(), [](const std::string& name) { return name; });
  if (tunes && methods == "all") std::erase(s.extend, "drope");  // requires much training
  s.encodings = tunes ? finetune::entries(s.extend)
                      : encoding_names(encodings.empty() ? task.encodings : encodings);
  if (command.given("--sizes"))
    s.encodings = with_sizes(s.encodings, parse_sizes(split(sizes)));
  if (!tunes) {
    check_size(s);
    take_sizes(s);
  }
  const auto multiple = [&](std::int64_t times) { return times * s.train_length; };
  const auto tested =
      lengths.empty() ? mapped(task.times, multiple) : parse_lengths("--eval-lengths", lengths);
  std::set<std::int64_t> sorted(tested.begin(), tested.end());
  sorted.insert(s.train_length);
  s.eval_lengths.assign(sorted.begin(), sorted.end());
  // With --extend, the windows of the fine-tune have the longest length.
  const std::int64_t longer = tunes && !s.extend.empty() ? s.longest() / s.train_length : 1;
  s.batch = batch.value_or(std::max<std::int64_t>(1, task.batch / longer));
  check_settings(s);
  if (tunes) finetune::check(s, *released);
  if (!protocol.empty()) take_plan(options, protocol, workers.has_value());
  // Not for stored settings, which --merge and compare read elsewhere.
  if (!options.list_runs || options.minutes) check_device(s.device);

  if ((options.workers_per_run > 1 || options.world.size > 1) && s.device == "cuda")
    refuse("lab", "--device must be cpu with several workers for a run", s.device);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  options.jobs =
      jobs.value_or(s.device == "cuda" ? 1 : std::max(1, cores / options.workers_per_run));
  if (s.device == "cuda")
    need(options.jobs <= 1, "--jobs must be 1 with --device cuda", options.jobs);
  if (!(options.checkpoint_seconds > 0))
    refuse("lab", "--checkpoint must be positive", options.checkpoint_seconds);
  if (options.merge && options.given != std::vector<std::string>{"texts"})
    refuse("lab", "--merge requires folders and no settings",
           options.given.empty() ? "none" : options.given.back());
  if (options.world.size > 1) {
    need(jobs.value_or(1) == 1, "--jobs must be 1 with several processes", options.jobs);
    options.jobs = 1;
  }
  return options;
}

Settings resumed_settings(const Options& options, const Settings& stored) {
  const std::string rule = "--resume requires ";
  const Json asked = to_json(options.settings), begun = to_json(stored);
  if (options.settings.micro_batches && !stored.micro_batches)
    refuse("lab", rule + "no --workers-per-run", options.workers_per_run);
  for (const std::string& key : options.given)
    if (const Json value = asked.value(key, Json()), wanted = begun.value(key, Json());
        key != "texts" && value != wanted)  // the contents of texts are compared
      refuse("lab", rule + key + " " + wanted.dump(), value.dump());
  return stored;
}

}  // namespace gnomon::lab
