#include "bindings/python/bias_form.h"

#include <algorithm>
#include <string>

#include "bindings/python/arrays.h"
#include "bindings/python/released_gil.h"
#include "gnomon/error.h"
#include "src/core/tensor.h"

namespace gnomon::python {

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
    dense(form, plan.lowered.mask.offset,
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

}  // namespace gnomon::python
