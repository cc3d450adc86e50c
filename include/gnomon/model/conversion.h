// Conversion of weights between the two rotary pairings: a permutation of rows.
//
//   R = 8:   halves    [a0 a1 a2 a3 b0 b1 b2 b3]
//            adjacent  [a0 b0 a1 b1 a2 b2 a3 b3]
//
// A rotation pairs elements of q = W x + b. Permuting the rows of W and b within each head, and
// the entries of q and k norms, permutes the elements of q. The same permutation of k leaves
// every q.k unchanged up to rounding. Values and the output projection do not change. Rows are
// copied bit by bit, so converting there and back is the identity.
//
//   Hugging Face transformers, models/llama/convert_llama_weights_to_hf.py, `permute`: the case
//   R = D. The layouts of fused and latent projections: the sources of the models.
//
// Letters: H query heads, K key heads, D head dimension, R rotary dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/rotary/rotary.h"

namespace gnomon::model {

struct AttentionSizes {
  std::int64_t heads = 0;        // H, at least 1
  std::int64_t key_heads = 0;    // K, at least 1
  std::int64_t head_dim = 0;     // D; for latent attention (MLA): both parts together
  std::int64_t rotary_dim = 0;   // R, even, at least 2
  std::int64_t head_offset = 0;  // first rotated element of a head: 0, or D - R for MLA
  // Rows of kv_a_proj_with_mqa before the rotated key that all heads share. 0: no MLA.
  std::int64_t kv_lora_rank = 0;
  // Rows that share one scale, if a quantised weight has a scale for each block.
  std::int64_t scale_rows = 128;

  bool operator==(const AttentionSizes&) const = default;
};

// Layout of a tensor that contains q, k and v, outermost axis first.
enum class Fused {
  none = 1,  // q, k and v are separate tensors
  stacked,   // [H D rows of q, then K D of k, then K D of v]
  grouped,   // K times [H / K heads of q, one of k, one of v]; K = H: H times [q, k, v]
  quarters,  // 4 times [H / 4 heads of q, H / 4 of v, H / 4 of k]: CodeGen
};
enum class QueryRows {
  plain = 1,  // H times D rows
  gated,      // H times (D rows of q, D rows of a gate)
};
// The axis of a weight that holds the outputs.
enum class Outputs {
  rows = 1,  // [out, in]
  columns,   // [in, out]: the Conv1D of GPT-2
};

// Layout of the query and key projections of a `model_type`.
struct WeightLayout {
  Fused fused = Fused::none;
  QueryRows query = QueryRows::plain;
  Outputs outputs = Outputs::rows;

  bool operator==(const WeightLayout&) const = default;
};
// Returns the layout of a `model_type`, for language models and image towers. Unknown types:
// separate q, k and v tensors as in Llama.
WeightLayout projection_layout(std::string_view model_type);
// Returns the layout of a model that can be converted.
//
// Throws std::invalid_argument for models that cannot be converted: models without a rotary
// encoding, models whose values share the rows of the keys (Gemma 4), and models that rotate
// the two elements of a pair by different angles (V-JEPA 2).
WeightLayout weight_layout(std::string_view model_type);

// Weight layout and sizes of a model.
struct ModelWeights {
  std::string model_type;  // type of the language model; "meta" for a params.json
  WeightLayout layout;
  AttentionSizes sizes;
  Pairing released = {};  // pairing of the published weights
  // Assumptions, and keys of the config that tell the pairing of the weights.
  std::vector<std::string> notes;
};
struct WeightOptions {
  std::string name = "config.json";  // file name in error messages
  // The family whose layout is used. Empty: the `model_type` of the config.
  std::string model_type = {};
};
// Reads a config.json.
//
// Throws FormatError as read_config does. Throws std::invalid_argument as weight_layout does,
// and if the model has no rotary encoding, if its layers rotate heads of different sizes, or if
// the model rotates the layer input instead of q and k (Conformer).
ModelWeights read_weights(std::string_view json, const WeightOptions& options = {});
// Reads a params.json, the configuration of the original checkpoints of Meta and Mistral. These
// have adjacent pairs. Throws FormatError if the text is not JSON or lacks a size.
ModelWeights read_params(std::string_view json, const WeightOptions& options = {});

// The rotated slices of a tensor. A row is one of `rows` equal parts of the tensor's bytes.
struct RowPermutation {
  std::int64_t rows = 0;
  std::int64_t rotary_dim = 0;       // R, rows of a slice
  std::vector<std::int64_t> starts;  // first row of each slice, ascending, disjoint

  bool operator==(const RowPermutation&) const = default;
};

// Returns the rows to permute in a tensor of this name and shape, or nothing if the tensor does
// not change. Biases, LoRA's B, norms of q and k (per head or of all heads) and scales of
// quantised rows are permuted as their weight. Towers of vision and audio and cross-attention
// do not change.
//
// Throws std::invalid_argument with the tensor's name if it belongs to q or k but its rows
// cannot be permuted or identified: packed quantisation, a different shape, a fused tensor of
// an unknown family. Also throws if the sizes are out of the bounds in AttentionSizes.
std::optional<RowPermutation> plan_rows(const WeightLayout& layout, const AttentionSizes& sizes,
                                        std::string_view tensor,
                                        std::span<const std::int64_t> shape);

// Whether the tensor belongs to a vision or audio tower of a multimodal model.
bool is_of_tower(std::string_view tensor);

// Returns the element of the other pairing that moves to `element` of pairing `to`. `element`
// is 0 to R - 1.
std::int64_t source_element(Pairing to, std::int64_t rotary_dim, std::int64_t element);
// Returns the row of the tensor in the other pairing that moves to `row`. Cost: O(log slices).
std::int64_t source_row(const RowPermutation& plan, Pairing to, std::int64_t row);

// Converts a whole tensor from the other pairing to `to`. `from` and `out` must not overlap.
// Throws std::invalid_argument if their sizes differ or are not a multiple of `plan.rows`.
// Cost: one copy of the tensor.
void permute_rows(const RowPermutation& plan, Pairing to, std::span<const std::byte> from,
                  std::span<std::byte> out);

}  // namespace gnomon::model
