#include "apps/lab/data/windows.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/lab/data/draws.h"

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

}  // namespace gnomon::lab
