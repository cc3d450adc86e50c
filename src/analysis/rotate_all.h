// Applies all rotations of a plan.
#pragma once

#include "gnomon/attention/layer_plan.h"

namespace gnomon::analysis {

// Includes the rotations of `prepare` and those of attention(), but not those of a polar form,
// which attention() applies after it has expanded queries and keys.
inline void rotate_all(const LayerPlan& plan, const Tensor& q, const Tensor& k) {
  const auto rotate_by = [](const std::vector<HeadRotation>& rotations, const Tensor& x) {
    for (const HeadRotation& one : rotations)
      std::visit([&](const auto& table) { rotate(x, table); }, one);
  };
  rotate_by(plan.query_rotations, q);
  rotate_by(plan.key_rotations, k);
  if (plan.polar) return;
  if (plan.query_rotary) rotate(q, *plan.query_rotary);
  if (plan.key_rotary) rotate(k, *plan.key_rotary);
}

}  // namespace gnomon::analysis
