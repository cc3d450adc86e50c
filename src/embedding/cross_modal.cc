#include "gnomon/embedding/cross_modal.h"

#include <string>
#include <variant>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {

using internal::to_size;
namespace {

using std::int64_t;

void check(const CrossModal& spec) {
  frequencies(spec.text);  // throws if the spec is invalid
  if (width(spec.patches) != spec.text.width)
    refuse("cross_modal",
           "patches must have the width of text, " + std::to_string(spec.text.width),
           width(spec.patches));
  for (const GridAxis& axis : spec.patches.axes)
    if (axis.column < 0 || axis.column > 1)
      refuse("cross_modal", "an axis of patches must be column 0 (y) or 1 (x)", axis.column);
  if (spec.types < 2) refuse("cross_modal", "types must be at least 2", spec.types);
  if (spec.index != TextIndex::text && spec.index != TextIndex::sequence)
    refuse("cross_modal", "index must be text or sequence", static_cast<int>(spec.index));
  if (spec.image_type != ImageType::one && spec.image_type != ImageType::by_number)
    refuse("cross_modal", "image_type must be one or by_number",
           static_cast<int>(spec.image_type));
}

// Upper limit of the positions of text tokens and patches.
constexpr int64_t most = int64_t{1} << 31;

class Counter {
 public:
  Counter(const CrossModal& spec, int64_t offset, CrossModalTokens& to)
      : spec_(spec), next_(offset), to_(to) {}

  void operator()(const TextSpan& text) {
    if (text.tokens < 0)
      refuse("cross_modal", "tokens of a text must not be negative", text.tokens);
    if (text.tokens > most - next_)
      refuse("cross_modal", "tokens of a row must be at most 2^31", text.tokens);
    for (int64_t i = 0; i < text.tokens; ++i) {
      to_.types.push_back(0);
      to_.indices.push_back(next_++);
    }
  }
  void operator()(const ImageSpan& image) {
    for (const int64_t side : {image.height, image.width})
      if (side < 1 || side > most)
        refuse("cross_modal", "an image must have 1 to 2^31 rows and columns", side);
    ++images_;
    const int64_t type = spec_.image_type == ImageType::one ? 1 : images_;
    if (type >= spec_.types)
      refuse("cross_modal",
             "a row must have one type per image, so the number of images must be at most " +
                 std::to_string(spec_.types - 1),
             images_);
    if (image.height * image.width > most - next_)
      refuse("cross_modal", "tokens of a row must be at most 2^31", image.height * image.width);
    for (int64_t y = 0; y < image.height; ++y)
      for (int64_t x = 0; x < image.width; ++x) {
        to_.types.push_back(type);
        to_.patches.coordinates.push_back(y);
        to_.patches.coordinates.push_back(x);
      }
    to_.patches.cells += image.height * image.width;
    if (spec_.index == TextIndex::sequence) next_ += image.height * image.width;
  }
  void operator()(const VideoSpan& video) {
    refuse("cross_modal", "videos are not supported: pass the frames as images; video",
           video.frames);
  }

 private:
  const CrossModal& spec_;
  int64_t next_;  // index of the next text token
  int64_t images_ = 0;
  CrossModalTokens& to_;
};

void check_tokens(const CrossModal& spec, const CrossModalTokens& tokens) {
  check(spec);
  int64_t texts = 0;
  for (const int64_t type : tokens.types) {
    if (type < 0 || type >= spec.types)
      refuse("cross_modal", "types of tokens must be 0 to " + std::to_string(spec.types - 1),
             type);
    texts += type == 0;
  }
  if (static_cast<int64_t>(tokens.indices.size()) != texts)
    refuse("cross_modal",
           "indices must have one entry per text token, " + std::to_string(texts),
           static_cast<int64_t>(tokens.indices.size()));
  if (tokens.patches.cells != tokens.tokens() - texts || tokens.patches.axes != 2)
    refuse("cross_modal",
           "patches must have one [y, x] per image token, " +
               std::to_string(tokens.tokens() - texts),
           tokens.patches.cells);
}

void check_types(const CrossModal& spec, const std::array<std::int64_t, 2>& extents) {
  if (extents[0] != spec.types || extents[1] != spec.text.width)
    refuse("cross_modal",
           "types must be [" + std::to_string(spec.types) + ", " +
               std::to_string(spec.text.width) + "]",
           shape_text(extents));
}

}  // namespace

CrossModal cross_modal_usual(int64_t width) {
  const CrossModal spec{.text = {.width = width, .recipe = SinusoidalRecipe::interleaved},
                        .patches = grid_mae(width),
                        .types = 2,
                        .index = TextIndex::text,
                        .image_type = ImageType::one};
  check(spec);
  return spec;
}

CrossModalTokens cross_modal_tokens(const CrossModal& spec, std::span<const MultimodalSpan> row,
                                    int64_t offset) {
  check(spec);
  if (offset < 0 || offset > most) refuse("cross_modal", "offset must be 0 to 2^31", offset);
  CrossModalTokens tokens;
  tokens.patches.axes = 2;
  Counter counter(spec, offset, tokens);
  for (const MultimodalSpan& span : row) std::visit(counter, span);
  return tokens;
}

EmbeddingTable lower(const CrossModal& spec, const CrossModalTokens& tokens,
                     View<const float, 2> types) {
  check_tokens(spec, tokens);
  check_types(spec, types.extents());
  const int64_t channels = spec.text.width;
  const auto texts = static_cast<int64_t>(tokens.indices.size());
  const int64_t cells = tokens.patches.cells;
  std::vector<double> text(
      internal::checked_size("cross_modal", "tokens x width", {texts, channels})),
      patches(internal::checked_size("cross_modal", "patches x width", {cells, channels}));
  fill(spec.text, std::span<const int64_t>(tokens.indices),
       View<double, 2>(text.data(), {texts, channels}));
  fill(spec.patches, tokens.patches, View<double, 2>(patches.data(), {cells, channels}));
  EmbeddingTable table{.tokens = tokens.tokens(), .width = channels, .values = {}};
  table.values.reserve(
      internal::checked_size("embedding", "tokens x width", {table.tokens, channels}));
  const double *next_text = text.data(), *next_patch = patches.data();
  for (const int64_t type : tokens.types) {
    const double*& row = type == 0 ? next_text : next_patch;
    for (int64_t c = 0; c < channels; ++c)
      table.values.push_back(static_cast<float>(*row++ + double{types(type, c)}));
  }
  return table;
}

void lower_backward(const CrossModal& spec, const CrossModalTokens& tokens,
                    View<const float, 2> table_grad, View<float, 2> types_grad) {
  check_tokens(spec, tokens);
  check_types(spec, types_grad.extents());
  const int64_t channels = spec.text.width;
  if (table_grad.extent(0) != tokens.tokens() || table_grad.extent(1) != channels)
    refuse("cross_modal",
           "the table's gradient must be [" + std::to_string(tokens.tokens()) + ", " +
               std::to_string(channels) + "]",
           shape_text(table_grad.extents()));
  std::vector<double> sums(to_size(spec.types * channels));
  for (int64_t t = 0; t < tokens.tokens(); ++t)
    for (int64_t c = 0; c < channels; ++c)
      sums[to_size(tokens.types[to_size(t)] * channels + c)] += double{table_grad(t, c)};
  for (int64_t type = 0; type < spec.types; ++type)
    for (int64_t c = 0; c < channels; ++c)
      types_grad(type, c) =
          static_cast<float>(double{types_grad(type, c)} + sums[to_size(type * channels + c)]);
}

}  // namespace gnomon
