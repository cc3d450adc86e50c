// Image towers with tables and biases over a grid. Source: the code of each family.
#include <algorithm>
#include <array>
#include <cmath>

#include "src/model/rules.h"

namespace gnomon::model::internal {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// Reads one number for both sides, or [height, width].
Cells sides(Reading& r, std::string_view name, std::int64_t otherwise) {
  const auto value = r.keys.find({name});
  if (value && value->is(JsonType::array)) {
    const auto both = value->integers(name);
    if (both.size() != 2 || both[0] < 1 || both[1] < 1)
      value->fail(std::string(name) + " must be one number or two, at least 1");
    return {both[0], both[1]};
  }
  const std::int64_t side = r.size_or_default({name}, otherwise);
  return {side, side};
}

Cells divided(Reading& r, Cells image, Cells patch) {
  if (image.height > 1 << 20 || image.width > 1 << 20 || image.height < patch.height ||
      image.width < patch.width)
    r.fail("image_size must be at least patch_size and at most 2^20");
  return {image.height / patch.height, image.width / patch.width};
}

void put_nothing(Reading& r) { put_group(r, {}); }

// The first half of the channels encodes the column, the second half the row.
void put_grid_sinusoids(Reading& r, std::int64_t width) {
  if (width % 4 != 0)
    r.fail("hidden_size must be a multiple of 4, got " + std::to_string(width));
  const Cells cells = image_cells(r);
  SinusoidalGrid grid = grid_mae(width);
  grid.grid = {cells.height, cells.width};
  grid.class_tokens = r.family.rows;
  put_group(r, {std::move(grid)});
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

}  // namespace

Cells image_cells(Reading& r) {
  return divided(r, sides(r, "image_size", r.family.image),
                 sides(r, "patch_size", r.family.patch));
}

std::set<std::int64_t> image_layers(Reading& r, std::set<std::int64_t> otherwise) {
  const auto given = r.keys.find({"global_attn_indexes"});
  if (!given) return otherwise;
  const auto layers = given->integers("global_attn_indexes");
  return {layers.begin(), layers.end()};
}

std::int64_t read_tower(Reading& r) {
  constexpr std::int64_t most = 1 << 16;
  const auto check = [&](const char* what, std::int64_t value) {
    if (value > most)
      r.fail(std::string(what) + " must be at most 65536, got " + std::to_string(value));
  };
  const bool deep =
      r.family.names == Family::Names::depth || r.family.names == Family::Names::embed;
  r.out.layers = deep ? r.size_or_default({"depth", "num_hidden_layers"}, r.family.layers)
                      : r.size_or_default({"num_hidden_layers"}, r.family.layers);
  check("num_hidden_layers", r.out.layers);
  if (r.family.names == Family::Names::attention_heads)
    r.heads = r.size_or_default({"attention_heads", "num_attention_heads"}, r.family.heads);
  else if (deep)
    r.heads = r.size_or_default({"num_heads", "num_attention_heads"}, r.family.heads);
  else
    r.heads = r.size_or_default({"num_attention_heads"}, r.family.heads);
  check("num_attention_heads", r.heads);
  // hidden_size of Qwen2-VL is that of the language model.
  const std::int64_t width = r.family.names == Family::Names::embed
                                 ? r.size_or_default({"embed_dim"}, r.family.hidden)
                                 : r.size_or_default({"hidden_size"}, r.family.hidden);
  r.out.length = 0;
  if (r.family.head_dim > 0) {
    r.head_dim = r.size_or_default({"head_dim"}, r.family.head_dim);
  } else {
    if (width % r.heads != 0)
      r.fail("hidden_size must be a multiple of num_attention_heads " +
             std::to_string(r.heads) + ", got " + std::to_string(width));
    r.head_dim = width / r.heads;
    if (const auto given = r.keys.integer({"head_dim"}); given && *given != r.head_dim)
      r.fail("head_dim must be hidden_size / num_attention_heads = " +
             std::to_string(r.head_dim) + ", got " + std::to_string(*given));
  }
  check("head_dim", r.head_dim);
  if (!r.family.note.empty()) r.note(std::string(r.family.note));
  return width;
}

void put_image_table(Reading& r, std::int64_t rows, std::int64_t width) {
  if (rows < 1 || rows > std::int64_t{1} << 40)
    r.fail("the position table must have 1 to 2^40 rows, got " + std::to_string(rows));
  put_group(r, {Learned{.rows = rows, .width = width}});
  r.out.length = rows;
}

void image_grid(Reading& r) {
  const std::int64_t width = read_tower(r);
  if (!r.keys.boolean({"use_absolute_position_embeddings"}).value_or(true))
    return put_nothing(r);
  // AIMv2 at native resolution. Below: DPT on top of another model.
  if (r.keys.boolean({"is_native"}).value_or(false)) return put_grid_sinusoids(r, width);
  if (r.family.model_type == "dpt" && (r.keys.boolean({"is_hybrid"}).value_or(false) ||
                                       r.keys.find({"backbone_config", "backbone"})))
    r.fail("dpt over another model is not understood; the other model may be a part");
  const Cells cells = image_cells(r);
  std::int64_t extra = r.family.rows;
  if (r.family.model_type == "groupvit_vision_model") r.out.layers = stages(r, {6, 3, 3});
  if (r.family.model_type == "pixio") extra = r.size_or_default({"n_cls_tokens"}, extra);
  if (r.family.model_type == "yolos")
    extra = 1 + r.size_or_default({"num_detection_tokens"}, extra - 1);
  if (r.family.model_type == "yolos" &&
      r.keys.boolean({"use_mid_position_embeddings"}).value_or(true))
    r.note("each layer except the last adds a separate learned table with as many rows");
  put_image_table(r, cells.height * cells.width + extra, width);
}

void image_patches(Reading& r) {
  const std::int64_t width = read_tower(r);
  const Keys::Names names = {"num_patches", "num_position_embeddings", "image_num_pos"};
  if (r.family.rows == 0 && !r.keys.find(names)) {
    const Cells cells = image_cells(r);
    return put_image_table(r, cells.height * cells.width, width);
  }
  put_image_table(r, r.size_or_default(names, r.family.rows), width);
}

// The table has a row for each cell of the largest square image, and for a class token.
void largest_grid(Reading& r) {
  const std::int64_t width = read_tower(r);
  const std::int64_t side = r.size_or_default({"max_image_size"}, r.family.image) /
                            r.size_or_default({"patch_size"}, r.family.patch);
  if (side > 1 << 20) r.fail("max_image_size / patch_size must be at most 2^20");
  put_image_table(r, side * side + r.family.rows, width);
}

// The input is a spectrogram, divided into overlapping patches.
void spectrogram(Reading& r) {
  const std::int64_t width = read_tower(r);
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

void mllama_vision(Reading& r) {
  const std::int64_t width = read_tower(r);
  const std::int64_t global = r.size_or_default({"num_global_layers"}, 8);
  if (global > 65536) r.fail("num_global_layers must be at most 65536");
  r.out.layers += global;
  const Cells cells = image_cells(r);
  put_image_table(r, cells.height * cells.width + 1, width);
  r.note(
      "the table is gated: (1 - tanh g) x table + tanh g x a learned table for each tile; the "
      "tiles of an image also have learned vectors, before and after the first layers. The "
      "last " +
      std::to_string(global) + " layers follow the others");
}

void vivit(Reading& r) {
  const std::int64_t width = read_tower(r);
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
void videomae(Reading& r) {
  const std::int64_t width = read_tower(r);
  const std::int64_t frames = frames_by_tubelet(r, r.size_or_default({"num_frames"}, 16),
                                                r.size_or_default({"tubelet_size"}, 2));
  const Cells cells = image_cells(r);
  put_group(r, {Sinusoidal{.width = width, .recipe = SinusoidalRecipe::interleaved}});
  r.out.length = frames * cells.height * cells.width;
}

void mae(Reading& r) {
  const std::int64_t width = read_tower(r);
  put_grid_sinusoids(r, width);
}

// A learned grid, Swin's bias with three rows for the class token, both, or neither.
void beit(Reading& r) {
  const std::int64_t width = read_tower(r);
  const Cells cells = image_cells(r);
  const auto on = [&](std::string_view name) { return r.keys.boolean({name}).value_or(false); };
  const bool own = on("use_relative_position_bias");
  const bool shared = on("use_shared_relative_position_bias");
  const bool learned = on("use_absolute_position_embeddings");
  if (own || shared) {
    const Swin swin{
        .heads = r.heads, .height = cells.height, .width = cells.width, .class_tokens = 1};
    if (std::max(cells.height, cells.width) > 32767)
      r.fail("image_size / patch_size must be at most 32767");
    put_group(r, {swin});
    if (own && shared)
      r.unsupported = "a bias that is the sum of a table per layer and a shared table";
    r.note(own && shared ? "each layer has a separate table, and all layers share another table"
           : own         ? "each layer has a separate table"
                         : "all layers share one table");
  }
  if (learned) put_image_table(r, cells.height * cells.width + 1, width);
  if (!own && !shared && !learned) put_nothing(r);
  r.out.length = cells.height * cells.width + 1;
}

// A learned grid, and a bias computed from each query and two learned tables, for rows and
// columns.
void sam(Reading& r) {
  const std::int64_t width = read_tower(r);
  const Cells cells = image_cells(r);
  const std::int64_t window = r.keys.integer({"window_size"}, 0, 1 << 20).value_or(14);
  const auto global = image_layers(r, {2, 5, 8, 11});
  const bool relative = r.keys.boolean({"use_rel_pos"}).value_or(true);
  if (relative) {
    std::array<std::vector<std::int64_t>, 2> layers;  // [layers with a window, others]
    for (std::int64_t l = 0; l < r.out.layers; ++l)
      layers[window == 0 || global.contains(l)].push_back(l);
    for (const bool whole : {false, true}) {
      if (layers[whole].empty()) continue;
      const Cells seen = whole ? cells : Cells{window, window};
      if (std::max(seen.height, seen.width) > 32767)
        r.fail("image_size / patch_size and window_size must be at most 32767");
      LayerGroup& group = put_group(
          r, {Decomposed{.head_dim = r.head_dim, .height = seen.height, .width = seen.width}});
      group.layers = std::move(layers[whole]);
      if (!whole) group.attention.partition = CellWindows{window, window};
    }
    r.note(
        "decomposed: the query before its scale, times a row of each table, is added to the "
        "scores");
  }
  const bool learned = r.keys.boolean({"use_abs_pos"}).value_or(true);
  if (learned) put_image_table(r, cells.height * cells.width, width);
  if (!learned && !relative) put_nothing(r);
  r.out.length = cells.height * cells.width;
}

// One table for rows and one for columns. Index 0 is for padding.
void pix2struct_vision(Reading& r) {
  const std::int64_t width = read_tower(r);
  const bool kosmos = r.family.model_type == "kosmos_2_5_vision_model";
  if (!kosmos) {
    r.head_dim = r.size_or_default({"d_kv"}, 64);
    if (r.head_dim > 65536) r.fail("d_kv must be at most 65536");
    r.softmax_scale = 1;
    for (const auto unused :
         {"relative_attention_num_buckets", "relative_attention_max_distance"})
      r.keys.find({unused});
  }
  const std::int64_t rows = kosmos ? r.size_or_default({"max_num_patches"}, 4096)
                                   : r.size_or_default({"seq_len"}, 4096);
  put_group(r, {AxialLearned{
                   .join = AxisJoin::summed, .rows = {rows, rows}, .widths = {width, width}}});
  r.out.length = rows - 1;
  r.note("rows and columns count from 1");
}

// Sines of the row and the column. The queries of the decoder have learned vectors.
void detr(Reading& r) {
  const std::int64_t width = r.size_or_default({"d_model"}, r.family.hidden);
  const std::int64_t encoder = r.size_or_default({"encoder_layers"}, r.family.layers);
  const std::int64_t decoder = r.size_or_default({"decoder_layers"}, r.family.layers);
  const std::int64_t queries = r.size_or_default({"num_queries"}, 100);
  r.heads = r.size_or_default({"encoder_attention_heads"}, r.family.heads);
  if (encoder > 65536 || decoder > 65536 || r.heads > 65536)
    r.fail("layers and heads must be at most 65536");
  if (width % r.heads != 0 || width % 4 != 0)
    r.fail("d_model must be a multiple of 4 and of the heads " + std::to_string(r.heads) +
           ", got " + std::to_string(width));
  r.head_dim = width / r.heads;
  r.out.layers = encoder;
  r.out.length = 0;
  const std::string type = r.keys.string({"position_embedding_type"}).value_or("sine");
  if (type == "sine") {
    put_group(r, {DetrPage{.width = width}}, encoder, "encoder").attention.table_input =
        TableInput::queries_and_keys;
  } else if (type == "learned") {
    LayerGroup& group = put_group(r,
                                  {AxialLearned{.join = AxisJoin::concatenated,
                                                .rows = {50, 50},
                                                .widths = {width / 2, width / 2}}},
                                  encoder, "encoder");
    group.attention.table_input = TableInput::queries_and_keys;
    group.unsupported = "learned rows and columns, with the vector of the column first";
    r.note("the embedding of the column comes first, then that of the row");
  } else {
    r.fail("position_embedding_type must be sine or learned, got " + type);
  }
  put_group(r, {Learned{.rows = queries, .width = width}}, decoder, "decoder")
      .attention.table_input = TableInput::queries_and_keys;
  r.note(
      "added to the queries and keys of every layer, not to the values; the keys of "
      "cross-attention have the embedding of the encoder");
}

// The encoding depends on the task, which is only in `architectures`.
void perceiver(Reading& r) {
  std::string task;
  if (const auto names = r.keys.find({"architectures"}))
    for (const std::string& one : names->strings("architectures")) task = one;
  r.out.layers = 1;
  r.out.length = 0;
  if (task == "PerceiverForMaskedLM" || task == "PerceiverForSequenceClassification") {
    const std::int64_t width = r.size_or_default({"d_model"}, r.family.hidden);
    put_image_table(r, r.size_or_default({"max_position_embeddings"}, 2048), width);
  } else if (task == "PerceiverForImageClassificationLearned") {
    const std::int64_t side = r.size_or_default({"image_size"}, r.family.image);
    if (side > 1 << 20) r.fail("image_size must be at most 2^20");
    put_image_table(r, side * side, 256);
  } else if (task == "PerceiverForImageClassificationFourier" ||
             task == "PerceiverForImageClassificationConvProcessing") {
    const std::int64_t side = task.ends_with("Fourier") ? 224 : 56;
    const std::vector<double> both(2, real(side));
    put_group(r, {FourierLine{.fourier = fourier_perceiver(both, 64), .grid = {side, side}}});
  } else {
    r.fail(
        "the position encoding of a perceiver depends on its task: architectures must name a "
        "known task, got " +
        (task.empty() ? "none" : task));
  }
  r.note("the encoding belongs to the inputs, which the cross-attention reads");
}

}  // namespace gnomon::model::internal
