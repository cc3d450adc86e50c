// Dictionary of a rotary encoding: rope_scaling, rope_parameters or one of its layer types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/core/text.h"
#include "src/model/config/reading.h"

namespace gnomon::model::internal {

// Dictionary without unknown keys: an unknown key may change the frequencies, so it is an
// error.
class Dictionary {
 public:
  Dictionary(Reading& r, Json object, std::optional<Json> over = {})
      : r_(r), keys_(object, over) {}

  Keys& keys() { return keys_; }
  Json object() const { return keys_.object(); }

  double required(std::string_view name) {  // positive
    const auto value = keys_.positive({name});
    if (!value) object().fail("a scaling of type " + type_ + " must have " + std::string(name));
    return *value;
  }
  double factor() {
    const double value = required("factor");
    if (value < 1) r_.note("factor " + shown(value) + " is less than 1: the context shrinks");
    return value;
  }

  // `rope_type`, or before 4.45 `type`.
  std::string type() {
    const auto name = keys_.string({"rope_type", "type"});
    if (!name && keys_.find({"factor"}))
      object().fail("a scaling with a factor must have rope_type");
    const auto other = keys_.string({"type"});
    if (name && other && *name != *other)
      r_.note("type " + *other + " is not used, because rope_type is given: " + *name);
    return type_ = name.value_or("default");
  }

  // original_max_position_embeddings: the top-level value (unless this is the entry of a layer
  // type), then the value in this dictionary, then max_position_embeddings.
  std::int64_t original_length() {
    constexpr std::string_view name = "original_max_position_embeddings";
    auto beside = r_.keys.size({name});
    const auto inside = keys_.size({name});
    if (beside && r_.by_layer_type) {
      r_.note(std::string(name) +
              " at the top level is not used if rope_parameters has entries by layer type");
      beside.reset();
    }
    if (beside && inside && *beside != *inside)
      r_.note(std::string(name) + " " + std::to_string(*inside) +
              " of the scaling is not used: the top-level value is " + std::to_string(*beside));
    if (beside || inside) return beside ? *beside : *inside;
    r_.note(std::string(name) + " is not given: max_position_embeddings " +
            std::to_string(r_.out.length) + " is used");
    return r_.out.length;
  }
  bool original_length_given() {
    constexpr std::string_view name = "original_max_position_embeddings";
    return keys_.find({name}) || (!r_.by_layer_type && r_.keys.find({name}));
  }

  // Throws FormatError at a key that was never read.
  void finish() {
    const auto length = keys_.size({"max_position_embeddings"});
    if (length && *length != r_.out.length)
      r_.note("max_position_embeddings " + std::to_string(*length) +
              " of the scaling is not used: the top-level value is " +
              std::to_string(r_.out.length));
    const auto check = [&](const std::string& name, Json value) {
      if (!keys_.was_read(name))
        value.fail("the key \"" + name + "\" of a scaling of type " + type_ +
                   " is not understood, and may change the frequencies");
    };
    object().for_each_member(check);
    if (keys_.over()) keys_.over()->for_each_member(check);
  }

 private:
  Reading& r_;
  Keys keys_;
  std::string type_;
};

// Reads the scaling. `rotary` has the rotated elements; some scalings change it.
RopeScaling read_scaling(Reading& r, Dictionary& d, Rotary& rotary, std::int64_t head_dim);

}  // namespace gnomon::model::internal
