// gnomon.lower, gnomon.Plan and attention.
#include "bindings/python/plan.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <algorithm>
#include <iterator>
#include <list>

#include <algorithm>
#include <optional>
#include <string>

#include "bindings/python/arrays.h"
#include "bindings/python/attend.h"
#include "bindings/python/encodings.h"
#include "bindings/python/ragged.h"
#include "bindings/python/released_gil.h"
#include "gnomon/error.h"
#include "src/core/nearest.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

using Access = Array::Access;

// Writable float32 matrices, held for a call.
struct Gradients {
  explicit Gradients(nb::handle objects) {
    for (nb::handle one : sequence("backward", "parameter_grads", objects))
      arrays.push_back(
          std::make_unique<Array>("backward", "parameter_grads", one, Access::write));
    for (const auto& one : arrays)
      views.push_back(
          internal::write<float, 2>({"backward", "parameter_grads"}, one->tensor()));
  }
  std::vector<std::unique_ptr<Array>> arrays;
  std::vector<View<float, 2>> views;
};

// Tokens of queries and keys: two counts, or positions.
model::Window window_of(nb::handle queries, nb::handle keys) {
  const auto count = count_of("lower", "queries", queries);
  const auto key_count = keys.is_none() ? count : count_of("lower", "keys", keys);
  if (count && key_count) return {.queries = *count, .keys = *key_count};
  model::BatchPositions batch{positions_of("lower", "queries", queries), {}};
  batch.keys = keys.is_none() ? batch.queries : positions_of("lower", "keys", keys);
  return {
      .queries = batch.queries.tokens, .keys = batch.keys.tokens, .batch = std::move(batch)};
}

Plan lower_mixture(nb::handle encoding, nb::handle queries, nb::handle keys,
                   nb::handle parameters, const std::string& visibility,
                   std::optional<std::int64_t> left, std::optional<std::int64_t> right,
                   std::optional<double> softmax_scale, std::optional<double> cap,
                   std::vector<double> sinks, std::int64_t length, bool rounds_weights) {
  model::Mixture mixture = mixture_of(encoding);
  const auto at = coordinates_of("lower", "queries", queries);
  const auto keys_at =
      at && keys.is_none() ? at : coordinates_of("lower", "keys", at ? keys : nb::none());
  if (at && !keys_at)
    refuse("lower", "keys must be continuous positions, as the queries", "others");
  model::Window window = at ? model::Window{.queries = at->tokens, .keys = keys_at->tokens}
                            : window_of(queries, keys);
  std::vector<Matrix> matrices = matrices_of("lower", parameters);
  const LowerOptions options{.visibility = visibility_of("lower", visibility),
                             .left = left,
                             .right = right,
                             .softmax_scale = softmax_scale,
                             .cap = cap,
                             .sinks = std::move(sinks),
                             .length = length,
                             .rounds_weights = rounds_weights};
  ReleasedGil released;
  Plan plan = lower_plan(std::move(mixture), std::move(window), std::move(matrices), options);
  if (at) lower_continuous(plan, at->view(), keys_at->view());
  return plan;
}

// Arrays of token terms by name.
class NamedArrays {
 public:
  NamedArrays(const char* operation, const char* argument, nb::handle terms,
              Array::Access access) {
    if (terms.is_none()) return;
    nb::dict given;
    if (!nb::try_cast(terms, given))
      refuse(operation, std::string(argument) + " must be a dict of arrays",
             nb::cast<std::string>(nb::str(terms.type())));
    // A copy, because conversions of the arrays may change the dict.
    const auto copy = nb::steal<nb::dict>(PyDict_Copy(given.ptr()));
    if (!copy.is_valid()) throw nb::python_error();
    for (const auto& [key, value] : copy) {
      std::string name;
      if (!nb::try_cast(key, name, false))
        refuse(operation, std::string(argument) + " must have names of token terms",
               nb::cast<std::string>(nb::str(key.type())));
      const auto term =
          std::find_if(std::begin(named_terms<Tensor>), std::end(named_terms<Tensor>),
                       [&](const auto& one) { return one.name == name; });
      if (term == std::end(named_terms<Tensor>)) {
        std::vector<std::string_view> names;
        for (const auto& one : named_terms<Tensor>) names.push_back(one.name);
        refuse(operation, std::string(argument) + " must have names of token terms",
               internal::with_nearest(names, name));
      }
      arrays_.emplace_back(operation, term->name.data(), value, access);
      places_.push_back(term - std::begin(named_terms<Tensor>));
    }
  }
  template <typename TensorType>
  TokenTermsOf<TensorType> terms() const {
    TokenTermsOf<TensorType> all;
    auto array = arrays_.begin();
    for (const std::ptrdiff_t place : places_)
      all.*named_terms<TensorType>[place].member = (array++)->tensor();
    return all;
  }

