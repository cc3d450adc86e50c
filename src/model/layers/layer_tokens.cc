#include "src/model/layers/layer_tokens.h"

#include <algorithm>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/position/check.h"

namespace gnomon::model::internal {
namespace {

// Whether all tokens are in one sequence at positions offset, offset + 1, ..., equal to the
// rows.
bool is_consecutive(const Positions& positions, std::int64_t offset) {
  std::int64_t differ = 0;  // no branch, so that the loop is vectorised
  for (std::int64_t b = 0; b < positions.batch; ++b) {
    const std::int64_t* const ids = positions.ids.data() + b * positions.tokens;
    const std::int32_t* const sequences = positions.sequences.data() + b * positions.tokens;
    for (std::int64_t t = 0; t < positions.tokens; ++t)
      differ |= (ids[t] - offset - t) | sequences[t];
  }
  return differ == 0;
}

// Puts tokens of different chunks into different sequences.
Positions chunked(Positions positions, std::int64_t chunk, std::int64_t chunks) {
  for (std::size_t i = 0; i < positions.ids.size(); ++i) {
    std::int32_t& sequence = positions.sequences[i];
    if (sequence == Positions::padding) continue;
    const std::int64_t number = sequence * chunks + positions.ids[i] / chunk;
    if (number > INT32_MAX) refuse("model", "chunks must be fewer than 2^31", number);
    sequence = static_cast<std::int32_t>(number);
  }
  return positions;
}

constexpr std::int64_t position_limit = std::int64_t{1} << 31;

void check_axis(const Positions& axis) {
  gnomon::internal::check_ids_and_sequences("model", "positions", axis);
  for (const std::int64_t id : axis.ids)
    if (id < -position_limit || id > position_limit)
      refuse("model", "positions must be at most 2^31 in magnitude", id);
}

std::int64_t greatest(const Positions& positions) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < positions.ids.size(); ++i)
    if (positions.sequences[i] != Positions::padding) most = std::max(most, positions.ids[i]);
  return most;
}

}  // namespace

TokensOfLayer::TokensOfLayer(const ModelDescription& model, const LayerTokens& tokens)
    : tokens_(tokens), length_(tokens.length > 0 ? tokens.length : model.length) {
  if (tokens.length < 0) refuse("model", "length must not be negative", tokens.length);
  if (tokens.cached < 0) refuse("model", "cached must not be negative", tokens.cached);
  if (tokens.cached > position_limit)
    refuse("model", "cached must be at most 2^31", tokens.cached);
  for (const std::span<const Positions> axes : {tokens.queries, tokens.keys})
    for (const Positions& axis : axes) check_axis(axis);
  if (tokens.image) {
    if (!tokens.queries.empty())
      refuse("model", "tokens must not have both an image and positions", "both");
    place_image(model, *tokens.image);
    return;
  }
  if (tokens.queries.empty()) refuse("model", "positions of the queries must be given", "none");
  query_axes_ = tokens.queries;
  if (!tokens.keys.empty()) {
    key_axes_ = tokens.keys;
    if (tokens.keys.front().tokens < tokens.queries.front().tokens)
      refuse("model", "keys must be at least the number of queries",
             tokens.keys.front().tokens);
  } else if (tokens.cached > 0) {
    for (const Positions& axis : tokens.queries)
      if (std::any_of(axis.sequences.begin(), axis.sequences.end(),
                      [](std::int32_t one) { return one != 0; }))
        refuse("model",
               "cached tokens with padding or packing require the positions of all keys",
               "none");
  }
}

void TokensOfLayer::place_image(const ModelDescription& model, const ImagePatches& image) {
  const ImageTokens& rule = rule_ = model.image.value_or(ImageTokens{});
  if (image.frames < 1 || image.height < 1 || image.width < 1)
    refuse("model", "an image must have at least 1 patch",
           std::min({image.frames, image.height, image.width}));
  image_ = {image.frames, image.height, image.width};
  if (rule.origin == PatchOrigin::centres) {
    coordinates_ = patch_centres(image.height, image.width, rule.first_tokens);
    queries_ = {consecutive(coordinates_.cells)};
    query_axes_ = queries_;
    return;
  }
  Grid grid;
  if (rule.order == PatchOrder::merge_blocks)
    grid = merge_blocks(image.height, image.width, rule.merge, image.frames);
  else if (rule.frames || image.frames > 1)
    grid = gnomon::grid(image.frames, image.height, image.width);
  else
    grid = gnomon::grid(image.height, image.width);
  for (std::int64_t a = 0; a < grid.axes; ++a) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(rule.first_tokens));
    for (const std::int64_t cell : grid.axis(a))
      ids.push_back(cell + (rule.origin == PatchOrigin::from_one ? 1 : 0));
    ids.insert(ids.end(), static_cast<std::size_t>(rule.last_tokens), 0);
    queries_.push_back(explicit_ids(ids));
  }
  keys_ = {consecutive(queries_.front().tokens)};  // consecutive numbers, for tables and biases
  query_axes_ = queries_;
}

