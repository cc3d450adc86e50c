// Attention plans of the layers of a described model: tables, norms, scales and masks.
//
//   ModelPlan plan(model, tensors);                 // once: names and trained tables
//   plan.set_tokens({.queries = {&positions, 1}});  // for each forward pass
//   add_position(plan.layer(0), x);                 // adds a table to the embeddings, if any
//   for each layer: q, k, v = projections of x
//     prepare(plan.layer(l), q, k, v);              // norms, rotation, query scale
//     attention({q, keys, values}, plan.layer(l), out);
//
// `lower_layer` lowers a single layer and keeps no state. Both throw for layers with features
// that this library does not support, with the model's name and the reason.
//
// Letters: B batch, T query tokens, S key tokens, A position axes, H heads, D head dimension, C
// width of the embeddings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/attention/layer_plan.h"
#include "gnomon/model/description.h"
#include "gnomon/view.h"

namespace gnomon::model {

// State of the keys in the KV cache.
enum class EarlierKeys {
  rotated = 1,  // rotated when they were stored: tables are computed for new keys only
  unrotated,    // rotated in every pass: tables are computed for all S keys
};

// Size of an image or video, in patches.
struct ImagePatches {
  std::int64_t frames = 1, height = 0, width = 0;
  bool operator==(const ImagePatches&) const = default;
};

// Tokens of one forward pass. Spans are borrowed; plans keep references to the positions.
struct LayerTokens {
  // Positions of the queries, [B or 1, T]: one Positions, or one for each axis (M-RoPE: t, h,
  // w). Their sequences describe padding and packing. Empty: the tokens of `image`.
  std::span<const Positions> queries = {};
  // Positions of all keys, [B or 1, S]. The queries are the last T keys. Empty: `cached` tokens
  // of one sequence at consecutive positions, then the queries.
  std::span<const Positions> keys = {};
  std::int64_t cached = 0;
  EarlierKeys earlier = EarlierKeys::rotated;
  // Declared context length, for which length-dependent frequencies (dynamic NTK, LongRoPE) are
  // resolved. 0: the training length. Keys in a KV cache are consistent only if the caller does
  // not change it. transformers does change it: docs/model/layer.md.
  std::int64_t length = 0;
  std::optional<ImagePatches> image = {};
  const gnomon::WordBoxes* boxes = nullptr;  // word boxes, for LayoutLM
};

// Returns the parameters of a layer in the order of `values`: those of the mixture, then
// "rotary.alpha" [1, R/2], "query_scale.slope" and "query_scale.offset" [H, 1], "sinks" [H, 1],
// "sinks.weight" [H, C] (Sinks::per_query), "query_norm.weight", "query_norm.bias",
// "key_norm.weight", "key_norm.bias", each [1 or H, D], if the layer has them (Llama 4's norms
// have none). Layers with compressed keys: "compression.bias" [m, N D] and "compression.weight"
// [1, D], then "index.bias" and "index.weight" of the same shapes for the index heads.
std::vector<Parameter> layer_parameters(const LayerGroup& group);
// Returns the token terms of a layer: those of the mixture, and `sinks` of Sinks::per_query.
std::vector<TermShape> layer_terms(const LayerGroup& group);
// Computes these terms for the tokens of the plan, which lower_layer made with these values.
// Relative queries are multiplied by the query scale of the plan, as queries are in `prepare`.
// x, out and tokens: as compute_terms. Throws as compute_terms.
void compute_layer_terms(const LayerGroup& group, const LayerPlan& plan,
                         std::span<const View<const float, 2>> values, View<const float, 3> x,
                         const TokenTermOutputs& out, const Positions* tokens = nullptr);

// Returns the plan of a layer for these tokens. `prepare` rotates keys, before they are stored
// in a cache. `values`: one matrix for each of layer_parameters. A norm matrix without data
// means weights of 1 and biases of 0.
//
// A layer with compressed keys requires consecutive positions without padding. Its windows are
// counted from position 0.
//
// Throws std::invalid_argument if the model has no such part or layer, if the group is
// unsupported or the tokens have more keys than its `indexed_keys`, if `values` do not match
// the parameters, or as `lower`.
LayerPlan lower_layer(const ModelDescription& model, std::int64_t layer, std::string_view part,
                      const LayerTokens& tokens, std::span<const View<const float, 2>> values);

// Checkpoint tensor, converted to float.
struct CheckpointTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
// Checkpoint: the names of its tensors, and a function that reads one tensor.
struct Checkpoint {
  std::vector<std::string> names;
  std::function<CheckpointTensor(const std::string& name)> read;
};
// Returns the name of the checkpoint tensor of a layer, or empty text if there is none.
// `prefix`: only names with this prefix are searched ("vision_model."). Throws
// std::invalid_argument if several names match.
std::string find_tensor(const Checkpoint& checkpoint, const ParameterTensor& tensor,
                        std::int64_t layer, std::string_view prefix = {});

// Plans of all layers of a model, or of one of its parts, for the same tokens. Equal layers
// share one plan. Tables by distance are reused in later passes while they cover all distances.
class ModelPlan {
 public:
  // Borrows the model. Reads the trained parameters from the checkpoint. Throws as lower_layer,
  // and if the tensor of a parameter is missing.
  ModelPlan(const ModelDescription& model, const Checkpoint& checkpoint, std::string part = {},
            std::string_view prefix = {});

  // Lowers all layers for these tokens. Throws as lower_layer.
  void set_tokens(const LayerTokens& tokens);
  // Returns the plan of a layer, valid until the next set_tokens. Throws std::invalid_argument
  // if the layer is unsupported or set_tokens was not called.
  const LayerPlan& layer(std::int64_t layer) const;
  // compute_layer_terms of a layer, for the tokens of set_tokens. Throws as `layer`.
  void compute_terms(std::int64_t layer, View<const float, 3> x, const TokenTermOutputs& out,
                     const Positions* tokens = nullptr) const;

 private:
  struct Kept;
  const ModelDescription& model_;
  std::string part_;
  std::vector<std::shared_ptr<Kept>> layers_;  // by layer; equal layers share an element
};

}  // namespace gnomon::model
