// Image towers with a table of the cells of a grid. Source: the code of each family.
#include <algorithm>

#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

// The first half of the channels encodes the column, the second half the row.
void put_grid_sinusoids(Reading& r, std::int64_t width) {
  if (width % 4 != 0)
    r.fail("hidden_size must be a multiple of 4, got " + std::to_string(width));
  const Cells cells = image_cells(r);
  SinusoidalGrid grid = grid_mae(width);
  grid.grid = {cells.height, cells.width};
  grid.class_tokens = r.family.rows;
  put(r, std::move(grid));
  r.out.length = cells.height * cells.width + r.family.rows;
  r.note(
      "the first half of the channels is the column, the second the row, each sines, then "
      "cosines");
  if (r.family.rows > 0) r.note("the class token's row is zeros");
}

// Returns the number of layers of all stages.
std::int64_t stages(Reading& r, std::vector<std::int64_t> depths) {
  if (const auto given = r.keys.find({"depths"})) depths = given->integers("depths");
  std::int64_t sum = 0;
  for (const std::int64_t depth : depths) {
    if (depth < 0 || depth > 65536 - sum) r.fail("depths must be at most 65536 in sum");
    sum += depth;
  }
  return sum;
}

std::int64_t frames_by_tubelet(Reading& r, std::int64_t frames, std::int64_t tubelet) {
  if (frames < tubelet || frames > 1 << 20)
    r.fail("num_frames must be at least the frames of a tubelet and at most 2^20, got " +
           std::to_string(frames));
  return frames / tubelet;
}

// A learned grid after `rows` rows of other tokens.
void put_image_grid(Reading& r, std::int64_t width, std::int64_t rows) {
  if (r.keys.boolean({"use_absolute_position_embeddings"}).value_or(true)) {
    if (r.keys.boolean({"is_native"}).value_or(false)) {  // AIMv2 at native resolution
      put_grid_sinusoids(r, width);
    } else {
      const Cells cells = image_cells(r);
      put_image_table(r, cells.height * cells.width + rows, width);
    }
  }
  r.image.first_tokens = r.family.rows;
  resize_table(r, resize_vit(r.family.rows));
}

void read_image_grid(Reading& r) { put_image_grid(r, read_tower_sizes(r), r.family.rows); }

void read_dinov2_with_registers(Reading& r) {
  read_image_grid(r);
  resize_table(r, resize_dinov2_registers(r.family.rows));
}

void read_dpt(Reading& r) {
  if (r.keys.boolean({"is_hybrid"}).value_or(false) ||
      r.keys.find({"backbone_config", "backbone"}))
    r.fail("dpt over another model is not understood; the other model may be a part");
  read_image_grid(r);
}

void read_groupvit(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  r.out.layers = stages(r, {6, 3, 3});
  put_image_grid(r, width, r.family.rows);
}

void read_pixio(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  put_image_grid(r, width, r.size_or_default({"n_cls_tokens"}, r.family.rows));
}

void read_yolos(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  const std::int64_t detections =
      r.size_or_default({"num_detection_tokens"}, r.family.rows - 1);
  if (r.keys.boolean({"use_mid_position_embeddings"}).value_or(true))
    r.note("each layer except the last adds a separate learned table with as many rows");
  put_image_grid(r, width, 1 + detections);
}

void read_image_patches(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  const Keys::Names names = {"num_patches", "num_position_embeddings", "image_num_pos"};
  if (r.family.rows == 0 && !r.keys.find(names)) {
    const Cells cells = image_cells(r);
    return put_image_table(r, cells.height * cells.width, width);
  }
  put_image_table(r, r.size_or_default(names, r.family.rows), width);
}

// The table has a row for each cell of the largest square image, and for a class token.
void read_largest_grid(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  const std::int64_t image = r.size_or_default({"max_image_size"}, r.family.image);
  const std::int64_t side = image / r.size_or_default({"patch_size"}, r.family.patch);
  if (side > 1 << 20) r.fail("max_image_size / patch_size must be at most 2^20");
  put_image_table(r, side * side + r.family.rows, width);
}

