// Rotary encodings from the dictionaries `rope_scaling` and `rope_parameters`.
#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "gnomon/error.h"
#include "src/model/config/dictionary.h"
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

// Returns the axis of each pair, from M-RoPE's sections.
std::vector<std::int32_t> read_axes(Reading& r, Dictionary* d, std::int64_t pairs) {
  const auto& [known, usual] = std::pair(r.family.mrope, r.family.sections);
  MRopeOrder order = known.value_or(MRopeOrder::sequential);
  std::optional<Json> sections;
  if (d) {
    if (d->keys().boolean({"mrope_interleaved"}).value_or(false))
      order = MRopeOrder::interleaved;
    d->keys().find({"interleaved"});
    sections = d->keys().find({"mrope_section"});
  }
  if (!sections && !known) return {};
  if (!known)
    r.note(
        "mrope_section is unknown for this family: sequential sections are assumed unless "
        "mrope_interleaved is true");
  try {
    return mrope_axes(order,
                      sections ? sections->integers("mrope_section")
                               : std::vector(usual.begin(), usual.end()),
                      pairs);
  } catch (const std::invalid_argument& error) {
    if (!sections) {
      r.note("mrope_section is not given, and the default of the family does not fit " +
             std::to_string(pairs) + " pairs: all pairs use one axis");
      return {};
    }
    const std::string why = error.what();
    sections->fail("mrope_section does not fit " + std::to_string(pairs) +
                   " pairs: " + why.substr(why.find(']') + 2));
  }
}

// Rotary dimension, and the key that defines it: a number of elements, or a share of the head.
struct RotatedPart {
  std::int64_t dim;
  std::optional<Json> source = {};
  double share = 0;  // of the head, from which dim follows; 0: dim was given
};
RotatedPart read_dim(Reading& r, Dictionary* d, std::int64_t head_dim) {
  const auto read = [&](Keys& keys, Keys::Names names) -> std::optional<RotatedPart> {
    const auto share = keys.share(names);
    if (!share) return std::nullopt;
    return RotatedPart{of_head(head_dim, *share), keys.find(names), *share};
  };
  constexpr std::string_view factor = "partial_rotary_factor";
  const auto inside = d ? read(d->keys(), {factor}) : std::nullopt;
  if (r.rotary_dim && (r.head_offset > 0 || !inside)) {
    if (inside && inside->dim != *r.rotary_dim)
      r.note("partial_rotary_factor " + inside->source->shown() +
             " is not used: " + std::to_string(*r.rotary_dim) + " elements rotate");
    return {*r.rotary_dim, r.keys.find({"rotary_dim", "qk_rope_head_dim"})};
  }
  // transformers reads partial_rotary_factor, except in GPT-NeoX.
  const ShareKeys known = r.family.share_keys;
  const auto beside =
      known == ShareKeys::any
          ? read(r.keys, {factor, "rotary_pct", "rope_pct", "rotary_percent", "rope_percent",
                          "rotary_percentage", "rotary_emb_fraction"})
          : read(r.keys, {known == ShareKeys::rotary_pct ? "rotary_pct" : factor});
  const Keys::Names sizes = {"rotary_dim", "rotary_ndims", "rotary_emb_dim"};
  std::optional<std::int64_t> dim;
  if (known == ShareKeys::any) dim = r.keys.size(sizes);
  if (inside && beside && inside->dim != beside->dim)
    r.note("the top-level partial_rotary_factor is not used: the value of the scaling is " +
           inside->source->shown());
  const auto scaled = [&] {
    const std::string type = d ? d->type() : "default";
    return type != "default" && type != "mrope" && type != "none";
  };
  if ((inside || beside) && known == ShareKeys::unread && !scaled()) {
    const std::int64_t given = inside ? inside->dim : beside->dim;
    if (given != head_dim)
      r.note("the rotated share of a head, " + std::to_string(given) + " of " +
             std::to_string(head_dim) + " elements, is not used: " + r.out.model_type +
             " rotates the whole head");
    return {head_dim};
  }
  if (inside || beside) {
    const RotatedPart& taken = inside ? *inside : *beside;
    if (dim && *dim != taken.dim)
      r.note("rotary_dim " + std::to_string(*dim) + " is not used: " +
             std::to_string(taken.dim) + " elements rotate, a share of the head");
    return taken;
  }
  if (dim) return {*dim, r.keys.find(sizes)};
  if (r.family.share != 1)
    r.note("partial_rotary_factor is not given: " + shown(r.family.share) +
           ", the default of " + r.out.model_type);
  return {of_head(head_dim, r.family.share), {}, r.family.share};
}

