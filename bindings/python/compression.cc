// gnomon.CompressedKeys, compressed attention and the selection of keys.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "bindings/python/arrays.h"
#include "bindings/python/copy.h"
#include "bindings/python/encodings.h"
#include "bindings/python/plan.h"
#include "bindings/python/released_gil.h"
#include "gnomon/attention/compressed_attention.h"
#include "gnomon/attention/compressed_keys.h"
#include "gnomon/attention/key_selection.h"
#include "gnomon/error.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

using Access = Array::Access;

const LayerCompression& compression_of(const char* operation, const Plan& plan) {
  if (!plan.lowered.compression)
    refuse(operation, "plan must be that of a layer with compressed keys (gnomon.model)",
           summary(plan));
  return *plan.lowered.compression;
}

// The plan of the entries, or of those of the index heads.
const std::shared_ptr<const KeyCompressionPlan>& keys_of(const char* operation,
                                                         const Plan& plan, bool index) {
  const LayerCompression& all = compression_of(operation, plan);
  if (index && !all.index_entries)
    refuse(operation, "index requires a layer with index heads", summary(plan));
  return index ? all.index_entries : all.entries;
}

using Kept = std::variant<CompressedKeys<float>, CompressedKeys<Half>, CompressedKeys<BFloat16>,
                          CompressedKeys<double>>;
template <typename Of>
struct ElementOfKept;
template <typename T>
struct ElementOfKept<CompressedKeys<T>> {
  using type = T;
};

void construct(Kept* self, const Plan& plan, std::int64_t capacity, std::int64_t batch,
               bool index, const std::string& dtype) {
  constexpr const char* operation = "compressed_keys";
  constexpr Choice<int> types[] = {
      {"float32", 0}, {"float16", 1}, {"bfloat16", 2}, {"float64", 3}};
  const auto& keys = keys_of(operation, plan, index);
  switch (chosen(operation, "dtype", dtype, types)) {
    case 0:
      new (self) Kept(std::in_place_index<0>, keys, batch, capacity);
      break;
    case 1:
      new (self) Kept(std::in_place_index<1>, keys, batch, capacity);
      break;
    case 2:
      new (self) Kept(std::in_place_index<2>, keys, batch, capacity);
      break;
    default:
      new (self) Kept(std::in_place_index<3>, keys, batch, capacity);
  }
}

void append_tokens(Kept& kept, nb::handle values, nb::handle gates) {
  const Array v("compressed_keys", "values", values, Access::read),
      g("compressed_keys", "gates", gates, Access::read);
  std::visit(
      [&](auto& one) {
        using T = typename ElementOfKept<std::remove_cvref_t<decltype(one)>>::type;
        one.append(internal::read<T, 4>({"compressed_keys", "values"}, v.tensor()),
                   internal::read<T, 4>({"compressed_keys", "gates"}, g.tensor()));
      },
      kept);
}

nb::object entries_of_kept(nb::handle self) {
  return std::visit(
      [&](const auto& one) -> nb::object {
        using T = typename ElementOfKept<std::remove_cvref_t<decltype(one)>>::type;
        const View<const T, 4> rows = one.entries();
        if constexpr (sizeof(T) == 2) {
          const View<const std::uint16_t, 4> bits(
              reinterpret_cast<const std::uint16_t*>(rows.data()), rows.extents(),
              rows.strides());
          const nb::object type =
              std::is_same_v<T, Half>
                  ? nb::object(nb::module_::import_("numpy").attr("float16"))
                  : nb::object(nb::module_::import_("ml_dtypes").attr("bfloat16"));
          return numpy_view(bits, self).attr("view")(type);
        } else {
          return numpy_view(rows, self);
        }
      },
      nb::cast<const Kept&>(self));
}

