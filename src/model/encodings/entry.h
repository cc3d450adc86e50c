// `Entry<Spec>`, the interface through which an encoding joins the list (src/model/encodings/).
// `infos` and `properties` are required:
//
//   infos       names; the first is the "kind" in JSON, others are named settings of the spec
//   properties  facts that the definition fixes; `gnomon check` and the tests measure them
//   fields      members by name, for JSON
//   parameters  trained parameters
//   tensors     names of the parameters in checkpoints; an array, or a function of the spec
//   derived     values by name that `gnomon inspect --json` prints besides the fields
//   kind        kind in `gnomon inspect --json`; default: the first name, with underscores
//   capacity    number of positions, if limited
//   lower       fills the encoding's part of a LayerPlan, for the tokens of a Call
//   backward    adds to the gradients of the parameters, from those of the filled part
//   frequencies    RotaryFrequencies at a declared length, for rotations that have one
//   softmax_factor  at a declared length; default 1
//   head_dim    head dimension, for the default softmax scale
//   terms       token terms (TermShape) that are computed from the input of the layer
//   history     number of earlier tokens on which they depend; default 0
//   compute_terms  fills the terms; and
//   compute_terms_backward, which adds to the gradients of the input and the parameters
//
// In an Entry, calls of free functions with these names must be qualified: gnomon::lower(spec).
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gnomon/model/description.h"
#include "gnomon/model/encoding.h"
#include "src/core/size.h"

namespace gnomon::model {

using Values = std::span<const View<const float, 2>>;
using Gradients = std::span<const View<float, 2>>;

// JSON spelling of an enum.
template <typename E>
struct Spelling {
  E value;
  const char* text;
};
template <typename E>
inline constexpr Spelling<E> spellings[1];  // specialised for each enum, next to its Entry

// The input of a layer for token terms: x [B, P + T, C], and its sequences or null.
struct TermInput {
  View<const float, 3> x;
  const Positions* tokens = nullptr;
};

// Tokens for which an encoding is lowered: those of a Window, or of a batch (LayerTokens).
// Values are computed on first use.
class Call {
 public:
  explicit Call(const Window& window);
  // Borrows both. Empty keys: the queries. EarlierKeys::rotated: the keys of earlier tokens are
  // already rotated, so tables are computed for the queries only.
  enum class EarlierKeys { unrotated = 1, rotated };
  Call(std::span<const Positions> queries, std::span<const Positions> keys,
       EarlierKeys earlier);

  double softmax_scale = 0;  // including all factors; 0: unknown
  // Frequencies and factor from an earlier call at the same length, for a mixture of one scaled
  // rotary.
  const RotaryFrequencies* known = nullptr;
  double known_factor = 1;
  std::int64_t length = 0;              // declared length; 0: the length in the spec
  std::optional<Distances> reach = {};  // range to use instead; contains that of the tokens
  // Frames, height and width of the image, if the tokens are an image.
  std::span<const std::int64_t> image = {};
  const gnomon::WordBoxes* boxes = nullptr;  // word boxes (LayoutLM)
  // Token numbers 0, 1, ..., for tables and biases of an image with a rotation by axes.
  const Positions* line = nullptr;
  // The rule of an image with a resized learned table, including the place of each patch.
  const ImageTokens* resized = nullptr;
  std::int64_t cached = 0;  // tokens before the queries, if no keys are given
  // Continuous coordinates of the queries [T, A], instead of positions. No data: positions.
  View<const double, 2> coordinates = {};

  std::int64_t queries() const;  // B T
  const Positions& query_positions() const { return line ? *line : query_axes().front(); }
  const Positions& key_positions() const { return line ? *line : key_axes().front(); }
  std::span<const Positions> query_axes() const;
  std::span<const Positions> key_axes() const;
  // Positions of the keys for which tables are computed.
  std::span<const Positions> rotated_axes() const;
  bool same_tokens() const;  // whether those keys are the queries
  Distances distances() const;

 private:
  const Window* window_ = nullptr;
  std::span<const Positions> queries_ = {}, keys_ = {};
  EarlierKeys earlier_ = EarlierKeys::unrotated;
  mutable std::optional<Positions> made_queries_ = {}, made_keys_ = {};
  mutable std::optional<Distances> distances_ = {};
};

// Table of cos and sin of these positions. A single axis is used for all axes of the
// frequencies.
RotaryTable table_of(const RotaryFrequencies& frequencies, std::span<const Positions> axes);
// Fills the tables of queries and keys. They share one table if their tokens are the same.
void put_rotation(const RotaryFrequencies& frequencies, const Call& call, LayerPlan& lowered);
// Fills the rotations by frequencies of heads before attention. grid: as of cells_or_axes.
void put_rotation(const HeadFrequencies& queries, const HeadFrequencies& keys, const Call& call,
                  std::span<const std::int64_t> grid, LayerPlan& lowered);
// Positions on the axes of a grid. Tokens with a single axis are numbered cell by cell.
std::vector<Positions> cells_or_axes(std::span<const Positions> axes,
                                     std::span<const std::int64_t> grid);
// Number of cells of a grid, a capacity; nothing if there is no grid.
inline std::optional<std::int64_t> cells(std::span<const std::int64_t> grid) {
  if (grid.empty()) return std::nullopt;
  std::int64_t count = 1;
  for (const std::int64_t extent : grid)
    count = gnomon::internal::checked_product("encoding", "cells of a grid", {count, extent});
  return count;
}

// Tensor of a parameter in checkpoints of released models, as a ParameterTensor. A parameter
// may have several.
struct CheckpointName {
  std::string_view parameter;
  std::string_view name;
  TensorLayout layout = TensorLayout::as_is;
};

constexpr double table_deviation = 0.02;  // initial deviation of GPT-2's position table

// Defaults: no fields, no parameters, unlimited positions.
template <typename Spec>
struct EntryOf {
  static void fields(Spec&, auto&&) {}
  static std::vector<Parameter> parameters(const Spec&) { return {}; }
  static constexpr std::span<const CheckpointName> tensors = {};
  static void derived(const Spec&, auto&&) {}
  static std::optional<std::int64_t> capacity(const Spec&) { return std::nullopt; }
  static void lower(const Spec&, const Call&, Values, LayerPlan&) {}
};
template <typename Spec>
struct Entry;

// View of a matrix with one column as a vector.
template <typename T>
View<T, 1> column(const View<T, 2>& matrix) {
  return {matrix.data(), {matrix.extent(0)}, {matrix.stride(0)}};
}

// Sides of a nearly square page with at least `length` tokens, row by row. Two-dimensional
// encodings read text this way.
struct PageSize {
  std::int64_t height, width;
};
inline PageSize page_size(std::int64_t length) {
  const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(length)));
  const std::int64_t width = root > 1 ? root : 1;
  return {(length + width - 1) / width, width};
}

}  // namespace gnomon::model
