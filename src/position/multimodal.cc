#include "gnomon/position/multimodal.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "src/core/overflow.h"

namespace gnomon {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 62;

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (internal::multiply_overflow(a, b, &result) || result > most)
    refuse("multimodal", "tokens and positions must be less than 2^62, at factor", b);
  return result;
}

std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (internal::add_overflow(a, b, &result) || result > most)
    refuse("multimodal", "tokens and positions must be less than 2^62, at term", b);
  return result;
}

void check(const MultimodalRules& rules) {
  if (rules.merge < 1) refuse("multimodal", "merge must be at least 1", rules.merge);
  if (rules.clock < FrameClock::frames || rules.clock > FrameClock::seconds)
    refuse("multimodal", "clock must be frames (1), whole_seconds (2) or seconds (3)",
           static_cast<int>(rules.clock));
  if (rules.after != AfterVision::highest && rules.after != AfterVision::sides)
    refuse("multimodal", "after must be highest (1) or sides (2)",
           static_cast<int>(rules.after));
  if (rules.tokens_per_second < 1)
    refuse("multimodal", "tokens_per_second must be at least 1", rules.tokens_per_second);
}

// Returns the number of rows or columns after patches are merged.
std::int64_t merged(std::int64_t patches, const MultimodalRules& rules) {
  if (patches < 1) refuse("multimodal", "height and width must be at least 1", patches);
  if (patches % rules.merge)
    refuse("multimodal",
           "height and width must be multiples of merge = " + std::to_string(rules.merge),
           patches);
  return patches / rules.merge;
}

// Extents of an image or video after merging. An image is a video of one frame.
struct Block {
  std::int64_t frames = 0, rows = 0, columns = 0;
  double seconds = 1;

  std::int64_t tokens() const { return product(product(frames, rows), columns); }
};

Block block_of(const ImageSpan& image, const MultimodalRules& rules) {
  return {
      .frames = 1, .rows = merged(image.height, rules), .columns = merged(image.width, rules)};
}

Block block_of(const VideoSpan& video, const MultimodalRules& rules) {
  if (video.frames < 1) refuse("multimodal", "frames must be at least 1", video.frames);
  if (!std::isfinite(video.seconds_per_frame) || video.seconds_per_frame < 0)
    refuse("multimodal", "seconds_per_frame must be finite and not negative",
           video.seconds_per_frame);
  return {.frames = video.frames,
          .rows = merged(video.height, rules),
          .columns = merged(video.width, rules),
          .seconds = video.seconds_per_frame};
}

std::int64_t whole(double value) {
  if (!(value < static_cast<double>(most)))
    refuse("multimodal", "the time of a frame must be less than 2^62", value);
  return static_cast<std::int64_t>(value);
}

std::int64_t time_of(std::int64_t frame, const Block& block, const MultimodalRules& rules) {
  switch (rules.clock) {
    case FrameClock::whole_seconds:
      return product(frame, product(whole(block.seconds), rules.tokens_per_second));
    case FrameClock::seconds:
      return whole(static_cast<double>(frame) *
                   (block.seconds * static_cast<double>(rules.tokens_per_second)));
    case FrameClock::frames:
      break;
  }
  return frame;
}

// Writes a row's positions one token after another.
class Writer {
 public:
  Writer(std::array<std::int64_t*, 3> out, const MultimodalRules& rules)
      : out_(out), rules_(rules) {}

  void operator()(const TextSpan& text) {
    const std::int64_t end = sum(at_, text.tokens);
    for (; at_ < end; ++at_) put(at_, at_, at_);
  }
  template <typename Vision>
  void operator()(const Vision& vision) {
    const Block block = block_of(vision, rules_);
    const std::int64_t start = at_, side = std::max(block.rows, block.columns);
    sum(start, side);
    for (std::int64_t f = 0; f < block.frames; ++f) {
      const std::int64_t t = sum(start, time_of(f, block, rules_));
      for (std::int64_t y = 0; y < block.rows; ++y)
        for (std::int64_t x = 0; x < block.columns; ++x) put(t, start + y, start + x);
    }
    at_ = rules_.after == AfterVision::sides ? start + side : next_;
  }
  std::int64_t next() const { return next_; }

 private:
  void put(std::int64_t t, std::int64_t h, std::int64_t w) {
    *out_[0]++ = t;
    *out_[1]++ = h;
    *out_[2]++ = w;
    next_ = std::max(next_, std::max({t, h, w}) + 1);
  }

