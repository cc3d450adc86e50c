// The tensors that operations of attention read and write must not overlap.
#pragma once

#include <initializer_list>
#include <string_view>

#include "gnomon/attention/attention.h"
#include "src/core/overlap.h"

namespace gnomon::internal {

struct NamedTensor {
  std::string_view name;
  const ConstTensor* tensor;
};

// Throws if an output overlaps an input or another output. Tensors without data are skipped.
inline void check_written(std::initializer_list<NamedTensor> outputs,
                          const AttentionInput& input,
                          std::initializer_list<NamedTensor> more_inputs = {}) {
  for (const NamedTensor* out = outputs.begin(); out != outputs.end(); ++out) {
    if (!out->tensor->has_data()) continue;
    const auto check = [&](std::string_view name, const ConstTensor& other) {
      if (other.has_data()) check_disjoint({"attention", out->name}, *out->tensor, name, other);
    };
    check("q", input.q), check("k", input.k), check("v", input.v);
    check("the scales of k", input.k_scales), check("the scales of v", input.v_scales);
    for (const auto& one : named_terms<ConstTensor>) check(one.name, input.terms.*one.member);
    for (const NamedTensor& other : more_inputs) check(other.name, *other.tensor);
    for (const NamedTensor* other = out + 1; other != outputs.end(); ++other)
      check(other->name, *other->tensor);
  }
}

}  // namespace gnomon::internal