nb::object compress(nb::handle values, nb::handle gates, const Plan& plan, bool index,
                    nb::handle out) {
  const auto& keys = *keys_of("compress_keys", plan, index);
  const Array v("compress_keys", "values", values, Access::read),
      g("compress_keys", "gates", gates, Access::read);
  internal::check_tensor({"compress_keys", "values"}, v.tensor(), 4);
  nb::object result = nb::borrow(out);
  if (out.is_none())
    result = new_array("compress_keys", "the inputs are", v.tensor(),
                       {v.tensor().extent(0),
                        entries_of(keys.compression, v.tensor().extent(1)), 1, keys.head_dim});
  const Array to("compress_keys", "out", result, Access::write);
  ReleasedGil released;
  compress_keys(v.tensor(), g.tensor(), keys, to);
  return result;
}

std::span<double> doubles(const char* operation, const char* name, const Array& array) {
  if (!array.tensor().has_data()) return {};
  const auto view = internal::write<double, 1>({operation, name}, array.tensor());
  if (!view.contiguous())
    refuse(operation, std::string(name) + " must be contiguous", "strides");
  return {view.data(), static_cast<std::size_t>(view.size())};
}

void compress_backward(nb::handle values, nb::handle gates, const Plan& plan,
                       nb::handle entries_grad, nb::handle values_grad, nb::handle gates_grad,
                       nb::handle bias_grad, nb::handle weight_grad, bool index) {
  constexpr const char* operation = "compress_keys_backward";
  const auto& keys = *keys_of(operation, plan, index);
  const Array v(operation, "values", values, Access::read),
      g(operation, "gates", gates, Access::read),
      de(operation, "entries_grad", entries_grad, Access::read),
      dv(operation, "values_grad", values_grad, Access::write),
      dg(operation, "gates_grad", gates_grad, Access::write),
      db(operation, "bias_grad", bias_grad, Access::write),
      dw(operation, "weight_grad", weight_grad, Access::write);
  const KeyCompressionGradient gradient{.values = dv,
                                        .gates = dg,
                                        .bias = doubles(operation, "bias_grad", db),
                                        .weight = doubles(operation, "weight_grad", dw)};
  ReleasedGil released;
  compress_keys_backward(v.tensor(), g.tensor(), keys, de.tensor(), gradient);
}

nb::object select(nb::handle q, nb::handle weights, nb::handle keys, const Plan& plan) {
  constexpr const char* operation = "select_keys";
  const LayerCompression& all = compression_of(operation, plan);
  if (!all.index_entries)
    refuse(operation, "plan must be that of a layer with index heads", summary(plan));
  const Array qs(operation, "q", q, Access::read),
      ws(operation, "weights", weights, Access::read),
      ks(operation, "keys", keys, Access::read);
  internal::check_tensor({operation, "q"}, qs.tensor(), 4);
  internal::check_tensor({operation, "keys"}, ks.tensor(), 4);
  const std::int64_t kept = std::min(all.selected, ks.tensor().extent(1));
  const nb::object result = nb::module_::import_("numpy").attr("empty")(
      nb::make_tuple(qs.tensor().extent(0), qs.tensor().extent(1), kept), "int32");
  const Array to(operation, "selected", result, Access::write);
  ReleasedGil released;
  select_keys(qs.tensor(), ws.tensor(), ks.tensor(), all.mask, to);
  return result;
}

nb::object compressed_attention_of(nb::handle q, nb::handle kv, nb::handle entries,
                                   const Plan& plan, nb::handle selected, nb::handle out,
                                   nb::handle lse) {
  constexpr const char* operation = "compressed_attention";
  const LayerCompression& all = compression_of(operation, plan);
  const Array qs(operation, "q", q, Access::read), ks(operation, "kv", kv, Access::read),
      es(operation, "entries", entries, Access::read),
      chosen_entries(operation, "selected", selected, Access::read);
  internal::check_tensor({operation, "q"}, qs.tensor(), 4);
  const ConstTensor& like = qs.tensor();
  nb::object result = nb::borrow(out);
  if (out.is_none())
    result = new_array(operation, "the inputs are", like,
                       {like.extent(0), like.extent(1), like.extent(2), like.extent(3)});
  const Array to(operation, "out", result, Access::write),
      sums(operation, "lse", lse, Access::write);
  ReleasedGil released;
  compressed_attention({qs.tensor(), ks.tensor(), es.tensor(), chosen_entries.tensor()},
                       plan.lowered, all.mask, to, sums);
  finish(plan.lowered, to);
  return result;
}

