// gnomon.Plan: its properties and its pickle.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "bindings/python/plan.h"
#include "bindings/python/released_gil.h"
#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon::python {
namespace {

nb::object bias_of(const Plan& plan, std::int64_t queries, std::int64_t keys) {
  if (queries < 0 || keys < 0)
    refuse("bias", "queries and keys must not be negative", std::min(queries, keys));
  const BiasForm& form = plan.lowered.bias;
  std::int64_t heads = gnomon::heads(form);
  if (const auto* dense_form = std::get_if<DenseBias>(&form))
    heads = dense_form->values.extent(1);
  if (heads == 0) return nb::none();
  std::vector<double> values(
      internal::checked_size("bias", "heads x queries x keys", {heads, queries, keys}));
  {
    ReleasedGil released;
    dense(form, plan.lowered.mask.offset.value_or(0),
          View<double, 3>(values.data(), {heads, queries, keys}));
  }
  return numpy(std::move(values),
               {static_cast<std::size_t>(heads), static_cast<std::size_t>(queries),
                static_cast<std::size_t>(keys)});
}

const char* form_name(const BiasForm& form) {
  constexpr const char* names[] = {"none", "slope",         "strip", "dense",
                                   "grid", "piecewise_log", "axes"};
  return names[form.index()];
}

// The numbers of the bias form, for kernels of other libraries (FlexAttention).
nb::dict bias_form(const Plan& plan) {
  nb::dict all;
  const BiasForm& form = plan.lowered.bias;
  all["form"] = form_name(form);
  const auto matrix = [](const std::vector<double>& values, std::int64_t heads) {
    const auto rows = static_cast<std::size_t>(heads);
    return numpy(values, {rows, rows ? values.size() / rows : 0});
  };
  if (const auto* slope = std::get_if<SlopeBias>(&form)) {
    all["slopes"] = numpy(slope->slopes, {slope->slopes.size()});
  } else if (const auto* strip = std::get_if<StripBias>(&form)) {
    all["min_distance"] = strip->min_distance;
    all["values"] = matrix(strip->values, strip->heads);
  } else if (const auto* grid = std::get_if<GridBias>(&form)) {
    all["height"] = grid->height, all["width"] = grid->width, all["leading"] = grid->leading;
    all["values"] = matrix(grid->values, grid->heads);
  } else if (const auto* piecewise = std::get_if<PiecewiseLogBias>(&form)) {
    all["c"] = piecewise->c, all["threshold"] = piecewise->threshold;
    all["epsilon"] = piecewise->epsilon;
    all["knots"] = numpy(piecewise->knots, {piecewise->knots.size()});
    all["offsets"] = matrix(piecewise->offsets, piecewise->heads);
    all["slopes"] = matrix(piecewise->slopes, piecewise->heads);
  } else if (const auto* axes = std::get_if<AxesBias>(&form)) {
    nb::list strips;
    for (const AxisStrip& one : axes->axes) {
      nb::dict strip_of;
      strip_of["min_distance"] = one.min_distance;
      strip_of["values"] = matrix(one.values, axes->heads);
      strip_of["coordinates"] = numpy(one.coordinates, {one.coordinates.size()});
      strips.append(strip_of);
    }
    all["axes"] = strips;
  }
  return all;
}

nb::object table_of(const Plan& plan) {
  if (!plan.lowered.table) return nb::none();
  const EmbeddingTable& table = *plan.lowered.table;
  return numpy(table.values,
               {static_cast<std::size_t>(table.tokens), static_cast<std::size_t>(table.width)});
}

nb::object rotary_of(const std::optional<RotaryTable>& table,
                     const std::vector<HeadRotation>& rotations) {
  if (table) return nb::cast(*table);
  if (rotations.size() == 1)
    if (const auto* one = std::get_if<RotaryTable>(&rotations.front())) return nb::cast(*one);
  return nb::none();
}

// The arguments of `lower`, for pickle; None for a plan of a model's layer.
nb::object state_of(const Plan& plan) {
  if (plan.prepared) return nb::none();
  nb::list encodings, parameters;
  for (const model::Encoding& one : plan.mixture) encodings.append(model::to_json(one));
  for (const Matrix& one : plan.parameters)
    parameters.append(numpy(one.values, {static_cast<std::size_t>(one.rows),
                                         static_cast<std::size_t>(one.columns)}));
  const auto coordinates = [&](const std::vector<double>& values) {
    const auto axes = static_cast<std::size_t>(plan.axes);
    const nb::object columns = numpy(values, {values.size() / axes, axes}).attr("T");
    return nb::steal(PySequence_Tuple(columns.ptr()));
  };
  nb::object queries = nb::cast(plan.window.queries), keys = nb::cast(plan.window.keys);
  if (plan.axes) {
    queries = coordinates(plan.query_coordinates), keys = coordinates(plan.key_coordinates);
  } else if (const auto& batch = plan.window.batch) {
    queries = nb::cast(batch->queries), keys = nb::cast(batch->keys);
  }
  nb::dict options;
  options["parameters"] = parameters;
  options["visibility"] = name(plan.lowered.mask.visibility);
  options["left"] = plan.lowered.mask.left;
  options["right"] = plan.lowered.mask.right;
  if (plan.window.softmax_scale != 0) options["softmax_scale"] = plan.window.softmax_scale;
  options["cap"] = plan.lowered.softmax.cap;
  options["sinks"] = plan.lowered.softmax.sinks;
  options["length"] = plan.window.length;
  options["rounds_weights"] = plan.lowered.softmax.rounds_weights;
  return nb::make_tuple(encodings, queries, keys, options);
}

}  // namespace

