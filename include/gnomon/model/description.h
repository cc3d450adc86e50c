// What a released model does with position and attention, layer by layer: what config.h and
// GGUF files are read into, what `lower_layer` (layer.h) lowers, and what `gnomon inspect`
// prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/qk_norm.h"
#include "gnomon/embedding/resize.h"
#include "gnomon/model/encoding.h"
#include "gnomon/rotary/temperature.h"

namespace gnomon::model {

// Whether each head's softmax has a learned sink.
enum class Sinks { none = 1, per_head };

// What the query's scale is a function of.
enum class ScaleIndex {
  position = 1,
  row,  // the row in a padded batch, padding counted: Llama 4 in transformers
};

// What of a layer is rotated.
enum class RotaryInput {
  queries_and_keys = 1,
  hidden,  // the layer's input, by heads, before it is projected to q and k (Conformer)
};

// Where the table of an encoding that enters at the embeddings is added.
enum class TableInput {
  embeddings = 1,    // once, before the first layer
  queries_and_keys,  // to what each layer projects to q and k, not to v (DETR)
};

// The norm of q or k that a layer applies, and where.
struct LayerNorm {
  HeadNorm norm;
  NormOrder order = {};
  bool operator==(const LayerNorm&) const = default;
};

// Windows of cells that an image is cut into, and by how many cells they are shifted.
struct CellWindows {
  std::int64_t height = 0, width = 0, shift = 0;
  bool operator==(const CellWindows&) const = default;
};

// How the layers of a group attend, besides position.
struct LayerAttention {
  Visibility visibility = Visibility::causal;
  // Rows before and after its own that a query sees at most; nothing: no limit. A
  // `sliding_window` of w in a causal layer is left = w - 1.
  std::optional<std::int64_t> left = {}, right = {};
  // Tokens see only tokens of their own chunk: those with the same position / chunk (Llama 4).
  std::optional<std::int64_t> chunk = {};
  // Image towers: tokens see only tokens of their own window of cells (Swin, SAM). A window is
  // then a row of the batch; of shifted ones the sequences of Positions tell which cells of a
  // window are neighbours.
  std::optional<CellWindows> partition = {};
  double softmax_scale = 0;  // the attention's own, before an encoding's factor
  std::optional<double> softcap = {};
  Sinks sinks = Sinks::none;
  std::optional<LayerNorm> query_norm = {}, key_norm = {};
  std::optional<HeadNorm> value_norm = {};  // without weights: Gemma 4
  double value_scale = 1;                   // on values: MiMo-V2
  std::optional<QueryTemperature> query_scale = {};
  ScaleIndex query_scale_index = ScaleIndex::position;
  RotaryInput rotary_input = RotaryInput::queries_and_keys;
  TableInput table_input = TableInput::embeddings;

  bool operator==(const LayerAttention&) const = default;
};

// How a parameter is taken out of its checkpoint tensor.
enum class TensorLayout {
  as_is = 1,   // rows x columns, axes of extent 1 left out
  transposed,  // the last two axes swapped
  flattened,   // all axes but the first joined and transposed: XLNet's r [C, H, D]
  first_half,  // the first, second of two equal parts along the first axis
  second_half,
};

// Where a checkpoint has a parameter of a layer.
struct ParameterTensor {
  // As model::parameters names it ("table", "t5.buckets"); of attention "sinks",
  // "query_norm.weight", "query_norm.bias", "key_norm.weight", "key_norm.bias".
  std::string parameter;
  // The last parts of the tensor's name, {} for the layer: "layers.{}.self_attn.sinks".
  // Alternatives are separated by '|'. Without {}: one tensor for all layers. {stage} and
  // {block}: the layer by stages; {head}: one tensor for each head.
  std::string name;
  TensorLayout layout = TensorLayout::as_is;
  bool operator==(const ParameterTensor&) const = default;
};

// Layers that do the same with position and attention. Every layer that is described is in
// exactly one group of its part.
struct LayerGroup {
  std::vector<std::int64_t> layers;  // ascending, from 0
  std::string part = {};             // "encoder" or "decoder" of a model that has both
  Mixture position = {};             // every encoding that the layers use; empty: none
  std::int64_t heads = 0;            // query heads; 0: layers without attention
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;   // width of one q.k product
  std::int64_t value_dim = 0;  // width of a head's values
  LayerAttention attention = {};
  // Checkpoint tensors of the parameters of `position` and `attention`, {} for the layer.
  std::vector<ParameterTensor> tensors = {};
  std::vector<std::int64_t> stages = {};  // layers of each stage, of towers that have stages
  // What a layer does that `lower_layer` cannot give; empty: nothing. lower_layer refuses such
  // a group by this text.
  std::string unsupported = {};

  bool operator==(const LayerGroup&) const = default;
};

// How an image becomes tokens of a tower.
enum class PatchOrder {
  rows = 1,      // row by row
  merge_blocks,  // blocks of merge x merge patches row by row: merge_blocks of patches.h
};
enum class PatchOrigin {
  cells = 1,  // rows and columns count from 0
  from_one,   // they count from 1
  centres,    // the centres of patches, the image reaching from -1 to 1: DINOv3
};
struct ImageTokens {
  PatchOrder order = PatchOrder::rows;
  PatchOrigin origin = PatchOrigin::cells;
  std::int64_t merge = 1;        // patches of a side of a block
  std::int64_t first_tokens = 0;  // class and register tokens before the patches
  std::int64_t last_tokens = 0;   // behind them (Llama 4)
  // Whether patches have a position on the axis of frames also where there is one frame.
  bool frames = false;
  // Of a tower whose learned table is brought to the grid of each image: the grid it was
  // trained on, and how.
  std::optional<GridSize> table = {};
  TableResize resize = {};

  bool operator==(const ImageTokens&) const = default;
};

struct ModelDescription {
  std::string source;      // what was read: a path
  std::string model_type;  // `model_type` of a config, `general.architecture` of a GGUF
  std::int64_t layers = 0;
  // The context it was trained for; 0: not said. Of an image tower that rotates: the cells
  // along the longer side of the image it was trained for.
  std::int64_t length = 0;
  std::int64_t width = 0;  // channels of the embeddings; 0: not said
  std::vector<LayerGroup> groups;
  std::optional<ImageTokens> image = {};  // of image towers
  // Assumptions, likely mistakes, and keys that were not understood.
  std::vector<std::string> notes;
};

// A rotary group at a declared length.
struct ResolvedRotary {
  RotarySchedule schedule;
  double softmax_scale = 1;  // with every factor
};
// The first rotary encoding of the group's mixture, as `lower_layer` lowers it. Throws
// std::invalid_argument when the group has none, or as scaled_frequencies.
ResolvedRotary resolve(const LayerGroup& group, std::int64_t length);

// The group of a layer. Throws std::invalid_argument when the model has no such part or layer;
// where it has parts and `part` is empty, the error names them.
const LayerGroup& group_of(const ModelDescription& model, std::int64_t layer,
                           std::string_view part = {});

// The kind of an encoding in `to_json`: "rotary", "none", "alibi", "learned", "t5", ...
std::string kind(const Encoding& encoding);

// {"source": ..., "model_type": ..., "layers": n, "length": L, "notes": [...],
//  "groups": [{"layers": [...], "kind": "rotary", "inv_freq": [...], ...}]}, at `length`, or
// the trained one: one entry for each encoding of a group's mixture. Contract:
// docs/model/description.md.
std::string to_json(const ModelDescription& model, std::optional<std::int64_t> length = {});

}  // namespace gnomon::model
