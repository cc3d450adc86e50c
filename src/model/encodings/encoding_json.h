// JSON values of encodings and schemes. to_json and encoding_from_json convert them to text.
#pragma once

#include "gnomon/model/encoding.h"
#include "gnomon/model/scheme.h"
#include "src/core/json_value.h"

namespace gnomon::model::internal {

using gnomon::internal::OrderedJson;

OrderedJson json_of(const Encoding& encoding);
// Values that follow from the spec and are not fields of it (Entry::derived), by name.
OrderedJson derived_json(const Encoding& encoding);
OrderedJson json_of(const RopeScaling& scaling);
OrderedJson json_of(const Scheme& scheme);
// Throws std::invalid_argument as encoding_from_json.
Encoding encoding_of(const OrderedJson& json);

}  // namespace gnomon::model::internal
