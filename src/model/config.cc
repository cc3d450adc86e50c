// From a config's text to the reader of its family.
#include "gnomon/model/config.h"

#include <algorithm>
#include <array>

#include "src/core/text.h"
#include "src/model/rules.h"

namespace gnomon::model {
namespace {

using internal::Family;
using internal::Json;
using internal::JsonType;
using internal::Keys;
using internal::Reading;

// The part of a multimodal config that is a language model, in the order of preference.
constexpr std::array parts{"text_config", "llm_config", "language_config", "thinker_config",
                           "text_model_config"};

const Family* find_family(std::string_view model_type) {
  for (const auto list : {internal::rotary_families(), internal::other_families()})
    for (const Family& one : list)
      if (one.model_type == model_type) return &one;
  return nullptr;
}

bool speaks_of_position(std::string_view key) {
  for (const std::string_view word :
       {"rope", "rotary", "alibi", "position", "relative_att", "yarn", "ntk", "rel_pos"})
    if (key.find(word) != std::string_view::npos) return true;
  return false;
}

// Keys that nobody asked for. In a family that is known they change nothing; in one that is not
// they may.
void check_unasked(Reading& r, bool known) {
  r.keys.object().for_each_member([&](const std::string& name, Json value) {
    const bool off = value.is_null() || (value.is(JsonType::boolean) && !value.boolean(name));
    if (off || r.keys.was_asked(name) || !speaks_of_position(name)) return;
    if (!known)
      value.fail("the key \"" + name + "\" of the unknown family " + r.out.model_type +
                 " is not understood, and may change the result");
    r.note("the key " + name + " is not used by " + r.out.model_type);
  });
}

}  // namespace

ModelDescription read_config(std::string_view json, const ConfigOptions& options) {
  const internal::JsonDocument document(json, options.name);
  Json object = document.root();
  if (!object.is(JsonType::object)) object.fail("a config must be a JSON object");

  const auto type_of = [](const Json& one) -> std::optional<std::string> {
    const auto type = one.find("model_type");
    if (!type || type->is_null()) return std::nullopt;
    return type->string("model_type");
  };
  const std::optional<std::string> whole_type = type_of(object);
  std::optional<std::string> type = whole_type;
  std::vector<std::string> notes;
  // Thinker configs have a text part of their own.
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const char* part : parts)
      if (const auto inner = object.find(part); inner && inner->is(JsonType::object)) {
        object = *inner;
        const auto own = type_of(object);
        type = own    ? own
               : type ? std::optional(std::string(internal::language_model_of(*type)))
                      : std::nullopt;
        notes.push_back(std::string("only the language model is described: ") + part);
        deeper = true;
        break;
      }
  }
  if (!type) notes.push_back("model_type is not given");
  const Family* family = type ? find_family(*type) : nullptr;
  const bool known = family != nullptr;
  const Family unknown{.model_type = "", .read = internal::read_unknown, .position = ""};
  if (!known) family = &unknown;

  Reading r(object, options, *family);
  r.out.source = options.name;
  r.out.model_type = gnomon::internal::printable(type.value_or("unknown"), 80);
  r.out.notes = std::move(notes);
  family->read(r);
  check_unasked(r, known);
  if (whole_type) r.out.model_type = gnomon::internal::printable(*whole_type, 80);
  return std::move(r.out);
}

std::vector<FamilyInfo> families() {
  std::vector<FamilyInfo> all;
  const auto number = [](double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  };
  for (const auto list : {internal::rotary_families(), internal::other_families()})
    for (const Family& one : list) {
      FamilyInfo info{
          .model_type = std::string(one.model_type),
          .position = std::string(one.position),
          .base = {},
          .turning = {},
          .head_dim = one.head_dim > 0 ? std::to_string(one.head_dim) : "hidden / heads",
          .layers = std::string(internal::layers_of(one))};
      if (one.position.starts_with("rotary")) {
        info.base = number(one.base);
        info.turning = one.share == 1 ? "all" : number(one.share);
      }
      all.push_back(std::move(info));
    }
  std::sort(all.begin(), all.end(), [](const FamilyInfo& a, const FamilyInfo& b) {
    return a.model_type < b.model_type;
  });
  return all;
}

}  // namespace gnomon::model
