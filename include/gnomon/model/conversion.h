// Weights of one rotary pairing turned into those of the other: which rows of which tensors
// change places.
//
//   R = 8:   halves    [a0 a1 a2 a3 b0 b1 b2 b3]
//            adjacent  [a0 b0 a1 b1 a2 b2 a3 b3]
//
// A rotation pairs elements of q = W x + b. Reordering the rows of W and b within each head,
// and the entries of norms that act on them, reorders the elements of q; the same for k leaves
// every q.k as it was. Values and the output projection never change. Moved bits are the same
// bits, so there and back is the identity.
//
//   Hugging Face transformers, models/llama/convert_llama_weights_to_hf.py, `permute`: the case
//   of whole heads. The layouts of fused and latent projections: the models' own sources.
//
// Letters: H query heads, K key heads, D width of one q.k product, R rotated elements of it.
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
  std::int64_t heads = 0;       // H, at least 1
  std::int64_t kv_heads = 0;    // K, at least 1
  std::int64_t head_dim = 0;    // D; for latent attention (MLA) both parts together
  std::int64_t rotary_dim = 0;  // R, even, at least 2
  std::int64_t first = 0;       // the first rotated element of a head: 0, or D - R for MLA
  // Rows of kv_a_proj_with_mqa before the rotated key that all heads share; 0 without MLA.
  std::int64_t kv_lora_rank = 0;
  // Rows that share one scale where a quantised weight has a scale for each block.
  std::int64_t scale_rows = 128;

  bool operator==(const AttentionSizes&) const = default;
};

// How a tensor that holds q, k and v at once is cut, outermost first.
enum class Fused {
  none = 1,  // q, k and v are tensors of their own
  stacked,   // [H D of q, then K D of k, then K D of v]
  grouped,   // K times [H / K heads of q, one of k, one of v]; K = H: H times [q, k, v]
  quarters,  // 4 times [H / 4 heads of q, H / 4 of v, H / 4 of k]: CodeGen
};
enum class QueryRows {
  plain = 1,  // H times D rows
  gated,      // H times (D rows of q, D rows of a gate)
};
// Along which axis of a weight the outputs lie.
enum class Outputs {
  rows = 1,  // [out, in]
  columns,   // [in, out]: the Conv1D of GPT-2
};

// How the models of one `model_type` lay out their queries and keys.
struct WeightLayout {
  Fused fused = Fused::none;
  QueryRows query = QueryRows::plain;
  Outputs outputs = Outputs::rows;

  bool operator==(const WeightLayout&) const = default;
};
// By a config's `model_type`, of language models and of image towers; separate q, k and v, as
// Llama has them, for any that is not known to differ.
WeightLayout projection_layout(std::string_view model_type);
// The same of models that can be converted. Throws std::invalid_argument for those that cannot:
// without rotary encoding, with values that share the keys' rows (Gemma 4), with pairs that are
// no pairs (V-JEPA 2).
WeightLayout weight_layout(std::string_view model_type);

// The weights of a model, as its config says.
struct ModelWeights {
  std::string model_type;  // of the language model; of a params.json "meta"
  WeightLayout layout;
  AttentionSizes sizes;
  Pairing released = {};  // the pairing that the family is published in
  // Assumptions, and keys of the config that say which pairing the weights have.
  std::vector<std::string> notes;
};
struct WeightOptions {
  std::string name = "config.json";  // what messages call it
  // The family whose layout is taken in place of the config's own. Empty: the config's.
  std::string model_type = {};
};
// Of a config.json. Throws FormatError as read_config; std::invalid_argument as weight_layout,
// and when the model has no rotary encoding, when its layers rotate heads of different sizes,
// or when what is rotated is not q and k (Conformer).
ModelWeights read_weights(std::string_view json, const WeightOptions& options = {});
// Of the params.json of Meta's and Mistral's own files: adjacent pairs. Throws FormatError when
// it is not JSON, or lacks a size.
ModelWeights read_params(std::string_view json, const WeightOptions& options = {});

// Where the rotated slices of a tensor lie. Rows are `rows` equal parts of its bytes.
struct RowPermutation {
  std::int64_t rows = 0;
  std::int64_t rotary_dim = 0;       // R rows each
  std::vector<std::int64_t> starts;  // the first row of each, ascending; none overlap

  bool operator==(const RowPermutation&) const = default;
};

// What moves in the tensor of that name and shape; nothing when it stays as it is. Bias, LoRA's
// B, norms of q and k (per head or of all heads), and scales of quantised rows move with their
// weight. The towers of vision and audio stay, and so does cross-attention.
//
// Throws std::invalid_argument naming the tensor when it belongs to q or k and its rows cannot
// be moved or told apart (packed quantisation, another shape, a fused tensor of a family that
// is not known), and when the sizes break the bounds written beside them.
std::optional<RowPermutation> plan_rows(const WeightLayout& layout, const AttentionSizes& sizes,
                                        std::string_view tensor,
                                        std::span<const std::int64_t> shape);

// Whether the tensor belongs to a tower of vision or audio in a model of several kinds.
bool is_of_tower(std::string_view tensor);

// Of R elements in the other pairing, the one that comes to `element` in pairing `to`.
std::int64_t source_element(Pairing to, std::int64_t rotary_dim, std::int64_t element);
// Of all rows, the one that comes to `row`. O(log of the slices).
std::int64_t source_row(const RowPermutation& plan, Pairing to, std::int64_t row);

// The whole tensor, from the other pairing to `to`. Throws std::invalid_argument when the bytes
// are not `plan.rows` equal parts, or differ in number. They must not overlap.
void permute_rows(const RowPermutation& plan, Pairing to, std::span<const std::byte> from,
                  std::span<std::byte> out);

}  // namespace gnomon::model
