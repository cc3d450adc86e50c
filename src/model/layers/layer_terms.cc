// Token terms of a layer of a released model.
#include <span>
#include <string_view>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/model/layer.h"
#include "src/core/size.h"
#include "src/core/tensor.h"
#include "src/core/token_projection.h"
#include "src/model/encodings/lowering.h"

namespace gnomon::model {
namespace {

using SinkWeights = View<const float, 2>;

// sinks [B, H, T] = x w^T.
void project_sinks(View<const float, 3> x, SinkWeights weight, const Tensor& out) {
  const auto sinks = gnomon::internal::write<float, 3>({"terms", "sinks"}, out);
  gnomon::internal::check_shape<3>("terms", "x", x.extents(),
                                   {x.extent(0), x.extent(1), weight.extent(1)});
  gnomon::internal::check_shape<3>("terms", "sinks", sinks.extents(),
                                   {x.extent(0), weight.extent(0), x.extent(1)});
  const std::vector<double> all = gnomon::internal::project_tokens(x, weight);
  const double* from = all.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < weight.extent(0); ++h)
        sinks(b, h, t) = static_cast<float>(*from++);
}

SinkWeights sink_weights(const LayerGroup& group,
                         std::span<const View<const float, 2>> values) {
  const std::vector<Parameter> all = layer_parameters(group);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].name == "sinks.weight") return values[i];
  return {};
}

}  // namespace

std::vector<TermShape> layer_terms(const LayerGroup& group) {
  std::vector<TermShape> all = token_terms(group.position);
  if (group.attention.sinks == Sinks::per_query) all.push_back({"sinks", group.heads});
  return all;
}

void compute_layer_terms(const LayerGroup& group, const LayerPlan& plan,
                         std::span<const View<const float, 2>> values, View<const float, 3> x,
                         const TokenTermOutputs& out, const Positions* tokens) {
  if (layer_terms(group).empty())
    refuse("terms", "require a layer with token terms", names(group.position));
  internal::check_parameter_count("terms", layer_parameters(group), values.size());
  if (!token_terms(group.position).empty())
    compute_terms(group.position, values.first(parameters(group.position).size()), x, out,
                  tokens);
  if (group.attention.sinks == Sinks::per_query)
    project_sinks(x, sink_weights(group, values), out.sinks);
  if (!plan.query_scale || !out.relative_queries.has_data()) return;
  if (!plan.scale_positions) refuse("terms", "query_scale requires scale_positions", "none");
  scale_queries(out.relative_queries, *plan.query_scale, *plan.scale_positions);
}

}  // namespace gnomon::model
