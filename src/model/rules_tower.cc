// Image towers with a rotation over a grid: some pairs rotate by the row, the others by the
// column. Source: the code of each family. The arrangements are those of gnomon/rotary/axial.h.
#include <algorithm>
#include <stdexcept>

#include "gnomon/rotary/axial.h"
#include "src/model/rules.h"

namespace gnomon::model::internal {
namespace {

constexpr std::int32_t y = 0, x = 1;

// Returns rope_theta, at the top level or in rope_parameters, which may have no other key.
double read_base(Reading& r) {
  std::optional<double> base = r.keys.number({"rope_theta"});
  for (const std::string_view name : {"rope_scaling", "rope_parameters"}) {
    const auto dictionary = r.keys.find({name});
    if (!dictionary) continue;
    if (!dictionary->is(JsonType::object))
      dictionary->fail(std::string(name) + " must be an object");
    Keys keys(*dictionary);
    const std::string type = keys.string({"rope_type", "type"}).value_or("axial");
    if (type != "axial" && type != "default")
      dictionary->fail("rope_type of " + r.out.model_type + " must be axial or default, got " +
                       type);
    if (const auto inner = keys.number({"rope_theta"})) base = inner;
    dictionary->for_each_member([&](const std::string& key, Json value) {
      if (!keys.was_asked(key))
        value.fail("the key \"" + key + "\" of a rotation over a grid is not understood");
    });
  }
  if (!base)
    r.note(
        "rope_theta is not given: " + std::to_string(static_cast<std::int64_t>(r.family.base)) +
        ", the default of " + r.out.model_type);
  const double value = base.value_or(r.family.base);
  if (!(value > 1) || value > 1e300) r.fail("rope_theta must be finite and greater than 1");
  return value;
}

// Puts a group with this rotation, of all layers or of `layers`.
void put_axial(Reading& r, const AxialRotary& axial, std::vector<std::int64_t> layers = {}) {
  try {
    lower(axial);
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    r.fail("the head dimension " + std::to_string(r.head_dim) + ": " +
           why.substr(why.find(']') + 2));
  }
  LayerGroup& group = put_group(r, {axial});
  if (!layers.empty()) group.layers = std::move(layers);
}

// Requires a head dimension divisible by 4: two axes, two elements of a pair.
void check_fours(const Reading& r) {
  if (r.head_dim % 4 != 0)
    r.fail("the head dimension must be a multiple of 4, got " + std::to_string(r.head_dim));
}

AxialRotary two_axes(const Reading& r, std::int32_t first, std::int32_t second, Pairing pairing,
                     double base) {
  const std::int64_t half = r.head_dim / 2;
  return {.parts = {{.axis = first, .rotary_dim = half}, {.axis = second, .rotary_dim = half}},
          .pairing = pairing,
          .order = AxialOrder::blocks,
          .base = base};
}

// Sets the length to the longer side of the image, if known.
void set_length(Reading& r, Cells cells) { r.out.length = std::max(cells.height, cells.width); }

Cells known_cells(Reading& r) {
  const bool given = r.keys.find({"image_size"}).has_value() || r.family.image > 0;
  return given ? image_cells(r) : Cells{};
}

std::int64_t side_of(std::int64_t rows) {
  std::int64_t side = 1;
  while ((side + 1) * (side + 1) <= rows) ++side;
  return side;
}

// Returns the cells along a side. The square of the value must fit.
std::int64_t side(Reading& r, std::string_view name, std::int64_t otherwise) {
  const std::int64_t cells = r.size_or_default({name}, otherwise);
  if (cells > 1 << 20)
    r.fail(std::string(name) + " must be at most 2^20, got " + std::to_string(cells));
  return cells;
}

std::int64_t start(Reading& r) {
  const std::int64_t width = read_tower(r);
  check_fours(r);
  return width;
}

}  // namespace

void pixtral(Reading& r) {
  start(r);
  put_axial(r, rotary::pixtral_vision(r.head_dim, read_base(r)));
  set_length(r, known_cells(r));
}

void tower(Reading& r) {
  start(r);
  put_axial(r, rotary::qwen_vl_vision(r.head_dim, read_base(r)));
  set_length(r, known_cells(r));
}

void tower_on_grid(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, rotary::qwen_vl_vision(r.head_dim, read_base(r)));
  const Cells cells = image_cells(r);
  put_image_table(r, cells.height * cells.width, width);
  set_length(r, cells);
}

void tower_on_table(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, rotary::qwen_vl_vision(r.head_dim, read_base(r)));
  const std::int64_t rows = r.size_or_default({"num_position_embeddings"}, r.family.rows);
  put_image_table(r, rows, width);
  r.out.length = side_of(rows);
}

