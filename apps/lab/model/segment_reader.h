// Models that read a text in segments, with a memory of the keys and values of the tokens
// before a segment (gnomon::SegmentMemory): Transformer-XL, Dai et al. 2019 (arXiv:1901.02860).
// Used by the suffix @memory of the tasks text and dialogue.
//
// Letters: B rows, T tokens, V different tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lab/model/transformer.h"

namespace gnomon::lab {

// How a model with text reads a test window: its suffix.
enum class Reading {
  whole = 1,  // all tokens of the window
  memory,     // in segments of the training length, with a memory of one segment
  window,     // the window is cut to the training length
};
Reading reading_of(const std::string& suffix);

class SegmentReader {
 public:
  // segment: the tokens of a segment. memory: how many tokens before it a query sees at most.
  SegmentReader(const Settings& settings, std::int64_t segment, std::int64_t memory);
  // Both of the training length, for a task with text.
  explicit SegmentReader(const Settings& settings)
      : SegmentReader(settings, settings.train_length, settings.train_length) {}

  // Returns the logits [B, T, V] of the tokens [B, T]. The memory is empty before them.
  at::Tensor read(Transformer& model, const at::Tensor& tokens);
  // The same for tokens that follow those of the last call, in the same rows. No gradient
  // passes into the tokens of earlier segments.
  at::Tensor read_next(Transformer& model, const at::Tensor& tokens);

 private:
  SegmentMemoryShape shape_;
  std::size_t layers_;
  std::vector<SegmentMemory<float>> memories_;  // by layer
};

}  // namespace gnomon::lab