Call TokensOfLayer::call() const {
  const bool rotated = tokens_.earlier == EarlierKeys::rotated;
  Call call(query_axes_, key_axes_,
            rotated ? Call::EarlierKeys::rotated : Call::EarlierKeys::unrotated);
  call.length = length_;
  call.image = image_;
  call.boxes = tokens_.boxes;
  if (!image_.empty()) {
    if (coordinates_.cells > 0) call.coordinates = coordinates_.view();
    if (!keys_.empty()) call.line = &keys_.front();
    if (rule_.table && (rule_.table->height != image_[1] || rule_.table->width != image_[2] ||
                        rule_.order == PatchOrder::merge_blocks))
      call.resized = &rule_;
  }
  if (key_axes_.empty() && tokens_.cached > 0) call.cached = tokens_.cached;
  return call;
}

std::int64_t TokensOfLayer::first_position() const {
  const Positions& queries = query_axes_.front();
  const std::int64_t first = queries.ids.empty() ? 0 : queries.ids.front();
  if (first < 0 || !is_consecutive(queries, first))
    refuse("model", "compressed keys require consecutive positions without padding", "others");
  return first;
}

Call TokensOfLayer::call_of(const LayerAttention& attention) const {
  if (!is_image() || !attention.partition) return call();
  const auto [height, width, shift] = *attention.partition;
  window_ = grid_axes(grid(height, width));
  window_line_ = {consecutive(height * width)};
  Call window(window_, {}, Call::EarlierKeys::rotated);
  window.line = &window_line_.front();
  window.length = length_;
  return window;
}

std::int64_t TokensOfLayer::keys() const {
  return key_axes_.empty() ? query_axes_.front().tokens + tokens_.cached
                           : key_axes_.front().tokens;
}

void TokensOfLayer::put_mask(const LayerAttention& attention, LayerPlan& lowered) const {
  const Positions& queries = query_axes_.front();
  const std::int64_t keys = this->keys();
  const std::int64_t offset = keys - queries.tokens;
  lowered.mask = {.visibility = attention.visibility,
                  .offset = offset,
                  .left = attention.left,
                  .right = attention.right};
  if (!image_.empty()) return;
  const bool by_rows = key_axes_.empty() ? is_consecutive(queries, tokens_.cached)
                                         : is_consecutive(key_axes_.front(), 0) &&
                                               is_consecutive(queries, offset);
  if (attention.query_scale)
    lowered.scale_positions =
        attention.query_scale_index == ScaleIndex::row
            ? std::make_shared<Positions>(consecutive(queries.tokens, offset))
            : borrowed(queries);
  std::optional<std::int64_t> chunk = attention.chunk;
  if (chunk && by_rows && queries.tokens == 1) {
    // A single query attends to the keys of its chunk: the rows before it in the chunk.
    const std::int64_t into = queries.ids.front() % *chunk;
    lowered.mask.left = std::min(lowered.mask.left.value_or(into), into);
    chunk.reset();
  }
  if (by_rows && !chunk) return;
  const std::shared_ptr<const Positions> all =
      !key_axes_.empty() ? borrowed(key_axes_.front())
      : tokens_.cached > 0
          ? std::make_shared<Positions>(consecutive(
                keys, queries.ids.empty() ? 0 : queries.ids.front() - tokens_.cached))
          : borrowed(queries);
  lowered.queries = borrowed(queries);
  lowered.keys = all;
  if (!chunk) return;
  const std::int64_t chunks = std::max(greatest(*all), greatest(queries)) / *chunk + 1;
  lowered.queries = std::make_shared<Positions>(chunked(queries, *chunk, chunks));
  lowered.keys = std::make_shared<Positions>(chunked(*all, *chunk, chunks));
}

}  // namespace gnomon::model::internal
