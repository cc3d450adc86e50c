// Attention: the operator of opset 23, those of com.microsoft, or plain nodes for what neither
// expresses.
#include "gnomon/error.h"
#include "src/model/onnx/layer_graph.h"

namespace gnomon::model::internal {
Value LayerGraph::attention(const Heads& queries, const Heads& keys, const Heads& v) {
  const LayerPlan& p = plan();
  Heads q = queries, k = keys;
  if (!p.cosine.empty()) {  // lengths 1; queries also times a factor of the head
    for (Heads* one : {&q, &k}) {
      const WeightedNorm unit{.norm = {.kind = NormKind::l2}};
      normalise(*one, unit, unit);
    }
    const std::vector<float> factors(p.cosine.begin(), p.cosine.end());
    const Value apart = graph_.reshape(q.value, {0, 0, q.heads, q.head_dim});
    q.value = graph_.node("Mul", {apart, graph_.constant({q.heads, 1}, factors)});
    q.value = graph_.reshape(q.value, {0, 0, q.heads * q.head_dim});
  }
  if (!p.relative.shift.empty()) {
    const Value shift = trained_.value({q.heads * q.head_dim}, p.relative.shift,
                                       trained_.checked().relative.shift, "shift of queries");
    q.value = graph_.node("Add", {q.value, shift});
  }
  Value all = bias();
  if (const Value terms = relative_terms(q, k); !terms.empty())
    all = all.empty() ? terms : graph_.node("Add", {all, terms});
  const bool sinks = !p.softmax.sinks.empty() || group_.attention.sinks != Sinks::none;
  const bool plain = !p.relative.values.empty() || group_.attention.sinks == Sinks::per_query ||
                     (sinks && !is_microsoft());
  if (plain) return plain_attention(q, k, v, masked(all, Causality::in_mask));
  if (is_microsoft())
    if (const Value value = microsoft_attention(q, k, v, all); !value.empty()) return value;
  if (sinks) return plain_attention(q, k, v, masked(all, Causality::in_mask));
  std::vector<OnnxAttribute> attributes{
      {"scale", static_cast<float>(scale_of(p, q.head_dim))},
      {"q_num_heads", q.heads},
      {"kv_num_heads", k.heads},
      {"is_causal", std::int64_t{p.mask.visibility == Visibility::causal}}};
  if (p.softmax.cap) attributes.emplace_back("softcap", static_cast<float>(*p.softmax.cap));
  std::vector<Value> inputs{q.value, k.value, v.value};
  if (const Value mask = masked(all, Causality::by_operator); !mask.empty())
    inputs.push_back(mask);
  return graph_.node("Attention", inputs, attributes);
}

// MultiHeadAttention, or GroupQueryAttention for fewer key heads, caps and sinks of causal
// layers. Empty if neither expresses the layer.
Value LayerGraph::microsoft_attention(const Heads& q, const Heads& k, const Heads& v,
                                      const Value& bias) {
  const LayerPlan& p = plan();
  const bool causal = p.mask.visibility == Visibility::causal;
  const bool sinks = !p.softmax.sinks.empty();
  const OnnxAttribute scale{"scale", static_cast<float>(scale_of(p, q.head_dim))};
  if (q.heads == k.heads && !p.softmax.cap && !sinks)
    return graph_.node(
        "MultiHeadAttention",
        {q.value, k.value, v.value, "", "", masked(bias, Causality::by_operator)},
        {scale, {"num_heads", q.heads}, {"unidirectional", std::int64_t{causal}}},
        "com.microsoft");
  const bool chunked = !is_image() && group_.attention.chunk;
  if (!causal || q.head_dim != v.head_dim || q.head_dim % 8 != 0 || chunked) return {};
  std::vector<OnnxAttribute> attributes{
      scale, {"num_heads", q.heads}, {"kv_num_heads", k.heads}};
  if (p.softmax.cap) attributes.emplace_back("softcap", static_cast<float>(*p.softmax.cap));
  if (p.mask.left) attributes.emplace_back("local_window_size", *p.mask.left + 1);
  // int32: the keys of each row less one, and all keys.
  const auto to_int32 = [&](const Value& value) {
    return graph_.node("Cast", {value}, {{"to", 6}});
  };
  const Value tokens = graph_.extent(first_, 1);
  const Value last = graph_.node("Sub", {tokens, graph_.integer(1)});
  const Value lengths = to_int32(graph_.node("Expand", {last, graph_.extent(first_, 0)}));
  const Value total = to_int32(graph_.node("Squeeze", {tokens}));
  std::vector<Value> inputs{q.value, k.value, v.value, "", "",  lengths,
                            total,   "",      "",      "", bias};
  if (sinks)
    inputs.push_back(
        trained_.value({q.heads}, p.softmax.sinks, trained_.checked().softmax.sinks, "sinks"));
  while (inputs.back().empty()) inputs.pop_back();
  return graph_.nodes("GroupQueryAttention", inputs, 3, attributes, "com.microsoft").front();
}

Value LayerGraph::plain_attention(const Heads& q, const Heads& k, const Heads& v,
                                  const Value& bias) {
  const LayerPlan& p = plan();
  const std::int64_t groups = q.heads / k.heads;
  const Value queries = graph_.split_heads(q.value, q.heads, q.head_dim);
  // Keys and values of a group of query heads are repeated by broadcasting.
  const auto shared = [&](const Heads& x) {
    const Value heads = graph_.split_heads(x.value, x.heads, x.head_dim);
    if (groups == 1) return heads;
    const Value shape = graph_.node("Concat",
                                    {graph_.extent(first_, 0), graph_.list({x.heads, groups}),
                                     graph_.extent(first_, 1), graph_.list({x.head_dim})},
                                    {{"axis", 0}});
    const Value repeated = graph_.node("Expand", {graph_.unsqueeze(heads, {2}), shape});
    return graph_.reshape(repeated, {0, q.heads, -1, x.head_dim});
  };
  Value scores = graph_.node("MatMul", {queries, graph_.transpose(shared(k), {0, 1, 3, 2})});
  scores = graph_.node("Mul", {scores, graph_.number(scale_of(p, q.head_dim))});
  if (p.softmax.cap) {
    const Value cap = graph_.number(*p.softmax.cap);
    scores =
        graph_.node("Mul", {graph_.node("Tanh", {graph_.node("Div", {scores, cap})}), cap});
  }
  if (!bias.empty()) scores = graph_.node("Add", {scores, bias});
  Value sinks;
  if (group_.attention.sinks == Sinks::per_query)
    sinks = graph_.unsqueeze(graph_.input("sinks", OnnxType::float32,
                                          {"batch", std::to_string(group_.heads), extent_}),
                             {3});
  else if (!p.softmax.sinks.empty())
    sinks = trained_.value({1, q.heads, 1, 1}, p.softmax.sinks,
                           trained_.checked().softmax.sinks, "sinks");
  Value weights;
  if (sinks.empty()) {
    weights = graph_.node("Softmax", {scores}, {{"axis", -1}});
  } else {  // one more column, whose value is zero
    const Value tokens = graph_.extent(first_, 1);
    const Value shape = graph_.node(
        "Concat", {graph_.extent(first_, 0), graph_.list({q.heads}), tokens, graph_.list({1})},
        {{"axis", 0}});
    const Value column = graph_.node("Expand", {sinks, shape});
    weights = graph_.node("Concat", {scores, column}, {{"axis", 3}});
    weights = graph_.node("Softmax", {weights}, {{"axis", -1}});
    weights = graph_.node("Slice", {weights, graph_.list({0}), tokens, graph_.list({3})});
  }
  Value out = graph_.node("MatMul", {weights, shared(v)});
  for (std::size_t i = 0; i < p.relative.values.size(); ++i) {
    const RelativeVectors& table = p.relative.values[i];
    if (table.heads != 1)
      refuse("onnx", "relative values must be shared by all heads", table.heads);
    const Value vectors =
        trained_.value({table.vectors(), table.head_dim}, table.values,
                       trained_.checked().relative.values[i].values, "relative vectors");
    const Value rows = graph_.gather(vectors, distance_rows(table));  // [B or 1, T, T, Dv]
    const Value by_query = graph_.transpose(weights, {0, 2, 1, 3});
    const Value sums = graph_.node("MatMul", {by_query, rows});  // [B, T, H, Dv]
    out = graph_.node("Add", {out, graph_.transpose(sums, {0, 2, 1, 3})});
  }
  return graph_.join_heads(out, q.heads, v.head_dim);
}

}  // namespace gnomon::model::internal
