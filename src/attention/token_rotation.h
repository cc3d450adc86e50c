// Rotation of queries and keys by the angles of tokens, before the kernels of attention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gnomon/attention/attention.h"

namespace gnomon::internal {

// The input of attention with rotated copies of q and k. Without a token_rotation in the plan,
// the input itself.
class RotatedInput {
 public:
  // Throws std::invalid_argument if the angles do not fit the input. Not copied: input() refers
  // to shapes in the object.
  RotatedInput(const AttentionInput& input, const AttentionPlan& plan);

  RotatedInput(const RotatedInput&) = delete;
  RotatedInput& operator=(const RotatedInput&) = delete;

  const AttentionInput& input() const noexcept { return input_; }
  // Replaces the gradients of the rotated q and k by those of q and k, and writes the gradient
  // of the angles, if it has data.
  void backward(const AttentionGradient& gradient) const;

 private:
  AttentionInput input_;
  const TokenRotation* rotation_ = nullptr;  // null: nothing is rotated
  std::int64_t offset_ = 0;                  // row of the first query among the keys
  std::unique_ptr<std::byte[]> q_, k_;
  std::unique_ptr<std::byte[]> angles_ = {};  // the sums, if the term holds increments
  Positions keys_ = {};                       // of the sums
  std::int64_t q_shape_[4] = {}, k_shape_[4] = {}, angle_shape_[4] = {};  // of the copies
};

}  // namespace gnomon::internal