 private:
  std::list<Array> arrays_;
  std::vector<std::ptrdiff_t> places_;
};

// Arrays of a call of attention.
struct Inputs {
  Array q, k, v, k_scales, v_scales;
  NamedArrays terms;
  Inputs(nb::handle q_, nb::handle k_, nb::handle v_, nb::handle k_scales_,
         nb::handle v_scales_, nb::handle terms_)
      : q("attention", "q", q_, Access::read),
        k("attention", "k", k_, Access::read),
        v("attention", "v", v_, Access::read),
        k_scales("attention", "k_scales", k_scales_, Access::read),
        v_scales("attention", "v_scales", v_scales_, Access::read),
        terms("attention", "terms", terms_, Access::read) {}
  AttentionInput input() const {
    return {.q = q.tensor(),
            .k = k.tensor(),
            .v = v.tensor(),
            .k_scales = k_scales.tensor(),
            .v_scales = v_scales.tensor(),
            .terms = terms.terms<ConstTensor>()};
  }
};

// A NumPy array for the result, of the type of q.
nb::object result_like(const ConstTensor& q, const ConstTensor& v) {
  internal::check_tensor({"attention", "q"}, q, 4);
  internal::check_tensor({"attention", "v"}, v, 4);
  return new_array("attention", "q is", q,
                   {q.extent(0), q.extent(1), q.extent(2), v.extent(3)});
}

// Whether axis 1 of q, k, v and the result is that of the heads.
bool heads_tokens(std::string_view layout) {
  if (layout == "tokens_heads") return false;
  if (layout != "heads_tokens")
    refuse("attention", "layout must be one of tokens_heads, heads_tokens", layout);
  return true;
}

nb::object attention_of(nb::handle q, nb::handle k, nb::handle v, const Plan& plan,
                        nb::handle out, nb::handle lse, nb::handle k_scales,
                        nb::handle v_scales, nb::handle terms, std::string_view layout,
                        nb::handle bias, nb::handle query_starts, nb::handle query_lengths,
                        nb::handle key_starts, nb::handle key_lengths, nb::handle offsets,
                        nb::handle block_table) {
  const bool swap = heads_tokens(layout);
  const Inputs in(q, k, v, k_scales, v_scales, terms);
  const TokensFirst qs(in.q, swap), ks(in.k, swap), vs(in.v, swap);
  AttentionInput input = in.input();
  input.q = qs.tensor, input.k = ks.tensor, input.v = vs.tensor;
  nb::object result = nb::borrow(out);
  if (out.is_none()) {
    result = result_like(input.q, input.v);
    if (swap) result = result.attr("transpose")(0, 2, 1, 3);
  }
  const Array to("attention", "out", result, Access::write);
  const Array sums("attention", "lse", lse, Access::write);
  const TokensFirst target(to, swap);
  const Array dense("attention", "bias", bias, Access::read);
  const auto values = internal::read_if<float, 4>({"attention", "bias"}, dense.tensor());
  const RaggedArguments ragged(query_starts, query_lengths, key_starts, key_lengths, offsets,
                               block_table);
  {
    ReleasedGil released;
    attend(input, plan, target.tensor, sums, values, ragged.batch());
  }
  return result;
}

