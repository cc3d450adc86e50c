// Description of a released model: its position encodings and attention rules, layer by layer.
// `read_config` (config.h) and `read_gguf` (gguf_model.h) create it, `lower_layer` (layer.h)
// lowers it, and `gnomon inspect` prints it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/compressed_keys.h"
#include "gnomon/attention/qk_norm.h"
#include "gnomon/embedding/resize.h"
#include "gnomon/model/encoding.h"
#include "gnomon/rotary/temperature.h"

namespace gnomon::model {

// Attention sinks: none, one learned sink for each head, or one for each head and query, a
// projection of the layer's input (Inkling 2).
enum class Sinks { none = 1, per_head, per_query };

// Argument of the query's scale by position.
enum class ScaleIndex {
  position = 1,
  row,  // row in the padded batch, including padding: Llama 4 in transformers
};

// Input of a layer's rotation.
enum class RotaryInput {
  queries_and_keys = 1,
  hidden,  // the layer's input, split into heads, before the q and k projections (Conformer)
};

// Gate on the output of attention: o *= f(W x), with x the input of the layer. The caller
// applies it, before the output projection.
enum class OutputGate {
  none = 1,
  per_head,     // one factor for each head
  per_channel,  // one factor for each element of a head
};

// Factors on the frequencies of a rotation.
enum class FrequencyScale {
  none = 1,
  learned,  // exp(alpha_i) for pair i; the checkpoint has alpha (LeRoPE, Mistral Large 4)
};

// Heads whose outputs are subtracted: those of the first half and of the second
// (gnomon/attention/differential.h).
enum class HeadPairs { none = 1, differential };

// Convolution of k and v after their projection (gnomon/attention/short_convolution.h). The
// caller applies it, before `prepare`, and keeps its state.
enum class ConvolutionWeights {
  fixed = 1,  // trained weights of each channel
  dynamic,    // and weights of each head, computed from the input of the projection
};
struct LayerConvolution {
  std::int64_t taps = 0;
  ConvolutionWeights weights = {};
  double scale = 1;
  bool operator==(const LayerConvolution&) const = default;
};

// Where the table of an embedding encoding is added.
enum class TableInput {
  embeddings = 1,    // once, before the first layer
  queries_and_keys,  // to the input of each layer's q and k projections, but not v (DETR)
};

// The values of a layer.
enum class ValueSource {
  projection = 1,
  keys,  // the prepared keys, with their norm and rotation: one tensor for both (DeepSeek-V4)
};

// Rotation of the output of attention.
enum class OutputRotation {
  none = 1,
  inverse,  // back by the angles of the query, because values are rotated (DeepSeek-V4)
};

// Compressed keys beside those of the window, and the index heads that select them.
struct CompressionRule {
  KeyCompression keys;
  // H and D of the index heads, and the number of selected entries; 0: no index heads, and a
  // query attends to all entries that it sees.
  std::int64_t index_heads = 0, index_dim = 0, selected = 0;
  bool operator==(const CompressionRule&) const = default;
};

// Trained weights of a norm of q or k.
enum class NormWeights {
  elements = 1,  // a weight for each element
  heads,         // one weight for each head: Zaya
  none,
};

// Norm of q or k in a layer, and its place in the order of operations.
struct LayerNorm {
  HeadNorm norm;
  NormOrder order = {};
  bool by_head = false;  // each head has weights of its own: StableLM
  NormWeights weights = NormWeights::elements;
  bool operator==(const LayerNorm&) const = default;
};

// Windows that an image is divided into: extents and shift, in cells.
struct CellWindows {
  std::int64_t height = 0, width = 0, shift = 0;
  bool operator==(const CellWindows&) const = default;
};

// Attention rules of a group of layers, besides position.
struct LayerAttention {
  Visibility visibility = Visibility::causal;
  // Window limits in rows: a query attends to at most `left` rows before and `right` rows after
  // its own. Nothing: no limit. A `sliding_window` of w in a causal layer is left = w - 1.
  std::optional<std::int64_t> left = {}, right = {};
  // Chunk size in positions. Tokens attend only to tokens of the same chunk, position / chunk
  // (Llama 4).
  std::optional<std::int64_t> chunk = {};
  // Image towers: tokens attend only to tokens of the same window of cells (Swin, SAM). A
  // window is then a row of the batch. For shifted windows, the sequences of Positions tell
  // which cells of a window are neighbours in the image.
  std::optional<CellWindows> partition = {};
  double softmax_scale = 0;  // scale of q.k before the factor of an encoding
  std::optional<double> softcap = {};
  Sinks sinks = Sinks::none;
  std::int64_t sink_inputs = 0;  // width C of the input of Sinks::per_query
  std::optional<LayerNorm> query_norm = {}, key_norm = {};
  std::optional<HeadNorm> value_norm = {};  // norm of v, without weights (Gemma 4)
  double value_scale = 1;                   // factor on v (MiMo-V2)
  std::optional<QueryTemperature> query_scale = {};
  ScaleIndex query_scale_index = ScaleIndex::position;
  RotaryInput rotary_input = RotaryInput::queries_and_keys;
  TableInput table_input = TableInput::embeddings;
  ValueSource values = ValueSource::projection;
  OutputRotation output = OutputRotation::none;
  std::optional<CompressionRule> compression = {};
  OutputGate output_gate = OutputGate::none;
  FrequencyScale frequency_scale = FrequencyScale::none;
  HeadPairs head_pairs = HeadPairs::none;
  std::optional<LayerConvolution> convolution = {};
  // An indexer selects so many keys for each query. lower_layer refuses more keys than that.
  std::optional<std::int64_t> indexed_keys = {};

