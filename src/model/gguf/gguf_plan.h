// A model while its conversion to a GGUF file is planned.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "gnomon/model/description.h"
#include "gnomon/model/gguf_conversion.h"
#include "src/io/json.h"
#include "src/model/families/family.h"

namespace gnomon::model::internal {

struct GgufPlan {
  const Family& family;
  const ModelDescription& model;
  gnomon::internal::Json config;
  GgufConversion& out;
  std::map<char, std::int64_t> extents = {};  // by the letters of GgufTensorName

  std::string_view architecture() const { return family.gguf_weights.architecture; }
  // Adds a key of the architecture, or a key with another prefix.
  void put(std::string_view key, GgufValue value);
  void put_general(std::string key, GgufValue value);
  void note(std::string text);
};

// Adds the tensors of the checkpoint. Sets the extents V, F and E.
void put_tensors(GgufPlan& plan, std::string_view config,
                 std::span<const io::TensorEntry> tensors, const GgufOptions& options);
// Adds tensors of factors, if the scaling has them, before those of the checkpoint.
void put_factors(GgufPlan& plan);
// Adds keys, from the description of the model and from its config.
void put_keys(GgufPlan& plan, const GgufOptions& options);
// Reads the description of the planned file, and compares it with that of the model. Throws
// std::invalid_argument if llama.cpp would compute other scores within the training length.
// Notes tell the other differences.
void compare_descriptions(GgufPlan& plan);

}  // namespace gnomon::model::internal
