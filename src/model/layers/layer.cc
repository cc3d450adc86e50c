#include "gnomon/model/layer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/position/patches.h"
#include "src/core/size.h"
#include "src/model/encodings/lowering.h"
#include "src/model/layers/layer_tokens.h"

namespace gnomon::model {
namespace {

using gnomon::internal::to_size;
using internal::TokensOfLayer;

std::span<const float> numbers(View<const float, 2> matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

// Values of the parameters of attention, by name.
class NamedValues {
 public:
  NamedValues(const LayerGroup& group, Values values)
      : parameters_(layer_parameters(group)), values_(values) {
    internal::check_parameter_count("model", parameters_, values.size());
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

// `heads`: those of q or of k. Throws std::invalid_argument unless the weights and the biases
// have one row for all heads, or one for each head.
std::optional<WeightedNorm> lowered_norm(const std::optional<HeadNorm>& norm,
                                         const NamedValues& values, const std::string& name,
                                         std::int64_t heads, std::int64_t head_dim,
                                         NormWeights weights = NormWeights::elements) {
  if (!norm) return std::nullopt;
  WeightedNorm lowered{.norm = *norm, .heads = 1, .head_dim = head_dim};
  const auto take = [&](const char* leaf, std::vector<float>& to) {
    const View<const float, 2> matrix = values.find(name + leaf);
    if (!matrix.data()) return;
    const auto given = numbers(matrix);
    std::vector<float> all(given.begin(), given.end());
    if (weights == NormWeights::heads && std::ssize(given) == heads) {
      all.clear();
      for (const float one : given) all.insert(all.end(), to_size(head_dim), one);
    }
    const bool by_head = std::ssize(all) == heads * head_dim;
    if (!by_head && (norm->scope == NormScope::all_heads || std::ssize(all) != head_dim))
      refuse("model",
             name + leaf + " must have " + std::to_string(heads) +
                 (norm->scope == NormScope::all_heads ? "" : " or 1") + " rows of " +
                 std::to_string(head_dim) + " elements",
             std::to_string(matrix.extent(0)) + " x " + std::to_string(matrix.extent(1)));
    to = std::move(all);
    if (by_head) lowered.heads = heads;
  };
  take(".weight", lowered.weight);
  take(".bias", lowered.bias);
  // One row of the weights or biases is for all heads, if the other has a row for each.
  for (std::vector<float>* one : {&lowered.weight, &lowered.bias}) {
    const auto row = *one;
    if (row.empty() || std::ssize(row) != head_dim) continue;
    for (std::int64_t head = 1; head < lowered.heads; ++head)
      one->insert(one->end(), row.begin(), row.end());
  }
  return lowered;
}

std::vector<double> list_of(const NamedValues& values, std::string_view name) {
  const auto all = numbers(values.find(name));
  return {all.begin(), all.end()};
}

// exp(alpha) times the frequencies of the group's rotation (LeRoPE).
RotaryFrequencies learned_frequencies(const LayerGroup& group, const NamedValues& values,
                                      std::int64_t length) {
  RotaryFrequencies frequencies = resolve(group, length).frequencies;
  const auto alpha = list_of(values, "rotary.alpha");
  for (std::size_t i = 0; i < frequencies.inv_freq.size(); ++i)
    frequencies.inv_freq[i] *= std::exp(alpha[i]);
  return frequencies;
}

void put_attention(const LayerGroup& group, const NamedValues& values, LayerPlan& lowered) {
  const LayerAttention& attention = group.attention;
  lowered.softmax.cap = attention.softcap;
  lowered.query_scale = attention.query_scale;
  if (lowered.query_scale && lowered.query_scale->form == TemperatureForm::head_log) {
    lowered.query_scale->slopes = list_of(values, "query_scale.slope");
    lowered.query_scale->offsets = list_of(values, "query_scale.offset");
  }
  lowered.value_scale = attention.value_scale;
  if (const auto sinks = values.find("sinks"); sinks.data())
    for (const float one : numbers(sinks)) lowered.softmax.sinks.push_back(double{one});
  const auto norm = [](const std::optional<LayerNorm>& one) {
    return one ? std::optional(one->norm) : std::nullopt;
  };
  const auto weights = [](const std::optional<LayerNorm>& one) {
    return one ? one->weights : NormWeights::elements;
  };
  lowered.query_norm = lowered_norm(norm(attention.query_norm), values, "query_norm",
                                    group.heads, group.head_dim, weights(attention.query_norm));
  lowered.key_norm = lowered_norm(norm(attention.key_norm), values, "key_norm", group.key_heads,
                                  group.head_dim, weights(attention.key_norm));
  lowered.value_norm = lowered_norm(attention.value_norm, values, "value_norm", group.key_heads,
                                    group.value_dim);
  if (attention.query_norm) lowered.norm_order = attention.query_norm->order;
}

// The compression of keys of this width with its parameters. The last elements rotate, as many
// as those of the query.
std::shared_ptr<const KeyCompressionPlan> compression_plan(const KeyCompression& compression,
                                                           std::int64_t head_dim,
                                                           const RotaryFrequencies& query,
                                                           const NamedValues& values,
                                                           const std::string& name) {
  KeyCompressionPlan plan{.compression = compression, .head_dim = head_dim};
  for (const auto& [leaf, to] :
       {std::pair(".bias", &plan.bias), std::pair(".weight", &plan.weight)})
    if (const auto matrix = values.find(name + leaf); matrix.data())
      to->assign(matrix.data(), matrix.data() + matrix.size());
  plan.frequencies = query;
  plan.frequencies->head_offset = head_dim - query.rotary_dim();
  return std::make_shared<const KeyCompressionPlan>(std::move(plan));
}

// Sets the rotation of the output and the compression of keys. `known`: as in lower_group.
void put_compression(const LayerGroup& group, const TokensOfLayer& tokens,
                     const NamedValues& values, const LayerPlan* known, LayerPlan& lowered) {
  const LayerAttention& attention = group.attention;
  const RotaryTable* const table = internal::query_table(lowered);
  if (attention.output == OutputRotation::inverse && table) lowered.output_rotary = *table;
  if (!attention.compression || !table) return;
  const CompressionRule& rule = *attention.compression;
  LayerCompression& compression = lowered.compression.emplace();
  compression.mask = {.visibility = Visibility::causal,
                      .offset = tokens.first_position(),
                      .rate = rule.keys.rate};
  const RotaryFrequencies& frequencies = table->frequencies();
  const bool reuse = known && known->compression;
  compression.entries =
      reuse ? known->compression->entries
            : compression_plan(rule.keys, group.head_dim, frequencies, values, "compression");
  if (rule.index_heads == 0) return;
  compression.index_heads = rule.index_heads, compression.selected = rule.selected;
  compression.index_entries =
      reuse ? known->compression->index_entries
            : compression_plan(rule.keys, rule.index_dim, frequencies, values, "index");
  compression.index_rotary.emplace(
      *compression.index_entries->frequencies,
      consecutive(table->tokens(), compression.mask.offset.value_or(0)));
}

}  // namespace

std::vector<Parameter> layer_parameters(const LayerGroup& group) {
  std::vector<Parameter> all = parameters(group.position);
  const LayerAttention& attention = group.attention;
  if (attention.frequency_scale == FrequencyScale::learned)
    if (const auto rotary = rotary_frequencies(group.position.front(), 1))
      all.push_back({"rotary.alpha", 1, rotary->rotary_dim() / 2});
  if (attention.query_scale && attention.query_scale->form == TemperatureForm::head_log) {
    all.push_back({"query_scale.slope", group.heads, 1});
    all.push_back({"query_scale.offset", group.heads, 1, 0, 1});
  }
  if (attention.sinks == Sinks::per_head) all.push_back({"sinks", group.heads, 1});
  if (attention.sinks == Sinks::per_query)
    all.push_back({"sinks.weight", group.heads, attention.sink_inputs});
  const auto norm = [&](const std::optional<LayerNorm>& one, const char* name,
                        std::int64_t heads) {
    if (!one) return;
    const bool one_each = one->weights == NormWeights::heads;
    const std::int64_t rows =
        one->norm.scope == NormScope::all_heads || one->by_head || one_each ? heads : 1;
    for (const char* leaf : {".weight", ".bias"}) {
      const std::string parameter = std::string(name) + leaf;
      if (std::any_of(group.tensors.begin(), group.tensors.end(),
                      [&](const ParameterTensor& one) { return one.parameter == parameter; }))
        all.push_back({parameter, rows, one_each ? 1 : group.head_dim});
    }
  };
  norm(attention.query_norm, "query_norm", group.heads);
  norm(attention.key_norm, "key_norm", group.key_heads);
  if (!attention.compression) return all;
  const auto& [keys, index_heads, index_dim, selected] = *attention.compression;
  const auto compression = [&](const std::string& name, std::int64_t head_dim) {
    all.push_back({name + ".bias", keys.rate, keys.series * head_dim});
    all.push_back({name + ".weight", 1, head_dim, 0, 1});
  };
  compression("compression", group.head_dim);
  if (index_heads > 0) compression("index", index_dim);
  return all;
}

void internal::refuse_unsupported(const ModelDescription& model, const LayerGroup& group) {
  if (!group.unsupported.empty())
    refuse("model",
           "layers of " + model.model_type + " cannot be lowered: " + group.unsupported,
           "layer " + std::to_string(group.layers.empty() ? 0 : group.layers.front()));
}

void internal::refuse_selection(const ModelDescription& model, const LayerGroup& group,
                                const TokensOfLayer& tokens) {
  const auto selected = group.attention.indexed_keys;
  if (selected && tokens.keys() > *selected)
    refuse("model",
           "layers of " + model.model_type + " must have at most " + std::to_string(*selected) +
               " keys: the indexer that selects as many of more keys is not supported",
           tokens.keys());
}

void internal::put_tokens(const LayerGroup& group, const TokensOfLayer& tokens,
                          LayerPlan& lowered) {
  lowered.queries.reset();
  lowered.keys.reset();
  lowered.scale_positions.reset();
  tokens.put_mask(group.attention, lowered);
}

void internal::put_group(const LayerGroup& group, const TokensOfLayer& tokens, Values values,
                         LayerPlan& lowered) {
  set_scale(lowered, group.attention.softmax_scale * lowered.softmax.factor);
  lowered.softmax.sinks.clear();
  put_attention(group, NamedValues(group, values), lowered);
  put_tokens(group, tokens, lowered);
}

LayerPlan internal::lower_group(const ModelDescription& model, const LayerGroup& group,
                                const TokensOfLayer& tokens, Values values,
                                std::optional<Distances> reach, const LayerPlan* known) {
  refuse_unsupported(model, group);
  const NamedValues named(group, values);
  Call call = tokens.call_of(group.attention);
  const Call whole = tokens.call();
  call.softmax_scale = group.attention.softmax_scale;
  if (reach) call.reach = reach;
  const RotaryTable* const table = known ? query_table(*known) : nullptr;
  if (table && group.position.size() == 1 &&
      std::holds_alternative<ScaledRotary>(group.position[0])) {
    call.known = &table->frequencies();
    call.known_factor = known->softmax.factor;
  }
  std::optional<RotaryFrequencies> learned;
  if (!call.known && group.attention.frequency_scale == FrequencyScale::learned) {
    learned = learned_frequencies(group, named, tokens.length());
    call.known = &*learned;
    call.known_factor = softmax_factor(group.position.front(), tokens.length());
  }
  LayerPlan lowered =
      lower_call(group.position, call, values.first(parameters(group.position).size()), &whole);
  put_attention(group, named, lowered);
  tokens.put_mask(group.attention, lowered);
  lowered.table_in_layers = group.attention.table_input == TableInput::queries_and_keys;
  if (group.attention.rotary_input == RotaryInput::hidden) {
    // The input of the layer is rotated before the projections, with the table of the queries.
    lowered.query_rotations.clear();
    lowered.key_rotations.clear();
    lowered.hidden_rotary = std::exchange(lowered.query_rotary, std::nullopt);
    lowered.key_rotary.reset();
  }
  put_compression(group, tokens, named, known, lowered);
  rotate_in_prepare(lowered);
  return lowered;
}

LayerPlan lower_layer(const ModelDescription& model, std::int64_t layer, std::string_view part,
                      const LayerTokens& tokens, Values values) {
  const LayerGroup& group = group_of(model, layer, part);
  const TokensOfLayer resolved(model, tokens);
  internal::refuse_selection(model, group, resolved);
  return internal::lower_group(model, group, resolved, values, {});
}

}  // namespace gnomon::model
