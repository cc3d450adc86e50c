#include "apps/lab/tasks/dialogue.h"

#include <algorithm>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/draws.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/evaluate.h"
#include "gnomon/model/scheme.h"

namespace gnomon::lab::dialogue_examples {
namespace {

Context context_of(const std::string& suffix) {
  if (suffix == "random") return Context::random;
  if (suffix == "restart") return Context::restart;
  if (suffix == "packed") return Context::packed;
  if (suffix == "memory") return Context::memory;
  return suffix == "window" ? Context::window : Context::whole;
}

constexpr std::int64_t examples_at_once = 32;

std::vector<std::vector<std::int64_t>> last_questions(const std::vector<Dialogue>& dialogues) {
  return mapped(dialogues,
                [](const Dialogue& one) { return std::vector{one.questions.back().answer}; });
}

// The tokens of the answers, [questions].
at::Tensor answers(const std::vector<Dialogue>& dialogues,
                   const std::vector<std::vector<std::int64_t>>& asked) {
  std::vector<std::int64_t> all;
  for (std::size_t b = 0; b < dialogues.size(); ++b)
    for (const std::int64_t at : asked[b]) all.push_back(nth(dialogues[b].tokens, at));
  return at::tensor(all, at::kLong);
}

// Rows of tokens, filled up at the end. [B, T]
at::Tensor matrix(const std::vector<std::vector<std::int64_t>>& rows) {
  return at::pad_sequence(
      mapped(rows, [](const auto& row) { return at::tensor(row, at::kLong); }), true);
}

// Positions that restart at each turn. packed: each turn is a sequence.
Positions by_turn(const std::vector<Dialogue>& dialogues, std::int64_t tokens,
                  Context context) {
  Positions all{.batch = std::ssize(dialogues), .tokens = tokens};
  all.ids.resize(static_cast<std::size_t>(all.batch * tokens));
  all.sequences.resize(all.ids.size());
  std::size_t row = 0;
  for (const Dialogue& one : dialogues) {
    for (std::size_t i = 1; i < std::min(one.turns.size(), static_cast<std::size_t>(tokens));
         ++i) {
      all.ids[row + i] = one.turns[i] == one.turns[i - 1] ? all.ids[row + i - 1] + 1 : 0;
      if (context == Context::packed) all.sequences[row + i] = one.turns[i];
    }
    row += static_cast<std::size_t>(tokens);
  }
  return all;
}

}  // namespace

DialogueModel::DialogueModel(const Settings& settings, const Corpus&,
                             const std::string& encoding, std::int64_t seed)
    : TaskModel(settings),
      context_(context_of(find_candidate(encoding).suffix)),
      model_(transformer_for(settings, find_candidate(encoding),
                             settings.task->window_tokens(settings.train_length), seed)),
      segments_(settings, segment_tokens(settings.train_length),
                memory_tokens(settings.train_length)) {
  model_->to(torch::Device(settings.device));
}

at::Tensor DialogueModel::of_windows(const std::vector<Dialogue>& dialogues,
                                     const std::vector<std::vector<std::int64_t>>& asked) {
  const std::int64_t most = segment_tokens(settings_.train_length);
  std::vector<std::vector<std::int64_t>> windows;
  std::vector<std::int64_t> last;
  for (std::size_t b = 0; b < dialogues.size(); ++b)
    for (const std::int64_t answer : asked[b]) {
      const auto first = dialogues[b].tokens.begin();
      windows.emplace_back(first + std::max<std::int64_t>(0, answer - most), first + answer);
      last.push_back(std::ssize(windows.back()) - 1);
    }
  const at::Tensor tokens = matrix(windows).to(torch::Device(settings_.device)),
                   rows = at::arange(std::ssize(windows), tokens.options());
  return model_->forward(tokens).index({rows, at::tensor(last, tokens.options())});
}

at::Tensor DialogueModel::logits(const std::vector<Dialogue>& dialogues,
                                 const std::vector<std::vector<std::int64_t>>& asked) {
  if (context_ == Context::window) return of_windows(dialogues, asked);
  std::vector<std::vector<std::int64_t>> inputs;
  std::vector<std::int64_t> rows, places;
  for (std::size_t b = 0; b < dialogues.size(); ++b) {
    const auto first = dialogues[b].tokens.begin();
    inputs.emplace_back(first, first + asked[b].back());
    for (const std::int64_t answer : asked[b]) {
      rows.push_back(static_cast<std::int64_t>(b));
      places.push_back(answer - 1);
    }
  }
  const at::Tensor tokens = matrix(inputs).to(torch::Device(settings_.device));
  ForwardOptions options;
  if (context_ == Context::restart || context_ == Context::packed)
    options.positions = by_turn(dialogues, tokens.size(1), context_);
  else if (!ids_.empty())
    options.positions =
        explicit_ids(std::span(ids_).first(static_cast<std::size_t>(tokens.size(1))));
  const at::Tensor all = context_ == Context::memory ? segments_.read(model_, tokens)
                                                     : model_->forward(tokens, options);
  return all.index({at::tensor(rows, tokens.options()), at::tensor(places, tokens.options())});
}

LossSum DialogueModel::loss(Part part, std::uint64_t seed, std::uint64_t step,
                            BatchRange rows) {
  std::vector<Dialogue> dialogues;
  std::vector<std::vector<std::int64_t>> asked;
  for (std::int64_t b = rows.begin; b < rows.end; ++b) {
    // Every distance up to the training length is equally likely.
    const auto row = static_cast<std::uint64_t>(b);
    const std::int64_t length = 1 + Draws{seed, step, row}.below(settings_.train_length);
    dialogues.push_back(
        dialogue(length, settings_.train_length, part, seed, mixed(step) + row));
    asked.emplace_back();
    for (const Question& one : dialogues.back().questions) asked.back().push_back(one.answer);
  }
  if (part == Part::train && context_ == Context::random)
    ids_ = random_ids(settings_.task->window_tokens(settings_.train_length),
                      settings_.task->window_tokens(settings_.longest()), seed, step);
  const at::Tensor found = logits(dialogues, asked);
  ids_.clear();
  return {sum_of_losses(found, answers(dialogues, asked).to(found.device())), found.size(0)};
}

bool DialogueModel::applies(std::int64_t length) const {
  const auto most = model::capacity(model_->scheme());
  const std::int64_t tokens =
      context_ == Context::restart || context_ == Context::packed ? most_tokens_of_turn
      : context_ == Context::window ? segment_tokens(settings_.train_length)
                                    : settings_.task->window_tokens(length);
  return !most || tokens <= *most;
}

std::optional<Evaluation> DialogueModel::evaluate(const std::function<bool()>& stop) {
  const at::NoGradGuard no_grad;
  const std::int64_t count = 2 * settings_.eval_segments;
  Evaluation all;
  for (Stretch& one : all.stretches = length_stretches(settings_)) {
    one.applicable = applies(std::max(one.to, settings_.train_length));
    if (!one.applicable) continue;
    one.examples = count;
    std::vector<double> bits;
    for (std::int64_t begin = 0; begin < count; begin += examples_at_once) {
      if (stop()) return {};
      std::vector<Dialogue> dialogues;
      for (std::int64_t i = begin; i < std::min(count, begin + examples_at_once); ++i)
        dialogues.push_back(dialogue(one.from + i * (one.to + 1 - one.from) / count,
                                     settings_.train_length, Part::test, test_seed,
                                     static_cast<std::uint64_t>(i)));
      const auto asked = last_questions(dialogues);
      const at::Tensor found = logits(dialogues, asked).to(at::kCPU),
                       expected = answers(dialogues, asked), guesses = found.argmax(1),
                       losses = at::cross_entropy_loss(found, expected, {}, at::Reduction::None)
                                    .to(at::kDouble);
      for (std::size_t i = 0; i < dialogues.size(); ++i) {
        const std::int64_t row = static_cast<std::int64_t>(i),
                           guess = guesses[row].item<std::int64_t>(),
                           answer = expected[row].item<std::int64_t>();
        bits.push_back(losses[row].item<double>() * bits_per_nat);
        one.scores.push_back(guess == answer);
        one.seconds.push_back(guess == answer ||
                              guess == dialogues[i].questions.back().outdated);
      }
    }
    one.score = mean(one.scores), one.second = mean(one.seconds), one.bits = mean(bits);
    one.chance_score = 1.0 / values, one.chance_second = 2.0 / values;
  }
  return all;
}

void DialogueModel::describe(RunResult& result) {
  const at::NoGradGuard no_grad;
  result.picture = picture(model_, settings_);
  for (const std::int64_t length : settings_.eval_lengths) {
    if (!applies(length)) continue;
    const std::vector<Dialogue> one{
        dialogue(length, settings_.train_length, Part::test, test_seed, 0)};
    const auto asked = last_questions(one);
    const std::int64_t answer = asked[0][0],
                       guess = logits(one, asked).argmax(1).item<std::int64_t>();
    result.samples.push_back({.context = length,
                              .prompt = readable(one[0], answer),
                              .text = word(guess),
                              .expected = word(nth(one[0].tokens, answer))});
  }
}

namespace {

TaskDefaults defaults() {
  return {.train_length = 10,
          .batch = 32,
          .steps = 1,
          .times = {2, 5},
          .encodings =
              "none,rotary,rotary@restart,alibi,transformer-xl,transformer-xl@memory,"
              "transformer-xl@window",
          .layers = 2,
          .width = 64,
          .learning_rate = 4e-3};
}
std::int64_t tokens(std::int64_t length) {
  return most_tokens_of_turn * (length + other_turns) - 1;  // leaves out the answer
}

}  // namespace
}  // namespace gnomon::lab::dialogue_examples

namespace gnomon::lab {

const Task dialogue_task{
    .name = "dialogue",
    .title = "Dialogue",
    .summary = "the answer to a question about a fact of an earlier turn",
    .unit = "turns",
    .score = "right answers",
    .second = "right or outdated",
    .what =
        "the share of questions that are answered with the value that was told last; also "
        "the share answered with that value or with the one that it replaced",
    .chance = "the best guess that knows the question but not the earlier turns",
    .loss = "bits per answer",
    .model_name = "word-level causal Transformer",
    .trained_on = "dialogues with questions after 1 to ",
    .samples = "The answer of each model to the last question of the same unseen dialogues.",
    .suffixes = "random,restart,packed,memory,window",
    .defaults = dialogue_examples::defaults,
    .tokens = dialogue_examples::tokens,
    .model = made<dialogue_examples::DialogueModel>,
};

}  // namespace gnomon::lab
