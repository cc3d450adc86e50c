#include "gnomon/model/layer.h"

#include <algorithm>
#include <utility>

#include "gnomon/attention/cosine.h"
#include "gnomon/error.h"
#include "gnomon/position/patches.h"
#include "src/model/layer_tokens.h"
#include "src/model/lowering.h"

namespace gnomon::model {
namespace {

using internal::TokensOfLayer;

std::span<const float> numbers(View<const float, 2> matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

// The values of attention's own parameters, by name.
class NamedValues {
 public:
  NamedValues(const LayerGroup& group, Values values)
      : parameters_(layer_parameters(group)), values_(values) {
    if (values.size() != parameters_.size())
      refuse("model",
             "needs " + std::to_string(parameters_.size()) + " parameter matrices for " +
                 names(group.position),
             static_cast<std::int64_t>(values.size()));
  }
  View<const float, 2> find(std::string_view name) const {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].name == name) return values_[i];
    return {};
  }

 private:
  std::vector<Parameter> parameters_;
  Values values_;
};

std::optional<LoweredNorm> lowered_norm(const std::optional<HeadNorm>& norm,
                                        const NamedValues& values, const std::string& name,
                                        std::int64_t head_dim) {
  if (!norm) return std::nullopt;
  LoweredNorm lowered{.norm = *norm};
  const auto take = [&](const char* leaf, std::vector<float>& to) {
    const View<const float, 2> matrix = values.find(name + leaf);
    if (!matrix.data()) return;
    const auto all = numbers(matrix);
    to.assign(all.begin(), all.end());
    lowered.head_dim = head_dim;
    lowered.heads = std::ssize(to) / head_dim;
  };
  take(".weight", lowered.weight);
  take(".bias", lowered.bias);
  return lowered;
}

void put_attention(const LayerGroup& group, const NamedValues& values, Lowered& lowered) {
  const LayerAttention& attention = group.attention;
  lowered.softcap = attention.softcap;
  lowered.query_scale = attention.query_scale;
  lowered.value_scale = attention.value_scale;
  if (const auto sinks = values.find("sinks"); sinks.data())
    for (const float one : numbers(sinks)) lowered.sinks.push_back(double{one});
  const auto norm = [](const std::optional<LayerNorm>& one) {
    return one ? std::optional(one->norm) : std::nullopt;
  };
  lowered.query_norm =
      lowered_norm(norm(attention.query_norm), values, "query_norm", group.head_dim);
  lowered.key_norm = lowered_norm(norm(attention.key_norm), values, "key_norm", group.head_dim);
  lowered.value_norm =
      lowered_norm(attention.value_norm, values, "value_norm", group.value_dim);
  if (attention.query_norm) lowered.norm_order = attention.query_norm->order;
}

}  // namespace

std::vector<Parameter> layer_parameters(const LayerGroup& group) {
  std::vector<Parameter> all = parameters(group.position);
  const LayerAttention& attention = group.attention;
  if (attention.sinks == Sinks::per_head) all.push_back({"sinks", group.heads, 1});
  const auto norm = [&](const std::optional<LayerNorm>& one, const char* name,
                        std::int64_t heads) {
    if (!one) return;
    const std::int64_t rows = one->norm.scope == NormScope::all_heads ? heads : 1;
    for (const char* leaf : {".weight", ".bias"}) {
      const std::string parameter = std::string(name) + leaf;
      if (std::any_of(group.tensors.begin(), group.tensors.end(),
                      [&](const ParameterTensor& one) { return one.parameter == parameter; }))
        all.push_back({parameter, rows, group.head_dim});
    }
  };
  norm(attention.query_norm, "query_norm", group.heads);
  norm(attention.key_norm, "key_norm", group.key_heads);
  return all;
}

void internal::refuse_unsupported(const ModelDescription& model, const LayerGroup& group) {
  if (!group.unsupported.empty())
    refuse("model",
           "layers of " + model.model_type + " cannot be lowered: " + group.unsupported,
           "layer " + std::to_string(group.layers.empty() ? 0 : group.layers.front()));
}

void internal::put_tokens(const LayerGroup& group, const TokensOfLayer& tokens,
                          Lowered& lowered) {
  lowered.queries.reset();
  lowered.keys.reset();
  lowered.scale_positions.reset();
  tokens.put_mask(group.attention, lowered);
}

void internal::put_group(const LayerGroup& group, const TokensOfLayer& tokens, Values values,
                         Lowered& lowered) {
  lowered.softmax_scale = group.attention.softmax_scale * lowered.softmax_factor;
  lowered.sinks.clear();
  put_attention(group, NamedValues(group, values), lowered);
  put_tokens(group, tokens, lowered);
}

Lowered internal::lower_group(const ModelDescription& model, const LayerGroup& group,
                              const TokensOfLayer& tokens, Values values,
                              std::optional<Distances> reach, const Lowered* known) {
  refuse_unsupported(model, group);
  const NamedValues named(group, values);
  Call call = tokens.call_of(group.attention);
  const Call whole = tokens.call();
  call.softmax_scale = group.attention.softmax_scale;
  if (reach) call.reach = reach;
  if (known && known->query_rotary && group.position.size() == 1 &&
      std::holds_alternative<ScaledRotary>(group.position[0])) {
    call.known = &known->query_rotary->schedule();
    call.known_factor = known->softmax_factor;
  }
  Lowered lowered =
      lower_call(group.position, call, values.first(parameters(group.position).size()), &whole);
  put_attention(group, named, lowered);
  tokens.put_mask(group.attention, lowered);
  lowered.gated = gated(group.position);
  lowered.table_in_layers = group.attention.table_input == TableInput::queries_and_keys;
  if (group.attention.rotary_input == RotaryInput::hidden) {
    // The layer's input is rotated before its projections: a rotation of queries alone.
    lowered.query_rotations.clear();
    lowered.key_rotations.clear();
    lowered.hidden_rotary = std::exchange(lowered.query_rotary, std::nullopt);
    lowered.key_rotary.reset();
  }
  return lowered;
}

