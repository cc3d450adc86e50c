// gnomon.dape_attention: attention whose scores are adapted by a network over all heads.
#include <memory>
#include <vector>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "bindings/python/plan.h"
#include "bindings/python/released_gil.h"
#include "gnomon/attention/dape.h"
#include "gnomon/error.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

using Access = Array::Access;

// W1, c1, W2 and c2, or their gradients.
struct NetworkArrays {
  NetworkArrays(const char* operation, nb::handle all, Access access) {
    if (all.is_none()) return;
    for (nb::handle one : sequence(operation, "network", all))
      arrays.push_back(std::make_unique<Array>(operation, "network", one, access));
    if (arrays.size() != 4)
      refuse(operation, "network must have 4 arrays: first, first_bias, second, second_bias",
             static_cast<std::int64_t>(arrays.size()));
    const auto matrix = [&](std::size_t n) {
      internal::check_tensor({operation, "network"}, arrays[n]->tensor(), 2,
                             data_type_of<float>);
      return view<float, 2>(arrays[n]->tensor());
    };
    const auto vector = [&](std::size_t n) {
      internal::check_tensor({operation, "network"}, arrays[n]->tensor(), 1,
                             data_type_of<float>);
      return view<float, 1>(arrays[n]->tensor());
    };
    network = {matrix(0), vector(1), matrix(2), vector(3)};
  }
  DapeNetwork<const float> read() const {
    return {network.first, network.first_bias, network.second, network.second_bias};
  }
  std::vector<std::unique_ptr<Array>> arrays;
  DapeNetwork<float> network;
};

Dape spec_of(const NetworkArrays& arrays, double negative_slope) {
  // W2 has rows [M, K].
  const std::int64_t hidden = arrays.network.first.extent(0);
  return {.hidden = hidden,
          .negative_slope = negative_slope,
          .kernel = hidden ? arrays.network.second.extent(1) / hidden : 1};
}

const AttentionPlan& plan_of(const char* operation, const Plan& plan) {
  const LayerPlan& lowered = plan.lowered;
  if (lowered.compression || !lowered.query_rotations.empty() ||
      !lowered.key_rotations.empty() || !lowered.cosine.empty() || lowered.query_scale ||
      lowered.query_norm || lowered.key_norm || lowered.value_norm || lowered.output_rotary ||
      lowered.value_scale != 1)
    refuse(operation,
           "the plan must have a mask, positions, a bias by position and a softmax only",
           summary(plan));
  return lowered;
}

nb::object attend(nb::handle q, nb::handle k, nb::handle v, const Plan& plan,
                  nb::handle network, double negative_slope, nb::handle out, nb::handle lse) {
  constexpr const char* operation = "dape_attention";
  const Array qs(operation, "q", q, Access::read), ks(operation, "k", k, Access::read),
      vs(operation, "v", v, Access::read), sums(operation, "lse", lse, Access::write);
  const NetworkArrays arrays(operation, network, Access::read);
  const AttentionPlan& attention = plan_of(operation, plan);
  nb::object result = nb::borrow(out);
  if (out.is_none()) {
    internal::check_tensor({operation, "q"}, qs.tensor(), 4);
    internal::check_tensor({operation, "v"}, vs.tensor(), 4);
    if (!qs.tensor().holds<float>())
      refuse(operation, "out must be given unless q is f32", gnomon::name(qs.tensor().dtype));
    result = nb::module_::import_("numpy").attr("empty")(
        nb::make_tuple(qs.tensor().extent(0), qs.tensor().extent(1), qs.tensor().extent(2),
                       vs.tensor().extent(3)),
        "float32");
  }
  const Array to(operation, "out", result, Access::write);
  ReleasedGil released;
  dape_attention({.q = qs.tensor(), .k = ks.tensor(), .v = vs.tensor()}, attention,
                 spec_of(arrays, negative_slope), arrays.read(), to, sums);
  return result;
}

