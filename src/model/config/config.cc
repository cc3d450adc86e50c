// Dispatch from the text of a config to the reader of its family.
#include "gnomon/model/config.h"

#include <algorithm>

#include "gnomon/error.h"
#include "src/core/text.h"
#include "src/model/config/parts.h"
#include "src/model/config/subject.h"
#include "src/model/families/rules.h"

namespace gnomon::model {
namespace {

using internal::Family;
using internal::Json;
using internal::JsonType;
using internal::names_of;
using internal::Part;
using internal::Reading;
using internal::Subject;
using internal::type_of;

bool is_position_key(std::string_view key) {
  for (const std::string_view word :
       {"rope", "rotary", "alibi", "position", "relative_att", "yarn", "ntk", "rel_pos"})
    if (key.find(word) != std::string_view::npos) return true;
  return false;
}

// Checks keys about position that were never read. In a known family they have no effect: a
// note. In an unknown family they may have one: an error.
void check_unread_keys(Reading& r, bool known) {
  r.keys.object().for_each_member([&](const std::string& name, Json value) {
    const bool off = value.is_null() || (value.is(JsonType::boolean) && !value.boolean(name));
    if (off || r.keys.was_read(name) || !is_position_key(name)) return;
    if (!known)
      value.fail("the key \"" + name + "\" of the unknown family " + r.out.model_type +
                 " is not understood, and may change the result");
    r.note("the key " + name + " is not used by " + r.out.model_type);
  });
}

bool has_layers(const Json& object) {
  for (const std::string_view name : {"num_hidden_layers", "n_layer", "n_layers", "num_layers"})
    if (object.find(name)) return true;
  return false;
}

// Returns the parts that are not described.
std::vector<Part> others(std::vector<Part> parts, const std::string& path) {
  std::erase_if(parts, [&](const Part& part) {
    return path == part.path || path.starts_with(part.path + ".") ||
           (!path.empty() && part.path.starts_with(path + "."));
  });
  return parts;
}

std::vector<std::string> notes_on(const Subject& subject, const std::string& wanted) {
  std::vector<std::string> notes;
  const std::vector<Part> left = others(subject.parts, subject.path);
  if (!wanted.empty())
    notes.push_back("only the part " + subject.path + " is described");
  else if (!subject.path.empty())
    notes.push_back("only the language model is described: " + subject.path +
                    (left.empty() ? "" : "; other parts: " + names_of(left)));
  else if (!left.empty())
    notes.push_back("these parts are not described: " + names_of(left));
  if (!subject.type) notes.push_back("model_type is not given");
  return notes;
}

// Applies what a multimodal model changes in its language model.
void read_whole(Reading& r, std::string_view type) {
  const Family* const whole = internal::find_row(type);
  if (!whole || whole->read) return;
  if (!whole->unsupported.empty()) r.unsupported = whole->unsupported;
  if (!whole->note.empty()) r.note(std::string(whole->note));
}

}  // namespace

internal::Subject internal::find_subject(const Json& whole, const std::string& wanted) {
  if (!whole.is(JsonType::object)) whole.fail("a config must be a JSON object");
  Subject subject{.object = whole, .type = type_of(whole)};
  if (subject.type) subject.types.push_back(*subject.type);
  subject.parts = find_parts(whole, subject.type.value_or(""));
  const auto enter = [&](const Part& part) {
    subject.object = part.object;
    subject.path = part.path;
    subject.type.reset();
    if (part.type.empty()) return;
    subject.type = part.type;
    subject.types.push_back(part.type);
  };
  if (!wanted.empty()) enter(find_part(whole, subject.parts, wanted));
  // Thinker configs contain a text config.
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const std::string name : language_parts) {
      const std::string path = subject.path.empty() ? name : subject.path + "." + name;
      const auto found = std::find_if(subject.parts.begin(), subject.parts.end(),
                                      [&](const Part& part) { return part.path == path; });
      if (found == subject.parts.end()) continue;
      enter(*found);
      deeper = true;
      break;
    }
  }
  return subject;
}

ModelDescription internal::describe(const Json& whole, const Subject& subject,
                                    const ConfigOptions& options) {
  const auto whole_type = type_of(whole);
  const Json& object = subject.object;
  const auto& type = subject.type;

  const Family* family = type ? internal::find_family(*type) : nullptr;
  const bool known = family != nullptr;
  const Family unknown{
      .position = "", .read = internal::read_unknown, .share_keys = internal::ShareKeys::any};
  if (!known) family = &unknown;
  const Family* const row = type ? internal::find_row(*type) : nullptr;
  const std::string parts = subject.path.empty() && !subject.parts.empty()
                                ? "; its parts: " + names_of(subject.parts)
                                : "";
  if (row && !row->refused.empty())
    object.fail("model_type " + *type + " is not read: " + std::string(row->refused) + parts);
  const bool has_parts =
      row && (!parts.empty() || !row->parts.empty() || !row->language.empty());
  if (!known && (has_parts ? !parts.empty() || !has_layers(object)
                           : !parts.empty() && !has_layers(object)))
    object.fail("model_type " + type.value_or("(none)") +
                (has_parts ? " has no language model" : " is not known as a language model") +
                parts);

  Reading r(object, options, *family);
  r.out.source = options.name;
  r.out.model_type = gnomon::internal::printable(type.value_or("unknown"), 80);
  for (std::string& note : notes_on(subject, options.part)) r.note(std::move(note));
  family->read(r);
  read_attention(r);
  if (!known && r.unsupported.empty()) r.unsupported = "masks and norms of an unknown family";
  if (whole_type && options.part.empty()) read_whole(r, *whole_type);
  finish(r);
  check_unread_keys(r, known);
  if (whole_type && options.part.empty())
    r.out.model_type = gnomon::internal::printable(*whole_type, 80);
  return std::move(r.out);
}

ModelDescription read_config(std::string_view json, const ConfigOptions& options) {
  const internal::JsonDocument document(json, options.name);
  const Json whole = document.root();
  const Subject subject = internal::find_subject(whole, options.part);
  ModelDescription model = internal::describe(whole, subject, options);
  const auto rotates = [](const LayerGroup& group) {
    return std::any_of(group.position.begin(), group.position.end(), [](const Encoding& one) {
      return std::holds_alternative<ScaledRotary>(one);
    });
  };
  const bool known = subject.type && internal::find_family(*subject.type);
  if (options.assume_pairing &&
      (known || std::none_of(model.groups.begin(), model.groups.end(), rotates)))
    refuse("config", "assume_pairing must be given only for an unknown family that rotates",
           model.model_type);
  return model;
}

std::vector<FamilyInfo> families() {
  std::vector<FamilyInfo> all;
  const auto number = [](double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  };
  for (const Family& one : internal::all_families()) {
    if (!one.read || one.model_type.empty()) continue;
    FamilyInfo info{
        .model_type = std::string(one.model_type),
        .position = std::string(one.position),
        .base = {},
        .rotated = {},
        .head_dim = one.head_dim > 0 ? std::to_string(one.head_dim) : "hidden / heads",
        .layers = std::string(one.differences)};
    if (one.position.starts_with("rotary")) {
      info.base = number(one.base);
      info.rotated = one.rotary_dim > 0 ? std::to_string(one.rotary_dim) + " elements"
                     : one.share == 1   ? "all"
                                        : number(one.share);
    }
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace gnomon::model
