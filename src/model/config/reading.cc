#include "src/model/config/reading.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::model::internal {

Keys::Keys(Json object, std::optional<Json> over) : object_(object), over_(over) {
  std::size_t members = 0;
  object.for_each_member([&](const std::string&, Json value) {
    if (++members > Json::max_list)
      value.fail("an object of a config must have at most " + std::to_string(Json::max_list) +
                 " members");
  });
}

std::optional<Json> Keys::find(Names names) {
  std::optional<Json> found;
  for (const std::string_view name : names) {
    read_.emplace(name);
    if (found) continue;
    for (const auto& object : {over_, std::optional(object_)}) {
      if (!found && object) found = object->find(name);
      if (found && found->is_null()) found.reset();
    }
  }
  return found;
}

bool Keys::is_null(std::string_view name) const {
  const auto value = object_.find(name);
  return value && value->is_null();
}

// Reads the value of the first name that has one. `read` gets the name for messages.
template <typename Read>
auto read_as(Keys& keys, Keys::Names names, Read read)
    -> std::optional<decltype(read(std::declval<Json>(), std::string_view()))> {
  for (const std::string_view name : names)
    if (const auto value = keys.find({name})) {
      keys.find(names);  // marks the other names as read
      return read(*value, name);
    }
  return std::nullopt;
}

std::optional<double> above(Keys& keys, Keys::Names names, double bound, const char* rule) {
  return read_as(keys, names, [&](Json v, std::string_view name) {
    const double value = v.number(name);
    if (!std::isfinite(value) || !(value > bound))
      v.fail(std::string(name) + " must be " + rule + ", got " + v.shown());
    return value;
  });
}

std::optional<std::int64_t> Keys::integer(Names names, std::int64_t least, std::int64_t most) {
  return read_as(*this, names, [&](Json v, std::string_view name) {
    const std::int64_t value = v.integer(name);
    if (value < least || value > most)
      v.fail(std::string(name) + " must be " + std::to_string(least) + " to " +
             std::to_string(most) + ", got " + v.shown());
    return value;
  });
}
std::optional<std::int64_t> Keys::size(Names names, std::int64_t most) {
  return integer(names, 1, most);
}
std::optional<double> Keys::number(Names names) {
  return above(*this, names, -std::numeric_limits<double>::infinity(), "finite");
}
std::optional<double> Keys::positive(Names names) {
  return above(*this, names, 0, "finite and positive");
}
std::optional<double> Keys::base(Names names) {
  return above(*this, names, 1, "finite and greater than 1");
}
std::optional<double> Keys::share(Names names) {
  const auto value = positive(names);
  if (value && *value > 1) {
    const auto given = find(names);
    given->fail("the rotated share of a head must be at most 1, got " + given->shown());
  }
  return value;
}
std::optional<std::string> Keys::string(Names names) {
  return read_as(*this, names, [](Json v, std::string_view name) { return v.string(name); });
}
std::optional<Json> Keys::object_in(std::string_view name) {
  const auto value = find({name});
  if (value) value->require(JsonType::object, name);
  return value;
}
std::optional<bool> Keys::boolean(Names names) {
  return read_as(*this, names, [](Json v, std::string_view name) { return v.boolean(name); });
}

double inverse_sqrt(double x) { return 1 / std::sqrt(x); }

std::string shown(double value) { return gnomon::internal::printed("%.10g", value); }

void Draft::note(std::string text) {
  text = gnomon::internal::printable(text, 400);  // may contain text of the file
  constexpr std::size_t most = 100;               // a hostile file may cause millions of notes
  if (std::find(out.notes.begin(), out.notes.end(), text) != out.notes.end()) return;
  if (out.notes.size() < most)
    out.notes.push_back(out.notes.size() + 1 < most ? std::move(text)
                                                    : "more notes are omitted");
}

Reading::Reading(Json object, const ConfigOptions& options, const Family& family)
    : keys(object), options(options), family(family), visibility(family.visibility) {
  if (family.softmax_scale > 0) softmax_scale = family.softmax_scale;
  if (!family.scale_key.empty())
    if (const auto given = keys.positive({family.scale_key})) softmax_scale = given;
  if (!family.scalar_key.empty())
    if (const auto given = keys.positive({family.scalar_key}))
      softmax_scale = inverse_sqrt(*given);
}

void Reading::fail(const std::string& reason) const { keys.object().fail(reason); }

void Reading::fail_at(Keys::Names names, const std::string& reason) {
  if (const auto value = keys.find(names)) value->fail(reason);
  Reading::fail(reason);
}

std::int64_t Reading::size(Keys::Names names) {
  const auto value = keys.size(names);
  if (!value)
    fail("a config of " + out.model_type + " must have " + std::string(*names.begin()));
  return *value;
}

std::int64_t Reading::size(Keys::Names names, std::int64_t otherwise, std::int64_t most) {
  return keys.size(names, most).value_or(otherwise);
}

std::int64_t Reading::size_or_default(Keys::Names names, std::int64_t otherwise,
                                      std::int64_t most) {
  if (const auto value = keys.size(names, most)) return *value;
  if (otherwise == 0) size(names);  // throws
  note(std::string(*names.begin()) + " is not given: " + std::to_string(otherwise) +
       ", the default of " + out.model_type);
  return otherwise;
}

bool Reading::is_true(std::string_view name, bool otherwise) {
  const auto value = keys.find({name});
  return value && value->is(JsonType::boolean) ? value->boolean(name) : otherwise;
}

const Keys::Names hidden_names = {"hidden_size", "n_embd",     "d_model",
                                  "dim",         "n_embed",    "emb_dim",
                                  "embed_dim",   "hidden_dim", "model_dim"};
