#include "apps/lab/windows.h"

#include <algorithm>

namespace gnomon::lab {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): a number from a counter, without state to save.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Batch empty_batch(std::int64_t windows, std::int64_t length) {
  return {at::empty({windows, length}, at::kLong), at::empty({windows, length}, at::kLong)};
}

// Fills row `row` with the bytes from `begin` on.
void fill_row(Batch& batch, std::int64_t row, const Text& text, std::int64_t begin) {
  const std::int64_t length = batch.inputs.size(1);
  auto* inputs = batch.inputs.data_ptr<std::int64_t>() + row * length;
  auto* targets = batch.targets.data_ptr<std::int64_t>() + row * length;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.bytes.data()) + begin;
  std::copy(bytes, bytes + length, inputs);
  std::copy(bytes + 1, bytes + 1 + length, targets);
}

}  // namespace

Batch random_batch(const std::vector<Text>& texts, std::int64_t windows, std::int64_t length,
                   std::uint64_t seed, std::uint64_t step) {
  // Every window of every text is as likely as any other.
  std::vector<std::int64_t> ends;
  std::int64_t places = 0;
  for (const Text& text : texts)
    ends.push_back(places += std::max<std::int64_t>(
                       0, static_cast<std::int64_t>(text.bytes.size()) - length));
  Batch batch = empty_batch(windows, length);
  for (std::int64_t w = 0; w < windows; ++w) {
    const std::uint64_t number =
        mixed(mixed(mixed(seed) + step) + static_cast<std::uint64_t>(w));
    const auto place = static_cast<std::int64_t>(number % static_cast<std::uint64_t>(places));
    const auto text = static_cast<std::size_t>(
        std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
    fill_row(batch, w, texts[text], place - (text ? ends[text - 1] : 0));
  }
  return batch;
}

std::vector<Segment> test_segments(const std::vector<Text>& texts, const Settings& settings) {
  const std::int64_t context = settings.longest() / 2 + 1, stride = settings.longest();
  std::vector<Segment> all;
  for (const Text& text : texts) {
    const auto size = static_cast<std::int64_t>(text.bytes.size());
    for (std::int64_t target = context; target + settings.longest() <= size; target += stride)
      all.push_back({&text, target});
  }
  const auto wanted =
      std::min<std::size_t>(all.size(), static_cast<std::size_t>(settings.eval_segments));
  std::vector<Segment> chosen;
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(all[i * all.size() / wanted]);
  return chosen;
}

Batch segment_windows(const Segment& segment, std::int64_t length, std::int64_t longest) {
  const std::int64_t windows = 2 * longest / length;
  Batch batch = empty_batch(windows, length);
  for (std::int64_t w = 0; w < windows; ++w)
    fill_row(batch, w, *segment.text, segment.first_target - 1 + (w - 1) * (length / 2));
  return batch;
}

}  // namespace gnomon::lab
