// JSON of encodings. Each spec names its fields once, for reading and writing.
#include "src/model/encodings/encoding_json.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/model/description.h"
#include "gnomon/model/encoding.h"
#include "src/core/json.h"
#include "src/model/encodings/all.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<YarnRamp> spellings<YarnRamp>[] = {
    {YarnRamp::whole_pairs, "whole_pairs"}, {YarnRamp::fractional, "fractional"}};

namespace {

using internal::OrderedJson;

// Fields of each scaling.
void fields(NoScaling&, auto&&) {}
void fields(LinearScaling& s, auto&& v) { v("factor", s.factor); }
void fields(NtkScaling& s, auto&& v) { v("factor", s.factor); }
void fields(DynamicNtkScaling& s, auto&& v) {
  v("factor", s.factor), v("trained_length", s.trained_length);
}
void fields(YarnScaling& s, auto&& v) {
  v("factor", s.factor), v("original_length", s.original_length);
  v("beta_fast", s.beta_fast), v("beta_slow", s.beta_slow), v("ramp", s.ramp);
  v("attention_factor", s.attention_factor), v("mscale", s.mscale);
  v("mscale_all_dim", s.mscale_all_dim), v("softmax_mscale", s.softmax_mscale);
}
void fields(LongRopeScaling& s, auto&& v) {
  v("factor", s.factor), v("original_length", s.original_length);
  v("attention_factor", s.attention_factor);
  v("long_attention_factor", s.long_attention_factor);
  v("short_factors", s.short_factors), v("long_factors", s.long_factors);
}
void fields(Llama3Scaling& s, auto&& v) {
  v("factor", s.factor), v("low_freq_factor", s.low_freq_factor);
  v("high_freq_factor", s.high_freq_factor), v("original_length", s.original_length);
}
void fields(ProportionalScaling& s, auto&& v) {
  v("rotated_pairs", s.rotated_pairs), v("factor", s.factor);
}
void fields(FrequencyFactors& s, auto&& v) { v("factors", s.factors); }
void fields(ClippedScaling& s, auto&& v) {
  v("original_length", s.original_length), v("clipped_pairs", s.clipped_pairs);
}

template <typename T>
constexpr bool is_optional = false;
template <typename T>
constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
constexpr bool is_vector = false;
template <typename T>
constexpr bool is_vector<std::vector<T>> = true;

template <typename T>
concept nested = requires(T& value) { nested_fields(value, [](const char*, auto&) {}); };

struct Writer {
  OrderedJson& json;
  template <typename T>
  void operator()(const char* name, T& member) const {
    if constexpr (std::is_enum_v<T>) {
      for (const auto& [value, text] : spellings<T>)
        if (value == member) json[name] = text;
    } else if constexpr (std::is_same_v<T, RopeScaling>) {
      json[name] = {{"type", gnomon::name(member)}};
      std::visit([&](auto& scaling) { fields(scaling, Writer{json[name]}); }, member);
    } else if constexpr (is_optional<T>) {
      if (member) json[name] = *member;
    } else if constexpr (nested<T>) {
      json[name] = object(member);
    } else if constexpr (is_vector<T>) {
      json[name] = OrderedJson::array();
      for (auto& element : member)
        if constexpr (nested<typename T::value_type>)
          json[name].push_back(object(element));
        else
          json[name].push_back(element);
    } else {
      json[name] = member;
    }
  }
  template <typename T>
  static OrderedJson object(T& value) {
    OrderedJson json = OrderedJson::object();
    nested_fields(value, Writer{json});
    return json;
  }
};

template <typename Variant, std::size_t... i>
Variant alternative(std::size_t index, std::index_sequence<i...>) {
  Variant variant;
  ((i == index ? void(variant.template emplace<i>()) : void()), ...);
  return variant;
}
template <typename Variant>
Variant alternative(std::size_t index) {
  return alternative<Variant>(index, std::make_index_sequence<std::variant_size_v<Variant>>());
}

// Throws unless `holds`. `wanted`: the requirement for the message.
void require(bool holds, const char* name, const char* wanted, const OrderedJson& value) {
  if (!holds)
    refuse("encoding", std::string(name) + " must be " + wanted,
           std::string_view(value.dump()));
}

// Name of a field in the JSON of earlier versions.
std::string_view earlier_name(std::string_view name) {
  return name == "rotated_pairs" ? "turning" : name;
}

struct Reader {
  const OrderedJson& json;
  std::size_t read = 0;  // number of known keys

  template <typename T>
  void operator()(const char* name, T& member) {
    auto found = json.find(name);
    if (found == json.end()) found = json.find(earlier_name(name));
    if (found == json.end()) return;  // default of the spec, or refused by its checks
    ++read;
    assign(name, *found, member);
  }