// The input is a spectrogram, divided into overlapping patches.
void read_spectrogram(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  const std::int64_t patch = r.size_or_default({"patch_size"}, r.family.patch);
  const auto cells = [&](std::string_view length, std::int64_t usual, std::string_view stride) {
    const std::int64_t all = r.size_or_default({length}, usual);
    if (all < patch || all > 1 << 20)
      r.fail(std::string(length) + " must be patch_size to 2^20, got " + std::to_string(all));
    return (all - patch) / r.size_or_default({stride}, 10) + 1;
  };
  const std::int64_t frequencies = cells("num_mel_bins", 128, "frequency_stride");
  const std::int64_t times = cells("max_length", 1024, "time_stride");
  put_image_table(r, frequencies * times + r.family.rows, width);
}

void read_vivit(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  std::vector<std::int64_t> tubelet{2, 16, 16};
  if (const auto given = r.keys.find({"tubelet_size"}))
    tubelet = given->integers("tubelet_size");
  if (tubelet.size() != 3 || *std::min_element(tubelet.begin(), tubelet.end()) < 1)
    r.fail("tubelet_size must have frames, rows and columns, at least 1");
  const std::int64_t frames =
      frames_by_tubelet(r, r.size_or_default({"num_frames"}, 32), tubelet[0]);
  const Cells cells =
      divided(r, sides(r, "image_size", r.family.image), {tubelet[1], tubelet[2]});
  put_image_table(r, frames * cells.height * cells.width + 1, width);
}

// A fixed table over all cells of all frames, numbered as one sequence.
void read_videomae(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  const std::int64_t tubelet = r.size_or_default({"tubelet_size"}, 2);
  const std::int64_t frames =
      frames_by_tubelet(r, r.size_or_default({"num_frames"}, 16), tubelet);
  const Cells cells = image_cells(r);
  put(r, Sinusoidal{.width = width, .recipe = SinusoidalRecipe::interleaved});
  r.out.length = frames * cells.height * cells.width;
  r.image.frames = true;
}

// The heads are hidden_size / 64.
void read_bridgetower(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  if (r.head_dim == 0 || width % r.head_dim != 0)
    r.fail("hidden_size must be a multiple of the head dimension " +
           std::to_string(r.head_dim) + ", got " + std::to_string(width));
  r.heads = width / r.head_dim;
  put_image_grid(r, width, r.family.rows);
}

void read_mae(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  put_grid_sinusoids(r, width);
  r.image.first_tokens = r.family.rows;
}

}  // namespace

