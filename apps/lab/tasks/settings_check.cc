#include "apps/lab/tasks/settings_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/lab/data/model_size.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/tokenizer.h"
#include "apps/lab/model/candidate.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

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

void check_lengths_of_examples(const Settings& s) {
  const Task& task = *s.task;
  if (!s.texts.empty() && !task.load)
    refuse("lab", fmt::format("--task {} must have no TEXT", task.name), s.texts[0]);
  if (s.train_length < task.shortest)
    refuse("lab",
           fmt::format("--train-length of --task {} must be at least {} {}", task.name,
                       task.shortest, task.unit),
           s.train_length);
  if (const auto most = task.letters.longest; most && s.longest() > *most)
    refuse(
        "lab",
        fmt::format("lengths of --task {} must be at most {} {}", task.name, *most, task.unit),
        s.longest());
}

}  // namespace

void check_size(const Settings& s) {
  need(s.layers >= 1 && s.layers <= 64, "--layers must be 1 to 64", s.layers);
  need(s.width >= 8 && s.width <= 4096, "--width must be 8 to 4096", s.width);
  need(s.heads >= 1 && s.heads <= 128, "--heads must be 1 to 128", s.heads);
  need(s.width % (2 * s.heads) == 0,
       "--width must be a multiple of twice --heads, because rotary requires pairs", s.width);
}

// Of --model, --ponder-cost and --drop-position.
static void check_model(const Settings& s) {
  if (!s.model.empty() && s.model != universal_model)
    refuse("lab", "--model must be transformer or universal", s.model);
  if (s.model.empty() == s.ponder_cost.has_value())
    refuse("lab", "--ponder-cost requires --model universal",
           s.ponder_cost ? "transformer" : "none");
  if (s.ponder_cost && !(*s.ponder_cost >= 0 && *s.ponder_cost <= 1))
    refuse("lab", "--ponder-cost must be 0 to 1", *s.ponder_cost);
  if (!s.model.empty()) check_portable(s, "--model universal");
  bool drops = false;
  for (const std::string& name :
       s.finetune.empty() ? s.encodings : std::vector<std::string>{}) {
    const Candidate entry = find_candidate(name);
    drops = drops || entry.drops_positions();
    if (!s.model.empty() && entry.suffix == "memory")
      refuse("lab", "@memory requires --model transformer", s.model);
  }
  if (!s.drop_position) return;
  if (!drops) refuse("lab", "--drop-position requires an entry with @drope", "none");
  need(*s.drop_position >= 1 && *s.drop_position < s.steps,
       "--drop-position must be at least 1 and below --steps", *s.drop_position);
}

void check_settings(const Settings& s) {
  const Task& task = *s.task;
  if (parse_tokens(s.tokens) && task.predicts != Predicts::next)
    refuse("lab", "--tokens bpe requires --task text", task.name);
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
  if (task.has_examples())
    check_lengths_of_examples(s);
  else
    check_lengths_of_text(s);
  if (s.finetune.empty()) {
    check_size(s);
    for (const std::string& entry : s.encodings) check_size(sized(s, entry));
  }
  need(!s.seeds.empty() && std::ssize(s.seeds) <= most_seeds,
       "--seeds must be 1 to 100 numbers", std::ssize(s.seeds));
  for (std::int64_t before = 0; const std::int64_t seed : s.seeds) {
    need(seed > before, "--seeds must be positive, distinct and ascending", seed);
    need(seed <= largest_seed, "--seeds must be at most 2147483648", seed);
    before = seed;
  }
  need(s.steps >= 1, "--steps must be at least 1", s.steps);
  need(s.batch >= 1 && s.batch <= 4096, "--batch must be 1 to 4096", s.batch);
  if (s.micro_batches) {
    need(*s.micro_batches == micro_batch_count, "micro_batches must be 8", *s.micro_batches);
    need(s.batch % micro_batch_count == 0,
         "--workers-per-run requires a --batch that is a multiple of 8", s.batch);
  }
  if (!(s.learning_rate > 0 && s.learning_rate < 1))
    refuse("lab", "--learning-rate must be between 0 and 1", s.learning_rate);
  for (const EntryRate& one : s.rates) {
    if (!(one.learning_rate > 0 && one.learning_rate < 1))
      refuse("lab", "a learning rate must be between 0 and 1", one.learning_rate);
    if (std::find(s.encodings.begin(), s.encodings.end(), one.encoding) == s.encodings.end())
      refuse("lab", "a learning rate must be that of an encoding of the session", one.encoding);
  }
  check_model(s);
  if (!(s.position_rate > 0 && s.position_rate <= 1000))
    refuse("lab", "--position-rate must be above 0 and at most 1000", s.position_rate);
  for (const std::string& name : s.extend) find_extension(name);
  if (s.finetune.empty())
    for (const std::string& name : s.encodings) {
      check_suffix(find_candidate(name), s);
      if (is_own(name)) check_portable(s, "own:NAME");
    }
  if (const auto check = s.task->check)
    for (const ModelSize& size : sizes_of(s)) check(sized(s, "@" + size.text()));
  if (!s.extend.empty() && s.finetune.empty()) {
    if (task.predicts != Predicts::next)
      refuse("lab", "--extend requires --task text", task.name);
    if (std::none_of(s.encodings.begin(), s.encodings.end(), extends))
      refuse("lab", "--extend requires rotary in --encodings", "none");
  }
  if (s.device != "cpu" && s.device != "cuda")
    refuse("lab", "--device must be cpu or cuda", s.device);
}

}  // namespace gnomon::lab
