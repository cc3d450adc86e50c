// Tokens for which an encoding is lowered.
#include <algorithm>
#include <limits>
#include <utility>

#include "gnomon/error.h"
#include "src/model/encodings/entry.h"
#include "src/rotary/check.h"

namespace gnomon::model {

Call::Call(const Window& window)
    : softmax_scale(window.softmax_scale), length(window.length), window_(&window) {}

Call::Call(std::span<const Positions> queries, std::span<const Positions> keys,
           EarlierKeys earlier)
    : queries_(queries), keys_(keys.empty() ? queries : keys), earlier_(earlier) {}

std::int64_t Call::queries() const {
  if (window_ && !window_->batch) return window_->queries;
  if (window_) return std::ssize(window_->batch->queries.ids);
  return coordinates.data() ? coordinates.extent(0) : std::ssize(queries_.front().ids);
}

std::span<const Positions> Call::query_axes() const {
  if (!window_) return queries_;
  if (window_->batch) return {&window_->batch->queries, 1};
  if (!made_queries_) made_queries_ = window_->query_positions();
  return {&*made_queries_, 1};
}

std::span<const Positions> Call::key_axes() const {
  if (!window_ && cached > 0) {
    const Positions& queries = queries_.front();
    if (!made_keys_) {
      const std::int64_t first = queries.ids.empty() ? 0 : queries.ids.front() - cached;
      made_keys_ = consecutive(cached + queries.tokens, first);
    }
    return {&*made_keys_, 1};
  }
  if (!window_) return keys_;
  if (window_->batch) return {&window_->batch->keys, 1};
  if (!made_keys_) made_keys_ = window_->key_positions();
  return {&*made_keys_, 1};
}

bool Call::same_tokens() const {
  if (window_ && window_->batch) return window_->batch->queries == window_->batch->keys;
  if (window_) return window_->queries == window_->keys;
  return earlier_ == EarlierKeys::rotated || keys_.data() == queries_.data();
}

std::span<const Positions> Call::rotated_axes() const {
  return same_tokens() ? query_axes() : key_axes();
}

namespace {

// Returns the smallest and the largest position of tokens that are not padding.
std::pair<std::int64_t, std::int64_t> ends(const Positions& positions) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < positions.ids.size(); ++i) {
    if (positions.sequences[i] == Positions::padding) continue;
    least = std::min(least, positions.ids[i]);
    most = std::max(most, positions.ids[i]);
  }
  return {least, most};
}

}  // namespace

Distances Call::distances() const {
  if (reach) return *reach;
  if (window_ && !window_->batch) return window_->distances();
  if (!distances_) {
    const auto [low, high] = ends(query_positions());
    const auto [first, last] =
        cached > 0 && !window_ ? std::pair(low - cached, high) : ends(key_positions());
    distances_ = low > high || first > last
                     ? Distances{0, 1}
                     : Distances{first - high, last - low - (first - high) + 1};
  }
  return *distances_;
}

RotaryTable table_of(const RotaryFrequencies& frequencies, std::span<const Positions> axes) {
  // A single axis is used for all axes: text in a model with several axes.
  const std::int64_t count = rotary_internal::axis_count(frequencies);
  if (axes.size() == 1 && count > 1)
    return {frequencies, std::vector<Positions>(static_cast<std::size_t>(count), axes[0])};
  return {frequencies, axes};
}

void put_rotation(const RotaryFrequencies& frequencies, const Call& call, LayerPlan& lowered) {
  if (call.coordinates.data())
    lowered.query_rotary.emplace(frequencies, call.coordinates);
  else
    lowered.query_rotary = table_of(frequencies, call.query_axes());
  lowered.key_rotary =
      call.same_tokens() ? lowered.query_rotary : table_of(frequencies, call.rotated_axes());
}

void put_rotation(const HeadFrequencies& queries, const HeadFrequencies& keys, const Call& call,
                  std::span<const std::int64_t> grid, LayerPlan& lowered) {
  if (call.coordinates.data())
    refuse("head_angles", "positions must be integers", "continuous coordinates");
  const auto angles_of = [&](const HeadFrequencies& of, std::span<const Positions> axes) {
    std::vector<Positions> all = cells_or_axes(axes, grid);
    // A single axis is used for all axes, as in a table.
    if (all.size() == 1) all.resize(static_cast<std::size_t>(of.axes), Positions(all[0]));
    return HeadAngles(of, all);
  };
  lowered.query_rotations.emplace_back(angles_of(queries, call.query_axes()));
  if (call.same_tokens() && queries == keys)
    lowered.key_rotations.push_back(lowered.query_rotations.back());
  else
    lowered.key_rotations.emplace_back(angles_of(keys, call.rotated_axes()));
}

std::vector<Positions> cells_or_axes(std::span<const Positions> axes,
                                     std::span<const std::int64_t> grid) {
  if (axes.size() == 1 && !grid.empty()) return grid_axes(axes[0], grid);
  return {axes.begin(), axes.end()};
}

}  // namespace gnomon::model