std::string summary(const Plan& plan) {
  const LayerPlan& p = plan.lowered;
  std::string parts;
  const auto add = [&](bool has, const std::string& part) {
    if (has) parts += ", " + part;
  };
  add(p.table.has_value(), "table");
  add(p.query_rotary.has_value() || !p.query_rotations.empty(), "rotation");
  add(p.bias.index() != 0, std::string(form_name(p.bias)) + " bias");
  add(!p.relative.empty(), "relative vectors");
  add(p.key_slopes, "slopes of keys");
  add(p.edges.has_value(), "sums of edges");
  add(p.stick_breaking.has_value(), "stick-breaking");
  add(!p.cosine.empty(), "cosine scale");
  add(p.polar.has_value(), "polar products");
  add(p.product == PairProduct::channel_gates, "gates of channels");
  add(p.product == PairProduct::householder, "Householder factors");
  add(p.compression.has_value(), "compressed keys");
  const std::string names = plan.mixture.empty() ? "" : model::names(plan.mixture) + ", ";
  return "Plan(" + names + std::to_string(plan.window.queries) + " queries, " +
         std::to_string(plan.window.keys) + " keys, " + name(p.mask.visibility) + parts + ")";
}

void bind_plan_class(nb::module_& module) {
  nb::class_<Plan>(
      module, "Plan",
      R"(All places in which position enters a layer, for known tokens. Made by gnomon.lower
and by gnomon.model. Immutable; threads and layers can share it.)")
      .def_prop_ro(
          "queries", [](const Plan& p) { return p.window.queries; }, "T, query tokens.")
      .def_prop_ro(
          "keys", [](const Plan& p) { return p.window.keys; }, "S, key tokens.")
      .def_prop_ro(
          "offset", [](const Plan& p) { return p.lowered.mask.offset.value_or(0); },
          "The key row that corresponds to query row 0.")
      .def_prop_ro(
          "visibility", [](const Plan& p) { return name(p.lowered.mask.visibility); },
          nb::sig("def visibility(self) -> Visibility"))
      .def_prop_ro("left", [](const Plan& p) { return p.lowered.mask.left; })
      .def_prop_ro("right", [](const Plan& p) { return p.lowered.mask.right; })
      .def_prop_ro(
          "softmax_scale", [](const Plan& p) { return p.lowered.softmax.scale; },
          "The scale of q . k with all factors; None: 1 / sqrt(D) times softmax_factor.")
      .def_prop_ro("softmax_factor", [](const Plan& p) { return p.lowered.softmax.factor; })
      .def_prop_ro("cap", [](const Plan& p) { return p.lowered.softmax.cap; })
      .def_prop_ro("sinks", [](const Plan& p) { return p.lowered.softmax.sinks; })
      .def_prop_ro(
          "rounds_weights", [](const Plan& p) { return p.lowered.softmax.rounds_weights; },
          "Whether weights of bfloat16 calls may be rounded to bfloat16.")
      .def_prop_ro(
          "gated", [](const Plan& p) { return p.lowered.gated; },
          "Whether the bias requires gates that depend on the tokens (WavLM).")
      .def_prop_ro("has_relative", [](const Plan& p) { return !p.lowered.relative.empty(); })
      .def_prop_ro("changes_products",
                   [](const Plan& p) {
                     return p.lowered.product != PairProduct::dot ||
                            p.lowered.polar.has_value();
                   })
      .def_prop_ro(
          "stick_breaking", [](const Plan& p) { return p.lowered.stick_breaking.has_value(); },
          "Whether the weights are those of stick-breaking instead of a softmax.")
      .def_prop_ro(
          "cosine", [](const Plan& p) { return p.lowered.cosine; },
          "The factor of each head in cosine attention (Swin v2); empty: dot products.")
      .def_prop_ro(
          "table", &table_of,
          nb::sig("def table(self) -> numpy.typing.NDArray[numpy.float32] | None"),
          "A copy of the table that is added to the embeddings, [T, C] or [B T, C]; or None.")
      .def_prop_ro(
          "query_rotary",
          [](const Plan& p) {
            return rotary_of(p.lowered.query_rotary, p.lowered.query_rotations);
          },
          nb::sig("def query_rotary(self) -> RotaryTable | None"))
      .def_prop_ro(
          "key_rotary",
          [](const Plan& p) {
            return rotary_of(p.lowered.key_rotary, p.lowered.key_rotations);
          },
          nb::sig("def key_rotary(self) -> RotaryTable | None"))
      .def_prop_ro(
          "output_rotary", [](const Plan& p) { return p.lowered.output_rotary; },
          nb::sig("def output_rotary(self) -> RotaryTable | None"),
          "The output of attention is rotated back by this table (DeepSeek-V4).")
      .def_prop_ro(
          "index_rotary",
          [](const Plan& p) {
            return p.lowered.compression ? p.lowered.compression->index_rotary : std::nullopt;
          },
          nb::sig("def index_rotary(self) -> RotaryTable | None"),
          "The rotation of the index queries of a layer with compressed keys.")
      .def_prop_ro(
          "bias_form", &bias_form, nb::sig("def bias_form(self) -> dict[str, object]"),
          R"(The form of the bias and its numbers: 'slope' (slopes [H]), 'strip' (values [H, N]
by distance), 'grid', 'axes', 'piecewise_log', 'dense' or 'none'.)")
      .def(
          "bias",
          [](const Plan& p, std::optional<std::int64_t> queries,
             std::optional<std::int64_t> keys) {
            return bias_of(p, queries.value_or(p.window.queries), keys.value_or(p.window.keys));
          },
          nb::arg("queries") = nb::none(), nb::arg("keys") = nb::none(),
          nb::sig("def bias(self, queries: int | None = None, keys: int | None = None) -> "
                  "numpy.typing.NDArray[numpy.float64] | None"),
          R"(Returns the whole bias [H, T, S], for inspection; None if the plan has no bias. The
query of row t is at position offset + t, the key of row s at position s.)")
      .def(
          "__copy__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __copy__(self) -> Plan"))
      .def(
          "__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); },
          nb::sig("def __deepcopy__(self, memo: object) -> Plan"))
      .def_prop_rw(
          "_origin", [](const Plan& p) { return p.origin; },
          [](Plan& p, nb::object origin) { p.origin = std::move(origin); }, nb::arg().none(),
          nb::sig("def _origin(self) -> object"))
      .def(
          "__reduce__",
          [](const Plan& p) {
            const nb::module_ spec = nb::module_::import_("gnomon._spec");
            const nb::object state = state_of(p);
            if (!state.is_none()) return nb::make_tuple(spec.attr("lowered"), state);
            if (p.origin.is_valid()) return nb::borrow<nb::tuple>(p.origin);
            throw nb::type_error(
                "[Plan] a plan must be made by gnomon.lower or Model.lower to be pickled");
          },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"))
      .def("__repr__", &summary);
}

}  // namespace gnomon::python
