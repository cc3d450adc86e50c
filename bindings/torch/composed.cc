// Attention with position in LibTorch's operators.
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <variant>

#include "bindings/torch/forms.h"
#include "bindings/torch/setting.h"
#include "gnomon/attention/cosine.h"

namespace gnomon::libtorch {
namespace {

at::Tensor heads_first(const at::Tensor& x) { return x.transpose(1, 2); }

// Keys or values [B, Hk, S, D] as [B, H, S, D]: each head for the query heads that share it.
// The gradient is a sum over an axis, while that of repeat_interleave adds rows by index.
at::Tensor for_query_heads(const at::Tensor& x, std::int64_t group) {
  if (group == 1) return x;
  return x.unsqueeze(2).expand({-1, -1, group, -1, -1}).flatten(1, 2);
}

// x: [B, T, H, D].
at::Tensor normalised(const at::Tensor& x) {
  return x / x.norm(2, -1, /*keepdim=*/true).clamp_min(least_norm);
}

// Positions of tokens, and which of them are padding: [B or 1, T].
struct Tokens {
  at::Tensor ids, sequences, padding;
};
Tokens tokens_of(const Positions& positions, const at::Tensor& like) {
  const std::vector<std::int64_t> sequences(positions.sequences.begin(),
                                            positions.sequences.end());
  const auto tensor = [&](const std::vector<std::int64_t>& numbers) {
    return at::tensor(numbers, at::kLong)
        .view({positions.batch, positions.tokens})
        .to(like.device());
  };
  // The id of padding may be outside a table, so it is replaced by the id of another token.
  std::int64_t other = 0;
  for (std::size_t i = 0; i < positions.ids.size(); ++i)
    if (positions.sequences[i] != Positions::padding) other = positions.ids[i];
  Tokens tokens{tensor(positions.ids), tensor(sequences), {}};
  tokens.padding = tokens.sequences == Positions::padding;
  tokens.ids = tokens.ids.masked_fill(tokens.padding, other);
  return tokens;
}

// The keys that a query does not see, by rows and by sequences: [B or 1, 1, T, S].
at::Tensor hidden_from(const Setting& setting, const LayerPlan& plan, const Tokens& queries,
                       const Tokens& keys) {
  const model::Window& window = setting.window;
  const auto whole = queries.ids.options();
  const at::Tensor distance =
      at::arange(window.keys, whole) -
      (at::arange(window.queries, whole) + window.offset()).unsqueeze(1);
  at::Tensor hidden = queries.sequences.unsqueeze(2) != keys.sequences.unsqueeze(1);
  hidden = hidden | queries.padding.unsqueeze(2) | keys.padding.unsqueeze(1);
  if (setting.visibility == Visibility::causal) hidden = hidden | (distance > 0);
  if (setting.left) hidden = hidden | (distance < -*setting.left);
  if (setting.right) hidden = hidden | (distance > *setting.right);
  if (plan.stick_breaking && plan.stick_breaking->own_key == OwnKey::excluded)
    hidden = hidden | (distance == 0);
  return hidden.unsqueeze(1);
}

// Sets padding to zero, so that a NaN in it reaches no result. x: [B, T, H, D].
at::Tensor without_padding(const at::Tensor& x, const Tokens& tokens,
                           const std::optional<model::BatchPositions>& batch) {
  return batch ? x.masked_fill(tokens.padding.unsqueeze(-1).unsqueeze(-1), 0) : x;
}

// The values of a DenseBias: [B or 1, H, T, S].
at::Tensor dense_of(const DenseBias& bias, const at::Tensor& like) {
  const auto& values = bias.values;
  const auto sizes = values.extents(), strides = values.strides();
  return at::from_blob(const_cast<float*>(values.data()),
                       {sizes[0], sizes[1], sizes[2], sizes[3]},
                       {strides[0], strides[1], strides[2], strides[3]}, at::kFloat)
      .to(like.options(), /*non_blocking=*/false, /*copy=*/true);
}

void check_adjacent_sequences(const model::Window& window) {
  if (!window.batch) return;
  const Positions& keys = window.batch->keys;
  for (std::int64_t b = 0; b < keys.batch; ++b) {
    std::set<std::int32_t> ended;
    for (std::int64_t t = 1; t < keys.tokens; ++t) {
      const auto at = static_cast<std::size_t>(b * keys.tokens + t);
      if (keys.sequences[at] == keys.sequences[at - 1]) continue;
      ended.insert(keys.sequences[at - 1]);
      if (ended.contains(keys.sequences[at]))
        refuse("attend",
               "LibTorch's operators require that the rows of a sequence are adjacent",
               keys.sequences[at]);
    }
  }
}

// The differences of cumulative log gates [B, H, S]: [B, H, T, S].
at::Tensor cumulative_bias(const at::Tensor& log_gates, const model::Window& window) {
  check_adjacent_sequences(window);
  // A gate of -32768 hides all earlier keys; -infinity would give NaN.
  const at::Tensor sums = at::cumsum(log_gates.clamp_min(-32768), -1);
  return sums.narrow(-1, window.offset(), window.queries).unsqueeze(-1) - sums.unsqueeze(-2);
}

// The sums of x over the keys from each key on.
at::Tensor sums_from_right(const at::Tensor& x) { return x.flip({-1}).cumsum(-1).flip({-1}); }

// The terms of contextual positions. scores: [B, H, T, S], -infinity if hidden; products of the
// queries with the vectors: [B, H, T, P].
at::Tensor contextual_terms(const at::Tensor& scores, const at::Tensor& products) {
  const at::Tensor positions =
      sums_from_right(at::sigmoid(scores)).clamp_max(products.size(-1) - 1);
  const at::Tensor floor = positions.detach().floor(), ceil = positions.detach().ceil();
  const at::Tensor low = at::gather(products, -1, floor.to(at::kLong));
  const at::Tensor high = at::gather(products, -1, ceil.to(at::kLong));
  return low + (positions - floor) * (high - low);
}

// The weights of stick-breaking. With u = ln(1 - sigmoid(z)), a weight is exp(z + the sum of u
// over the keys from its key on).
at::Tensor stick_weights(const at::Tensor& scores, const at::Tensor& hidden) {
  const at::Tensor visible = scores.masked_fill(hidden, 0);
  const at::Tensor rests = at::log_sigmoid(-visible).masked_fill(hidden, 0);
  return at::exp(visible + sums_from_right(rests)).masked_fill(hidden, 0);
}

// Rotates x [B, T, H, D] by angles [B, T, Ha, R/2], whose cos and sin are rounded to a type.
at::Tensor rotated_by(const at::Tensor& angles, at::ScalarType rounded,
                      const TokenRotation& rotation, const at::Tensor& x) {
  const std::int64_t size = rotation.rotary_dim, pairs = size / 2, end = x.size(3);
  const at::Tensor each = at::repeat_interleave(angles, x.size(2) / angles.size(2), 2);
  const at::Tensor cos = each.cos().to(rounded).to(x.scalar_type());
  const at::Tensor sin = each.sin().to(rounded).to(x.scalar_type());
  const at::Tensor part = x.narrow(3, rotation.head_offset, size);
  const bool halves = rotation.pairing == Pairing::halves;
  const at::Tensor a = halves ? part.narrow(3, 0, pairs) : part.slice(3, 0, size, 2);
  const at::Tensor b = halves ? part.narrow(3, pairs, pairs) : part.slice(3, 1, size, 2);
  const std::vector<at::Tensor> turned = {a * cos - b * sin, a * sin + b * cos};
  return at::cat({x.narrow(3, 0, rotation.head_offset),
                  halves ? at::cat(turned, 3) : at::stack(turned, 4).flatten(3),
                  x.slice(3, rotation.head_offset + size, end)},
                 3);
}

// Rotates x [B, T, H, D] by frequencies of heads. trained: the frequencies [H A R/2], or not
// defined: those of `angles`.
at::Tensor rotated_by_heads(const HeadAngles& angles, const at::Tensor& trained,
                            const at::Tensor& x) {
  const HeadFrequencies& f = angles.frequencies();
  const auto on_device = x.options().dtype(at::kDouble);
  const at::Tensor rates = (trained.defined() ? trained : at::tensor(f.inv_freq, at::kDouble))
                               .to(on_device)
                               .view({f.heads, f.axes, f.rotary_dim() / 2});
  at::Tensor all = f.phases.empty()
                       ? at::zeros({1, 1}, on_device)
                       : at::tensor(f.phases, at::kDouble).to(on_device).unsqueeze(1);
  for (std::int64_t a = 0; a < f.axes; ++a) {
    const std::vector<std::int64_t>& ids = angles.axes()[static_cast<std::size_t>(a)].ids;
    const at::Tensor positions =
        at::tensor(ids, at::kLong).to(on_device).view({angles.batch(), angles.tokens(), 1, 1});
    all = all + positions * rates.select(1, a);
  }
  return rotated_by(
      all, x.scalar_type(),
      {.rotary_dim = f.rotary_dim(), .pairing = f.pairing, .head_offset = f.head_offset}, x);
}

// Sums of edges [B, H, T, S]: of the keys after each key, up to the query. queries, keys: terms
// [B, T, H, P] and [B, S, H, P].
at::Tensor edge_sums(const LayerPlan& plan, const at::Tensor& queries, at::Tensor keys,
                     const at::Tensor& key_ids, const at::Tensor& hidden) {
  if (const auto& table = plan.edge_rotary) {
    const RotaryFrequencies& frequencies = table->frequencies();
    const at::Tensor angles = key_ids.to(at::kDouble).unsqueeze(-1) *
                              -at::tensor(frequencies.inv_freq, at::kDouble).to(keys.device());
    keys = rotated_by(angles.unsqueeze(2).expand({keys.size(0), -1, -1, -1}), at::kFloat,
                      {.rotary_dim = frequencies.rotary_dim(), .pairing = frequencies.pairing},
                      keys);
  }
  const at::Tensor edges =
      at::log_sigmoid(at::matmul(heads_first(queries), heads_first(keys).transpose(-1, -2)))
          .masked_fill(hidden, 0);
  const at::Tensor slopes =
      at::tensor(plan.edges->slopes, at::kDouble).to(edges.options()).view({-1, 1, 1});
  return slopes * (sums_from_right(edges) - edges);
}

// Queries and keys in polar form [B, T, H, 2 D]. phases: [H, D], or not defined for keys.
at::Tensor to_polar(const at::Tensor& x, const at::Tensor& phases) {
  const at::Tensor magnitudes = at::softplus(x);
  if (!phases.defined()) return at::cat({magnitudes, at::zeros_like(magnitudes)}, 3);
  return at::cat({magnitudes * phases.cos(), -magnitudes * phases.sin()}, 3);
}

// The products [B, H, T, S] of queries [B, H, T, D] and keys [B, H, S, D] whose channels decay
// by gates [B, S, H, D]. Takes memory for all pairs and channels.
at::Tensor gated_products(const at::Tensor& queries, const at::Tensor& keys,
                          const at::Tensor& gates, const model::Window& window) {
  check_adjacent_sequences(window);
  const at::Tensor sums = heads_first(at::cumsum(gates.clamp_min(-32768), 1));
  const at::Tensor own = sums.narrow(2, window.offset(), window.queries);
  // Keys after the query are hidden: their decays would overflow.
  const at::Tensor decays = (own.unsqueeze(3) - sums.unsqueeze(2)).clamp_max(0).exp();
  return (queries.unsqueeze(3) * keys.unsqueeze(2) * decays).sum(-1);
}

// The products [B, H, T, S] of queries [B, H, T, D] and keys [B, H, S, D] through Householder
// factors w [B, H, S, D], betas [B, H, S]: one key after another, from the last.
at::Tensor householder_products(at::Tensor queries, const at::Tensor& keys, const at::Tensor& w,
                                const at::Tensor& betas, const model::Window& window) {
  check_adjacent_sequences(window);
  const at::Tensor rows = at::arange(window.queries).view({-1, 1}) + window.offset();
  std::vector<at::Tensor> columns(static_cast<std::size_t>(window.keys));
  for (std::int64_t j = window.keys - 1; j >= 0; --j) {
    columns[static_cast<std::size_t>(j)] = (queries * keys.narrow(2, j, 1)).sum(-1);
    const at::Tensor direction = w.narrow(2, j, 1);
    const at::Tensor along =
        (queries * direction).sum(-1, true) * betas.narrow(2, j, 1).unsqueeze(-1);
    queries = queries - along * direction * (rows >= j).to(queries.options());
  }
  return at::stack(columns, -1);
}

}  // namespace

at::Tensor attend_by_operators(const Setting& setting,
                               const std::vector<at::Tensor>& parameters, const Inputs& in,
                               at::TensorList terms) {
  const model::Window& window = setting.window;
  const LoweredTensors numbers =
      lowered_tensors({setting.mixture, parameters, setting.plan}, window);
  const LayerPlan& lowered = *numbers.plan;
  const RelativeForm& relative = lowered.relative;
  const Tokens query_tokens = tokens_of(window.query_positions(), in.q),
               key_tokens = tokens_of(window.key_positions(), in.q);
  const Places places{query_tokens.ids, key_tokens.ids};
  const auto there = [&](const at::Tensor& x) { return x.to(in.q.options()); };

  at::Tensor q = without_padding(in.q, query_tokens, window.batch),
             k = without_padding(in.k.to(q.scalar_type()), key_tokens, window.batch);
  const at::Tensor v = without_padding(in.v.to(q.scalar_type()), key_tokens, window.batch);
  const auto rotate = [&]<typename Table>(const at::Tensor& x, const Table& table) {
    if constexpr (std::is_same_v<Table, HeadAngles>)
      return rotated_by_heads(table, numbers.frequencies, x);
    else
      return rotated(x, {&table, numbers.plan});
  };
  const auto rotate_by_each = [&](at::Tensor x, const std::vector<HeadRotation>& rotations) {
    for (const HeadRotation& one : rotations)
      x = std::visit([&](const auto& table) { return rotate(x, table); }, one);
    return x;
  };
  q = rotate_by_each(q, lowered.query_rotations);
  k = rotate_by_each(k, lowered.key_rotations);
  const auto shapes = model::token_terms(setting.mixture);
  for (std::size_t n = 0; n < shapes.size(); ++n) {
    if (shapes[n].name != "angles") continue;
    const TokenRotation& rotation = *lowered.token_rotation;
    at::Tensor angles = there(terms[n]);
    if (rotation.term == AngleTerm::increments) {
      check_adjacent_sequences(window);
      angles = at::cumsum(angles, 1);  // scores depend on differences within a sequence only
    }
    const at::ScalarType type = q.scalar_type();
    q = rotated_by(angles.narrow(1, window.offset(), window.queries), type, rotation, q);
    k = rotated_by(angles, type, rotation, k);
  }
  double scale = window.softmax_scale * lowered.softmax.factor;
  if (numbers.cosine.defined()) {
    q = normalised(q) * there(numbers.cosine).view({-1, 1});
    k = normalised(k);
    scale = 1;
  }
  if (numbers.phases.defined()) {
    q = to_polar(q, there(numbers.phases));
    k = to_polar(k, {});
  }
  if (numbers.frequencies.defined() && lowered.query_rotary) {
    const RotaryFrequencies& frequencies = lowered.query_rotary->frequencies();
    const TokenRotation rotation{.rotary_dim = frequencies.rotary_dim(),
                                 .pairing = frequencies.pairing,
                                 .head_offset = frequencies.head_offset};
    const auto turned = [&](const at::Tensor& x, const Tokens& tokens) {
      const at::Tensor angles =
          tokens.ids.to(at::kDouble).unsqueeze(-1) * numbers.frequencies.to(x.device());
      // As in a table: cos and sin of exact angles, in float.
      return rotated_by(angles.unsqueeze(2).expand({x.size(0), -1, -1, -1}), at::kFloat,
                        rotation, x);
    };
    q = turned(q, query_tokens);
    k = turned(k, key_tokens);
  } else {
    if (lowered.query_rotary) q = rotate(q, *lowered.query_rotary);
    if (lowered.key_rotary) k = rotate(k, *lowered.key_rotary);
  }
  if (numbers.shift.defined()) q = q + there(numbers.shift).view({q.size(2), q.size(3)});

  const std::int64_t group = q.size(2) / k.size(2);
  const at::Tensor queries = heads_first(q), keys = for_query_heads(heads_first(k), group);
  const auto term_of = [&](std::string_view name) {  // of all keys, without padding
    for (std::size_t n = 0; n < shapes.size(); ++n)
      if (shapes[n].name == name)
        return without_padding(
            shapes[n].size ? there(terms[n]) : there(terms[n]).transpose(1, 2).unsqueeze(-1),
            key_tokens, window.batch);
    return at::Tensor();
  };
  at::Tensor scores;
  switch (lowered.product) {
    case PairProduct::dot:
      scores = at::matmul(queries, keys.transpose(-1, -2));
      break;
    case PairProduct::channel_gates:
      scores = gated_products(queries, keys, term_of("channel_gates"), window);
      break;
    case PairProduct::householder:
      scores = householder_products(
          queries, keys, for_query_heads(heads_first(term_of("householder")), group),
          for_query_heads(heads_first(term_of("betas")), group).squeeze(-1), window);
      break;
  }
  for (std::size_t i = 0; i < relative.keys.size(); ++i)
    scores =
        scores + met_by_queries(relative.keys[i],
                                at::matmul(queries, there(numbers.keys[i]).transpose(-1, -2)),
                                places);
  for (std::size_t i = 0; i < relative.queries.size(); ++i)
    scores = scores + met_by_keys(relative.queries[i],
                                  at::matmul(keys, there(numbers.queries[i]).transpose(-1, -2)),
                                  places);
  scores = scores * at::scalar_tensor(scale, q.options());
  at::Tensor bias;
  if (const auto* dense = std::get_if<DenseBias>(&lowered.bias))
    bias = dense_of(*dense, q);
  else if (numbers.bias.defined())
    bias = bias_of({numbers.plan, &lowered.bias}, there(numbers.bias), places);
  for (std::size_t n = 0; n < shapes.size(); ++n) {
    if (shapes[n].name == "gates" && bias.defined())
      bias = bias * there(terms[n]).unsqueeze(-1);
    else if (shapes[n].name == "log_gates")
      scores = scores + cumulative_bias(there(terms[n]), window);
    else if (shapes[n].name == "key_slopes")
      scores = scores - there(terms[n]).unsqueeze(2) *
                            there((query_tokens.ids.unsqueeze(2) - key_tokens.ids.unsqueeze(1))
                                      .abs()
                                      .unsqueeze(1));
    else if (shapes[n].name == "relative_queries")
      for (std::size_t i = 0; i < relative.projected.size(); ++i)
        scores = scores + met_within(relative.projected[i],
                                     at::matmul(heads_first(there(terms[n])),
                                                there(numbers.projected[i]).transpose(-1, -2)),
                                     places);
    else if (shapes[n].name != "angles" && !lowered.edges &&
             lowered.product == PairProduct::dot)
      refuse("attend", "LibTorch's operators do not have this term of the tokens",
             shapes[n].name);
  }
  if (bias.defined()) scores = scores + bias;
  if ((numbers.contextual.defined() || lowered.stick_breaking || lowered.edges) &&
      (bias.defined() || lowered.cumulative || lowered.polar ||
       lowered.product != PairProduct::dot))
    refuse("attend",
           "contextual vectors, edges and stick-breaking require plain dot products without a "
           "bias",
           model::names(setting.mixture));

  const at::Tensor hidden = hidden_from(setting, lowered, query_tokens, key_tokens);
  const at::Tensor nothing = hidden.all(-1, /*keepdim=*/true);
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  if (numbers.contextual.defined())
    scores =
        scores + contextual_terms(
                     scores, at::matmul(queries, there(numbers.contextual).transpose(-1, -2)));
  if (lowered.edges) {
    at::Tensor of_queries;
    for (std::size_t n = 0; n < shapes.size(); ++n)
      if (shapes[n].name == "edge_queries")
        of_queries = without_padding(there(terms[n]), query_tokens, window.batch);
    scores =
        scores + edge_sums(lowered, of_queries, term_of("edge_keys"), key_tokens.ids, hidden);
  }
  // A row without visible keys gets weights of zero, whose derivatives are zero too.
  const at::Tensor weights =
      lowered.stick_breaking
          ? stick_weights(scores, hidden)
          : at::softmax(scores.masked_fill(nothing, 0), -1).masked_fill(hidden, 0);
  at::Tensor out = at::matmul(weights, for_query_heads(heads_first(v), group));
  for (std::size_t i = 0; i < relative.values.size(); ++i)
    out = out + at::matmul(weight_of_each(relative.values[i], weights, places),
                           there(numbers.values[i]));
  return heads_first(out);
}

at::Tensor attend_in_operators(const PreparedCall& work, const Inputs& in,
                               const AttendOptions& options) {
  Setting setting{.mixture = work.mixture,
                  .window = window_of(in.q, in.k.size(1), options),
                  .plan = work.plan,
                  .visibility = options.visibility,
                  .left = options.left,
                  .right = options.right};
  const auto terms = terms_of(work, setting.window, options.hidden, in.q);
  return attend_by_operators(setting, work.parameters, in, terms);
}

at::Tensor attend_composed(const model::Mixture& mixture,
                           const std::vector<at::Tensor>& parameters, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& v,
                           const AttendOptions& options) {
  const Inputs in = checked_inputs(q, k, v, options);
  check_call(mixture, in.q, in.k.size(1), options);
  PreparedCall work{mixture, {}};
  for (const at::Tensor& one : parameters) work.parameters.push_back(for_kernels(one));
  work.plan = plan_of(work, window_of(in.q, in.k.size(1), options));
  check_heads(mixture, *work.plan, wanted_shape(options.layout), q, in.q.size(2));
  return in_layout(attend_in_operators(work, in, options), options.layout);
}

}  // namespace gnomon::libtorch
