// Image towers with a rotation over a grid: some pairs rotate by the row, others by the column.
// The arrangements are those of gnomon/rotary/axial.h. Source: the code of each family.
#include <algorithm>
#include <stdexcept>

#include "gnomon/rotary/axial.h"
#include "src/model/families/rules.h"

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
      if (!keys.was_read(key))
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

// Throws FormatError if the rotation does not fit the head dimension.
void check(const Reading& r, const AxialRotary& axial) {
  try {
    lower(axial);
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    r.fail("the head dimension " + std::to_string(r.head_dim) + ": " +
           why.substr(why.find(']') + 2));
  }
}

void put_axial(Reading& r, const AxialRotary& axial) {
  check(r, axial);
  put(r, axial);
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
  const std::int64_t width = read_tower_sizes(r);
  check_fours(r);
  return width;
}

// Patches are in blocks of spatial_merge_size x spatial_merge_size.
void merge_blocks(Reading& r) {
  r.image.order = PatchOrder::merge_blocks;
  r.image.merge = r.size({"spatial_merge_size"}, 2, max_count);
}

void read_pixtral(Reading& r) {
  start(r);
  put_axial(r, rotary::pixtral_vision(r.head_dim, read_base(r)));
  set_length(r, known_cells(r));
}

void read_tower_of_rows(Reading& r) {
  start(r);
  put_axial(r, rotary::qwen_vl_vision(r.head_dim, read_base(r)));
  set_length(r, known_cells(r));
}

// Qwen2-VL: rows, then columns.
void read_tower(Reading& r) {
  read_tower_of_rows(r);
  merge_blocks(r);
}

void read_mlcd(Reading& r) {
  read_tower_of_rows(r);
  r.image.first_tokens = 1;
}

// A learned grid of the image's size is also added.
void read_rows_on_grid(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, rotary::qwen_vl_vision(r.head_dim, read_base(r)));
  const Cells cells = image_cells(r);
  put_image_table(r, cells.height * cells.width, width);
  resize_table(r, resize_vit(0));
  set_length(r, cells);
}

void read_tower_on_grid(Reading& r) {
  read_rows_on_grid(r);
  merge_blocks(r);
}

// Qwen3-VL: a grid of num_position_embeddings is also added.
void read_tower_on_table(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, rotary::qwen_vl_vision(r.head_dim, read_base(r)));
  const std::int64_t rows = r.size_or_default({"num_position_embeddings"}, r.family.rows);
  put_image_table(r, rows, width);
  r.out.length = side_of(rows);
  r.image.table = GridSize{r.out.length, r.out.length};
  r.image.resize = resize_qwen3_vl();
  merge_blocks(r);
}

void read_step_vision(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, two_axes(r, x, y, Pairing::halves, read_base(r)));
  const Cells cells = image_cells(r);
  put_image_table(r, cells.height * cells.width, width);
  set_length(r, cells);
}

void read_muse_vision(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, two_axes(r, x, y, Pairing::halves, read_base(r)));
  const Cells cells{side(r, "pos_emb_height", 32), side(r, "pos_emb_width", 32)};
  put_image_table(r, cells.height * cells.width, width);
  set_length(r, cells);
  r.note("positions count cells from 1");
  r.image.origin = PatchOrigin::from_one;
}

// The table has one row for the class token, which does not rotate.
void read_inkling_vision(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, two_axes(r, x, y, Pairing::adjacent, read_base(r)));
  const std::int64_t cells = side(r, "posemb_grid_size", 32);
  put_image_table(r, cells * cells, width);
  r.out.length = cells;
  r.note("positions count cells from 1; the class token has a separate row and position 0, 0");
  r.image.origin = PatchOrigin::from_one;
}