// Throws FormatError if scaled_frequencies throws, if a frequency is not finite, or if a scale
// is not finite and positive.
void check_frequencies(Reading& r, const Rope& rope, const std::optional<Json>& dictionary) {
  const auto fail = [&](const std::string& reason) {
    if (dictionary) dictionary->fail(reason);
    r.fail(reason);
  };
  try {
    const auto scaled = scaled_frequencies(rope.rotary, rope.scaling, r.out.length);
    const auto bad = [](double value) { return !std::isfinite(value); };
    if (std::any_of(scaled.inv_freq.begin(), scaled.inv_freq.end(), bad))
      fail("the frequencies must be finite");
    for (const double scale : {scaled.table_scale, scaled.softmax_scale})
      if (bad(scale) || !(scale > 0))
        fail("the scales of the rotation and the softmax must be finite and positive, got " +
             shown(scale));
  } catch (const std::invalid_argument& error) {
    std::string why = error.what();  // "[scaling] factor must be ..."
    why.erase(0, why.find(']') + 2);
    if (dictionary)
      if (const auto value = dictionary->find(why.substr(0, why.find(' ')))) value->fail(why);
    fail(why);
  }
}

}  // namespace

Rope read_rope(Reading& r, std::optional<Json> dictionary, double base, const std::string& type,
               std::optional<Json> over) {
  if (r.ropes.size() == max_kinds)
    r.fail("layers must have at most " + std::to_string(max_kinds) + " different rotations");
  const std::int64_t head_dim = r.head_dim_of(type);
  std::optional<Dictionary> d;
  if (dictionary) {
    if (!dictionary->is(JsonType::object))
      dictionary->fail("rope_scaling and rope_parameters must be objects, got " +
                       dictionary->shown());
    d.emplace(r, *dictionary, over);
  }
  RotatedPart rotated = read_dim(r, d ? &*d : nullptr, head_dim);
  const bool odd =
      rotated.dim % 2 != 0 && rotated.dim + 1 <= head_dim - r.head_offset && r.family.odd_share;
  const std::int64_t found = rotated.dim;
  if (odd) ++rotated.dim;
  Rope rope{.rotary = {.rotary_dim = rotated.dim,
                       .pairing = r.family.pairing,
                       .base = base,
                       .head_offset = r.head_offset}};
  if (d) rope.rotary.base = d->keys().base({"rope_theta"}).value_or(base);
  if (odd) {
    const double given = rope.rotary.base, dim = static_cast<double>(rotated.dim);
    rope.rotary.base = std::pow(given, dim / (dim - 1));
    r.note("the rotated share of a head is odd: " + std::to_string(rotated.dim) +
           " elements rotate by " + shown(given) + "^(-2i/" + std::to_string(rotated.dim - 1) +
           "), so the base is " + shown(rope.rotary.base));
  }
  const auto refuse_dim = [&](const std::string& rule) {
    std::string reason =
        "the number of rotated elements must be " + rule + ", got " + std::to_string(found);
    const double exact = rotated.share * static_cast<double>(head_dim);
    if (exact != 0 && exact != static_cast<double>(found))
      reason += " (" + shown(rotated.share) + " of " + std::to_string(head_dim) +
                " elements is " + shown(exact) + ", rounded down)";
    if (rotated.source) rotated.source->fail(reason);
    r.fail(reason);
  };
  if (rotated.dim < 2 || rotated.dim > head_dim - r.head_offset)
    refuse_dim("2 to the head dimension " + std::to_string(head_dim - r.head_offset));
  if (d) rope.scaling = read_scaling(r, *d, rope.rotary, head_dim);
  const bool of_base = std::holds_alternative<DynamicNtkScaling>(rope.scaling) ||
                       std::holds_alternative<NtkScaling>(rope.scaling);
  if (rope.rotary.rotary_dim % 2 != 0 || (odd && of_base)) refuse_dim("even");
  std::int64_t frequencies = rope.rotary.rotary_dim / 2;
  for (const auto& [other, one] : r.ropes) frequencies += one.rotary.rotary_dim / 2;
  if (frequencies > max_frequencies)
    r.fail("all kinds of layers together must have at most " + std::to_string(max_frequencies) +
           " frequencies");
  rope.axes = read_axes(r, d ? &*d : nullptr, rope.rotary.rotary_dim / 2);
  if (d) d->finish();
  check_frequencies(r, rope, dictionary);
  return rope;
}

