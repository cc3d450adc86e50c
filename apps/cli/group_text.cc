#include "apps/cli/group_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "src/model/encodings/encoding_json.h"

namespace gnomon::cli {
namespace {

using model::LayerAttention;
using model::LayerGroup;
using std::int64_t;
using Json = nlohmann::ordered_json;

std::string words(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

// "a or b", from "a|b".
std::string alternatives(std::string_view names) {
  std::string text;
  for (const char c : names)
    if (c == '|')
      text += " or ";
    else
      text += c;
  return text;
}

// A field of a spec as text. A long list is given by its number of values.
std::string value_text(const Json& value) {
  if (value.is_string()) return words(value.get<std::string>());
  if (value.is_number_float()) return fmt::format("{:.8g}", value.get<double>());
  std::vector<std::string> parts;
  if (value.is_array()) {
    constexpr std::size_t most = 8;
    if (value.size() > most) return fmt::format("[{} values]", value.size());
    for (const Json& one : value) parts.push_back(value_text(one));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  if (!value.is_object()) return value.dump();
  for (const auto& [name, one] : value.items())
    parts.push_back(words(name) + " " + value_text(one));
  return fmt::format("({})", fmt::join(parts, ", "));
}

double base_of(const model::Encoding& encoding) {
  return std::visit(
      [](const auto& spec) -> double {
        if constexpr (requires { spec.rotary.base; })
          return spec.rotary.base;
        else if constexpr (requires { spec.base; })
          return spec.base;
        else
          return 0;
      },
      encoding);
}

std::string rotary_text(const model::Encoding& encoding, const RotaryFrequencies& rotary,
                        int64_t head_dim) {
  std::string text = fmt::format("rotary, {}, {} of {} elements",
                                 rotary.pairing == Pairing::halves ? "halves" : "adjacent",
                                 rotary.rotary_dim(), head_dim);
  if (rotary.head_offset != 0) text += fmt::format(" from element {}", rotary.head_offset);
  text += fmt::format(", base {:.12g}", base_of(encoding));
  if (!rotary.axes.empty())
    text += fmt::format(", {} position axes",
                        std::set(rotary.axes.begin(), rotary.axes.end()).size());
  return text;
}

// The mask of a layer as text.
std::string mask_text(const LayerAttention& attention) {
  const bool causal = attention.visibility == Visibility::causal;
  std::string text = causal ? "causal" : "bidirectional";
  std::vector<std::string> limits;
  if (attention.left) limits.push_back(fmt::format("{} rows before", *attention.left));
  if (attention.right && !causal)
    limits.push_back(fmt::format("{} rows after", *attention.right));
  if (!limits.empty())
    text += fmt::format("; keys at most {} the query", fmt::join(limits, " and "));
  if (attention.chunk)
    text += fmt::format("; only keys of the query's chunk of {} positions", *attention.chunk);
  if (const auto& cells = attention.partition) {
    text += fmt::format("; only keys of the query's window of {} x {} cells", cells->height,
                        cells->width);
    if (cells->shift != 0) text += fmt::format(", shifted by {}", cells->shift);
  }
  return text;
}

std::string norm_text(const HeadNorm& norm) {
  const char* kind = norm.kind == NormKind::rms     ? "RMS"
                     : norm.kind == NormKind::layer ? "LayerNorm"
                     : norm.kind == NormKind::clip  ? "limit of the length"
                                                    : "L2";
  std::string text = fmt::format(
      "{} over {}, epsilon {:g}", kind,
      norm.scope == NormScope::head ? "each head" : "all heads together", norm.epsilon);
  if (norm.weight_offset != 0) text += fmt::format(", weights + {:g}", norm.weight_offset);
  if (norm.limit != 0) text += fmt::format(", at most {:.8g}", norm.limit);
  return text;
}

std::string norm_text(const model::LayerNorm& norm) {
  return fmt::format("{}, {} the rotation", norm_text(norm.norm),
                     norm.order == NormOrder::before_rotation ? "before" : "after");
}

void put_norms(const LayerAttention& attention, std::vector<Fact>& facts) {
  const auto &q = attention.query_norm, &k = attention.key_norm;
  if (q && q == k) {
    facts.push_back({"norm of q, k", norm_text(*q)});
  } else {
    if (q) facts.push_back({"norm of q", norm_text(*q)});
    if (k) facts.push_back({"norm of k", norm_text(*k)});
  }
  if (attention.value_norm)
    facts.push_back({"norm of v", norm_text(*attention.value_norm) + ", no weights"});
}

}  // namespace

std::string scale_text(const QueryTemperature& scale) {
  const auto text = [&](const char* how) {
    return fmt::format(fmt::runtime(how), scale.beta, scale.shift, scale.length);
  };
  switch (scale.form) {
    case TemperatureForm::floored_log:
      return text("x 1 + {:g} ln(1 + floor((position + {}) / {}))");
    case TemperatureForm::clipped_log:
      return text("x 1 + {:g} ln(max((position + {}) / {}, 1))");
    case TemperatureForm::power:
      return text("x exp({:g} ln(1 + (position + {}) / {}))");
    default:
      return fmt::format("x slope ln(position + {}) + offset, trained for each head",
                         scale.shift);
  }
}

// Facts that few layers have.
void put_rare(const LayerAttention& attention, std::vector<Fact>& facts) {
  if (attention.output_gate != model::OutputGate::none)
    facts.push_back(
        {"output", attention.output_gate == model::OutputGate::per_head
                       ? "x a gate for each head, computed from the input of the layer"
                       : "x a gate for each element, computed from the input of the layer"});
  if (const auto& convolution = attention.convolution)
    facts.push_back(
        {"keys and values",
         fmt::format("a convolution of {} tokens before attention{}", convolution->taps,
                     convolution->weights == model::ConvolutionWeights::dynamic
                         ? ", with weights computed from the input"
                         : "")});
  if (attention.frequency_scale == model::FrequencyScale::learned)
    facts.push_back({"frequencies", "x exp(alpha), which the checkpoint has"});
  if (attention.head_pairs == model::HeadPairs::differential)
    facts.push_back({"heads", "those of the second half are subtracted from the first half"});
  if (attention.indexed_keys)
    facts.push_back(
        {"keys", fmt::format("an indexer selects {} for each query", *attention.indexed_keys)});
}

std::string plural(int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string layers_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += i == last ? fmt::format("{}", layers[i])
                      : fmt::format("{}-{}", layers[i], layers[last]);
    i = last + 1;
  }
  return text;
}

std::string scaling_text(const RopeScaling& scaling) {
  const Json json = model::internal::json_of(scaling);
  std::string text = json["type"].get<std::string>();
  const char* between = ": ";
  for (const auto& [key, value] : json.items()) {
    if (key == "type" || value == 0.0) continue;  // an mscale of 0 is unset
    text += between + words(key) + " ";
    between = ", ";
    if (value.is_array() && !value.empty())
      text += fmt::format("{:.4g} to {:.4g}", value.front().get<double>(),
                          value.back().get<double>());
    else
      text += value == "whole_pairs" ? "of whole pairs" : value_text(value);
  }
  return text;
}

RopeScaling scaling_of(const model::Encoding& encoding) {
  if (const auto* scaled = std::get_if<ScaledRotary>(&encoding)) return scaled->scaling;
  return NoScaling{};
}

std::string encoding_text(const model::Encoding& encoding, int64_t head_dim) {
  if (const auto rotary = model::rotary_frequencies(encoding, 1))
    return rotary_text(encoding, *rotary, head_dim);
  std::string text = words(model::kind(encoding));
  const Json json = model::internal::json_of(encoding);
  for (const auto& [key, value] : json.items())
    if (key != "kind" && key != "head_offset" && key != "local_heads")
      text += fmt::format(", {} {}", words(key), value_text(value));
  return text;
}

std::string none_text(const LayerGroup& group) {
  return group.head_dim == 0 ? "none: no attention" : "none (NoPE)";
}

std::vector<Fact> attention_facts(const LayerGroup& group, int64_t length) {
  std::vector<Fact> facts;
  if (group.head_dim == 0) return facts;
  const LayerAttention& attention = group.attention;
  std::string heads = fmt::format("{} query heads, {} key heads, head dimension {}",
                                  group.heads, group.key_heads, group.head_dim);
  if (group.value_dim != group.head_dim)
    heads += fmt::format(", value dimension {}", group.value_dim);
  facts.push_back({"heads", heads});
  facts.push_back({"mask", mask_text(attention)});
  if (attention.rotary_input == model::RotaryInput::hidden)
    facts.push_back(
        {"rotated", "the input of the layer, split into heads, before the projections"});
  if (attention.table_input == model::TableInput::queries_and_keys)
    facts.push_back(
        {"table", "added to the input of q and k in every layer, not to the input of v"});
  put_norms(attention, facts);
  if (const auto& scale = attention.query_scale) facts.push_back({"query", scale_text(*scale)});
  double softmax = attention.softmax_scale;
  for (const model::Encoding& one : group.position)
    softmax *= model::softmax_factor(one, length);
  if (softmax > 0) facts.push_back({"softmax", fmt::format("x {:.8g}", softmax)});
  if (attention.softcap)
    facts.push_back({"scores", fmt::format("capped at {:g}", *attention.softcap)});
  if (attention.sinks == model::Sinks::per_query)
    facts.push_back({"sinks", "one sink per query and head, projected from the layer's input"});
  if (attention.sinks == model::Sinks::per_head)
    facts.push_back({"sinks", "one trained sink per query head"});
  if (attention.values == model::ValueSource::keys)
    facts.push_back({"values", "the keys after their norm and rotation"});
  if (attention.output == model::OutputRotation::inverse)
    facts.push_back({"output", "rotated back by the angles of the query"});
  if (const auto& rule = attention.compression) {
    std::string text = fmt::format("one entry for {} tokens", rule->keys.rate);
    if (rule->keys.series == 2) text += ", overlapping the tokens before";
    if (rule->index_heads > 0)
      text += fmt::format(", {} selected by {} index heads of dimension {}", rule->selected,
                          rule->index_heads, rule->index_dim);
    facts.push_back({"compression", text});
  }
  put_rare(attention, facts);
  for (const model::ParameterTensor& one : group.tensors)
    facts.push_back({"tensor", one.parameter + ": " + alternatives(one.name)});
  if (!group.unsupported.empty()) facts.push_back({"unsupported", group.unsupported});
  return facts;
}

std::string image_text(const model::ImageTokens& image) {
  std::string text = image.order == model::PatchOrder::rows
                         ? "patches row by row"
                         : fmt::format("blocks of {0} x {0} patches row by row", image.merge);
  if (image.origin == model::PatchOrigin::from_one) text += ", positions from 1";
  if (image.origin == model::PatchOrigin::centres)
    text += ", positions of patch centres in [-1, 1]";
  if (image.first_tokens > 0)
    text += fmt::format(", after {}", plural(image.first_tokens, "token"));
  if (image.last_tokens > 0)
    text += fmt::format(", then {}", plural(image.last_tokens, "token"));
  if (image.frames) text += ", with a frame axis";
  return text;
}

}  // namespace gnomon::cli