const Keys::Names head_dim_names = {"head_dim",  "kv_channels",         "attention_head_dim",
                                    "head_size", "attention_head_size", "d_kv"};

std::int64_t of_head(std::int64_t head_dim, double share) {
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
}

std::int64_t hidden_size(Reading& r) {
  return r.size_or_default(hidden_names, r.family.hidden);
}

namespace {

std::int64_t layer_count(Reading& r) {
  const Keys::Names names = {"num_hidden_layers", "n_layer",        "n_layers",
                             "num_layers",        "decoder_layers", "num_decoder_layers",
                             "encoder_layers"};
  const auto given = r.keys.find(names);
  if (const auto key = r.family.layers_in_object;
      !key.empty() && given && given->is(JsonType::object))
    return r.size_or_default({key}, r.family.layers, max_count);
  if (const auto types = r.keys.find({"layers_block_type"}); types && !given)
    return std::max<std::int64_t>(std::ssize(types->strings("layers_block_type")), 1);
  return r.size_or_default(names, r.family.layers, max_count);
}

}  // namespace

void read_sizes(Reading& r) {
  r.out.layers = layer_count(r);
  r.heads = r.size_or_default(
      {"num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads",
       "decoder_attention_heads", "encoder_attention_heads"},
      r.family.heads, max_count);
  const std::int64_t given = r.size(head_dim_names, 0, max_count);
  if (given != 0 && r.family.head_dim != by_heads) {
    r.head_dim = given;
  } else if (r.family.head_dim > 0) {
    r.head_dim = r.family.head_dim;
    r.note("head_dim is not given: " + std::to_string(r.head_dim) + ", the default of " +
           r.out.model_type);
  } else {
    const std::int64_t hidden = hidden_size(r);
    if (hidden % r.heads != 0 && (hidden < r.heads || !r.family.rounds_head_dim))
      r.fail_at(hidden_names, "hidden_size must be a multiple of num_attention_heads " +
                                  std::to_string(r.heads) + " if head_dim is not given, got " +
                                  std::to_string(hidden));
    r.head_dim = hidden / r.heads;
    if (r.head_dim > max_count)
      r.fail_at(hidden_names, "hidden_size must be at most 65536 times num_attention_heads " +
                                  std::to_string(r.heads) + ", got " + std::to_string(hidden));
    if (given != 0 && given != r.head_dim)
      r.note("head_dim " + std::to_string(given) + " is not used by " + r.out.model_type +
             ": it is hidden_size / num_attention_heads, " + std::to_string(r.head_dim));
  }
  const Keys::Names lengths = {"max_position_embeddings",
                               "n_positions",
                               "max_seq_len",
                               "seq_length",
                               "n_ctx",
                               "max_sequence_length",
                               "max_target_positions",
                               "max_context_length"};
  const auto length = r.keys.size(lengths);
  r.out.length = length.value_or(r.family.length);
  if (!length)
    r.note("max_position_embeddings is not given: " + std::to_string(r.out.length) +
           ", the default of " + r.out.model_type);
}

bool keeps_state(std::string_view layer_type) {
  for (const char* word : {"linear", "conv", "mamba", "recurrent", "lightning", "ssm"})
    if (layer_type.find(word) != std::string_view::npos) return true;
  return false;
}

// per_layer_config: {"3": {"num_attention_heads": 6}}, the differences of single layers.
void read_single_layers(Reading& r) {
  const auto all = r.keys.object_in("per_layer_config");
  if (!all) return;
  all->for_each_member([&](const std::string& number, Json value) {
    std::size_t l = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), l);
    if (error != std::errc() || end != number.data() + number.size())
      value.fail("per_layer_config must name layers by their numbers, got " +
                 gnomon::internal::shown(number));
    if (l >= r.layers.size()) return;
    value.require(JsonType::object, "an entry of per_layer_config");
    Layer& layer = r.layers[l];
    Keys keys(value);
    layer.heads = keys.size({"num_attention_heads"}, max_count).value_or(layer.heads);
    // The size of one layer is that of all layers of its type.
    const auto of_type = [&](const char* name, std::int64_t Layer::* size) {
      const auto given = keys.size({name}, max_count);
      if (!given) return;
      if (layer.*size != 0 && layer.*size != *given)
        value.fail(std::string(name) + " must be the same in all layers of type " + layer.type);
      r.set(size, layer.type, *given);
    };
    of_type("head_dim", &Layer::head_dim);
    of_type("num_key_value_heads", &Layer::key_heads);
  });
}

void read_layer_types(Reading& r) {
  all_layers(r);
  const auto types = r.keys.find({"layer_types"});
  if (!types) return read_single_layers(r);
  const auto names = types->strings("layer_types");
  if (names.size() < r.layers.size())
    types->fail("layer_types must name each of " + std::to_string(r.layers.size()) +
                " layers, got " + std::to_string(names.size()));
  if (names.size() > r.layers.size())
    r.note("layer_types names " + std::to_string(names.size()) + " layers, the model has " +
           std::to_string(r.layers.size()));
  static constexpr std::string_view known[] = {"full_attention",
                                               "sliding_attention",
                                               "chunked_attention",
                                               "attention",
                                               "hybrid",
                                               "hybrid_sliding",
                                               "compressed_sparse_attention",
                                               "heavily_compressed_attention",
                                               "indexed_attention"};
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    if (std::find(std::begin(known), std::end(known), names[l]) == std::end(known) &&
        !keeps_state(names[l]))
      r.note("layer_types: " + gnomon::internal::shown(names[l]) +
             " is unknown: attention is assumed");
    r.layers[l].type = names[l];
    r.layers[l].attends = !keeps_state(names[l]);
  }
  read_single_layers(r);
}

}  // namespace gnomon::model::internal
