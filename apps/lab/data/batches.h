// The training batches of all tasks, and the training loss.
#pragma once

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/windows.h"
#include "gnomon/attention/attention.h"

namespace gnomon::lab {

// settings.batch windows of settings.train_length bytes, or examples up to that length. Pure
// functions of their arguments. `part`: Part::train or Part::validation.
Batch batch_of(const Settings& settings, const Corpus& corpus, Part part, std::uint64_t seed,
               std::uint64_t step);

// Examples as rows. Inputs are all bytes but the last, and targets are the next bytes, or
// `uncounted` outside the answer. Shorter rows are filled up at the end.
Batch batch_of(const std::vector<Example>& examples);

// The validation batches of all runs: batch_of with this seed and the steps 0, 1, ...
constexpr std::uint64_t validation_seed = 0x76616c6964;
constexpr std::int64_t validation_batches = 4;
// The seeds of the examples of the tests and of the report, the same for all runs.
constexpr std::uint64_t test_seed = 0x74657374, sample_seed = 0x73616d706c65;

// The examples of the tests are the same for all runs. These are the examples `begin`,
// begin + 1, ... of a stretch, at most `examples_at_once`.
constexpr std::int64_t examples_at_once = 32;
std::vector<Example> test_examples(const Settings& settings, const Stretch& stretch,
                                   std::int64_t begin);
// Sets `examples`, their number, and the scores by chance.
void count_examples(const Settings& settings, Stretch& stretch);

// The visibility of a task: bidirectional for masked text, else causal.
Visibility visibility(const Settings& settings);

// The sum of the cross entropies in nats of logits [B, T, V] over the counted targets [B, T].
at::Tensor sum_of_losses(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace gnomon::lab
