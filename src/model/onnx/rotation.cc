// Rotations of queries and keys: RotaryEmbedding with tables of cos and sin.
#include <algorithm>
#include <numeric>

#include "gnomon/error.h"
#include "src/model/onnx/layer_graph.h"

namespace gnomon::model::internal {

std::pair<Value, Value> LayerGraph::cache(const RotaryTable& table) {
  const std::vector<float> cos(table.cos().data(), table.cos().data() + table.cos().size()),
      sin(table.sin().data(), table.sin().data() + table.sin().size());
  auto known = std::find_if(caches_.begin(), caches_.end(),
                            [&](const Cache& one) { return one.cos == cos && one.sin == sin; });
  if (known == caches_.end()) {
    const std::vector<std::int64_t> shape{table.tokens(), table.cos().extent(2)};
    caches_.push_back({cos, sin, graph_.constant(shape, cos), graph_.constant(shape, sin)});
    known = std::prev(caches_.end());
  }
  return {known->cos_value, known->sin_value};
}

void LayerGraph::rotate(Heads& x, const std::vector<HeadRotation>& rotations) {
  for (const HeadRotation& one : rotations) {
    if (std::holds_alternative<HeadAngles>(one))
      refuse("onnx", "the layer must have no frequencies of heads", names(group_.position));
    if (const auto* table = std::get_if<RotaryTable>(&one))
      rotate(x, *table);
    else
      rotate(x, std::get<Vjepa2Table>(one));
  }
}

// Tables of several axes: pair i takes the row of the position on its axis. [B, T, R/2]
std::pair<Value, Value> LayerGraph::axis_tables(const RotaryTable& table) {
  auto [cos, sin] = cache(table);
  const std::vector<std::int32_t>& axes = table.frequencies().axes;
  std::pair<Value, Value> sums;
  for (std::int64_t axis = 0; axis < axes_; ++axis) {
    std::vector<float> chosen;
    for (const std::int32_t one : axes) chosen.push_back(one == axis ? 1.0f : 0.0f);
    if (std::count(chosen.begin(), chosen.end(), 1.0f) == 0) continue;
    const Value mask = graph_.constant({std::ssize(chosen)}, chosen);
    const auto add = [&](Value& sum, const Value& all) {
      const Value part = graph_.node("Mul", {graph_.gather(all, positions(axis)), mask});
      sum = sum.empty() ? part : graph_.node("Add", {sum, part});
    };
    add(sums.first, cos);
    add(sums.second, sin);
  }
  return sums;
}

void LayerGraph::rotate(Heads& x, const RotaryTable& table) {
  const RotaryFrequencies& frequencies = table.frequencies();
  const std::int64_t size = frequencies.rotary_dim(), offset = frequencies.head_offset,
                     rest = x.head_dim - offset - size;
  const bool by_axes = !is_image() && axes_ > 1 && !frequencies.axes.empty();
  auto [cos, sin] = by_axes ? axis_tables(table) : cache(table);
  Value ids = by_axes ? Value{} : position_ids();
  if (by_axes && is_microsoft()) {  // which has no tables for each token: their rows in order
    const Value count = graph_.node("Shape", {cos}, {{"start", 0}, {"end", 2}});
    const Value rows = graph_.node("ReduceProd", {count}, {{"keepdims", 0}});
    ids = graph_.node("Range", {graph_.integer(0), rows, graph_.integer(1)});
    ids = graph_.node("Reshape", {ids, count});
    cos = graph_.reshape(cos, {-1, size / 2});
    sin = graph_.reshape(sin, {-1, size / 2});
  }
  // Elements before those that rotate are split off. Those after them need not be.
  Value value = x.value, before;
  std::int64_t width = x.head_dim;
  if (offset > 0) {
    const Value apart = graph_.reshape(value, {0, 0, x.heads, x.head_dim});
    const auto parts =
        graph_.nodes("Split", {apart, graph_.list({offset, size + rest})}, 2, {{"axis", 3}});
    before = parts[0];
    width = size + rest;
    value = graph_.reshape(parts[1], {0, 0, x.heads * width});
  }
  std::vector<OnnxAttribute> attributes{
      {"interleaved", std::int64_t{frequencies.pairing == Pairing::adjacent}},
      {"num_heads", x.heads}};
  if (size < width) attributes.emplace_back("rotary_embedding_dim", size);
  if (is_microsoft()) {
    value = graph_.node("RotaryEmbedding", {value, ids, cos, sin}, attributes, "com.microsoft");
  } else {
    std::vector<Value> inputs{value, cos, sin};
    if (!ids.empty()) inputs.push_back(ids);
    value = graph_.node("RotaryEmbedding", inputs, attributes);
  }
  if (offset > 0) {
    value = graph_.node("Concat", {before, graph_.reshape(value, {0, 0, x.heads, width})},
                        {{"axis", 3}});
    value = graph_.reshape(value, {0, 0, x.heads * x.head_dim});
  }
  x.value = value;
}

// a' = a cos u - b sin u, b' = b cos v + a sin v for adjacent elements a, b: a product with the
// cos of each element, and one of the exchanged elements with the signed sin.
void LayerGraph::rotate(Heads& x, const Vjepa2Table& table) {
  const std::int64_t size = x.head_dim, rotated = table.cos().extent(2);
  std::vector<float> cos, sin;
  for (std::int64_t t = 0; t < table.tokens(); ++t)
    for (std::int64_t e = 0; e < size; ++e) {
      cos.push_back(e < rotated ? table.cos()(0, t, e) : 1.0f);
      sin.push_back(e >= rotated ? 0.0f : (e % 2 ? 1.0f : -1.0f) * table.sin()(0, t, e));
    }
  std::vector<std::int64_t> exchanged(static_cast<std::size_t>(size));
  for (std::int64_t e = 0; e < size; ++e)
    exchanged[static_cast<std::size_t>(e)] = e < rotated ? (e ^ 1) : e;
  const Value heads = graph_.reshape(x.value, {0, 0, x.heads, size});
  const std::vector<std::int64_t> shape{table.tokens(), 1, size};
  const Value other = graph_.gather(heads, graph_.list(exchanged), 3);
  const Value sum =
      graph_.node("Add", {graph_.node("Mul", {heads, graph_.constant(shape, cos)}),
                          graph_.node("Mul", {other, graph_.constant(shape, sin)})});
  x.value = graph_.reshape(sum, {0, 0, x.heads * size});
}

}  // namespace gnomon::model::internal
