// The plan of one Transformer layer: all places in which position enters, which are the
// embeddings, the projections, queries and keys, scores, and values.
//
//   add_position(plan, x);                    // if a table is added to the embeddings
//   for each layer: q, k, v = projections of x
//     prepare(plan, q, k, v, terms);          // norms, rotations, query scale
//     attention({q, keys, values}, plan, out);
//     finish(plan, out);                      // a rotation of the output, if any
//
// model::lower makes the plan of an encoding, model::lower_layer that of a layer of a released
// model. The caller can also fill a plan.
//
// Letters: B batch, T tokens, H query heads, Hk key heads, D head dimension, C width.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/compressed_keys.h"
#include "gnomon/attention/qk_norm.h"
#include "gnomon/attention/token_terms.h"
#include "gnomon/embedding/table.h"
#include "gnomon/position/positions.h"
#include "gnomon/rotary/head_angles.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/temperature.h"
#include "gnomon/rotary/token_angles.h"
#include "gnomon/rotary/vjepa2.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Whether q and k are normalised before or after their rotation.
enum class NormOrder { before_rotation = 1, after_rotation };

// A rotation of heads that `prepare` applies.
using HeadRotation = std::variant<RotaryTable, Vjepa2Table, HeadAngles>;

// A norm of q, k or v with its weights and biases, [1 or H, D] each. Empty: weights of 1,
// biases of 0.
struct WeightedNorm {
  HeadNorm norm;
  std::int64_t heads = 0, head_dim = 0;  // shape of the weights
  std::vector<float> weight = {}, bias = {};
};

// Compressed keys of a layer, beside those of its window (gnomon/attention/compressed_keys.h).
struct LayerCompression {
  std::shared_ptr<const KeyCompressionPlan> entries = {};
  AttentionMask mask = {};  // of the entries
  // The index heads that select the entries of each query (gnomon/attention/key_selection.h).
  // Null: a query attends to all entries that it sees.
  std::shared_ptr<const KeyCompressionPlan> index_entries = {};
  std::int64_t index_heads = 0, selected = 0;    // H, K
  std::optional<RotaryTable> index_rotary = {};  // rotates the index queries, T tokens
};

// An AttentionPlan, which attention() applies, and the steps before attention, which
// `add_position`, `prepare_input` and `prepare` apply. A rotation is in one of the two, never
// in both.
struct LayerPlan : AttentionPlan {
  // A table that is added to the embeddings, or in each layer if `table_in_layers`: [T, C]; [B
  // T, C] if the rows of a batch differ.
  std::optional<EmbeddingTable> table = {};
  // If true, the table is added in each layer to the input of the projections to q and k, but
  // not of the projection to v (DETR), and not to the embeddings.
  bool table_in_layers = false;
  // Rotates the layer's input [B, T, H, D], head by head, before its projection to q and k
  // (Conformer).
  std::optional<RotaryTable> hidden_rotary = {};
  // True if the frequencies of query_rotary, or of the HeadAngles of the rotations below, are
  // trained: trained_values. Their gradient is that of frequencies_backward, of queries and of
  // keys: rotated or not, with gradients likewise.
  bool trained_frequencies = false;
  // Rotations of queries and keys by `prepare`, in this order.
  std::vector<HeadRotation> query_rotations = {}, key_rotations = {};
  // Rotates queries and keys by the term `angles`, those of the same tokens, after these
  // rotations. Not by increments: the caller sums them, with a state (cumulative_angles).
  std::optional<TokenRotation> prepared_rotation = {};
  NormOrder norm_order = NormOrder::before_rotation;
  std::optional<WeightedNorm> query_norm = {}, key_norm = {}, value_norm = {};
  double value_scale = 1;  // after the norm
  // Cosine attention: queries and keys are scaled to length 1, and q . k is multiplied by this
  // factor; softmax.scale is then 1. [H]; empty: plain dot products.
  std::vector<double> cosine = {};
  // `finish` rotates the output back, by the inverse of this table: values were rotated with
  // the keys, because they are the keys (DeepSeek-V4).
  std::optional<RotaryTable> output_rotary = {};  // T tokens
  std::optional<LayerCompression> compression = {};
  // A factor on each query, computed from its position (Llama 4).
  std::optional<QueryTemperature> query_scale = {};
  std::shared_ptr<const Positions> scale_positions = {};  // positions for query_scale
  // Owns the data of a DenseBias of the plan.
  std::shared_ptr<const std::vector<float>> dense = {};
};

// Returns the frequencies that are trained: [R/2], or [H, A, R/2] of HeadAngles; empty if none.
std::span<const double> trained_values(const LayerPlan& plan) noexcept;
// Returns the HeadAngles among rotations, or null.
const HeadAngles* head_angles(const std::vector<HeadRotation>& rotations) noexcept;

// Adds the table to x[b, t], if the plan adds a table to the embeddings. x: [B, T, C], any
// strides, C contiguous. Call it once, before the first layer.
void add_position(const LayerPlan& plan, const Tensor& x);

// Returns true if q and k are projected from an input that `prepare_input` changes, so from
// another input than v.
bool has_own_input(const LayerPlan& plan) noexcept;
// Changes, in place, the input x [B, T, C] of the projections to q and k: rotates it head by
// head (Conformer), or adds the table (DETR). Otherwise does nothing.
void prepare_input(const LayerPlan& plan, std::int64_t heads, const Tensor& x);

// Prepares projected q, k and v for attention, in place: applies norms, rotations, cosine
// scales and the query scale, and normalises values if the model does. q: [B, T, H, D]; k, v:
// [B, T, Hk, D], of the same tokens, before they are appended to a cache. A tensor without data
// is skipped. terms: `angles`, if the plan has a prepared_rotation; others are not read.
// Element types: float, Half, BFloat16, double.
//
// Throws std::invalid_argument if shapes do not fit the plan, angles and prepared_rotation are
// not given together, or the plan rotates q or k here and in attention.
void prepare(const LayerPlan& plan, const Tensor& q, const Tensor& k, const Tensor& v = {},
             const TokenTerms& terms = {});

// Rotates the output of attention [B, T, H, D] back, in place, by the angles of the queries, if
// the plan has an output_rotary. Throws std::invalid_argument as `rotate`.
void finish(const LayerPlan& plan, const Tensor& out);
// The gradient of `finish`, in place: rotates forward. It also restores the output of attention
// from the finished one, which attention_backward requires.
void finish_backward(const LayerPlan& plan, const Tensor& out_grad);

// Moves the rotation from attention() to `prepare`: for keys that are rotated once, before they
// are appended to a cache. A rotation by increments becomes one by angles. A plan with a polar
// form is not changed: attention() rotates its keys in every call. Throws std::invalid_argument
// if the plan rotates in both places already.
void rotate_in_prepare(LayerPlan& plan);

}  // namespace gnomon
