#include "apps/lab/data/batches.h"

#include <algorithm>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"

namespace gnomon::lab {
namespace {

// Every length from the shortest to the training length is equally likely.
Batch examples_of(const Settings& settings, Part part, std::uint64_t seed, std::uint64_t step) {
  std::vector<Example> examples;
  const std::int64_t shortest = settings.task->shortest;
  for (std::int64_t w = 0; w < settings.batch; ++w) {
    const auto row = static_cast<std::uint64_t>(w);
    const std::int64_t length =
        shortest + Draws{seed, step, row}.below(settings.train_length - shortest + 1);
    examples.push_back(example(*settings.task, length, part, seed, mixed(step) + row));
  }
  return batch_of(examples);
}

// The examples of a test are distributed evenly over the lengths of a stretch.
std::int64_t test_length(const Stretch& stretch, std::int64_t number) {
  return stretch.from + number * (stretch.to + 1 - stretch.from) / stretch.examples;
}

}  // namespace

Batch batch_of(const std::vector<Example>& examples) {
  std::size_t longest = 1;
  for (const Example& one : examples) longest = std::max(longest, one.bytes.size());
  const auto rows = static_cast<std::int64_t>(examples.size());
  const auto tokens = static_cast<std::int64_t>(longest) - 1;
  Batch batch{at::zeros({rows, tokens}, at::kLong),
              at::full({rows, tokens}, uncounted, at::kLong)};
  auto* inputs = batch.inputs.data_ptr<std::int64_t>();
  auto* targets = batch.targets.data_ptr<std::int64_t>();
  for (const Example& one : examples) {
    for (std::size_t i = 0; i + 1 < one.bytes.size(); ++i) {
      inputs[i] = static_cast<unsigned char>(one.bytes[i]);
      if (one.answer[i + 1]) targets[i] = static_cast<unsigned char>(one.bytes[i + 1]);
    }
    inputs += tokens;
    targets += tokens;
  }
  return batch;
}

Batch batch_of(const Settings& settings, const Corpus& corpus, Part part, std::uint64_t seed,
               std::uint64_t step) {
  if (settings.task->has_examples()) return examples_of(settings, part, seed, step);
  const auto& texts = part == Part::train ? corpus.train : corpus.validation;
  return (settings.task->is_masked() ? masked_batch : random_batch)(
      texts, settings.batch, settings.train_length, seed, step);
}

std::vector<Example> test_examples(const Settings& settings, const Stretch& stretch,
                                   std::int64_t begin) {
  std::vector<Example> examples;
  for (std::int64_t i = begin; i < std::min(stretch.examples, begin + examples_at_once); ++i)
    examples.push_back(example(*settings.task, test_length(stretch, i), Part::test, test_seed,
                               static_cast<std::uint64_t>(i)));
  return examples;
}

void count_examples(const Settings& settings, Stretch& stretch) {
  stretch.examples = 2 * settings.eval_segments;
  std::vector<Chance> chances;
  std::int64_t chance_length = 0;  // some tasks compute it by enumeration
  for (std::int64_t i = 0; i < stretch.examples; ++i) {
    const std::int64_t length = test_length(stretch, i);
    chances.push_back(length == chance_length ? chances.back()
                                              : settings.task->letters.chance(length));
    chance_length = length;
  }
  stretch.chance_score = mean(mapped(chances, &Chance::whole));
  stretch.chance_second = mean(mapped(chances, &Chance::byte));
}

Visibility visibility(const Settings& settings) {
  return settings.task->is_masked() ? Visibility::bidirectional : Visibility::causal;
}

at::Tensor sum_of_losses(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits.view({-1, logits.size(-1)}), targets.view(-1), {},
                                at::Reduction::Sum, uncounted);
}

}  // namespace gnomon::lab
