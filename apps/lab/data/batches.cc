#include "apps/lab/data/batches.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"

namespace gnomon::lab {
namespace {

Batch empty_batch(std::int64_t windows, std::int64_t length) {
  return {at::empty({windows, length}, at::kLong), at::empty({windows, length}, at::kLong)};
}

// Fills row `row` with the tokens from `begin` on.
void fill_row(Batch& batch, std::int64_t row, const Text& text, std::int64_t begin) {
  const std::int64_t length = batch.inputs.size(1);
  auto* inputs = batch.inputs.data_ptr<std::int64_t>() + row * length;
  auto* targets = batch.targets.data_ptr<std::int64_t>() + row * length;
  for (std::int64_t i = 0; i < length; ++i) {
    inputs[i] = text.token(begin + i);
    targets[i] = text.token(begin + i + 1);
  }
}

struct Place {
  const Text* text;
  std::int64_t begin;
};

// Places of windows. Every window of every text is equally likely.
std::vector<Place> random_places(const std::vector<Text>& texts, std::int64_t windows,
                                 std::int64_t length, std::uint64_t seed, std::uint64_t step) {
  std::vector<std::int64_t> ends;
  std::int64_t places = 0;
  for (const Text& text : texts)
    ends.push_back(places += std::max<std::int64_t>(0, text.size() - length));
  std::vector<Place> all;
  for (std::int64_t w = 0; w < windows; ++w) {
    const std::uint64_t number =
        mixed(mixed(mixed(seed) + step) + static_cast<std::uint64_t>(w));
    const auto place = static_cast<std::int64_t>(number % static_cast<std::uint64_t>(places));
    const auto text = static_cast<std::size_t>(
        std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
    all.push_back({&texts[text], place - (text ? ends[text - 1] : 0)});
  }
  return all;
}

// Masks masked_share of `count` inputs, at least one, chosen with Floyd's sampling. The other
// targets are uncounted.
void mask(std::int64_t* inputs, std::int64_t* targets, std::int64_t count, Draws draws) {
  std::fill(targets, targets + count, uncounted);
  const auto some =
      std::max<std::int64_t>(1, std::llround(masked_share * static_cast<double>(count)));
  for (std::int64_t last = count - some; last < count; ++last) {
    const std::int64_t drawn = draws.below(last + 1);
    const std::int64_t at = targets[drawn] == uncounted ? drawn : last;
    targets[at] = inputs[at];
    inputs[at] = mask_byte;
  }
}

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

Batch random_batch(const std::vector<Text>& texts, std::int64_t windows, std::int64_t length,
                   std::uint64_t seed, std::uint64_t step) {
  Batch batch = empty_batch(windows, length);
  std::int64_t row = 0;
  for (const Place& place : random_places(texts, windows, length, seed, step))
    fill_row(batch, row++, *place.text, place.begin);
  return batch;
}

PrecedingTokens preceding_tokens(const std::vector<Text>& texts, std::int64_t windows,
                                 std::int64_t length, std::uint64_t seed, std::uint64_t step) {
  PrecedingTokens found;
  std::vector<Place> places = random_places(texts, windows, length, seed, step);
  for (std::int64_t w = 0; w < windows; ++w)
    if ((static_cast<std::uint64_t>(w) + step) % 2 == 1 &&
        places[static_cast<std::size_t>(w)].begin >= length)
      found.rows.push_back(w);
  Batch batch = empty_batch(std::ssize(found.rows), length);
  for (std::int64_t row = 0; row < std::ssize(found.rows); ++row) {
    const Place& place =
        places[static_cast<std::size_t>(found.rows[static_cast<std::size_t>(row)])];
    fill_row(batch, row, *place.text, place.begin - length);
  }
  found.tokens = batch.inputs;
  return found;
}

Batch masked_batch(const std::vector<Text>& texts, std::int64_t windows, std::int64_t length,
                   std::uint64_t seed, std::uint64_t step) {
  Batch batch = random_batch(texts, windows, length, seed, step);
  for (std::int64_t w = 0; w < windows; ++w)
    mask(batch.inputs.data_ptr<std::int64_t>() + w * length,
         batch.targets.data_ptr<std::int64_t>() + w * length, length,
         {seed, step, static_cast<std::uint64_t>(w), 1});
  return batch;
}

std::vector<std::int64_t> random_ids(std::int64_t count, std::int64_t below, std::uint64_t seed,
                                     std::uint64_t step) {
  Draws draws{seed, step, 2};
  std::set<std::int64_t> ids;  // Floyd's sampling
  for (std::int64_t last = below - count; last < below; ++last)
    if (!ids.insert(draws.below(last + 1)).second) ids.insert(last);
  return {ids.begin(), ids.end()};
}

Batch segment_windows(const Segment& segment, std::int64_t length, std::int64_t longest) {
  const std::int64_t windows = 2 * longest / length;
  Batch batch = empty_batch(windows, length);
  for (std::int64_t w = 0; w < windows; ++w)
    fill_row(batch, w, *segment.text, segment.first_target - 1 + (w - 1) * (length / 2));
  return batch;
}

Batch masked_segment(const Segment& segment, std::int64_t length, const Settings& settings) {
  const std::int64_t longest = settings.longest(), stretch = settings.train_length;
  Batch batch = empty_batch(1, longest);
  fill_row(batch, 0, *segment.text, segment.first_target - 1);
  // The target of an input is the byte at its own place, not the next byte.
  const at::Tensor bytes = batch.targets.clone();
  for (std::int64_t begin = 0; begin < longest; begin += stretch)
    mask(bytes.data_ptr<std::int64_t>() + begin, batch.targets.data_ptr<std::int64_t>() + begin,
         std::min(stretch, longest - begin),
         {static_cast<std::uint64_t>(segment.first_target), static_cast<std::uint64_t>(begin)});
  return {bytes.view({-1, length}), batch.targets.view({-1, length})};
}

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
                                   std::int64_t begin, const Drawn& drawn) {
  std::vector<Example> examples;
  const Task& task = *settings.task;
  for (std::int64_t i = begin; i < std::min(stretch.examples, begin + examples_at_once); ++i) {
    Drawn here = drawn;
    if (const std::int64_t depths = task.letters.depths.count) here.depth = i % depths;
    examples.push_back(example(task, test_length(stretch, i), Part::test, test_seed,
                               static_cast<std::uint64_t>(i), here));
  }
  return examples;
}

void count_examples(const Settings& settings, Stretch& stretch) {
  const Letters& letters = settings.task->letters;
  stretch.examples = 2 * settings.eval_segments;
  std::vector<Chance> chances;
  std::int64_t chance_length = 0;  // some tasks compute it by enumeration
  for (std::int64_t i = 0; i < stretch.examples; ++i) {
    const std::int64_t length = test_length(stretch, i);
    if (length == chance_length) {
      chances.push_back(chances.back());
      continue;
    }
    chances.push_back(letters.chance(length));
    if (letters.shifted.chance)
      chances.back() = {letters.shifted.chance(length).byte, chances.back().byte};
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
