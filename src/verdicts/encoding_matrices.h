// An encoding as matrices of one shape for all encodings, for the measurements of its
// properties and for charts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gnomon/model/encoding.h"
#include "gnomon/verdicts/verdicts.h"
#include "src/io/owned_tensor.h"

namespace gnomon::verdicts {

using internal::OwnedTensor;

struct EncodingMatrices {
  const model::EncodingInfo* info = nullptr;
  model::Encoding encoding;    // the usual settings for that width
  bool random = false;         // a trained table is replaced by random values
  std::int64_t positions = 0;  // `length`, or the capacity of the encoding

  // One row for each position (embeddings) or for each distance into the past (others). The
  // columns are: the C channels; cos and sin of R/2 angles; one value for each head; the
  // vectors for queries, keys and weights. No columns for NoPosition.
  std::unique_ptr<OwnedTensor<float, 2>> table;
  // [trained, trained]: the score of each query with each key if all contents are equal, so
  // that it depends on position only. For a bias, the mean over heads.
  std::unique_ptr<OwnedTensor<float, 2>> scores;

  // Parameters with random values, for model::lower.
  std::vector<std::unique_ptr<OwnedTensor<float, 2>>> parameters;
  LayerPlan lowered(const model::Window& window) const;
};

// Whether the terms of scores depend on contents, so that there is no bias to draw or to write:
// encodings for causal attention depend on the tokens between query and key, and PoPE on the
// elements of both.
bool depends_on_contents(const model::EncodingInfo& info);

EncodingMatrices encoding_matrices(const std::string& name, const Setting& setting);

}  // namespace gnomon::verdicts