Lowered lower_layer(const ModelDescription& model, std::int64_t layer, std::string_view part,
                    const LayerTokens& tokens, Values values) {
  const LayerGroup& group = group_of(model, layer, part);
  return internal::lower_group(model, group, TokensOfLayer(model, tokens), values, {});
}

namespace {

template <typename T>
void add_rows(const EmbeddingTable& table, View<T, 3> x) {
  const std::int64_t batch = x.extent(0), tokens = x.extent(1);
  if (table.tokens == tokens) return add_table(x, table.view());
  if (table.tokens != batch * tokens)
    refuse("model", "x must have " + std::to_string(table.tokens) + " tokens", batch * tokens);
  for (std::int64_t b = 0; b < batch; ++b)
    add_table(x.slice(0, b, 1), table.view().slice(0, b * tokens, tokens));
}

}  // namespace

template <typename T>
void add_position(const Lowered& lowered, View<T, 3> x) {
  if (lowered.table && !lowered.table_in_layers) add_rows(*lowered.table, x);
}

bool has_own_input(const Lowered& lowered) noexcept {
  return lowered.hidden_rotary || (lowered.table && lowered.table_in_layers);
}

template <typename T>
void prepare_input(const Lowered& lowered, std::int64_t heads, View<T, 3> x) {
  if (lowered.table && lowered.table_in_layers) add_rows(*lowered.table, x);
  if (!lowered.hidden_rotary) return;
  const std::ptrdiff_t size = x.extent(2) / heads;
  rotate(View<T, 4>(x.data(), {x.extent(0), x.extent(1), heads, size},
                    {x.stride(0), x.stride(1), size * x.stride(2), x.stride(2)}),
         *lowered.hidden_rotary);
}

namespace {

template <typename T>
void normalise_by(const std::optional<LoweredNorm>& norm, View<T, 4> x) {
  if (!norm || !x.data()) return;
  const auto view = [&](const std::vector<float>& numbers) {
    return numbers.empty()
               ? View<const float, 2>()
               : View<const float, 2>(numbers.data(), {norm->heads, norm->head_dim});
  };
  normalise_heads(norm->norm, view(norm->weight), view(norm->bias), x);
}

template <typename T>
void scale_by(double factor, View<T, 4> x) {
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < x.extent(2); ++h)
        for (std::ptrdiff_t d = 0; d < x.extent(3); ++d) {
          T& one = x(b, t, h, d);
          one = static_cast<T>(static_cast<Accumulator<T>>(one) *
                               static_cast<Accumulator<T>>(factor));
        }
}

template <typename T>
void rotate_by(const std::optional<RotaryTable>& rotary,
               const std::vector<HeadRotation>& rotations, View<T, 4> x) {
  if (!x.data()) return;
  for (const HeadRotation& one : rotations)
    std::visit([&](const auto& table) { rotate(x, table); }, one);
  if (rotary) rotate(x, *rotary);
}

}  // namespace

template <typename T>
void prepare(const Lowered& lowered, View<T, 4> q, View<T, 4> k, View<T, 4> v) {
  const auto norms = [&](NormOrder order) {
    if (lowered.norm_order != order) return;
    normalise_by(lowered.query_norm, q);
    normalise_by(lowered.key_norm, k);
  };
  norms(NormOrder::before_rotation);
  rotate_by(lowered.query_rotary, lowered.query_rotations, q);
  rotate_by(lowered.key_rotary, lowered.key_rotations, k);
  norms(NormOrder::after_rotation);
  normalise_by(lowered.value_norm, v);
  if (lowered.value_scale != 1 && v.data()) scale_by(lowered.value_scale, v);
  if (!lowered.cosine.empty()) {
    if (q.data()) normalise<T>(q, lowered.cosine, q);
    if (k.data()) normalise<T>(k, {}, k);
  }
  if (lowered.query_scale && q.data()) {
    if (!lowered.scale_positions)
      refuse("model", "a scale by position needs positions of the queries", "none");
    scale_queries(q, *lowered.query_scale, *lowered.scale_positions);
  }
}

#define GNOMON_INSTANTIATE(T)                                            \
  template void add_position(const Lowered&, View<T, 3>);                \
  template void prepare_input(const Lowered&, std::int64_t, View<T, 3>); \
  template void prepare(const Lowered&, View<T, 4>, View<T, 4>, View<T, 4>);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

AttentionPosition attention_position(const Lowered& lowered, View<const float, 3> gates) {
  if (lowered.gated && !gates.data())
    refuse("model", "gates of the layer's input must be given", "none");
  AttentionPosition position;
  position.gates = gates;
  position.bias = lowered.bias;
  if (!lowered.relative.empty()) position.relative = &lowered.relative;
  if (lowered.keys) {
    position.queries = &*lowered.queries;
    position.keys = &*lowered.keys;
  }
  return position;
}

Softmax softmax(const Lowered& lowered) {
  return {.scale = lowered.cosine.empty() ? lowered.softmax_scale : 1,
          .cap = lowered.softcap,
          .sinks = lowered.sinks};
}

}  // namespace gnomon::model