void step_vision(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, two_axes(r, x, y, Pairing::halves, read_base(r)));
  const Cells cells = image_cells(r);
  put_image_table(r, cells.height * cells.width, width);
  set_length(r, cells);
}

void muse_vision(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, two_axes(r, x, y, Pairing::halves, read_base(r)));
  const Cells cells{side(r, "pos_emb_height", 32), side(r, "pos_emb_width", 32)};
  put_image_table(r, cells.height * cells.width, width);
  set_length(r, cells);
  r.note("positions count cells from 1");
}

// The table has one row for the class token, which does not rotate.
void inkling_vision(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, two_axes(r, x, y, Pairing::adjacent, read_base(r)));
  const std::int64_t cells = side(r, "posemb_grid_size", 32);
  put_image_table(r, cells * cells, width);
  r.out.length = cells;
  r.note("positions count cells from 1; the class token has a separate row and position 0, 0");
}

// Pairs alternate between column and row. Fixed sinusoids are added for frames.
void kimi_vision(Reading& r) {
  // The first release had other key names and weights with adjacent pairs: refused.
  for (const auto first : {"vt_hidden_size", "vt_num_hidden_layers", "init_pos_emb_height"})
    if (const auto found = r.keys.find({first}))
      found->fail("only the config of transformers is understood, which has no " +
                  std::string(first));
  const std::int64_t width = start(r);
  AxialRotary axial = two_axes(r, x, y, Pairing::halves, read_base(r));
  axial.order = AxialOrder::interleaved;
  put_axial(r, axial);
  const Cells cells{side(r, "pos_emb_height", 64), side(r, "pos_emb_width", 64)};
  put_image_table(r, cells.height * cells.width, width);
  set_length(r, cells);
}

void llama4_tower(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, rotary::llama4_vision(r.head_dim, read_base(r)));
  const Cells cells = image_cells(r);
  put_image_table(r, cells.height * cells.width + 1, width);
  set_length(r, cells);
  r.note("positions count cells from 1; the class token is last and has position 0, 0");
}

void dinov3(Reading& r) {
  start(r);
  const double base = read_base(r);
  put_axial(r, rotary::dinov3_vision(r.head_dim, base));
  set_length(r, known_cells(r));
  for (const auto training : {"pos_embed_rescale", "pos_embed_shift", "pos_embed_jitter"})
    r.keys.find({training});
  r.note(
      "positions are the centres of cells, from -1 to 1 along each side of the image; inv_freq "
      "includes the factor 2 pi. Class and register tokens do not rotate");
}