// Pairs alternate between column and row. Fixed sinusoids are added for frames.
void read_kimi_vision(Reading& r) {
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

void read_llama4_tower(Reading& r) {
  const std::int64_t width = start(r);
  put_axial(r, rotary::llama4_vision(r.head_dim, read_base(r)));
  const Cells cells = image_cells(r);
  put_image_table(r, cells.height * cells.width + 1, width);
  set_length(r, cells);
  r.note("positions count cells from 1; the class token is last and has position 0, 0");
  r.image.origin = PatchOrigin::from_one;
  r.image.last_tokens = 1;
}

void read_dinov3(Reading& r) {
  start(r);
  const double base = read_base(r);
  put_axial(r, rotary::dinov3_vision(r.head_dim, base));
  set_length(r, known_cells(r));
  for (const auto training : {"pos_embed_rescale", "pos_embed_shift", "pos_embed_jitter"})
    r.keys.find({training});
  r.note(
      "positions are the centres of cells, from -1 to 1 along each side of the image; inv_freq "
      "includes the factor 2 pi. Class and register tokens do not rotate");
  r.image.origin = PatchOrigin::centres;
  r.image.first_tokens =
      1 + r.keys.integer({"num_register_tokens"}, 0, max_count - 1).value_or(0);
}

// Each query and key is rotated twice: half of the head by each axis, with halves inside.
void read_gemma4_vision(Reading& r) {
  const std::int64_t width = start(r);
  const double base = read_base(r);
  const std::int64_t half = r.head_dim / 2;
  for (const std::int32_t axis : {x, y})
    put_axial(r, {.parts = {{.axis = axis, .rotary_dim = half}},
                  .pairing = Pairing::halves,
                  .order = AxialOrder::blocks,
                  .base = base,
                  .head_offset = axis == x ? 0 : half});
  const std::int64_t rows = r.size_or_default({"position_embedding_size"}, 10'240);
  put(r,
      AxialLearned{.join = AxisJoin::summed, .rows = {rows, rows}, .widths = {width, width}});
  r.out.length = 0;
  r.note("each layer rotates twice: one half of the head by the column, the other by the row");
  r.note("the rows of a cell's column and of its row are added");
}

// A third of the head rotates by each of frame, row and column. The rest does not rotate.
void read_minimax_vision(Reading& r) {
  read_tower_sizes(r);
  const std::int64_t third = 2 * (r.head_dim / 3 / 2);
  if (third < 2)
    r.fail("the head dimension must be at least 6, got " + std::to_string(r.head_dim));
  put_axial(r, rotary::axial({third, third, third}, Pairing::halves, read_base(r)));
  set_length(r, known_cells(r));
  r.image.frames = true;
}

void read_lfm3_vision(Reading& r) {
  start(r);
  read_layer_types(r);
  if (r.out.layers == 14)
    type_layers(r,
                [](std::int64_t l) { return l > 0 && l % 2 == 0 ? "full_attention" : "conv"; });
  else if (!r.keys.find({"layer_types"}))
    r.fail("a config of " + r.out.model_type + " must have layer_types");
  const AxialRotary axial = rotary::qwen_vl_vision(r.head_dim, read_base(r));
  check(r, axial);
  const auto attends =
      layers_with(r, [&](std::int64_t l) { return r.layers[to_size(l)].attends; });
  if (attends.empty()) r.fail("layer_types must have a layer with attention");
  put(r, axial, attends);
  note_idle_layers(r);
}

// Layers with a window rotate by the cell in the window. The others rotate by the cell in the
// image, with lower frequencies, so that the longer side corresponds to a window.
void read_sam3(Reading& r) {
  const std::int64_t width = start(r);
  const double base = read_base(r);
  const Cells cells = image_cells(r);
  if (cells.height != cells.width) r.fail("image_size must be square");
  const std::int64_t window = r.size_or_default({"window_size"}, 24);
  const auto global = image_layers(r, {7, 15, 23, 31});
  const auto windowed = layers_with(r, [&](std::int64_t l) { return !global.contains(l); });
  const auto whole = layers_with(r, [&](std::int64_t l) { return global.contains(l); });
  AxialRotary axial = two_axes(r, x, y, Pairing::adjacent, base);
  check(r, axial);
  put(r, axial, windowed);
  for (Layer* const layer : windowed) layer->attention.partition = CellWindows{window, window};
  if (!whole.empty()) {
    const double slower = static_cast<double>(window) / static_cast<double>(cells.width);
    for (AxialPart& part : axial.parts) {
      part.inv_freq = inverse_frequencies(
          {.rotary_dim = part.rotary_dim, .pairing = axial.pairing, .base = base});
      for (double& frequency : part.inv_freq) frequency *= slower;
    }
    check(r, axial);
    put(r, axial, whole);
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
void read_sam2_video(Reading& r) {
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

void read_vjepa2(Reading& r) {
  read_tower_sizes(r);
  if (r.head_dim < 6)
    r.fail("the head dimension must be at least 6, got " + std::to_string(r.head_dim));
  put(r, Vjepa2{.head_dim = r.head_dim});
  r.note(
      "three blocks of a head for frame, row and column; pairs are adjacent, but cos and sin "
      "are in halves, so the result is not a rotation; the predictor is not described");
  r.image.frames = true;
}

}  // namespace

void add_rotary_tower(Families& add) {
  using namespace changes;
  Family rotating = tower;
  rotating.read = read_tower;
  rotating.position = "rotary 2-D, halves";
  add(rotating,
      {"cohere_compass_vision", "qwen3_5_moe_vision", "qwen3_5_vision",
       "qwen3_omni_moe_vision_encoder", "qwen3_vl_moe_vision", "qwen3_vl_vision",
       "qwen4_exp_vision"},
      read(read_tower_on_table), position("rotary 2-D, halves, and learned"),
      sizes(27, 16, 1152), rows(2304), size_names(depth),
      note("the learned grid is resized to the grid of each image (bilinear, corners aligned)"),
      weights(stacked));
  add(rotating, {"dinov3_vit"}, read(read_dinov3), base(100), sizes(12, 6, 384),
      image(224, 16));
  add(rotating, {"gemma4_vision"}, read(read_gemma4_vision),
      position("rotary 2-D, halves in each half, and learned"), base(100), head_dim(64),
      sizes(16, 12, 768), key_heads(12), norm(rms, before, head, 1e-6), value_norm(true),
      softmax_scale(1), differences("each layer rotates twice, half of the head each time"));
  add(rotating, {"glm4v_moe_vision", "glm4v_vision"}, read(read_tower_on_grid),
      position("rotary 2-D, halves, and learned"), sizes(24, 12, 1536), image(336, 14),
      size_names(depth),
      note("the learned grid is resized to the grid of each image (bicubic, border cells "
           "repeated)"),
      weights(stacked));
  add(rotating, {"inkling2_vision"}, read(read_inkling_vision),
      position("rotary 2-D, adjacent, and learned"), sizes(23, 16, 1024),
      unsupported("attention that was not compared with the model's own code"));
  add(rotating, {"kimi_k25_vision"}, read(read_kimi_vision),
      position("rotary 2-D, halves, and learned"), sizes(27, 16, 1152),
      note("frames have additional fixed sinusoids"));
  add(rotating, {"lfm3_vl_vision"}, read(read_lfm3_vision), base(1'000'000),
      sizes(14, 16, 1024), key_heads(8), norm(rms, before, head, 1e-5),
      differences("attention in some layers"));
  add(rotating, {"llama4_vision_model"}, read(read_llama4_tower),
      position("rotary 2-D, adjacent, and learned"), sizes(34, 16, 768), image(448, 14));
  add(rotating, {"minimax_m3_vl_vision"}, read(read_minimax_vision),
      position("rotary 3-D, halves"), share(0.975), sizes(32, 16, 1280), image(2016, 14));
  add(rotating, {"mlcd", "mlcd_vision_model"}, read(read_mlcd), sizes(48, 16, 1664),
      image(336, 14), note("the class token rotates by learned angles"));
  add(rotating, {"muse_glimmer_vision", "muse_spark_vision"}, read(read_muse_vision),
      position("rotary 2-D, halves, and learned"), sizes(50, 16, 1536),
      unsupported("attention that was not compared with the model's own code"));
  add(rotating, {"paddleocr_vl_vision"}, read(read_rows_on_grid),
      position("rotary 2-D, halves, and learned"), sizes(27, 16, 1152), image(384, 14));
  add(rotating, {"pixtral"}, read(read_pixtral), sizes(24, 16, 1024), image(1024, 16));
  const Family sam2_video =
      add(rotating, {"sam2_video"}, read(read_sam2_video), position("rotary 2-D, adjacent"),
          sizes(4, 1, 256), unsupported("attention to a memory of other frames"),
          part("vision_config", "sam2_vision_model"));
  add(sam2_video, {"edgetam_video"}, sizes(2, 1, 256),
      note("keys of the memory rotate by the cells of a separate grid, "
           "memory_attention_rope_k_sizes"));
  add(rotating, {"sam3_tracker_video"}, read(read_sam2_video), position("rotary 2-D, adjacent"),
      sizes(4, 1, 256), unsupported("attention to a memory of other frames"),
      part("vision_config", "sam3_vision_model"));
  add(rotating, {"sam3_vit_model"}, read(read_sam3),
      position("rotary 2-D, adjacent, and learned"), sizes(32, 16, 1024), image(1008, 14),
      differences("a window in most layers, the whole image in some"));
  add(rotating, {"step3p5_vision"}, read(read_step_vision),
      position("rotary 2-D, halves, and learned"), sizes(47, 16, 1536), image(728, 14));
  const Family video_llama_3_vision =
      add(rotating, {"video_llama_3_vision"}, sizes(12, 12, 768));
  add(video_llama_3_vision, {"dots3_note_vision_encoder"}, sizes(42, 24, 1536),
      unsupported("attention that was not compared with the model's own code"));
  const Family qwen2_5_omni_vision_encoder =
      add(video_llama_3_vision, {"qwen2_5_omni_vision_encoder"}, sizes(32, 16, 3584),
          size_names(depth));
  const Family qwen2_5_vl_vision =
      add(qwen2_5_omni_vision_encoder, {"qwen2_5_vl_vision"}, weights(stacked));
  const Family ernie4_5_vl_moe_vision =
      add(qwen2_5_vl_vision, {"ernie4_5_vl_moe_vision"}, sizes(32, 16, 1280));
  add(ernie4_5_vl_moe_vision, {"qwen2_vl_vision"}, size_names(embed));
  add(qwen2_5_vl_vision, {"exaone4_5_vision"}, key_heads(8));
  add(qwen2_5_vl_vision, {"glm5_next_vision", "glm_ocr_vision"}, sizes(24, 16, 1024),
      image(336, 14), norm(rms, before, head, 1e-5));
  add(rotating, {"vjepa2"}, read(read_vjepa2), position("V-JEPA 2"), sizes(24, 16, 1024),
      inconvertible("both elements of a pair must rotate by one angle"));
}

}  // namespace gnomon::model::internal
