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
  Tensor<float, 3> gates, log_gates, query_sinks, key_slopes;
  Tensor<float, 4> relative_queries, edge_queries, edge_keys;
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
        log_gates({s.c.batch, s.c.heads, s.c.keys}),
        query_sinks(s.c.sinks.extents(), 5.f),
        key_slopes(s.c.key_slopes.extents(), 5.f),
        relative_queries(s.c.relative_queries.extents(), 5.f),
        edge_queries(s.c.edge_queries.extents(), 5.f),
        edge_keys(s.c.edge_keys.extents(), 5.f),
        sinks(s.c.plan.softmax.sinks.size(), 5.0) {}
  void operator()(const AttentionCase& c) {
    if (std::holds_alternative<DenseBias>(c.plan.bias)) bias.dense = dense.view();
    const TokenTerms terms = c.terms();
    const auto of_gates = gates.view(), of_log_gates = log_gates.view();
    const auto of_relative = relative_queries.view();
    const auto of_sinks = query_sinks.view(), of_slopes = key_slopes.view();
    const auto of_edge_queries = edge_queries.view(), of_edge_keys = edge_keys.view();
    TokenTermGradients grads;
    if (c.plan.cumulative)
      grads.log_gates = of_log_gates;
    else
      grads.gates = of_gates;
    if (c.relative_queries.data()) grads.relative_queries = of_relative;
    if (c.sinks.data()) grads.sinks = of_sinks;
    if (c.key_slopes.data()) grads.key_slopes = of_slopes;
    if (c.plan.edges) grads.edge_queries = of_edge_queries, grads.edge_keys = of_edge_keys;
    attention({.q = q.read(), .k = k.read(), .v = v.read(), .terms = terms}, c.plan, out.view(),
              lse.view());
    attention_backward({.q = q.read(), .k = k.read(), .v = v.read(), .terms = terms}, c.plan,
                       out.read(), lse.view(), out_grad.read(),
                       {.q = q_grad.view(),
                        .k = k_grad.view(),
                        .v = v_grad.view(),
                        .bias = &bias,
                        .relative = &relative,
                        .terms = grads,
                        .sinks = sinks});
  }
};

}  // namespace gnomon::testing