void attend_backward(nb::handle q, nb::handle k, nb::handle v, const Plan& plan,
                     nb::handle network, nb::handle out, nb::handle lse, nb::handle out_grad,
                     nb::handle q_grad, nb::handle k_grad, nb::handle v_grad,
                     nb::handle network_grads, nb::handle parameter_grads,
                     double negative_slope) {
  constexpr const char* operation = "dape_attention_backward";
  const Array qs(operation, "q", q, Access::read), ks(operation, "k", k, Access::read),
      vs(operation, "v", v, Access::read), result(operation, "out", out, Access::read),
      sums(operation, "lse", lse, Access::read),
      grad(operation, "out_grad", out_grad, Access::read),
      dq(operation, "q_grad", q_grad, Access::write),
      dk(operation, "k_grad", k_grad, Access::write),
      dv(operation, "v_grad", v_grad, Access::write);
  const NetworkArrays arrays(operation, network, Access::read),
      grads(operation, network_grads, Access::write);
  std::vector<std::unique_ptr<Array>> parameters;
  std::vector<View<float, 2>> views;
  for (nb::handle one : sequence(operation, "parameter_grads", parameter_grads)) {
    parameters.push_back(
        std::make_unique<Array>(operation, "parameter_grads", one, Access::write));
    views.push_back(internal::write_if<float, 2>({operation, "parameter_grads"},
                                                 parameters.back()->tensor()));
  }
  const AttentionPlan& attention = plan_of(operation, plan);
  ReleasedGil released;
  model::LayerGradient forms;
  dape_attention_backward({.q = qs.tensor(), .k = ks.tensor(), .v = vs.tensor()}, attention,
                          spec_of(arrays, negative_slope), arrays.read(), result.tensor(),
                          sums.tensor(), grad.tensor(),
                          {.q = dq,
                           .k = dk,
                           .v = dv,
                           .bias = views.empty() ? nullptr : &forms.bias,
                           .network = grads.network});
  if (!views.empty())
    model::lower_backward(plan.mixture, plan.window, plan.values(), forms, views);
}

}  // namespace

void bind_dape(nb::module_& module) {
  module.def(
      "dape_attention", &attend, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("plan"),
      nb::arg("network"), nb::kw_only(), nb::arg("negative_slope") = 0.01,
      nb::arg("out") = nb::none(), nb::arg("lse") = nb::none(),
      nb::sig(
          "def dape_attention(q: Array, k: Array, v: Array, plan: Plan, network: "
          "Sequence[Array], *, negative_slope: float = 0.01, out: Array | None = None, lse: "
          "Array | None = None) -> Array"),
      R"(Attention whose scores are adapted by a network over all heads (DAPE).

score = s + b + W2 leaky(W1 [s; b] + c1) + c2 for each pair, with the scores s and the biases b
of all heads.

q: [B, T, Hq, D]; k: [B, S, Hk, D]; v: [B, S, Hk, Dv]; float32, float16 or bfloat16.
plan: with a bias by position or none; rotate q and k before.
network: float32 W1 [M, 2 Hq], c1 [M], W2 [Hq, M], c2 [Hq]. DAPE V2: W1 [M, 2 Hq K] and
    W2 [Hq, M K], convolutions over K keys, K odd; causal.
lse: receives the log-sum-exp of the scores, float32 [B, Hq, T].

Memory grows with T + S. The same bits for any number of threads. Releases the GIL.)");
  module.def(
      "dape_attention_backward", &attend_backward, nb::arg("q"), nb::arg("k"), nb::arg("v"),
      nb::arg("plan"), nb::arg("network"), nb::arg("out"), nb::arg("lse"), nb::arg("out_grad"),
      nb::kw_only(), nb::arg("q_grad"), nb::arg("k_grad"), nb::arg("v_grad"),
      nb::arg("network_grads") = nb::none(), nb::arg("parameter_grads") = nb::make_tuple(),
      nb::arg("negative_slope") = 0.01,
      nb::sig("def dape_attention_backward(q: Array, k: Array, v: Array, plan: Plan, network: "
              "Sequence[Array], out: Array, lse: Array, out_grad: Array, *, q_grad: Array, "
              "k_grad: Array, v_grad: Array, network_grads: Sequence[Array] | None = None, "
              "parameter_grads: Sequence[Array] = (), negative_slope: float = 0.01) -> None"),
      R"(Writes the gradients of `dape_attention`. out and lse are its results.

q_grad, k_grad, v_grad: shapes and types of q, k, v. network_grads: shapes of network; both are
overwritten. parameter_grads: float32, one for each parameter of the encoding of the plan;
gradients are added.)");
}

}  // namespace gnomon::python