void add_vit(Families& add) {
  using namespace changes;
  add(tower, {}, gguf("clip", RopeType::none),
      gguf_refused("an encoder of images or sound, which llama.cpp does not run as a model"));
  add(tower, {"audio-spectrogram-transformer"}, read(read_spectrogram),
      position("learned grid"), sizes(12, 12, 768), image(0, 16), rows(2));
  const Family cosmos3_edge_vision =
      add(tower, {"cosmos3_edge_vision"}, read(read_image_patches), position("learned grid"),
          sizes(27, 16, 1152), rows(256));
  add(cosmos3_edge_vision, {"molmo2_vision"}, sizes(25, 16, 1152), key_heads(16),
      image(378, 14), rows(0));
  add(cosmos3_edge_vision, {"siglip2_vision_model"}, sizes(12, 12, 768),
      note("the learned grid is resized to the grid of each image (bilinear, antialiased)"));
  add(tower, {"dpt"}, read(read_dpt), position("learned grid"), sizes(12, 12, 768),
      image(384, 16), rows(1));
  add(tower, {"groupvit_vision_model"}, read(read_groupvit), position("learned grid"),
      sizes(12, 6, 384), image(224, 16), unsupported("tokens other than those of the image"));
  add(tower, {"hunyuan_vl_vision"}, read(read_largest_grid), position("learned grid"),
      sizes(27, 16, 1152), image(2048, 16), rows(1));
  const Family ijepa =
      add(tower,
          {"ijepa", "minicpm_ocr_vision", "minicpmv4_6_vision", "minicpmv4_7_vision",
           "siglip_vision_model"},
          read(read_image_grid), position("learned grid"), sizes(12, 12, 768), image(224, 16));
  add(ijepa, {"aimv2_vision_model", "ovis2_vision"}, sizes(24, 8, 1024), image(224, 14));
  add(ijepa, {"deit"}, rows(2));
  const Family flava_image_model =
      add(ijepa, {"flava_image_model", "git_vision_model", "vit", "vit_msn"}, rows(1));
  add(flava_image_model,
      {"altclip_vision_model", "chinese_clip_vision_model", "clip_vision_model",
       "clipseg_vision_model", "metaclip_2_vision_model", "xclip_vision_model"},
      image(224, 32));
  const Family blip_vision_model =
      add(flava_image_model, {"blip_vision_model"}, image(384, 16), weights(stacked));
  add(blip_vision_model, {"mgp-str"}, image(0, 4));
  const Family dinov2 = add(flava_image_model, {"dinov2"}, image(224, 14));
  add(dinov2,
      {"blip_2_vision_model", "instructblip_vision_model", "instructblipvideo_vision_model"},
      sizes(39, 16, 1408), weights(stacked));
  add(dinov2, {"dinov2_with_registers"}, read(read_dinov2_with_registers), image(224, 16));
  add(dinov2, {"kosmos_2_vision_model", "unlimited_ocr_vision_encoder"}, sizes(24, 16, 1024));
  add(flava_image_model, {"bridgetower_vision_model"}, read(read_bridgetower), head_dim(64),
      image(288, 16));
  add(flava_image_model, {"idefics_vision"}, size_names(embed), sizes(32, 16, 768),
      image(224, 14));
  add(flava_image_model, {"owlv2_vision_model"}, image(768, 16));
  add(flava_image_model, {"owlvit_vision_model"}, image(768, 32));
  add(flava_image_model, {"timesformer"},
      note("frames have an additional learned table of num_frames rows"),
      unsupported("attention in time, then in space"), weights(stacked));
  const Family tipsv2_vision_model =
      add(flava_image_model, {"tipsv2_vision_model"}, image(448, 14));
  add(tipsv2_vision_model, {"internvl_vision", "qianfan_ocr_vision"}, sizes(24, 16, 1024),
      norm(rms, before, all_heads, 1e-6, 0, "use_qk_norm", false));
  add(ijepa, {"glm_image_vision"}, sizes(40, 16, 1536), image(2048, 16), size_names(depth),
      weights(stacked));
  add(ijepa, {"granite_docling_vision"}, image(512, 16));
  const Family idefics2_vision = add(ijepa, {"idefics2_vision"}, image(224, 32),
                                     note("in an image of another shape, each cell uses the "
                                          "row of the cell at the same relative position"));
  add(idefics2_vision, {"idefics3_vision", "smolvlm_vision"}, sizes(12, 16, 1152));
  add(ijepa, {"janus_vision_model"}, sizes(24, 16, 1024), image(384, 16),
      norm(layer_norm, before, head, 1e-5, 0, "use_qk_norm", false));
  add(ijepa, {"phi4_multimodal_vision"}, sizes(27, 16, 1152), image(448, 14));
  add(tower, {"pixio"}, read(read_pixio), position("learned grid"), sizes(32, 16, 1280),
      image(256, 16), rows(8));
  add(tower, {"videomae"}, read(read_videomae), position("sinusoidal, interleaved"),
      sizes(12, 12, 768), image(224, 16));
  add(tower, {"vit_mae"}, read(read_mae), position("sinusoidal 2-D, columns first"),
      sizes(12, 12, 768), image(224, 16), rows(1));
  add(tower, {"vivit"}, read(read_vivit), position("learned"), sizes(12, 12, 768),
      image(224, 0));
  add(tower, {"yolos"}, read(read_yolos), position("learned grid"), sizes(12, 12, 768),
      image(0, 16), rows(101), unsupported("tokens other than those of the image"));
}

}  // namespace gnomon::model::internal
