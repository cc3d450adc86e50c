// Facts about the encodings of the list that only `gnomon explain` prints. They repeat the page
// of the encoding, and tests/model/encoding_facts_test.cc compares the two.
#pragma once

#include <string_view>

#include "gnomon/model/encoding.h"

namespace gnomon::model::internal {

struct EncodingFacts {
  std::string_view name;
  std::string_view formula;  // lines of the page
  std::string_view users;    // released models and libraries, separated by ", "; may be empty
};

const EncodingFacts& facts(const EncodingInfo& info);

}  // namespace gnomon::model::internal