// Each query and key is rotated twice: half of the head by each axis, with halves inside.
void gemma4_vision(Reading& r) {
  const std::int64_t width = start(r);
  r.softmax_scale = 1;
  const double base = read_base(r);
  const std::int64_t half = r.head_dim / 2;
  for (const std::int32_t axis : {x, y})
    put_axial(r, {.parts = {{.axis = axis, .rotary_dim = half}},
                  .pairing = Pairing::halves,
                  .order = AxialOrder::blocks,
                  .base = base,
                  .head_offset = axis == x ? 0 : half});
  const std::int64_t rows = r.size_or_default({"position_embedding_size"}, 10'240);
  put_group(r, {AxialLearned{
                   .join = AxisJoin::summed, .rows = {rows, rows}, .widths = {width, width}}});
  r.out.length = 0;
  r.note("each layer rotates twice: one half of the head by the column, the other by the row");
  r.note("the rows of a cell's column and of its row are added");
}

// A third of the head rotates by each of frame, row and column. The rest does not rotate.
void minimax_vision(Reading& r) {
  read_tower(r);
  const std::int64_t third = 2 * (r.head_dim / 3 / 2);
  if (third < 2)
    r.fail("the head dimension must be at least 6, got " + std::to_string(r.head_dim));
  put_axial(r, rotary::axial({third, third, third}, Pairing::halves, read_base(r)));
  set_length(r, known_cells(r));
}

void lfm3_vision(Reading& r) {
  start(r);
  read_layer_types(r);
  if (r.out.layers == 14)
    type_layers(r,
                [](std::int64_t l) { return l > 0 && l % 2 == 0 ? "full_attention" : "conv"; });
  else if (!r.keys.find({"layer_types"}))
    r.fail("a config of " + r.out.model_type + " must have layer_types");
  std::vector<std::int64_t> rotating, idle;
  for (std::int64_t l = 0; l < r.out.layers; ++l)
    (r.layers[static_cast<std::size_t>(l)].attends ? rotating : idle).push_back(l);
  if (rotating.empty()) r.fail("layer_types must have a layer with attention");
  put_axial(r, rotary::qwen_vl_vision(r.head_dim, read_base(r)), std::move(rotating));
  if (idle.empty()) return;
  r.note("layers without attention (" + std::to_string(idle.size()) + " of " +
         std::to_string(r.out.layers) + ") have no position encoding");
  LayerGroup& rest = put_group(r, {});
  rest.layers = std::move(idle);
  rest.heads = rest.head_dim = 0;
  rest.attention.softmax_scale = 0;
}

// Layers with a window rotate by the cell in the window. The others rotate by the cell in the
// image, with lower frequencies, so that the longer side corresponds to a window.
void sam3(Reading& r) {
  const std::int64_t width = start(r);
  const double base = read_base(r);
  const Cells cells = image_cells(r);
  if (cells.height != cells.width) r.fail("image_size must be square");
  const std::int64_t window = r.size_or_default({"window_size"}, 24);
  const auto global = image_layers(r, {7, 15, 23, 31});
  std::vector<std::int64_t> windowed, whole;
  for (std::int64_t l = 0; l < r.out.layers; ++l)
    (global.contains(l) ? whole : windowed).push_back(l);
  AxialRotary axial = two_axes(r, x, y, Pairing::adjacent, base);
  if (!windowed.empty()) {
    put_axial(r, axial, std::move(windowed));
    r.out.groups.back().attention.partition = CellWindows{window, window};
  }
  if (!whole.empty()) {
    const double slower = static_cast<double>(window) / static_cast<double>(cells.width);
    for (AxialPart& part : axial.parts) {
      part.inv_freq = inverse_frequencies(
          {.rotary_dim = part.rotary_dim, .pairing = axial.pairing, .base = base});
      for (double& frequency : part.inv_freq) frequency *= slower;
    }
    put_axial(r, axial, std::move(whole));
    r.note(
        "layers with the whole image: inv_freq includes the factor window_size / cells of a "
        "row, " +
        std::to_string(window) + " / " + std::to_string(cells.width));
  }
  const std::int64_t pretrained =
      side(r, "pretrain_image_size", 336) / r.size_or_default({"patch_size"}, r.family.patch);
  put_image_table(r, pretrained * pretrained, width);
  r.note("the learned grid is tiled over the image, not interpolated");
  set_length(r, cells);
}

// The attention to the memory. The encoder is a separate part.
void sam2_video(Reading& r) {
  r.out.layers = r.size_or_default({"memory_attention_num_layers"}, r.family.layers);
  r.heads = r.size_or_default({"memory_attention_num_attention_heads"}, r.family.heads);
  const std::int64_t width =
      r.size_or_default({"memory_attention_hidden_size"}, r.family.hidden);
  const std::int64_t rate = r.size({"memory_attention_downsample_rate"}, 1);
  if (r.out.layers > 65536 || r.heads > 65536 || rate > 65536 || width % (rate * r.heads) != 0)
    r.fail("memory_attention_hidden_size must be a multiple of the heads " +
           std::to_string(r.heads) + " and the downsample rate " + std::to_string(rate));
  r.head_dim = width / rate / r.heads;
  if (r.head_dim > 65536)
    r.fail("the head dimension must be at most 65536, got " + std::to_string(r.head_dim));
  check_fours(r);
  std::optional<double> base = r.keys.number({"memory_attention_rope_theta"});
  if (const auto dictionary = r.keys.find({"rope_parameters"}); dictionary || !base)
    base = read_base(r);
  put_axial(r, rotary::sam2_memory(r.head_dim, *base));
  if (const auto sizes = r.keys.find({"memory_attention_rope_feat_sizes"})) {
    const auto sides = sizes->integers("memory_attention_rope_feat_sizes");
    if (!sides.empty()) r.out.length = *std::max_element(sides.begin(), sides.end());
  }
  for (const auto unused : {"memory_attention_rope_k_sizes", "memory_attention_rope_dropout"})
    r.keys.find({unused});
  r.note("only the attention to the memory is described; object pointers do not rotate");
}

void vjepa2(Reading& r) {
  read_tower(r);
  if (r.head_dim < 6)
    r.fail("the head dimension must be at least 6, got " + std::to_string(r.head_dim));
  put_group(r, {Vjepa2{.head_dim = r.head_dim}});
  r.note(
      "three blocks of a head for frame, row and column; pairs are adjacent, but cos and sin "
      "are in halves, so the result is not a rotation; the predictor is not described");
}

}  // namespace gnomon::model::internal