  std::array<std::int64_t*, 3> out_;
  const MultimodalRules& rules_;
  std::int64_t at_ = 0;    // first position of the next span
  std::int64_t next_ = 0;  // highest position so far + 1
};

std::int64_t tokens_of(const MultimodalSpan& span, const MultimodalRules& rules) {
  if (const auto* text = std::get_if<TextSpan>(&span)) {
    if (text->tokens < 0) refuse("multimodal", "tokens must not be negative", text->tokens);
    return text->tokens;
  }
  if (const auto* image = std::get_if<ImageSpan>(&span))
    return block_of(*image, rules).tokens();
  return block_of(std::get<VideoSpan>(span), rules).tokens();
}

}  // namespace

MultimodalRules qwen2_vl_rules() {
  return {.merge = 2, .clock = FrameClock::frames, .after = AfterVision::highest};
}

MultimodalRules qwen2_5_vl_rules(std::int64_t tokens_per_second, FrameClock clock) {
  return {.merge = 2,
          .clock = clock,
          .after = AfterVision::highest,
          .tokens_per_second = tokens_per_second};
}

MultimodalRules qwen3_vl_rules() { return qwen2_vl_rules(); }

MultimodalRow stamped_frames(const VideoSpan& video,
                             std::span<const std::int64_t> stamp_tokens) {
  if (std::ssize(stamp_tokens) != video.frames)
    refuse("multimodal",
           "there must be one stamp for each of " + std::to_string(video.frames) + " frames",
           std::ssize(stamp_tokens));
  MultimodalRow row;
  for (const std::int64_t tokens : stamp_tokens) {
    row.push_back(TextSpan{tokens});
    row.push_back(ImageSpan{.height = video.height, .width = video.width});
  }
  return row;
}

std::int64_t tokens_of(const MultimodalRow& row, const MultimodalRules& rules) {
  check(rules);
  std::int64_t tokens = 0;
  for (const MultimodalSpan& span : row) tokens = sum(tokens, tokens_of(span, rules));
  return tokens;
}

MultimodalPositions multimodal_positions(std::span<const MultimodalRow> rows,
                                         const MultimodalRules& rules, PaddingSide side,
                                         std::int64_t padding_id) {
  check(rules);
  if (side != PaddingSide::left && side != PaddingSide::right)
    refuse("multimodal", "side must be left (1) or right (2)", static_cast<int>(side));
  std::vector<std::int64_t> lengths;
  for (const MultimodalRow& row : rows) lengths.push_back(tokens_of(row, rules));
  const std::int64_t batch = std::ssize(rows);
  const std::int64_t tokens =
      lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());

  MultimodalPositions result;
  const auto cells = static_cast<std::size_t>(product(batch, tokens));
  for (Positions& axis : result.axes)
    axis = {.batch = batch,
            .tokens = tokens,
            .ids = std::vector<std::int64_t>(cells, padding_id),
            .sequences = std::vector<std::int32_t>(cells, Positions::padding)};
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto row = static_cast<std::size_t>(b);
    const std::int64_t padding = tokens - lengths[row];
    const std::int64_t begin = b * tokens + (side == PaddingSide::left ? padding : 0);
    std::array<std::int64_t*, 3> out{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      out[axis] = result.axes[axis].ids.data() + begin;
      std::fill_n(result.axes[axis].sequences.begin() + begin, lengths[row], 0);
    }
    Writer writer(out, rules);
    for (const MultimodalSpan& span : rows[row]) std::visit(writer, span);
    result.next.push_back(writer.next());
    result.deltas.push_back(writer.next() - tokens);
  }
  return result;
}

MultimodalPositions multimodal_positions(const MultimodalRow& row,
                                         const MultimodalRules& rules) {
  return multimodal_positions(std::span(&row, 1), rules);
}

std::array<Positions, 3> text_after(const MultimodalPositions& prompt, std::int64_t tokens,
                                    std::int64_t generated) {
  if (tokens < 0) refuse("multimodal", "tokens must not be negative", tokens);
  if (generated < 0) refuse("multimodal", "generated must not be negative", generated);
  Positions text{
      .batch = std::ssize(prompt.next), .tokens = tokens, .ids = {}, .sequences = {}};
  for (const std::int64_t next : prompt.next) {
    const std::int64_t start = sum(next, generated);
    sum(start, tokens);
    for (std::int64_t t = 0; t < tokens; ++t) text.ids.push_back(start + t);
  }
  text.sequences.resize(text.ids.size());
  return {text, text, text};
}

}  // namespace gnomon
