// Helpers of the reading rules, and rules that several lineages share.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/size.h"
#include "src/model/config/reading.h"

namespace gnomon::model::internal {

using gnomon::internal::to_size;

// Names of layers in `layer_types`.
constexpr const char* full = "full_attention";
constexpr const char* sliding = "sliding_attention";

// Base of the rows of towers, and of multimodal models.
constinit inline const Family rotary;
constinit inline const Family tower = [] {
  Family row;
  row.tower = true;
  row.visibility = Visibility::bidirectional;
  return row;
}();
constinit inline const Family multimodal = [] {
  Family row;
  row.read = nullptr;
  row.position = {};
  return row;
}();

// Rules of several lineages.
void read_learned(Reading& r);
void read_learned_after_two(Reading& r);  // OPT: two rows before the first position
void read_nowhere(Reading& r);            // no position encodings
void read_t5(Reading& r);
void read_unknown(Reading& r);

// Cells of the training image of a tower, from image_size and patch_size.
struct Cells {
  std::int64_t height = 0, width = 0;
};
Cells sides(Reading& r, std::string_view name, std::int64_t otherwise);  // one number, or two
Cells divided(Reading& r, Cells image, Cells patch);
Cells image_cells(Reading& r);
// Returns the layers that attend to the whole image, from global_attn_indexes.
std::set<std::int64_t> image_layers(Reading& r, std::set<std::int64_t> otherwise);
// Reads the sizes of an image tower. Returns the width of its embeddings.
std::int64_t read_tower_sizes(Reading& r);
// Puts a table [rows, width] that is added to the embeddings of all layers.
void put_image_table(Reading& r, std::int64_t rows, std::int64_t width);
// Sets the rule by which the learned table of a tower is resized to an image.
void resize_table(Reading& r, const TableResize& rule);
// Returns the layers whose number is wanted.
std::vector<Layer*> layers_with(Reading& r, const std::function<bool(std::int64_t)>& is_wanted);
void put(Reading& r, Encoding encoding, std::span<Layer* const> layers);
// Reads the sizes of a model with unlimited positions.
void read_sizes_without_length(Reading& r);
// Layers of an encoder and a decoder, which have separate keys.
struct Stacks {
  std::int64_t encoder, decoder;
};
Stacks read_stacks(Reading& r);
// Put a table that is added to the embeddings of these layers.
void put_learned(Reading& r, std::int64_t rows, std::int64_t offset, std::span<Layer> layers);
void put_sinusoidal(Reading& r, SinusoidalRecipe recipe, std::int64_t offset,
                    std::span<Layer> layers);
// Row of the first position after those up to the row of padding.
std::int64_t padding_offset(Reading& r);
void ignore_ropes(Reading& r);  // marks the keys of rotations as read
void prepare(Reading& r);       // sizes and layer types
void read_heads(Reading& r);    // query heads of single layers; call after the types are read
// Sets the types of layers to type(layer), unless layer_types is given.
template <typename Type>
void type_layers(Reading& r, Type type) {
  if (r.keys.find({"layer_types"})) return;
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    r.layers[l].type = type(static_cast<std::int64_t>(l));
    r.layers[l].attends = !keeps_state(r.layers[l].type);
  }
}
// Every n-th layer has full attention, the others a sliding window.
void slide_all_but_every(Reading& r, std::int64_t n);
void set_nope_layers(Reading& r, std::string_view type);
void rotate_by_list(Reading& r);  // no_rope_layers: 1: the layer rotates
// Reads the numbers of the layers with attention.
void attend_at(Reading& r, std::string_view name);
// Reads the base of sliding layers, a separate key in configs before 5.x. rope_scaling applies
// to the full layers only.
void read_local_base(Reading& r, std::string_view name);
// Returns the layer numbers of a list, counted from 0. The list counts from `first`.
std::vector<std::int64_t> layer_numbers(const Reading& r, const Json& list,
                                        std::string_view name, std::int64_t first = 0);
// Throws FormatError unless the list has an entry for each layer.
void require_length(const Reading& r, const Json& list, std::size_t size,
                    std::string_view name);
// Reads llama_4_scaling_beta, if given.
void read_temperature(Reading& r, const Json& dictionary);
bool has_ropes_by_type(Reading& r);  // rope_parameters is a dictionary of dictionaries

}  // namespace gnomon::model::internal
