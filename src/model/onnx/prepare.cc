// The steps before attention: tables of the embeddings, norms, scales of queries.
#include <cmath>

#include "gnomon/error.h"
#include "src/model/onnx/layer_graph.h"

namespace gnomon::model::internal {

void LayerGraph::put_hidden() {
  const LayerPlan& p = plan();
  if (p.table) {
    const std::int64_t width = p.table->width;
    Value table = trained_.table([this](auto values) { return lowered(values); });
    const Value hidden =
        graph_.input("hidden", OnnxType::float32, {"batch", extent_, std::to_string(width)});
    if (!is_image()) table = graph_.gather(table, positions());
    graph_.output("hidden_out", graph_.node("Add", {hidden, table}),
                  {"batch", extent_, std::to_string(width)});
  }
  if (p.hidden_rotary) {
    Heads hidden{"", group_.heads, group_.head_dim, "hidden"};
    const std::vector<std::string> shape{"batch", extent_,
                                         std::to_string(group_.heads * group_.head_dim)};
    hidden.value = graph_.input("hidden", OnnxType::float32, shape);
    rotate(hidden, *p.hidden_rotary);
    graph_.output("hidden_out", hidden.value, shape);
  }
}

void LayerGraph::normalise(Heads& x, const std::optional<WeightedNorm>& index,
                           const std::optional<WeightedNorm>& check) {
  if (!index) return;
  const auto& [norm, heads, head_dim, weight, bias] = *index;
  const bool by_head = norm.scope == NormScope::head;
  // The normalised elements are the last axis.
  Value y = by_head ? graph_.reshape(x.value, {0, 0, x.heads, x.head_dim}) : x.value;
  const auto weights = [&](const std::vector<float>& of, const std::vector<float>& other,
                           const char* what) {
    const std::vector<std::int64_t> shape =
        !by_head     ? std::vector<std::int64_t>{x.heads * x.head_dim}
        : heads == 1 ? std::vector<std::int64_t>{head_dim}
                     : std::vector<std::int64_t>{heads, head_dim};
    return trained_.value(shape, of, other, x.name + what);
  };
  Value factor;
  if (!weight.empty()) factor = weights(weight, check->weight, "_norm.weight");
  if (norm.weight_offset != 0 && !factor.empty())
    factor = graph_.node("Add", {factor, graph_.number(norm.weight_offset)});
  const auto multiplied = [&](const Value& by) {
    return by.empty() ? y : graph_.node("Mul", {y, by});
  };
  const auto mean = [&](const Value& of) {
    return graph_.node("ReduceMean", {of, graph_.list({-1})});
  };
  const auto square = [&](const Value& of) { return graph_.node("Mul", {of, of}); };
  const auto length = [&](const Value& of) {
    return graph_.node("ReduceL2", {of, graph_.list({-1})});
  };
  const Value epsilon = graph_.number(norm.epsilon);
  switch (norm.kind) {
    case NormKind::layer:
      y = graph_.node("Sub", {y, mean(y)});
      [[fallthrough]];
    case NormKind::rms:
      y = graph_.node(
          "Div", {y, graph_.node("Sqrt", {graph_.node("Add", {mean(square(y)), epsilon})})});
      y = multiplied(factor);
      break;
    case NormKind::l2:
      y = graph_.node("Div", {y, graph_.node("Max", {length(y), epsilon})});
      y = multiplied(factor);
      break;
    case NormKind::clip: {
      y = multiplied(factor);
      const Value divisor = graph_.node("Add", {length(y), epsilon});
      const Value ratio = graph_.node("Div", {graph_.number(norm.limit), divisor});
      y = multiplied(graph_.node("Min", {ratio, graph_.number(1)}));
      break;
    }
  }
  if (!bias.empty()) y = graph_.node("Add", {y, weights(bias, check->bias, "_norm.bias")});
  x.value = by_head ? graph_.reshape(y, {0, 0, x.heads * x.head_dim}) : y;
}

void LayerGraph::scale_queries(Heads& q) {
  if (!plan().query_scale) return;
  const QueryTemperature& scale = *plan().query_scale;
  const bool by_row = group_.attention.query_scale_index == ScaleIndex::row;
  const Value at = by_row ? row_numbers() : positions();
  const Value heads = graph_.reshape(q.value, {0, 0, q.heads, q.head_dim});
  Value factor;
  if (scale.form == TemperatureForm::head_log) {  // slope_h ln(n) + offset_h
    const QueryTemperature& other = *trained_.checked().query_scale;
    const Value n = graph_.node("Add", {at, graph_.integer(scale.shift)});
    const Value log = graph_.unsqueeze(graph_.node("Log", {graph_.to_float(n)}), {2});
    const Value slopes = trained_.value({q.heads}, scale.slopes, other.slopes, "scales");
    const Value offsets = trained_.value({q.heads}, scale.offsets, other.offsets, "scales");
    factor = graph_.node("Add", {graph_.node("Mul", {log, slopes}), offsets});
    factor = graph_.unsqueeze(factor, {3});
  } else {
    std::vector<float> table;
    for (std::int64_t row = 0; row < rows_; ++row)
      table.push_back(static_cast<float>(query_scale(scale, row)));
    factor = graph_.unsqueeze(graph_.gather(graph_.constant({rows_}, table), at), {2, 3});
  }
  q.value = graph_.reshape(graph_.node("Mul", {heads, factor}), {0, 0, q.heads * q.head_dim});
}

}  // namespace gnomon::model::internal