  bool operator==(const LayerAttention&) const = default;
};

// Transformation of a checkpoint tensor into a parameter matrix.
enum class TensorLayout {
  as_is = 1,   // [rows, columns], axes of extent 1 dropped
  transposed,  // last two axes swapped
  flattened,   // all axes but the first joined, then transposed: XLNet's r [C, H, D]
  first_half,  // first, second of two equal parts along the first axis
  second_half,
};

// Checkpoint tensor of a parameter of a layer.
struct ParameterTensor {
  // Name of the parameter, as in model::parameters ("table", "t5.buckets"). Parameters of
  // attention: "rotary.alpha", "query_scale.slope", "query_scale.offset", "sinks",
  // "sinks.weight", "query_norm.weight", "query_norm.bias", "key_norm.weight", "key_norm.bias",
  // "compression.bias", "compression.weight", "index.bias", "index.weight".
  std::string parameter;
  // End of the tensor's name, with {} for the layer: "layers.{}.self_attn.sinks". '|' separates
  // alternatives. A name without {} is one tensor for all layers. {stage} and {block}: the
  // layer counted by stages. {head}: one tensor for each head.
  std::string name;
  TensorLayout layout = TensorLayout::as_is;
  bool operator==(const ParameterTensor&) const = default;
};

// Layers with equal position encodings and attention rules. Each described layer is in exactly
// one group of its part.
struct LayerGroup {
  std::vector<std::int64_t> layers;  // ascending, counted from 0
  std::string part = {};             // "encoder" or "decoder", if a model has both
  Mixture position = {};             // all encodings of the layers; empty: none
  std::int64_t heads = 0;            // query heads H; 0: layers without attention
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;   // head dimension D of q and k
  std::int64_t value_dim = 0;  // head dimension of v
  LayerAttention attention = {};
  // Checkpoint tensors of the parameters of `position` and `attention`.
  std::vector<ParameterTensor> tensors = {};
  std::vector<std::int64_t> stages = {};  // layers of each stage, in towers with stages
  // The feature of these layers that `lower_layer` does not support, as text. lower_layer
  // throws with this text. Empty: supported.
  std::string unsupported = {};

  bool operator==(const LayerGroup&) const = default;
};

// Order of the patches of an image.
enum class PatchOrder {
  rows = 1,      // row by row
  merge_blocks,  // row by row of blocks of merge x merge patches: merge_blocks of patches.h
};
enum class PatchOrigin {
  cells = 1,  // rows and columns counted from 0
  from_one,   // rows and columns counted from 1
  centres,    // patch centres in image coordinates from -1 to 1: DINOv3
};
struct ImageTokens {
  PatchOrder order = PatchOrder::rows;
  PatchOrigin origin = PatchOrigin::cells;
  std::int64_t merge = 1;         // patches along a side of a block
  std::int64_t first_tokens = 0;  // class and register tokens before the patches
  std::int64_t last_tokens = 0;   // class tokens after the patches (Llama 4)
  // Whether a single image also has a position on the frame axis.
  bool frames = false;
  // For a tower that resizes its learned table to the grid of each image: the grid of the
  // table, and the resizing rule.
  std::optional<GridSize> table = {};
  TableResize resize = {};

  bool operator==(const ImageTokens&) const = default;
};

struct ModelDescription {
  std::string source;      // path of the file
  std::string model_type;  // `model_type` of a config; `general.architecture` of a GGUF file
  std::int64_t layers = 0;
  // Training length in tokens. Image towers with a rotary encoding: cells along the longer side
  // of the training image. 0: unknown.
  std::int64_t length = 0;
  std::int64_t width = 0;  // width C of the embeddings; 0: unknown
  std::vector<LayerGroup> groups;
  std::optional<ImageTokens> image = {};  // image towers only
  // Assumptions, likely mistakes in the file, and unknown keys.
  std::vector<std::string> notes;
};

// Rotary encoding of a group, resolved for a declared context length.
struct ResolvedRotary {
  RotaryFrequencies frequencies;
  double softmax_scale = 1;  // scale of q.k, including all factors
};
// Resolves the first rotary encoding of the group at `length`, as `lower_layer` does. length:
// in tokens, at least 1; the training length is ModelDescription::length. Throws
// std::invalid_argument if the length is less, if the group has no rotary encoding, or as
// scaled_frequencies does.
ResolvedRotary resolve(const LayerGroup& group, std::int64_t length);

// Returns the group of a layer. Throws std::invalid_argument if the model has no such part or
// layer. If the model has parts and `part` is empty, the message lists them.
const LayerGroup& group_of(const ModelDescription& model, std::int64_t layer,
                           std::string_view part = {});

// Returns the kind of an encoding in `to_json`: "rotary", "none", "alibi", "learned", "t5", ...
std::string kind(const Encoding& encoding);

// Returns the description as JSON, at `length` or at the training length:
//
//   {"version": 2, "source": ..., "model_type": ..., "layers": n, "length": L, "notes": [...],
//    "groups": [{"layers": [...], "kind": "rotary", "inv_freq": [...], ...}]}
//
// `groups` has one entry for each encoding of a group. All keys: docs/model/description.md.
std::string to_json(const ModelDescription& model, std::optional<std::int64_t> length = {});

}  // namespace gnomon::model