void compressed_attention_backward_of(nb::handle q, nb::handle kv, nb::handle entries,
                                      const Plan& plan, nb::handle out, nb::handle lse,
                                      nb::handle out_grad, nb::handle q_grad,
                                      nb::handle kv_grad, nb::handle entries_grad,
                                      nb::handle selected, nb::handle sinks_grad) {
  constexpr const char* operation = "compressed_attention_backward";
  const LayerCompression& all = compression_of(operation, plan);
  const Array qs(operation, "q", q, Access::read), ks(operation, "kv", kv, Access::read),
      es(operation, "entries", entries, Access::read),
      chosen_entries(operation, "selected", selected, Access::read),
      result(operation, "out", out, Access::read), sums(operation, "lse", lse, Access::read),
      grad(operation, "out_grad", out_grad, Access::read),
      dq(operation, "q_grad", q_grad, Access::write),
      dk(operation, "kv_grad", kv_grad, Access::write),
      de(operation, "entries_grad", entries_grad, Access::write),
      ds(operation, "sinks_grad", sinks_grad, Access::write);
  const CompressedGradient gradient{
      .q = dq, .kv = dk, .entries = de, .sinks = doubles(operation, "sinks_grad", ds)};
  internal::check_tensor({operation, "out"}, result.tensor(), 4);
  internal::check_tensor({operation, "out_grad"}, grad.tensor(), 4);
  ReleasedGil released;
  // The output and its gradient before `finish`.
  const Copy unfinished("out", result.tensor()), unfinished_grad("out_grad", grad.tensor());
  finish_backward(plan.lowered, unfinished.tensor());
  finish_backward(plan.lowered, unfinished_grad.tensor());
  compressed_attention_backward(
      {qs.tensor(), ks.tensor(), es.tensor(), chosen_entries.tensor()}, plan.lowered, all.mask,
      unfinished.tensor(), sums.tensor(), unfinished_grad.tensor(), gradient);
}

}  // namespace

