// Attention with all that a plan requires, for arrays that must not change. `prepare` of the
// library changes its arguments.
#pragma once

#include <span>
#include <vector>

#include "bindings/python/plan.h"

namespace gnomon::python {

// Rotates, normalises and scales copies of q, k and v where the plan requires it (unless they
// are prepared), then computes attention. Shapes as `attention`. bias [B, Hq, T, S]: replaces
// the bias of the plan, if it has data. ragged: empty for sequences of the same lengths.
void attend(const AttentionInput& input, const Plan& plan, const Tensor& out, const Tensor& lse,
            const View<const float, 4>& bias = {}, const RaggedBatch& ragged = {});

// Gradients of `attend`. parameters: the gradients of the plan's parameters, to which those of
// this call are added; or empty. bias: as in `attend`. bias_grad [B, Hq, T, S], or without
// data: overwritten. Throws std::invalid_argument if the plan has norms or a query scale and is
// not prepared.
struct AttendGradient {
  Tensor q, k, v;
  TokenTermGradients terms = {};
  std::span<double> sinks = {};
  std::vector<View<float, 2>> parameters = {};
  View<const float, 4> bias = {};
  View<float, 4> bias_grad = {};
};
void attend_backward(const AttentionInput& input, const Plan& plan, const ConstTensor& out,
                     const ConstTensor& lse, const ConstTensor& out_grad,
                     const AttendGradient& gradient);

// x += the table of the plan. Returns false if the plan has no table.
bool embed(const Plan& plan, const Tensor& x);
// Adds the gradients of the table's parameters, from that of x.
void embed_backward(const Plan& plan, const ConstTensor& grad,
                    const std::vector<View<float, 2>>& parameters);

}  // namespace gnomon::python
