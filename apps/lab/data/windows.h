// The tokens that a model reads: batches for training and windows for tests. Pure functions of
// the seed and the step, so every encoding reads the same tokens, and a resumed run continues
// with the same batches.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/task.h"

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

// A test segment. Its targets are text->token(first_target) and the following longest() - 1
// tokens. Half a longest window of context and one token precede the targets.
struct Segment {
  const Text* text;
  std::int64_t first_target;
};

// Up to settings.eval_segments segments, distributed evenly over the texts, without overlap.
std::vector<Segment> test_segments(const std::vector<Text>& texts, const Settings& settings);

// The windows of `length` tokens that contain each target of the segment in their second half
// exactly once. Window w, of 2 longest / length windows, begins w length / 2 tokens after the
// token that is half a window before the first target. The odd windows are adjacent and cover
// the targets.
Batch segment_windows(const Segment& segment, std::int64_t length, std::int64_t longest);

// The targets of the segment in adjacent windows of `length`, masked. The masked bytes are the
// same at every length: `masked_share` of each stretch of a training window.
Batch masked_segment(const Segment& segment, std::int64_t length, const Settings& settings);

}  // namespace gnomon::lab