void attention_backward_of(nb::handle q, nb::handle k, nb::handle v, const Plan& plan,
                           nb::handle out, nb::handle lse, nb::handle out_grad,
                           nb::handle q_grad, nb::handle k_grad, nb::handle v_grad,
                           nb::handle terms, nb::handle term_grads, nb::handle sinks_grad,
                           nb::handle parameter_grads, nb::handle bias, nb::handle bias_grad) {
  const Inputs in(q, k, v, nb::none(), nb::none(), terms);
  const char* const operation = "attention_backward";
  const Array out_array(operation, "out", out, Access::read),
      lse_array(operation, "lse", lse, Access::read),
      grad(operation, "out_grad", out_grad, Access::read),
      dq(operation, "q_grad", q_grad, Access::write),
      dk(operation, "k_grad", k_grad, Access::write),
      dv(operation, "v_grad", v_grad, Access::write),
      ds(operation, "sinks_grad", sinks_grad, Access::write),
      dense(operation, "bias", bias, Access::read),
      dense_grad(operation, "bias_grad", bias_grad, Access::write);
  const NamedArrays terms_to(operation, "term_grads", term_grads, Access::write);
  const Gradients grads(parameter_grads);
  std::span<double> sinks;
  if (ds.tensor().has_data()) {
    const auto view = internal::write<double, 1>({operation, "sinks_grad"}, ds.tensor());
    if (!view.contiguous()) refuse(operation, "sinks_grad must be contiguous", "strides");
    sinks = {view.data(), static_cast<std::size_t>(view.size())};
  }
  const auto values = internal::read_if<float, 4>({operation, "bias"}, dense.tensor());
  const auto to = internal::write_if<float, 4>({operation, "bias_grad"}, dense_grad.tensor());
  ReleasedGil released;
  attend_backward(in.input(), plan, out_array.tensor(), lse_array.tensor(), grad.tensor(),
                  {.q = dq,
                   .k = dk,
                   .v = dv,
                   .terms = terms_to.terms<Tensor>(),
                   .sinks = sinks,
                   .parameters = grads.views,
                   .bias = values,
                   .bias_grad = to});
}

