// What an encoding says of itself to join the list: `Entry<Spec>`, in src/model/encodings/. Of
// a spec these are all, and all but the `infos` may be left out:
//
//   infos       names, the first of which is the "kind" of JSON; others are usual settings with
//               names of their own
//   fields      its members by name, for JSON
//   parameters  what it trains
//   capacity    the positions it has, where they end
//   lower       fills what it has in LayerPlan, for the tokens of a Call
//   backward    adds to the gradients of its parameters, from those of what it filled
//   schedule    the RotarySchedule at a declared length, of a rotation that has one
//   softmax_factor  of a declared length; 1 where left out
//   head_dim    of its vectors, from which the usual softmax scale follows
//   gates       factors of its bias, [B, H, T], from what the queries' tokens hold; and
//   gates_backward, which adds to the gradients of both
//
// Within an Entry the free functions of these names need their namespace: gnomon::lower(spec).
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gnomon/model/description.h"
#include "gnomon/model/encoding.h"

namespace gnomon::model {

using Values = std::span<const View<const float, 2>>;
using Gradients = std::span<const View<float, 2>>;

// The spelling of an enum in JSON.
template <typename E>
struct Spelling {
  E value;
  const char* text;
};
template <typename E>
inline constexpr Spelling<E> spellings[1];  // each enum has its own, beside its Entry

// The tokens that an encoding is lowered for: of a Window, or of a batch (LayerTokens). What is
// not asked for is not computed.
class Call {
 public:
  explicit Call(const Window& window);
  // Borrows both. Empty keys: the queries. `turned_keys`: keys of earlier tokens are turned
  // already, so tables are wanted of the last tokens alone.
  enum class EarlierKeys { unturned = 1, turned };
  Call(std::span<const Positions> queries, std::span<const Positions> keys,
       EarlierKeys earlier);

  double softmax_scale = 0;  // with all factors; 0: not given
  // The schedule and the factor of a mixture of one scaled rotary at this length, where an
  // earlier call has made them.
  const RotarySchedule* known = nullptr;
  double known_factor = 1;
  std::int64_t length = 0;              // declared; 0: the spec's own
  std::optional<Distances> reach = {};  // wider distances than those of the tokens
  // Frames, height and width of the image that the tokens are; empty: not an image.
  std::span<const std::int64_t> image = {};
  const gnomon::Page* boxes = nullptr;  // of words on a page (LayoutLM)
  // Numbers of the tokens in a line, for tables and biases of an image whose rotation goes by
  // axes.
  const Positions* line = nullptr;
  // Of an image whose learned table is resized: the rule, and where each patch lies.
  const ImageTokens* resized = nullptr;
  std::int64_t cached = 0;  // tokens before the queries, where the keys are not given
  // Continuous coordinates of the queries [T, A] in place of positions; none: no data.
  View<const double, 2> coordinates = {};

  std::int64_t queries() const;  // B T
  const Positions& query_positions() const { return line ? *line : query_axes().front(); }
  const Positions& key_positions() const { return line ? *line : key_axes().front(); }
  std::span<const Positions> query_axes() const;
  std::span<const Positions> key_axes() const;
  // Of the keys that tables are wanted of.
  std::span<const Positions> turned_axes() const;
  bool same_tokens() const;  // those keys are the queries
  Distances distances() const;

 private:
  const Window* window_ = nullptr;
  std::span<const Positions> queries_ = {}, keys_ = {};
  EarlierKeys earlier_ = EarlierKeys::unturned;
  mutable std::optional<Positions> made_queries_ = {}, made_keys_ = {};
  mutable std::optional<Distances> distances_ = {};
};

// cos and sin of these positions; one axis serves all.
RotaryTable table_of(const RotarySchedule& schedule, std::span<const Positions> axes);
// The tables of a call's queries and keys: one, where these are the same tokens.
void put_rotation(const RotarySchedule& schedule, const Call& call, LayerPlan& lowered);
// Positions on the axes of a grid, of tokens that may be numbered cell by cell instead.
std::vector<Positions> cells_or_axes(std::span<const Positions> axes,
                                     std::span<const std::int64_t> grid);

constexpr double table_deviation = 0.02;  // GPT-2's initial deviation of its position table

// Defaults: no fields, no parameters, unlimited positions.
template <typename Spec>
struct EntryOf {
  static void fields(Spec&, auto&&) {}
  static std::vector<Parameter> parameters(const Spec&) { return {}; }
  static std::optional<std::int64_t> capacity(const Spec&) { return std::nullopt; }
  static void lower(const Spec&, const Call&, Values, LayerPlan&) {}
};
template <typename Spec>
struct Entry;

// A parameter matrix of one column, or any matrix with one index.
template <typename T>
View<T, 1> column(const View<T, 2>& matrix) {
  return {matrix.data(), {matrix.extent(0)}, {matrix.stride(0)}};
}

// The sides of a nearly square page that holds `length` tokens, row by row: how text is read
// where an encoding speaks of a plane.
struct Page {
  std::int64_t height, width;
};
inline Page page(std::int64_t length) {
  const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(length)));
  const std::int64_t width = root > 1 ? root : 1;
  return {(length + width - 1) / width, width};
}

}  // namespace gnomon::model
