// How position enters one layer of a Transformer, in all the places where it can: one plan for
// the embeddings, the projections, queries and keys, scores, and keys and values.
//
//   add_position(plan, x);                    // if a table is added to the embeddings
//   for each layer: q, k, v = projections of x
//     prepare(plan, q, k, v);                 // norms, rotations, query scale
//     attention({q, keys, values}, plan, out);
//
// model::lower makes a plan of an encoding, model::lower_layer of a layer of a released model;
// it can also be filled by hand.
//
// Letters: B batch, T tokens, H query heads, Hk key heads, D head_dim, C channels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/qk_norm.h"
#include "gnomon/embedding/table.h"
#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/temperature.h"
#include "gnomon/rotary/vjepa2.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Whether q and k are normalised before or after they are rotated.
enum class NormOrder { before_rotation = 1, after_rotation };

// A rotation of heads by `prepare`.
using HeadRotation = std::variant<RotaryTable, Vjepa2Table>;

// A norm of q, k or v and its weights, [1 or H, D] each; empty: 1 and 0.
struct WeightedNorm {
  HeadNorm norm;
  std::int64_t heads = 0, head_dim = 0;  // of the weights
  std::vector<float> weight = {}, bias = {};
};

// The part that attention() applies (AttentionPlan), and the parts before it: `add_position`,
// `prepare_input` and `prepare`. A rotation stands in one of the two, never in both.
struct LayerPlan : AttentionPlan {
  // Added to the embeddings, or in each layer if `table_in_layers`: [T, C]; of a batch
  // [B T, C].
  std::optional<EmbeddingTable> table = {};
  // The table is added to what is projected to q and k in each layer, not to v (DETR), and not
  // to the embeddings.
  bool table_in_layers = false;
  // Rotates the layer's input [B, T, H, D], by heads, before it is projected to q and k
  // (Conformer).
  std::optional<RotaryTable> hidden_rotary = {};
  // Rotations of queries and keys by `prepare`, in this order.
  std::vector<HeadRotation> query_rotations = {}, key_rotations = {};
  NormOrder norm_order = NormOrder::before_rotation;
  std::optional<WeightedNorm> query_norm = {}, key_norm = {}, value_norm = {};
  double value_scale = 1;  // after the norm
  // Cosine attention: queries and keys are scaled to length 1, and q . k by this; softmax.scale
  // is then 1. [H]; empty: plain products.
  std::vector<double> cosine = {};
  // A factor on each query that depends on its position (Llama 4).
  std::optional<QueryTemperature> query_scale = {};
  std::shared_ptr<const Positions> scale_positions = {};  // of query_scale
  // What a DenseBias of the plan views.
  std::shared_ptr<const std::vector<float>> dense = {};
};

// x[b, t] += the table, if one is added to the embeddings. x: [B, T, C], any strides, C
// contiguous. Call it once, before the first layer.
void add_position(const LayerPlan& plan, const Tensor& x);

// Whether q and k are projected from another input than v: one that `prepare_input` changes.
bool has_own_input(const LayerPlan& plan) noexcept;
// Brings a layer's input x [B, T, C] to what is projected to q and k: rotated by heads
// (Conformer), or with the table added (DETR). Otherwise leaves it.
void prepare_input(const LayerPlan& plan, std::int64_t heads, const Tensor& x);

// Brings projected queries and keys to what attention multiplies: norms, rotations, cosine
// scales, the query's scale by position; and normalises values where a model does. In place.
// q: [B, T, H, D]; k, v: [B, T, Hk, D], the keys and values of the same tokens, on their way
// into the cache. Without data: left out. Element types: float, Half, BFloat16, double.
//
// Throws std::invalid_argument when shapes do not fit the plan.
void prepare(const LayerPlan& plan, const Tensor& q, const Tensor& k, const Tensor& v = {});

// Moves the rotation of attention() to `prepare`: for keys that are rotated once, on their way
// into a cache.
void rotate_in_prepare(LayerPlan& plan);

}  // namespace gnomon
