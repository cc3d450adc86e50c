// The tokens that a model reads: batches for training and windows for tests, and the training
// loss. Pure functions of the seed and the step, so every encoding reads the same tokens, and a
// resumed run continues with the same batches.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/task.h"
#include "gnomon/attention/attention.h"

namespace gnomon::lab {

// A batch: inputs and their targets, both [B, T] int64. Targets that are `uncounted` have no
// loss.
struct Batch {
  at::Tensor inputs, targets;
};

// Windows at random places of the texts. Each window is within one text.
Batch random_batch(const std::vector<Text>& texts, std::int64_t windows, std::int64_t length,
                   std::uint64_t seed, std::uint64_t step);

// The `length` tokens before some of the windows of random_batch: every second one, in turn by
// step, if its text has that many.
struct PrecedingTokens {
  std::vector<std::int64_t> rows;  // ascending, [M]
  at::Tensor tokens;               // [M, length]
};
PrecedingTokens preceding_tokens(const std::vector<Text>& texts, std::int64_t windows,
                                 std::int64_t length, std::uint64_t seed, std::uint64_t step);

// The windows of random_batch with `masked_share` of their bytes replaced by mask_byte. The
// targets at these places are the original bytes; other targets are uncounted.
Batch masked_batch(const std::vector<Text>& texts, std::int64_t windows, std::int64_t length,
                   std::uint64_t seed, std::uint64_t step);

// `count` distinct integers below `below`, ascending. Every choice is equally likely.
std::vector<std::int64_t> random_ids(std::int64_t count, std::int64_t below, std::uint64_t seed,
                                     std::uint64_t step);

// A test segment of a text, which is a Text or has a size(), too. Its targets are the tokens
// first_target and the following longest() - 1 tokens. Half a longest window of context and one
// token precede the targets.
template <typename T>
struct SegmentOf {
  const T* text;
  std::int64_t first_target;
};
using Segment = SegmentOf<Text>;

// Up to settings.eval_segments segments, distributed evenly over the texts, without overlap.
template <typename T>
std::vector<SegmentOf<T>> test_segments(const std::vector<T>& texts, const Settings& settings) {
  const std::int64_t longest = settings.longest();
  std::vector<SegmentOf<T>> all, chosen;
  for (const T& text : texts)
    for (std::int64_t target = longest / 2 + 1; target + longest <= text.size();
         target += longest)
      all.push_back({&text, target});
  const auto wanted =
      std::min<std::size_t>(all.size(), static_cast<std::size_t>(settings.eval_segments));
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(all[i * all.size() / wanted]);
  return chosen;
}

// The windows of `length` tokens that contain each target of the segment in their second half
// exactly once. Window w, of 2 longest / length windows, begins w length / 2 tokens after the
// token that is half a window before the first target. The odd windows are adjacent and cover
// the targets.
Batch segment_windows(const Segment& segment, std::int64_t length, std::int64_t longest);

// The targets of the segment in adjacent windows of `length`, masked. The masked bytes are the
// same at every length: `masked_share` of each stretch of a training window.
Batch masked_segment(const Segment& segment, std::int64_t length, const Settings& settings);

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
                                   std::int64_t begin, const Drawn& drawn = {});
// Sets `examples`, their number, and the scores by chance.
void count_examples(const Settings& settings, Stretch& stretch);

// The visibility of a task: bidirectional for masked text, else causal.
Visibility visibility(const Settings& settings);

// The sum of the cross entropies in nats of logits [B, T, V] over the counted targets [B, T].
at::Tensor sum_of_losses(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace gnomon::lab