  template <typename T>
  static void assign(const char* name, const OrderedJson& value, T& member) {
    if constexpr (std::is_enum_v<T>) {
      std::string known;
      for (const auto& [one, text] : spellings<T>) {
        known += (known.empty() ? "" : ", ") + std::string(text);
        if (gnomon::internal::is_text(value, text)) {
          member = one;
          return;
        }
      }
      refuse("encoding", std::string(name) + " must be one of " + known,
             std::string_view(value.dump()));
    } else if constexpr (std::is_same_v<T, RopeScaling>) {
      member = scaling(name, value);
    } else if constexpr (is_optional<T>) {
      assign(name, value, member.emplace());
    } else if constexpr (nested<T>) {
      require(value.is_object(), name, "an object", value);
      Reader reader{value};
      nested_fields(member, reader);
      require(reader.read == value.size(), name, "an object without unknown keys", value);
    } else if constexpr (is_vector<T>) {
      require(value.is_array(), name, "a list", value);
      for (const OrderedJson& element : value) assign(name, element, member.emplace_back());
    } else if constexpr (std::is_integral_v<T>) {
      require(value.is_number_integer(), name, "an integer", value);
      member = value.template get<T>();
    } else {
      require(value.is_number(), name, "a number", value);
      member = value.template get<T>();
    }
  }

  static RopeScaling scaling(const char* name, const OrderedJson& value) {
    require(value.is_object() && value.contains("type") && value["type"].is_string(), name,
            "an object with a \"type\"", value);
    std::string types;
    for (std::size_t i = 0; i < std::variant_size_v<RopeScaling>; ++i) {
      RopeScaling one = alternative<RopeScaling>(i);
      types += std::string(types.empty() ? "" : ", ").append(gnomon::name(one));
      if (!gnomon::internal::is_text(value["type"], gnomon::name(one))) continue;
      Reader reader{value};
      std::visit([&](auto& spec) { fields(spec, reader); }, one);
      require(reader.read + 1 == value.size(), name, "an object without unknown keys", value);
      return one;
    }
    refuse("encoding", "the type of " + std::string(name) + " must be one of " + types,
           std::string_view(value["type"].dump()));
  }
};

struct Namer {
  std::string& names;
  template <typename T>
  void operator()(const char* name, T&) const {
    names += std::string(", ") + name;
  }
};

template <typename Spec>
void fields_of(Spec& spec, auto&& visitor) {
  Entry<Spec>::fields(spec, visitor);
}

// Returns the spec of a kind with default fields.
Encoding of_kind(std::string_view kind) {
  std::string kinds;
  for (std::size_t i = 0; i < std::variant_size_v<Encoding>; ++i) {
    Encoding one = alternative<Encoding>(i);
    if (info(one).name == kind) return one;
    kinds += (kinds.empty() ? "" : ", ") + std::string(info(one).name);
  }
  refuse("encoding", "kind must be one of " + kinds, kind);
}

}  // namespace

OrderedJson internal::json_of(const Encoding& encoding) {
  OrderedJson json{{"kind", info(encoding).name}};
  Encoding copy = encoding;
  std::visit([&](auto& spec) { fields_of(spec, Writer{json}); }, copy);
  return json;
}

OrderedJson internal::derived_json(const Encoding& encoding) {
  OrderedJson json = OrderedJson::object();
  const auto put = [&](const char* name, const auto& value) { json[name] = value; };
  std::visit([&]<typename Spec>(const Spec& spec) { Entry<Spec>::derived(spec, put); },
             encoding);
  return json;
}

std::string kind(const Encoding& encoding) {
  return std::visit(
      []<typename Spec>(const Spec& spec) -> std::string {
        if constexpr (requires { Entry<Spec>::frequencies(spec, 1); }) return "rotary";
        if constexpr (requires { Entry<Spec>::kind(spec); }) return Entry<Spec>::kind(spec);
        std::string name(Entry<Spec>::infos[0].name);
        std::replace(name.begin(), name.end(), '-', '_');
        return name;
      },
      encoding);
}

OrderedJson internal::json_of(const RopeScaling& scaling) {
  OrderedJson json = OrderedJson::object();
  RopeScaling copy = scaling;
  Writer{json}("scaling", copy);
  return json["scaling"];
}

std::string to_json(const Encoding& encoding) { return internal::json_of(encoding).dump(); }
std::string to_json(const RopeScaling& scaling) { return internal::json_of(scaling).dump(); }

Encoding encoding_from_json(std::string_view text) {
  return internal::encoding_of(
      gnomon::internal::parse_json<OrderedJson>(text, "encoding", "the text"));
}

Encoding internal::encoding_of(const OrderedJson& json) {
  const auto text = [&] { return json.dump(); };
  if (!json.is_object()) refuse("encoding", "must be a JSON object", text());
  const auto kind = json.find("kind");
  if (kind == json.end() || !kind->is_string())
    refuse("encoding", "must have a string \"kind\"", text());
  Encoding encoding = of_kind(kind->get<std::string>());
  std::visit(
      [&](auto& spec) {
        Reader reader{json};
        fields_of(spec, reader);
        if (reader.read + 1 == json.size()) return;
        std::string known = "kind";  // list of known keys, to show typing errors
        fields_of(spec, Namer{known});
        refuse(info(encoding).name, "keys must be of " + known, text());
      },
      encoding);
  return encoding;
}

}  // namespace gnomon::model