void bind_functions(nb::module_& module) {
  module.def(
      "attention", &attention_of, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("plan"),
      nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("lse") = nb::none(),
      nb::arg("k_scales") = nb::none(), nb::arg("v_scales") = nb::none(),
      nb::arg("terms") = nb::none(), nb::arg("layout") = "tokens_heads",
      nb::arg("bias") = nb::none(), nb::arg("query_starts") = nb::none(),
      nb::arg("query_lengths") = nb::none(), nb::arg("key_starts") = nb::none(),
      nb::arg("key_lengths") = nb::none(), nb::arg("offsets") = nb::none(),
      nb::arg("block_table") = nb::none(),
      nb::sig(
          "def attention(q: Array, k: Array, v: Array, plan: Plan, *, out: Array | None = "
          "None, lse: Array | None = None, k_scales: Array | None = None, v_scales: Array | "
          "None = None, terms: Mapping[str, Array] | None = None, layout: Layout = "
          "'tokens_heads', bias: Array | None = None, query_starts: IntegerArray | None = "
          "None, "
          "query_lengths: IntegerArray | None = None, key_starts: IntegerArray | None = None, "
          "key_lengths: IntegerArray | None = None, offsets: IntegerArray | None = None, "
          "block_table: Array | None = None) -> Array"),
      R"(Softmax attention with the rotation, bias and relative vectors of a plan. With the plan
of a model's layer (gnomon.model), q, k and v must be those after gnomon.prepare.

q: [B, T, Hq, D]; k: [B, S, Hk, D]; v: [B, S, Hk, Dv], any strides, the last axis
    contiguous. Hk divides Hq. q, k, v are not changed. Types: float32, float16, bfloat16
    or float64; k and v also 16-bit if q is float32, or int8 with scales [B, S, Hk], or
    float8_e4m3fn (or uint8 with its bits) with scales [1] or [Hk].
out: [B, T, Hq, Dv] of the type of q; default: a new NumPy array, which is returned.
lse: receives the log-sum-exp of the scores [B, Hq, T], float32 (float64 for float64 q).
terms: inputs that depend on the tokens, float32, by name; gnomon.token_terms(encoding) lists
    those that an encoding requires. gates [B or 1, Hq, T] (WavLM); log_gates (FoX, CABLE),
    key_slopes (GRAPE-A) [B, Hq, S]; channel_gates [B, S, Hq, D] (Wall); relative_queries
    [B, T, Hq, K] (Inkling); sinks [B, Hq, T]; householder [B, S, Hk, D], betas [B, Hk, S]
    (PaTH); edge_queries [B, T, Hq, P], edge_keys [B, S, Hq, P] (GRAPE-AP); angles
    [B or 1, S, Ha, R/2] (selective rotary).
layout: 'heads_tokens' if q, k, v and out are [B, H, T, D].
bias: float32 [B, Hq, T, S], any strides: replaces the bias of the plan. -inf: not visible.

Sequences of different lengths in one call, N of them (integers; a plan with a window, a bias by
distance, a cap and sinks only, lowered for the longest sequence):
query_starts [N + 1]: q is [1, rows, Hq, D], and sequence n has rows query_starts[n] to
    query_starts[n + 1] (cu_seqlens). query_lengths [N]: q is [N, T, Hq, D], and sequence n has
    its first query_lengths[n] rows. Other rows of out are 0, of lse -infinity.
key_starts [N + 1], key_lengths [N]: the same for k and v.
offsets [N]: query row i of sequence n corresponds to its key row i + offsets[n]. Default: the
    last query corresponds to the last key.
block_table: int32 [N, M], with key_lengths: k and v are pages [P, page, Hk, D], and key row j
    of sequence n is row j % page of page block_table[n][j // page].

Memory beyond the arguments grows with T + S. Error for float32: 2^-17 max |v|. The same
bits for any number of threads. A query that sees no key gives zeros. Releases the GIL.)");
  module.def(
      "attention_backward", &attention_backward_of, nb::arg("q"), nb::arg("k"), nb::arg("v"),
      nb::arg("plan"), nb::arg("out"), nb::arg("lse"), nb::arg("out_grad"), nb::kw_only(),
      nb::arg("q_grad"), nb::arg("k_grad"), nb::arg("v_grad"), nb::arg("terms") = nb::none(),
      nb::arg("term_grads") = nb::none(), nb::arg("sinks_grad") = nb::none(),
      nb::arg("parameter_grads") = nb::make_tuple(), nb::arg("bias") = nb::none(),
      nb::arg("bias_grad") = nb::none(),
      nb::sig(
          "def attention_backward(q: Array, k: Array, v: Array, plan: Plan, out: Array, "
          "lse: Array, out_grad: Array, *, q_grad: Array, k_grad: Array, v_grad: Array, "
          "terms: Mapping[str, Array] | None = None, term_grads: Mapping[str, Array] | None "
          "= None, sinks_grad: Array | None = None, parameter_grads: Sequence[Array] = (), "
          "bias: Array | None "
          "= None, bias_grad: Array | None = None) -> None"),
      R"(Writes the gradients of `attention`. out and lse are its results.

q_grad, k_grad, v_grad: shapes and types of q, k, v; overwritten.
term_grads: float32, by name, shapes of the terms; overwritten.
parameter_grads: float32, one for each parameter of the encoding; gradients are added.
bias: as in `attention`. bias_grad: float32 [B, Hq, T, S], overwritten.
sinks_grad: float64 [Hq]. Deterministic: the same bits for any number of threads.)");
  module.def(
      "add_position",
      [](nb::handle x, const Plan& plan) {
        const Array array("add_position", "x", x, Access::write);
        ReleasedGil released;
        embed(plan, array);
      },
      nb::arg("x"), nb::arg("plan"), nb::sig("def add_position(x: Array, plan: Plan) -> None"),
      "Adds the position table of the plan to x [B, T, C] in place; "
      "nothing if it has no table.");
  module.def(
      "add_position_backward",
      [](nb::handle grad, const Plan& plan, nb::handle parameter_grads) {
        const Array array("add_position_backward", "grad", grad, Access::read);
        const Gradients grads(parameter_grads);
        ReleasedGil released;
        embed_backward(plan, array.tensor(), grads.views);
      },
      nb::arg("grad"), nb::arg("plan"), nb::arg("parameter_grads"),
      nb::sig("def add_position_backward(grad: Array, plan: Plan, parameter_grads: "
              "Sequence[Array]) -> None"),
      "Adds the gradients of the table's parameters, from the gradient [B, T, C] of x.");
  module.def(
      "prepare",
      [](nb::handle q, nb::handle k, nb::handle v, const Plan& plan) {
        const Array qs("prepare", "q", q, Access::write), ks("prepare", "k", k, Access::write),
            vs("prepare", "v", v, Access::write);
        if (!plan.prepared)
          refuse("prepare",
                 "plan must be that of a model's layer (gnomon.model): attention rotates by "
                 "itself with a plan of gnomon.lower",
                 summary(plan));
        ReleasedGil released;
        prepare(plan.lowered, qs, ks, vs);
      },
      nb::arg("q").none(), nb::arg("k").none(), nb::arg("v").none(), nb::arg("plan"),
      nb::sig(
          "def prepare(q: Array | None, k: Array | None, v: Array | None, plan: Plan) -> None"),
      R"(Applies the norms, rotations and scales of the plan of a model's layer (gnomon.model)
to projected q [B, T, H, D] and k, v [B, T, Hk, D] in place, before keys are stored in a cache.
Error and cost: those of `rotate` for a rotation.)");
  module.def(
      "rotate_heads",
      [](nb::handle q, nb::handle k, const Plan& plan) {
        const Array qs("rotate", "q", q, Access::write), ks("rotate", "k", k, Access::write);
        ReleasedGil released;
        prepare(plan.lowered, qs, ks, {});
      },
      nb::arg("q"), nb::arg("k"), nb::arg("plan"),
      nb::sig("def rotate_heads(q: Array, k: Array, plan: Plan) -> None"),
      "Applies the rotations of a plan that no single table contains (V-JEPA 2) in place.");
}

}  // namespace

