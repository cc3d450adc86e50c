#include "gnomon/model/onnx.h"

#include <algorithm>
#include <cmath>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/model/onnx/layer_graph.h"

namespace gnomon::model {
namespace internal {
namespace {

constexpr std::int64_t most_rows = 8192;
constexpr std::int64_t most_cells = 65'536;

// The tokens for which an image layer is exported; nothing for a text layer.
std::optional<ImagePatches> image_of(const ModelDescription& model, const LayerGroup& group,
                                     const OnnxOptions& options) {
  if (!model.image) {
    if (options.image)
      refuse("onnx", "an image must be given for image layers only", model.model_type);
    return std::nullopt;
  }
  if (options.image) return options.image;
  if (const auto& table = model.image->table)
    return ImagePatches{.height = table->height, .width = table->width};
  if (includes(enters(group.position), Place::queries_and_keys)) {
    if (model.length == 0)
      refuse("onnx", "the size of the image must be given for this model", "none");
    return ImagePatches{.height = model.length, .width = model.length};
  }
  const std::int64_t cells = capacity(group.position).value_or(model.length) -
                             model.image->first_tokens - model.image->last_tokens;
  if (cells < 1) refuse("onnx", "the size of the image must be given for this model", "none");
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(cells)));
  if (side * side == cells) return ImagePatches{.height = side, .width = side};
  return ImagePatches{.height = 1, .width = cells};
}

std::int64_t rows_of(const ModelDescription& model, const LayerGroup& group,
                     const OnnxOptions& options) {
  const std::int64_t length = options.length > 0 ? options.length : model.length;
  std::int64_t rows = options.rows;
  const auto most = capacity(group.position);
  const auto indexed = group.attention.indexed_keys;
  if (rows == 0) {
    rows = std::clamp<std::int64_t>(length, 1, most_rows);
    if (most) rows = std::min(rows, *most);
    if (indexed) rows = std::min(rows, *indexed);
  }
  if (rows < 1) refuse("onnx", "rows must be at least 1", rows);
  return rows;
}

// T of an image layer: the tokens of a window, or of the whole image.
std::int64_t image_tokens(const ModelDescription& model, const LayerGroup& group,
                          const ImagePatches& image) {
  if (const auto& window = group.attention.partition) return window->height * window->width;
  const std::int64_t cells = gnomon::internal::checked_size(
      "onnx", "frames x height x width", {image.frames, image.height, image.width});
  if (cells > most_cells)
    refuse("onnx", "the image must have at most " + std::to_string(most_cells) + " patches",
           cells);
  return cells + model.image->first_tokens + model.image->last_tokens;
}

std::int64_t axes_of(const Mixture& mixture) {
  std::int32_t last = 0;
  for (const Encoding& one : mixture)
    if (const auto frequencies = rotary_frequencies(one, 1))
      for (const std::int32_t axis : frequencies->axes) last = std::max(last, axis);
  return last + 1;
}

}  // namespace

LayerGraph::LayerGraph(const ModelDescription& model, const LayerGroup& group,
                       std::int64_t layer, std::string_view part, const OnnxOptions& options)
    : model_(model),
      group_(group),
      layer_(layer),
      part_(part),
      options_(options),
      image_(image_of(model, group, options)),
      axes_(image_ ? 1 : axes_of(group.position)),
      rows_(image_ ? 0 : rows_of(model, group, options)),
      extent_(image_ ? std::to_string(image_tokens(model, group, *image_)) : "tokens"),
      tokens_(consecutive(rows_)),
      trained_(graph_, group, [this](auto values) { return lowered(values); }) {}

LayerPlan LayerGraph::lowered(std::span<const View<const float, 2>> values) const {
  LayerTokens tokens{.length = options_.length, .image = image_};
  if (!image_) tokens.queries = {&tokens_, 1};
  return lower_layer(model_, layer_, part_, tokens, values);
}

void LayerGraph::check_supported() const {
  const LayerPlan& p = plan();
  const auto check = [&](bool has, const char* what) {
    if (has)
      refuse("onnx", "the layer must have no " + std::string(what), names(group_.position));
  };
  if (group_.heads == 0) refuse("onnx", "the layer must have attention", "none");
  check(p.product != PairProduct::dot, "products other than q . k");
  check(p.polar.has_value(), "polar form");
  check(p.prepared_rotation.has_value(), "rotation by angles of tokens");
  check(p.relative.contextual.has_value(), "contextual positions");
  check(!p.relative.projected.empty(), "relative queries");
  check(p.cumulative.has_value(), "cumulative gates");
  check(p.edges.has_value(), "edges");
  check(p.key_slopes, "slopes of keys");
  check(p.stick_breaking.has_value(), "stick-breaking");
  check(p.compression.has_value() || p.output_rotary.has_value(), "compressed keys");
  check(std::holds_alternative<PiecewiseLogBias>(p.bias), "bias by a trained function");
  for (const Encoding& one : group_.position)
    check(std::holds_alternative<LayoutBias>(one), "bias by word boxes");
  check(!p.cosine.empty() && p.cosine != trained_.checked().cosine, "trained cosine scales");
  check(p.trained_frequencies, "trained frequencies");
}

OnnxModel LayerGraph::build() {
  check_supported();
  const auto [q_heads, k_heads, dim, value_dim] =
      std::tuple(group_.heads, group_.key_heads, group_.head_dim, group_.value_dim);
  const auto projection = [&](const std::string& name, std::int64_t heads, std::int64_t size) {
    const Value value =
        graph_.input(name, OnnxType::float32, {"batch", extent_, std::to_string(heads * size)});
    return Heads{value, heads, size, name};
  };
  Heads q = projection("q", q_heads, dim), k = projection("k", k_heads, dim),
        v = projection("v", k_heads, value_dim);
  first_ = q.value;
  put_hidden();
  const LayerPlan &p = plan(), &c = trained_.checked();
  const auto norms = [&](NormOrder order) {
    if (p.norm_order != order) return;
    normalise(q, p.query_norm, c.query_norm);
    normalise(k, p.key_norm, c.key_norm);
  };
  norms(NormOrder::before_rotation);
  rotate(q, p.query_rotations);
  rotate(k, p.key_rotations);
  norms(NormOrder::after_rotation);
  normalise(v, p.value_norm, c.value_norm);
  if (p.value_scale != 1) v.value = graph_.node("Mul", {v.value, graph_.number(p.value_scale)});
  scale_queries(q);
  graph_.output("out", attention(q, k, v),
                {"batch", extent_, std::to_string(q_heads * value_dim)});
  OnnxModel onnx =
      graph_.finish(model_.model_type + "_layer_" + std::to_string(layer_),
                    "Position of layer " + std::to_string(layer_) + " of " + model_.model_type +
                        ": " + (group_.position.empty() ? "none" : names(group_.position)));
  onnx.image = image_;
  return onnx;
}

}  // namespace internal

OnnxModel to_onnx(const ModelDescription& model, std::int64_t layer, std::string_view part,
                  const OnnxOptions& options) {
  return internal::LayerGraph(model, group_of(model, layer, part), layer, part, options)
      .build();
}

}  // namespace gnomon::model
