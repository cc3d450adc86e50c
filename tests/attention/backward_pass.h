// The forward and backward pass of a sample, with all results.
#pragma once

#include <variant>
#include <vector>

#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"

namespace gnomon::testing {

template <typename T>
struct BackwardPass {
  Placed<T> q, k, v, out, out_grad, q_grad, k_grad, v_grad;
  Tensor<Accumulator<T>, 3> lse;
  Tensor<float, 4> dense;
  Tensor<float, 3> gates, query_sinks;
  Tensor<float, 4> relative_queries;
  BiasGradient bias;
  RelativeGradient relative;
  std::vector<double> sinks;

  explicit BackwardPass(const Sample& s)
      : q(s.x.q, s.layout),
        k(s.x.k, s.layout),
        v(s.x.v, s.layout),
        out(s.out_grad, s.layout),
        out_grad(s.out_grad, s.layout),
        q_grad(s.x.q, s.layout),
        k_grad(s.x.k, s.layout),
        v_grad(s.x.v, s.layout),
        lse({s.c.batch, s.c.heads, s.c.queries}),
        dense({s.c.batch, s.c.heads, s.c.queries, s.c.keys}, 5.f),
        gates({s.c.batch, s.c.heads, s.c.queries}),
        query_sinks(s.c.sinks.extents(), 5.f),
        relative_queries(s.c.relative_queries.extents(), 5.f),
        sinks(s.c.plan.softmax.sinks.size(), 5.0) {}
  void operator()(const AttentionCase& c) {
    if (std::holds_alternative<DenseBias>(c.plan.bias)) bias.dense = dense.view();
    const auto of_q = q.read(), of_k = k.read(), of_v = v.read();  // tensors borrow views
    const AttentionInput input{.q = of_q, .k = of_k, .v = of_v, .terms = c.terms()};
    attention(input, c.plan, out.view(), lse.view());
    auto of_relative = relative_queries.view();
    auto of_sinks = query_sinks.view();
    if (!c.relative_queries.data()) of_relative = {};
    if (!c.sinks.data()) of_sinks = {};
    attention_backward(
        input, c.plan, out.read(), lse.view(), out_grad.read(),
        {.q = q_grad.view(),
         .k = k_grad.view(),
         .v = v_grad.view(),
         .bias = &bias,
         .relative = &relative,
         .terms = {.gates = gates.view(), .relative_queries = of_relative, .sinks = of_sinks},
         .sinks = sinks});
  }
};

}  // namespace gnomon::testing