void bind_compression(nb::module_& module) {
  nb::class_<Kept>(
      module, "CompressedKeys",
      R"(The entries of compressed keys of one layer, for a text that arrives in parts.

plan: of a layer with compressed keys (gnomon.model); a plan for any tokens has the same
    compression. capacity: the most entries. batch: B. index: the entries of the index heads.
dtype: of values, gates and entries.

Entries have the same bits as those of the whole text. Calls hold the GIL.)")
      .def("__init__", &construct, nb::arg("plan"), nb::kw_only(), nb::arg("capacity"),
           nb::arg("batch") = 1, nb::arg("index") = false, nb::arg("dtype") = "float32",
           nb::sig("def __init__(self, plan: Plan, *, capacity: int, batch: int = 1, index: "
                   "bool = False, dtype: MemoryType = 'float32') -> None"))
      .def("append", &append_tokens, nb::arg("values"), nb::arg("gates"),
           nb::sig("def append(self, values: Array, gates: Array) -> None"),
           "Appends the values and gates [B, T, N, D] of the next tokens; N is 1, or 2 if\n"
           "windows overlap.")
      .def_prop_ro("entries", &entries_of_kept,
                   nb::sig("def entries(self) -> numpy.typing.NDArray[Any]"),
                   "A read-only view of the entries, [B, W, 1, D].")
      .def_prop_ro(
          "tokens",
          [](const Kept& kept) {
            return std::visit([](const auto& one) { return one.tokens(); }, kept);
          },
          "Tokens appended so far.")
      .def(
          "clear", [](Kept& kept) { std::visit([](auto& one) { one.clear(); }, kept); },
          "Removes all tokens.");
  module.def(
      "compress_keys", &compress, nb::arg("values"), nb::arg("gates"), nb::arg("plan"),
      nb::kw_only(), nb::arg("index") = false, nb::arg("out") = nb::none(),
      nb::sig("def compress_keys(values: Array, gates: Array, plan: Plan, *, index: bool = "
              "False, out: Array | None = None) -> Array"),
      R"(Returns the entries [B, W, 1, D] of a whole text: one for each complete window.

values, gates: [B, T, N, D], the projections of the layer's input; float32, float16, bfloat16
or float64. index: the entries of the index heads. Raises ValueError if shapes do not match.)");
  module.def(
      "compress_keys_backward", &compress_backward, nb::arg("values"), nb::arg("gates"),
      nb::arg("plan"), nb::arg("entries_grad"), nb::kw_only(),
      nb::arg("values_grad") = nb::none(), nb::arg("gates_grad") = nb::none(),
      nb::arg("bias_grad") = nb::none(), nb::arg("weight_grad") = nb::none(),
      nb::arg("index") = false,
      nb::sig("def compress_keys_backward(values: Array, gates: Array, plan: Plan, "
              "entries_grad: Array, *, values_grad: Array | None = None, gates_grad: Array | "
              "None = None, bias_grad: Array | None = None, weight_grad: Array | None = None, "
              "index: bool = False) -> None"),
      R"(Writes the gradients of `compress_keys`. values_grad, gates_grad: shapes and types of
values and gates. bias_grad [m N D], weight_grad [D]: float64. None: not computed.)");
  module.def(
      "select_keys", &select, nb::arg("q"), nb::arg("weights"), nb::arg("keys"),
      nb::arg("plan"),
      nb::sig("def select_keys(q: Array, weights: Array, keys: Array, plan: Plan) -> "
              "numpy.typing.NDArray[numpy.int32]"),
      R"(Returns the entries with the greatest index scores of each query, int32 [B, T, K], in
ascending order, then -1.

q: index queries [B, T, H, D], rotated by plan.index_rotary; weights: [B, T, H]; keys: entries
of the index heads [B, W, 1, D]. Of equal scores the lower entry is selected.)");
  module.def(
      "compressed_attention", &compressed_attention_of, nb::arg("q"), nb::arg("kv"),
      nb::arg("entries"), nb::arg("plan"), nb::kw_only(), nb::arg("selected") = nb::none(),
      nb::arg("out") = nb::none(), nb::arg("lse") = nb::none(),
      nb::sig("def compressed_attention(q: Array, kv: Array, entries: Array, plan: Plan, *, "
              "selected: Array | None = None, out: Array | None = None, lse: Array | None = "
              "None) -> Array"),
      R"(Attention over the keys of the window and over compressed keys, in one softmax. The
output is rotated back if the model does so.

q: [B, T, Hq, D]; kv: [B, S, Hk, D], keys and values; both after gnomon.prepare. entries:
[B, W, Hk, D]. selected: int32 [B, T, K] of select_keys; None: all entries that a query sees.
lse: receives the log-sum-exp of the scores [B, Hq, T]. Releases the GIL.)");
  module.def(
      "compressed_attention_backward", &compressed_attention_backward_of, nb::arg("q"),
      nb::arg("kv"), nb::arg("entries"), nb::arg("plan"), nb::arg("out"), nb::arg("lse"),
      nb::arg("out_grad"), nb::kw_only(), nb::arg("q_grad"), nb::arg("kv_grad"),
      nb::arg("entries_grad"), nb::arg("selected") = nb::none(),
      nb::arg("sinks_grad") = nb::none(),
      nb::sig("def compressed_attention_backward(q: Array, kv: Array, entries: Array, plan: "
              "Plan, out: Array, lse: Array, out_grad: Array, *, q_grad: Array, kv_grad: "
              "Array, entries_grad: Array, selected: Array | None = None, sinks_grad: Array "
              "| None = None) -> None"),
      R"(Writes the gradients of `compressed_attention`, whose results are out and lse.

q_grad, kv_grad, entries_grad: shapes and types of q, kv and entries, with respect to the
prepared q and kv; kv_grad and entries_grad are those of keys and values, added.
sinks_grad: float64 [Hq].)");
}

}  // namespace gnomon::python