namespace {

void read_given_ropes(Reading& r) {
  auto base = r.keys.base({"rope_theta", "rotary_emb_base", "rope_base", "rotary_base",
                           "rope_freq_base", "freq_base"});
  auto dictionary = r.keys.find({"rope_scaling"});
  const auto parameters = r.keys.find({"rope_parameters"});
  const auto empty = [](const Json& one) {
    bool any = false;
    one.for_each_member([&](const std::string&, Json) { any = true; });
    return one.is(JsonType::object) && !any;
  };
  if (dictionary && empty(*dictionary)) dictionary.reset();
  const auto by_type = [&](const std::optional<Json>& one) {
    bool any = false;
    if (one)
      one->for_each_member(
          [&](const std::string&, Json value) { any = any || value.is(JsonType::object); });
    return any;
  };
  // Keys added to the entries of rope_parameters.
  std::optional<Json> added;
  if (!r.scaled.empty() && dictionary && by_type(parameters) && !by_type(dictionary))
    std::swap(added, dictionary);
  const auto inner_theta = [](const std::optional<Json>& one) {
    return one && one->is(JsonType::object) && Keys(*one).find({"rope_theta"});
  };
  if (dictionary && parameters) {
    r.note(
        "rope_scaling and rope_parameters are both given: rope_scaling is used, with the base "
        "of rope_parameters if only that has one; transformers 5.23 ignores that base");
    if (!base && inner_theta(parameters)) base = Keys(*parameters).base({"rope_theta"});
  }
  if (!dictionary) dictionary = parameters;
  if (!dictionary && !r.family.rope.empty()) {
    r.note("rope_parameters is not given: the defaults of " + r.out.model_type);
    r.defaults =
        std::make_shared<JsonDocument>(r.family.rope, "the defaults of " + r.out.model_type);
    dictionary = r.defaults->root();
    read_temperature(r, *dictionary);
  }
  const double usual = base.value_or(r.family.base);
  r.by_layer_type = by_type(dictionary);
  if (r.by_layer_type) {
    const auto base_of = [&](const std::string& type) {
      const auto found = r.bases.find(type);
      return found == r.bases.end() ? usual : found->second;
    };
    const auto over = [&](const std::string& type) {
      return r.scaled.contains(type) ? added : std::nullopt;
    };
    std::map<std::string, bool> rotates;  // by layer type; false if the entry is null
    for (const Layer& layer : r.layers) rotates.emplace(layer.type, true);
    dictionary->for_each_member([&](const std::string& type, Json value) {
      const auto of_layers = rotates.find(type);
      if (!value.is(JsonType::object) && !value.is_null()) {
        if (of_layers != rotates.end())
          value.fail(
              "rope_parameters must be one dictionary, or one for each layer type; got " +
              value.shown());
        return r.note("the key " + type +
                      " of rope_parameters is not used: it has entries by "
                      "layer type");
      }
      if (of_layers == rotates.end())
        return r.note("rope_parameters has an entry for " + type + ", the type of no layer");
      if (!of_layers->second || r.ropes.contains(type)) value.fail(type + " occurs twice");
      if (!value.is_null())
        r.ropes[type] = read_rope(r, value, base_of(type), type, over(type));
      else if (!r.bases.contains(type))
        of_layers->second = false;
    });
    for (Layer& layer : r.layers) {
      layer.rotates = layer.rotates && rotates[layer.type];
      if (!layer.attends || !layer.rotates || r.ropes.contains(layer.type)) continue;
      if (!r.bases.contains(layer.type))
        dictionary->fail("rope_parameters must have an entry for the layer type " + layer.type);
      r.note("rope_parameters has no entry for " + layer.type + ": rope_theta " +
             shown(base_of(layer.type)));
      r.ropes[layer.type] = read_rope(r, added, base_of(layer.type), layer.type);
    }
    return;
  }
  if (base && inner_theta(dictionary) && *Keys(*dictionary).base({"rope_theta"}) != *base)
    r.note("rope_theta " + shown(*base) + " at the top level is not used");
  if (!base && !inner_theta(dictionary))
    r.note("rope_theta is not given: " + shown(r.family.base) + ", the default of " +
           r.out.model_type);
  r.ropes.emplace("", read_rope(r, dictionary, usual));
}

}  // namespace

void read_ropes(Reading& r) {
  try {
    read_given_ropes(r);
  } catch (const FormatError& error) {
    if (!r.defaults || error.file() != r.defaults->name()) throw;
    r.fail(error.file() + " do not fit: " + error.reason());
  }
}

void read_rotary(Reading& r) {
  if (r.out.layers == 0) read_sizes(r);
  if (r.layers.empty()) read_layer_types(r);
  if (r.family.rotary_dim != 0) r.rotary_dim = r.size({"rotary_dim"}, r.family.rotary_dim);
  read_ropes(r);
  put_ropes(r);
}

}  // namespace gnomon::model::internal