std::vector<Matrix> matrices_of(const char* operation, nb::handle parameters) {
  std::vector<Matrix> all;
  for (nb::handle one : sequence(operation, "parameters", parameters)) {
    const Array array(operation, "parameters", one, Access::read);
    const auto view = internal::read_if<float, 2>({operation, "parameters"}, array.tensor());
    Matrix matrix{view.extent(0), view.extent(1), {}};
    matrix.values.reserve(static_cast<std::size_t>(view.size()));
    for (std::int64_t row = 0; row < matrix.rows; ++row)
      for (std::int64_t column = 0; column < matrix.columns; ++column)
        matrix.values.push_back(view(row, column));
    all.push_back(std::move(matrix));
  }
  return all;
}

void bind_plan(nb::module_& module) {
  bind_plan_class(module);
  module.def(
      "lower", &lower_mixture, nb::arg("encoding").none(), nb::arg("queries"),
      nb::arg("keys") = nb::none(), nb::kw_only(), nb::arg("parameters") = nb::make_tuple(),
      nb::arg("visibility"), nb::arg("left") = nb::none(), nb::arg("right") = nb::none(),
      nb::arg("softmax_scale") = nb::none(), nb::arg("cap") = nb::none(),
      nb::arg("sinks") = std::vector<double>{}, nb::arg("length") = 0,
      nb::arg("rounds_weights") = true,
      nb::sig(
          "def lower(encoding: Encoding | Sequence[Encoding] | None, queries: PositionsLike, "
          "keys: PositionsLike | None = None, *, parameters: Sequence[Array] = (), "
          "visibility: Visibility, left: int | None = None, right: int | None = None, "
          "softmax_scale: float | None = None, cap: float | None = None, sinks: "
          "Sequence[float] = (), length: int = 0, rounds_weights: bool = True) -> Plan"),
      R"(Lowers an encoding for known tokens.

encoding: a spec, several specs, or None (no position).
queries, keys: numbers of tokens T and S (the queries are the last T of the keys, at
    positions 0 to S - 1), or positions: integers [T] or [B, T], or Positions. Default for
    keys: the queries. Rotary encodings and sinusoids also take continuous positions: float64
    [T] and [S], or tuples of them, one for each position axis.
parameters: the trained matrices of the encoding in the order of spec.parameters(), float32.
visibility: 'causal' or 'bidirectional'; required.
left, right: window limits in rows. Mistral's `sliding_window` w is left = w - 1.
softmax_scale: scale of q . k before a factor of the encoding. Default: 1 / sqrt(D).
cap: soft cap of the scores (Gemma 2). sinks: one score for each head (gpt-oss).
length: declared context length for dynamic NTK and LongRoPE; 0: that of the spec.
rounds_weights: whether softmax weights of bfloat16 q, k and v may be rounded to bfloat16 on
    processors that multiply bfloat16: twice as fast or faster, at most 2^-9 max |v| less exact.

Cost: O(T C) for a table, O(S R) for rotations, O(H (T + S)) for a bias.)");
  bind_functions(module);
}

}  // namespace gnomon::python
