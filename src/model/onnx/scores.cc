// Biases, relative vectors and masks, added to the scores: [B or 1, H or 1, T, T].
#include <algorithm>
#include <limits>

#include "gnomon/error.h"
#include "src/model/onnx/layer_graph.h"

namespace gnomon::model::internal {
namespace {

// The coordinates of a form whose positions are numbers of tokens of an image.
std::int64_t token_count(const BiasForm& form) {
  if (const auto* grid = std::get_if<GridBias>(&form)) return grid->positions();
  for (const AxisStrip& one : std::get<AxesBias>(form).axes)
    if (!one.coordinates.empty()) return std::ssize(one.coordinates);
  return 0;
}

std::vector<double> matrix_of(const BiasForm& form, std::int64_t tokens) {
  const std::int64_t all = heads(form);
  std::vector<double> values(static_cast<std::size_t>(all * tokens * tokens));
  dense(form, 0, Tensor(View<double, 3>(values.data(), {all, tokens, tokens})));
  return values;
}

}  // namespace

Value LayerGraph::strip(const std::vector<double>& index, const std::vector<double>& check,
                        std::int64_t heads, std::int64_t min_distance) {
  const std::int64_t count = std::ssize(index) / heads;
  const Value values = trained_.value({heads, count}, index, check, "bias by distance");
  const Value column = graph_.node("Sub", {distances(), graph_.integer(min_distance)});
  return graph_.transpose(graph_.gather(values, column, 1), {1, 0, 2, 3});
}

Value LayerGraph::form_bias() {
  const BiasForm &index = plan().bias, &check = trained_.checked().bias;
  if (const auto* slope = std::get_if<SlopeBias>(&index)) {
    std::vector<double> slopes, others;
    for (const double one : slope->slopes) slopes.push_back(-one);
    for (const double one : std::get<SlopeBias>(check).slopes) others.push_back(-one);
    const Value factors =
        trained_.value({std::ssize(slopes), 1, 1}, slopes, others, "slopes of a bias");
    const Value length = graph_.to_float(graph_.node("Abs", {distances()}));
    return graph_.node("Mul", {graph_.unsqueeze(length, {1}), factors});
  }
  if (const auto* by_distance = std::get_if<StripBias>(&index)) {
    return strip(by_distance->values, std::get<StripBias>(check).values, by_distance->heads,
                 by_distance->min_distance);
  }
  if (std::holds_alternative<NoBias>(index)) return {};
  if (const auto* matrix = std::get_if<DenseBias>(&index)) {
    const auto values = matrix->values;
    if (values.stride(2) != 0)
      refuse("onnx", "a bias matrix must depend on the key only", "one of queries too");
    std::vector<double> rows;  // [H, rows], by the position of the key
    for (std::int64_t h = 0; h < values.extent(1); ++h)
      for (std::int64_t j = 0; j < values.extent(3); ++j) rows.push_back(values(0, h, 0, j));
    const Value table =
        trained_.value({values.extent(1), values.extent(3)}, rows, rows, "a bias by key");
    const Value chosen = graph_.gather(table, positions(), 1);  // [H, B, T]
    const Value shape =
        graph_.node("Concat", {graph_.list({1, 1}), graph_.extent(first_, 1), graph_.list({1})},
                    {{"axis", 0}});
    const Value row = graph_.unsqueeze(graph_.transpose(chosen, {1, 0, 2}), {2});
    return graph_.node("Expand", {row, shape});  // operators require all T rows
  }
  const std::int64_t tokens = token_count(index);
  if (is_image() && std::to_string(tokens) != extent_)
    refuse("onnx", "the image must have the tokens of the bias, " + std::to_string(tokens),
           extent_);
  return trained_.value({1, heads(index), tokens, tokens}, matrix_of(index, tokens),
                        matrix_of(check, tokens), "a bias by cells");
}

// Columns of the table for each query and key: [B or 1, T, T].
Value LayerGraph::distance_rows(const RelativeVectors& table) {
  Value distance;
  if (table.coordinates.empty()) {
    distance = distances();
  } else {
    const Value rows = row_numbers();
    distance = differences(graph_.gather(graph_.list(table.coordinates), rows));
  }
  const Value column = graph_.node("Sub", {distance, graph_.integer(table.min_distance)});
  return graph_.gather(graph_.list({table.rows.begin(), table.rows.end()}), column);
}

// x . vectors[h, row]: [B, H, T, T], rows [B or 1, T, T] by the row of x first.
Value LayerGraph::products(const Heads& x, const RelativeVectors& index,
                           const RelativeVectors& check, const Value& rows) {
  const Value values =
      trained_.value({index.heads, index.vectors(), index.head_dim}, index.values, check.values,
                     "relative vectors", 1 / scale_of(plan(), group_.head_dim));
  const Value all = graph_.node("MatMul", {graph_.split_heads(x.value, x.heads, x.head_dim),
                                           graph_.transpose(values, {0, 2, 1})});
  const Value batch = graph_.extent(first_, 0), tokens = graph_.extent(first_, 1);
  const Value shape =
      graph_.node("Concat", {batch, graph_.list({x.heads}), tokens, tokens}, {{"axis", 0}});
  const Value chosen = graph_.node("Expand", {graph_.unsqueeze(rows, {1}), shape});
  return graph_.node("GatherElements", {all, chosen}, {{"axis", 3}});
}

Value LayerGraph::relative_terms(const Heads& q, const Heads& k) {
  const RelativeForm &form = plan().relative, &check = trained_.checked().relative;
  if ((!form.keys.empty() || !form.queries.empty()) && q.heads != k.heads)
    refuse("onnx", "relative vectors require a key head for each query head", k.heads);
  Value sum;
  const auto add = [&](const Value& part) {
    sum = sum.empty() ? part : graph_.node("Add", {sum, part});
  };
  for (std::size_t i = 0; i < form.keys.size(); ++i)
    add(products(q, form.keys[i], check.keys[i], distance_rows(form.keys[i])));
  for (std::size_t i = 0; i < form.queries.size(); ++i) {
    const Value rows = graph_.transpose(distance_rows(form.queries[i]), {0, 2, 1});
    add(graph_.transpose(products(k, form.queries[i], check.queries[i], rows), {0, 1, 3, 2}));
  }
  if (sum.empty()) return sum;
  return graph_.node("Mul", {sum, graph_.number(scale_of(plan(), group_.head_dim))});
}

Value LayerGraph::bias() {
  Value sum = form_bias();
  if (!plan().gated || sum.empty()) return sum;
  const Value gates = graph_.input("gates", OnnxType::float32,
                                   {"batch", std::to_string(group_.heads), extent_});
  return graph_.node("Mul", {sum, graph_.unsqueeze(gates, {3})});
}

Value LayerGraph::masked(const Value& bias, Causality causality) {
  const AttentionMask& mask = plan().mask;
  const bool causal = mask.visibility == Visibility::causal;
  const auto chunk = is_image() ? std::nullopt : group_.attention.chunk;
  Value seen;
  const auto require = [&](const Value& condition) {
    seen = seen.empty() ? condition : graph_.node("And", {seen, condition});
  };
  if (causality == Causality::in_mask || mask.left || mask.right) {
    const Value rows = differences(row_numbers());
    if (causal && causality == Causality::in_mask)
      require(graph_.node("LessOrEqual", {rows, graph_.integer(0)}));
    if (mask.left) require(graph_.node("GreaterOrEqual", {rows, graph_.integer(-*mask.left)}));
    if (mask.right && !causal)
      require(graph_.node("LessOrEqual", {rows, graph_.integer(*mask.right)}));
  }
  if (chunk) {
    const Value number = graph_.node("Div", {positions(), graph_.integer(*chunk)});
    require(graph_.node("Equal", {differences(number), graph_.integer(0)}));
  }
  if (seen.empty()) return bias;
  return graph_.node("Where",
                     {graph_.unsqueeze(seen, {1}), bias.empty() ? graph_.number(0) : bias,
                      graph_.number(-std::numeric_limits<double>::infinity())});
}

}  // namespace gnomon::model::internal
