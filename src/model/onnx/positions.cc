// Positions and rows of tokens as values of the graph.
#include "src/model/onnx/layer_graph.h"

namespace gnomon::model::internal {

Value LayerGraph::row_numbers() {
  if (row_numbers_.empty()) row_numbers_ = graph_.unsqueeze(graph_.range(first_, 1), {0});
  return row_numbers_;
}

Value LayerGraph::positions(std::int64_t axis) {
  if (is_image()) return row_numbers();
  if (positions_.empty()) {
    std::vector<std::string> shape{"batch", "tokens"};
    if (axes_ > 1) shape.insert(shape.begin(), std::to_string(axes_));
    positions_ = graph_.input("positions", OnnxType::int64, shape);
  }
  return axes_ == 1 ? positions_ : graph_.gather(positions_, graph_.integer(axis));
}

Value LayerGraph::position_ids() {
  if (!ids_.empty()) return ids_;
  ids_ = positions();
  if (!is_image()) return ids_;
  const Value shape = graph_.node("Shape", {first_}, {{"start", 0}, {"end", 2}});
  return ids_ = graph_.node("Expand", {ids_, shape});
}

// [.., T] to [.., T, T]: value of the key - value of the query.
Value LayerGraph::differences(const Value& of) {
  return graph_.node("Sub", {graph_.unsqueeze(of, {1}), graph_.unsqueeze(of, {2})});
}

Value LayerGraph::distances() {
  if (distances_.empty()) distances_ = differences(positions());
  return distances_;
}

}  // namespace gnomon::model::internal
