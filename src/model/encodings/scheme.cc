#include "gnomon/model/scheme.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "gnomon/error.h"
#include "src/core/json.h"
#include "src/model/encodings/encoding_json.h"
#include "src/model/encodings/lowering.h"

namespace gnomon::model {
namespace {

using internal::OrderedJson;

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// "rotary*3": a mixture and its number of layers.
struct Run {
  Mixture mixture;
  std::int64_t layers = 1;
};
Run parse_run(std::string_view text, const Shape& shape) {
  Run run;
  if (const std::size_t star = text.find('*'); star != std::string_view::npos) {
    const std::string_view count = text.substr(star + 1);
    const auto [end, error] =
        std::from_chars(count.data(), count.data() + count.size(), run.layers);
    if (error != std::errc() || end != count.data() + count.size() || run.layers < 1)
      refuse("scheme", "a number of layers must follow *", count);
    text = text.substr(0, star);
  }
  for (const std::string_view name : split(text, '+')) {
    if (name.empty()) refuse("scheme", "each of +, * and / must follow a name", text);
    run.mixture.push_back(find_encoding(name).usual(shape));
  }
  return run;
}

// Returns the encodings that add a table to the embeddings, possibly among other places.
Mixture of_embeddings(const Mixture& mixture) {
  Mixture all;
  for (const Encoding& one : mixture)
    if (includes(info(one).enters, Place::embeddings)) all.push_back(one);
  return all;
}

void check(const Mixture& mixture) {
  for (const Place place : {Place::embeddings, Place::queries_and_keys, Place::scores,
                            Place::keys_and_values, Place::weights}) {
    const EncodingInfo* first = nullptr;
    for (const Encoding& one : mixture) {
      const EncodingInfo& entry = info(one);
      if (!includes(entry.enters, place)) continue;
      if (first)
        refuse("scheme", "at most one encoding of a layer can enter at " + name(place),
               std::string(first->name).append(" and ").append(entry.name));
      first = &entry;
    }
  }
}

void check_layers(std::int64_t layers) {
  if (layers < 1) refuse("scheme", "layers must be at least 1", layers);
  if (layers > 1 << 16) refuse("scheme", "layers must be at most 65536", layers);
}

}  // namespace

Scheme every_layer(const Mixture& mixture, std::int64_t layers) {
  check_layers(layers);
  return {std::vector<Mixture>(static_cast<std::size_t>(layers), mixture)};
}

Scheme parse_scheme(std::string_view text, const Shape& shape, std::int64_t layers) {
  check_layers(layers);
  internal::check_shape(shape);
  std::vector<Run> runs;
  std::int64_t period = 0;
  for (const std::string_view part : split(text, '/')) {
    runs.push_back(parse_run(part, shape));
    period += std::min(runs.back().layers, layers + 1);
    if (period > layers)
      refuse("scheme",
             "must have at most the " + std::to_string(layers) + " layers of the model", text);
  }
  Scheme scheme;
  while (std::ssize(scheme.layers) < layers)
    for (const Run& run : runs)
      for (std::int64_t n = 0; n < run.layers && std::ssize(scheme.layers) < layers; ++n)
        scheme.layers.push_back(run.mixture);
  check(scheme);
  return scheme;
}

void check(const Scheme& scheme) {
  if (scheme.layers.empty()) refuse("scheme", "layers must be at least 1", 0);
  const Mixture first = of_embeddings(scheme.layers[0]);
  for (const Mixture& layer : scheme.layers) {
    check(layer);
    if (const Mixture other = of_embeddings(layer); other != first)
      refuse("scheme",
             "all layers must have the encodings that are added to the embeddings, " +
                 names(first),
             names(other));
  }
}

Mixture before_layers(const Scheme& scheme) {
  Mixture all;
  if (scheme.layers.empty()) return all;
  for (const Encoding& one : scheme.layers[0])
    if (info(one).enters == Place::embeddings) all.push_back(one);
  return all;
}

Mixture within_layer(const Scheme& scheme, std::int64_t layer) {
  Mixture all;
  for (const Encoding& one : scheme.layers.at(static_cast<std::size_t>(layer)))
    if (info(one).enters != Place::embeddings) all.push_back(one);
  return all;
}

Sharing sharing(const Mixture& mixture) {
  for (const Encoding& one : mixture)
    if (info(one).sharing == Sharing::each_layer) return Sharing::each_layer;
  return Sharing::all_layers;
}

std::optional<std::int64_t> capacity(const Scheme& scheme) {
  std::optional<std::int64_t> least;
  for (const Mixture& layer : scheme.layers)
    if (const auto own = capacity(layer); own && (!least || *own < *least)) least = own;
  return least;
}

std::string names(const Scheme& scheme) {
  const std::size_t count = scheme.layers.size();
  std::size_t period = 1;
  const auto repeats = [&] {
    for (std::size_t l = period; l < count; ++l)
      if (scheme.layers[l] != scheme.layers[l - period]) return false;
    return true;
  };
  while (period < count && !repeats()) ++period;
  std::string text;
  for (std::size_t l = 0; l < std::min(period, count);) {
    std::size_t end = l + 1;
    while (end < period && scheme.layers[end] == scheme.layers[l]) ++end;
    if (!text.empty()) text += '/';
    text += names(scheme.layers[l]);
    if (end - l > 1) text.append("*").append(std::to_string(end - l));
    l = end;
  }
  return text;
}

OrderedJson internal::json_of(const Scheme& scheme) {
  OrderedJson layers = OrderedJson::array();
  for (const Mixture& layer : scheme.layers) {
    OrderedJson all = OrderedJson::array();
    for (const Encoding& one : layer) all.push_back(internal::json_of(one));
    layers.push_back(std::move(all));
  }
  return OrderedJson{{"layers", std::move(layers)}};
}

std::string to_json(const Scheme& scheme) { return internal::json_of(scheme).dump(); }

Scheme scheme_from_json(std::string_view text) {
  const auto json = gnomon::internal::parse_json<OrderedJson>(text, "scheme", "the text");
  if (!json.is_object() || json.size() != 1 || !json.contains("layers") ||
      !json["layers"].is_array())
    refuse("scheme", "must be a JSON object of \"layers\", a list", text);
  Scheme scheme;
  for (const OrderedJson& layer : json["layers"]) {
    if (!layer.is_array())
      refuse("scheme", "each layer must be a list of encodings",
             std::string_view(layer.dump()));
    Mixture& mixture = scheme.layers.emplace_back();
    for (const OrderedJson& one : layer) mixture.push_back(internal::encoding_of(one));
  }
  check(scheme);
  return scheme;
}

}  // namespace gnomon::model
