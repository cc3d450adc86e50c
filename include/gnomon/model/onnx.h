// Export of a layer's position encoding and attention as an ONNX model.
//
//   const OnnxModel onnx = to_onnx(model, 0, "", {.rows = 4096});
//   io::write_atomically("layer.onnx", onnx.bytes);
//
// The graph does what `lower_layer`, `add_position`, `prepare` and `attention` do for tokens
// without a cache. Its inputs and outputs, all float unless stated:
//
//   q [B, T, H D], k [B, T, Hk D], v [B, T, Hk Dv]   projections, as they leave the matrices
//   positions int64 [B, T]; [A, B, T] for A axes     only if the layer reads positions
//   hidden [B, T, C]     input of the layer, if a table is added to it or it is rotated
//   parameters           the trained matrices of layer_parameters, by name, as inputs
//   gates, sinks         token terms, by name
//   out [B, T, H Dv]     output of attention
//   hidden_out           hidden with its table, or rotated
//
// Tables of cos and sin, and tables by position, are initialisers with one row for each
// position up to OnnxOptions::rows. A position outside them fails when the graph runs. Image
// layers are exported for the tokens of one image, so they have no input of positions.
//
// Letters: B batch, T tokens, A position axes, H query heads, Hk key heads, D head dimension,
// Dv head dimension of v, C width of the embeddings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/model/description.h"
#include "gnomon/model/layer.h"

namespace gnomon::model {

// The operators of the graph.
enum class OnnxOperators {
  onnx = 1,   // RotaryEmbedding and Attention of opset 23
  microsoft,  // RotaryEmbedding, MultiHeadAttention, GroupQueryAttention of com.microsoft
};

struct OnnxOptions {
  OnnxOperators operators = OnnxOperators::onnx;
  // Declared context length, as LayerTokens::length. 0: the training length.
  std::int64_t length = 0;
  // Rows of tables by position. 0: the declared length, at most 8192.
  std::int64_t rows = 0;
  // Size of the image, in patches, for image layers. Nothing: the grid of the trained table, or
  // a square with the training length as side.
  std::optional<ImagePatches> image = {};
};

struct OnnxValue {
  std::string name;
  std::string type;                // "float", "int64"
  std::vector<std::string> shape;  // extents as text: "batch", "tokens", "4096"
};

struct OnnxModel {
  std::string bytes;  // a serialised ModelProto
  std::vector<OnnxValue> inputs, outputs;
  std::map<std::string, std::int64_t> operators;  // number of nodes by type
  std::optional<ImagePatches> image = {};         // of an image layer
};

// Returns the graph of a layer. Error bound: a graph that is computed exactly agrees with the
// functions above within their error bounds. Cost: as lower_layer for `rows` tokens.
//
// Throws std::invalid_argument as lower_layer, if the layer has a part that no ONNX operator
// expresses (the message names it), or if the model has 2 GiB or more.
OnnxModel to_onnx(const ModelDescription& model, std::int64_t layer, std::string_view part,
                  const OnnxOptions& options = {});

}  // namespace gnomon::model
