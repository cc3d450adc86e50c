// From a model's description to the numbers of one layer: everything that its attention needs,
// in one plan.
//
//   ModelPlan plan(model, tensors);                 // once: names and trained tables
//   plan.set_tokens({.queries = {&positions, 1}});  // for each forward pass
//   add_position(plan.layer(0), x);                 // where a table is added to embeddings
//   for each layer: q, k, v = projections of x
//     prepare(plan.layer(l), q, k, v);              // norms, rotation, query scale
//     attention({q, keys, values}, plan.layer(l), out);
//
// `lower_layer` is the same for one layer, without a state. What a model does and this library
// cannot say is refused, with the model's name and the reason.
//
// Letters: B batch, T query tokens, S key tokens, A position axes, H heads, D head_dim, C
// channels.
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

// Keys of tokens before the queries.
enum class EarlierKeys {
  rotated = 1,  // in a cache, rotated when they came: no tables are made for them
  unrotated,    // rotated in every pass: tables are made for all S keys
};

// An image of a tower, in patches.
struct ImagePatches {
  std::int64_t frames = 1, height = 0, width = 0;
  bool operator==(const ImagePatches&) const = default;
};

// The tokens of one forward pass. Spans are borrowed.
struct LayerTokens {
  // Positions of the queries, [B or 1, T]: one Positions, or one for each axis (M-RoPE: t, h,
  // w). Padding and packing are their sequences. Empty: `image` says the tokens.
  std::span<const Positions> queries = {};
  // Positions of all keys, [B or 1, S]; the queries are the last T of them. Empty: the keys are
  // those of the queries and, before them, `cached` tokens in one sequence at consecutive
  // positions.
  std::span<const Positions> keys = {};
  std::int64_t cached = 0;
  EarlierKeys earlier = EarlierKeys::rotated;
  // The declared context length of length-dependent frequencies (dynamic NTK, LongRoPE). It is
  // the caller's to keep while keys are in a cache. 0: the length the model was trained for.
  std::int64_t length = 0;
  std::optional<ImagePatches> image = {};
  const gnomon::Page* boxes = nullptr;  // of the words, for LayoutLM
};

// Parameters of a layer's position and attention, in the order of `values`: those of the
// mixture, then "sinks" [H, 1], "query_norm.weight", "query_norm.bias", "key_norm.weight",
// "key_norm.bias", [1 or H, D] each, where the layer has them (Llama 4's norms have none).
std::vector<Parameter> layer_parameters(const LayerGroup& group);

// The plan of the layer for these tokens; keys are rotated by `prepare`, on their way into a
// cache. `values`: one matrix for each of layer_parameters; a matrix without data stands for
// norm weights of 1 and biases of 0.
//
// Throws std::invalid_argument when the model has no such part or layer, when the group is
// unsupported, when values do not match, or as `lower`.
LayerPlan lower_layer(const ModelDescription& model, std::int64_t layer, std::string_view part,
                      const LayerTokens& tokens, std::span<const View<const float, 2>> values);

// A tensor of a checkpoint as floats.
struct CheckpointTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
// A checkpoint: the names of its tensors, and a function that reads one.
struct Checkpoint {
  std::vector<std::string> names;
  std::function<CheckpointTensor(const std::string& name)> read;
};
// The tensor's name for a layer, by the group's `tensors`. Empty: the checkpoint has none.
// `prefix`: only names that begin with it ("vision_model."). Throws when several would do.
std::string find_tensor(const Checkpoint& checkpoint, const ParameterTensor& tensor,
                        std::int64_t layer, std::string_view prefix = {});

// The plans of all layers of a model, or of one of its parts, for the same tokens. Plans that
// layers share are lowered once; tables by distance are kept from pass to pass while they
// reach.
class ModelPlan {
 public:
  // Borrows the model. Reads trained parameters from the checkpoint at once. Throws as
  // lower_layer, and when a tensor that a parameter needs is missing.
  ModelPlan(const ModelDescription& model, const Checkpoint& checkpoint, std::string part = {},
            std::string_view prefix = {});

  // Throws as lower_layer.
  void set_tokens(const LayerTokens& tokens);
  // Valid until the next set_tokens.
  const LayerPlan& layer(std::int64_t layer) const;
  // The gates of a layer whose bias is gated, from its input x [B, T, C] to out [B, H, T].
  void gates(std::int64_t layer, View<const float, 3> x, View<float, 3> out) const;

 private:
  struct Kept;
  const ModelDescription& model_;
  std::string part_;
  std::vector<std::shared_ptr<Kept>> layers_;  // by layer; equal layers share one
};

}  // namespace gnomon::model
