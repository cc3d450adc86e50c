// An encoding as matrices of one shape for all encodings, for the measurements of `gnomon
// check` and the charts of `gnomon plot`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/cli/tensors.h"
#include "gnomon/model/encoding.h"

namespace gnomon::cli {

// The sizes of the matrices.
struct Setting {
  std::int64_t width = 128;    // channels
  std::int64_t heads = 4;      // head dimension 32
  std::int64_t trained = 128;  // positions of a training window
  std::int64_t length = 512;   // positions of `table`
};

struct EncodingMatrices {
  const model::EncodingInfo* info = nullptr;
  model::Encoding encoding;    // the usual settings for that width
  bool random = false;         // a trained table is replaced by random values
  std::int64_t positions = 0;  // `length`, or the capacity of the encoding

  // One row for each position (embeddings) or for each distance into the past (others). The
  // columns are: the C channels; cos and sin of R/2 angles; one value for each head; the
  // vectors for queries, keys and weights. No columns for NoPosition.
  std::unique_ptr<Tensor<float, 2>> table;
  // [trained, trained]: the score of each query with each key if all contents are equal, so
  // that it depends on position only. For a bias, the mean over heads.
  std::unique_ptr<Tensor<float, 2>> scores;

  // Parameters with random values, for model::lower.
  std::vector<std::unique_ptr<Tensor<float, 2>>> parameters;
  LayerPlan lowered(const model::Window& window) const;
};

// Whether the terms of scores depend on contents, so that there is no bias to draw or to write:
// encodings for causal attention depend on the tokens between query and key, and PoPE on the
// elements of both.
bool depends_on_contents(const model::EncodingInfo& info);

EncodingMatrices encoding_matrices(const std::string& name, const Setting& setting);

}  // namespace gnomon::cli
