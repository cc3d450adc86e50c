// Encodings as JSON. Each spec names its fields once; reading and writing walk the same list.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/model/encoding.h"

namespace gnomon::model {
namespace {

using Json = nlohmann::ordered_json;

// The spelling of each enum.
template <typename E>
struct Spelling {
  E value;
  const char* text;
};
template <typename E>
constexpr Spelling<E> spellings[1];  // each enum has its own, below
template <>
constexpr Spelling<SinusoidalRecipe> spellings<SinusoidalRecipe>[] = {
    {SinusoidalRecipe::interleaved, "interleaved"},
    {SinusoidalRecipe::half_split, "half_split"},
    {SinusoidalRecipe::tensor2tensor, "tensor2tensor"},
    {SinusoidalRecipe::timestep, "timestep"}};
template <>
constexpr Spelling<SinusoidalOrder> spellings<SinusoidalOrder>[] = {
    {SinusoidalOrder::sine_first, "sine_first"},
    {SinusoidalOrder::cosine_first, "cosine_first"}};
template <>
constexpr Spelling<Pairing> spellings<Pairing>[] = {{Pairing::halves, "halves"},
                                                    {Pairing::adjacent, "adjacent"}};
template <>
constexpr Spelling<T5Direction> spellings<T5Direction>[] = {
    {T5Direction::causal, "causal"}, {T5Direction::bidirectional, "bidirectional"}};

// The fields of each spec, for a visitor v(name, member).
void fields(NoPosition&, auto&&) {}
void fields(Sinusoidal& s, auto&& v) {
  v("dim", s.dim), v("recipe", s.recipe), v("base", s.base);
  v("order", s.order), v("shift", s.shift), v("scale", s.scale);
}
void fields(Learned& s, auto&& v) { v("rows", s.rows), v("dim", s.dim), v("offset", s.offset); }
void fields(Rotary& s, auto&& v) {
  v("dim", s.dim), v("pairing", s.pairing), v("base", s.base), v("first", s.first);
}
void fields(Alibi& s, auto&& v) {
  v("heads", s.heads), v("max_bias", s.max_bias);
  v("head_offset", s.head_offset), v("local_heads", s.local_heads);
}
void fields(T5Bias& s, auto&& v) {
  v("heads", s.heads), v("direction", s.direction);
  v("buckets", s.buckets), v("max_distance", s.max_distance);
}
void fields(ClippedBias& s, auto&& v) {
  v("heads", s.heads), v("before", s.before), v("after", s.after);
}

struct Writer {
  Json& json;
  template <typename T>
  void operator()(const char* name, T& member) const {
    if constexpr (std::is_enum_v<T>) {
      for (const auto& [value, text] : spellings<T>)
        if (value == member) json[name] = text;
    } else {
      json[name] = member;
    }
  }
};

struct Reader {
  const Json& json;
  std::size_t read = 0;  // how many of the keys were understood

  template <typename T>
  void operator()(const char* name, T& member) {
    const auto found = json.find(name);
    if (found == json.end()) return;  // the spec's own default, or refused by its own checks
    ++read;
    if constexpr (std::is_enum_v<T>) {
      std::string known;
      for (const auto& [value, text] : spellings<T>) {
        known += (known.empty() ? "" : ", ") + std::string(text);
        if (found->is_string() && *found == text) {
          member = value;
          return;
        }
      }
      refuse("encoding", std::string(name) + " must be one of " + known, found->dump());
    } else if constexpr (std::is_integral_v<T>) {
      if (!found->is_number_integer())
        refuse("encoding", std::string(name) + " must be an integer", found->dump());
      member = found->template get<T>();
    } else {
      if (!found->is_number())
        refuse("encoding", std::string(name) + " must be a number", found->dump());
      member = found->template get<T>();
    }
  }
};

struct Namer {
  std::string& names;
  template <typename T>
  void operator()(const char* name, T&) const {
    names += std::string(", ") + name;
  }
};

template <std::size_t... i>
Encoding alternative(std::size_t index, std::index_sequence<i...>) {
  Encoding encoding;
  ((i == index ? void(encoding.emplace<i>()) : void()), ...);
  return encoding;
}

}  // namespace

std::string to_json(const Encoding& encoding) {
  Json json{{"kind", info(encoding).name}};
  Encoding copy = encoding;
  std::visit([&](auto& spec) { fields(spec, Writer{json}); }, copy);
  return json.dump();
}

Encoding encoding_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse("encoding", "must be a JSON object", text);
  const auto kind = json.find("kind");
  if (kind == json.end() || !kind->is_string())
    refuse("encoding", "must have a string \"kind\"", text);
  const EncodingInfo& entry = find_encoding(kind->get<std::string>());
  Encoding encoding = alternative(static_cast<std::size_t>(&entry - encodings().data()),
                                  std::make_index_sequence<std::variant_size_v<Encoding>>());
  std::visit(
      [&](auto& spec) {
        Reader reader{json};
        fields(spec, reader);
        if (reader.read + 1 == json.size()) return;
        std::string known = "kind";  // name the keys there are: the typing error then shows
        fields(spec, Namer{known});
        refuse(entry.name, "keys must be among " + known, text);
      },
      encoding);
  return encoding;
}

}  // namespace gnomon::model
