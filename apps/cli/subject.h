// An encoding made ready to be looked at: the same few matrices for each, whatever the place
// where it enters. `gnomon check` measures them, `gnomon plot` draws them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/cli/tensors.h"
#include "gnomon/model/encoding.h"

namespace gnomon::cli {

// How it is looked at.
struct Setting {
  std::int64_t width = 128;    // channels
  std::int64_t heads = 4;      // so head size 32
  std::int64_t trained = 128;  // positions of a training window
  std::int64_t length = 512;   // positions looked at
};

struct Subject {
  const model::EncodingInfo* info = nullptr;
  model::Encoding encoding;    // as most models of that width use it
  bool random = false;         // has a trained table: random numbers stand in, not a model's
  std::int64_t positions = 0;  // looked at: length, or fewer where the encoding ends
  bool by_distance = false;    // by definition, scores of equal content depend on it alone

  // One row a position (embeddings) or a distance back (all others): what a model sees of it.
  // The channels: C; cos and sin of R/2 angles; a number for each head; the vectors that
  // queries, keys and weights meet. None: no channels.
  std::unique_ptr<Tensor<float, 2>> table;
  // [trained, trained]: the score of each query with each key where all contents are equal, so
  // that only position tells them apart; the mean over heads of a bias.
  std::unique_ptr<Tensor<float, 2>> scores;

  // Its trained matrices (random), for model::lower.
  std::vector<std::unique_ptr<Tensor<float, 2>>> parameters;
  LayerPlan lowered(const model::Window& window) const;
};

Subject make_subject(const std::string& name, const Setting& setting);

}  // namespace gnomon::cli
