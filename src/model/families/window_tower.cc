// Image towers with biases in windows, sinusoids, and tables of rows and columns. Source: the
// code of each family.
#include <algorithm>

#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

template <typename MakeBias>
void read_swin(Reading& r, MakeBias make_bias) {
  const auto list = [&](const char* name, std::vector<std::int64_t> otherwise) {
    const auto given = r.keys.find({name});
    if (!given) return otherwise;
    const auto values = given->integers(name);
    for (const std::int64_t value : values)
      if (value < 0 || value > max_count)
        given->fail(std::string(name) + " must be 0 to 65536, got " + std::to_string(value));
    return values;
  };
  const auto depths = list("depths", {2, 2, 6, 2});
  const auto heads = list("num_heads", {3, 6, 12, 24});
  auto trained = list("pretrained_window_sizes", {0, 0, 0, 0});
  trained.resize(std::max(trained.size(), depths.size()));
  const std::int64_t window = r.size({"window_size"}, 7, 32767);
  const std::int64_t width = r.size({"embed_dim"}, 96, max_count);
  if (heads.size() != depths.size() || depths.size() > 16)
    r.fail_at({"num_heads"}, "num_heads must have one number for each of " +
                                 std::to_string(depths.size()) + " depths");
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    const std::int64_t channels = width << stage;
    if (heads[stage] < 1 || channels % heads[stage] != 0)
      r.fail_at({"num_heads"}, "embed_dim 2^stage must be a multiple of num_heads, got " +
                                   std::to_string(heads[stage]));
    if (depths[stage] > max_count - r.out.layers)
      r.fail_at({"depths"}, "the sum of depths must be 0 to 65536, got " +
                                std::to_string(r.out.layers + depths[stage]));
    r.out.layers += depths[stage];
    const std::size_t before = r.layers.size();
    for (std::int64_t block = 0; block < depths[stage]; ++block) {
      Layer layer{.number = std::ssize(r.layers),
                  .heads = heads[stage],
                  .head_dim = channels / heads[stage]};
      // Even blocks have adjacent windows, odd blocks have windows shifted by half.
      layer.attention.partition = CellWindows{window, window, block % 2 * (window / 2)};
      r.layers.push_back(std::move(layer));
    }
    put(r, make_bias(heads[stage], window, trained[stage]),
        std::span(r.layers).subspan(before));
    r.heads = heads[stage];
    r.head_dim = channels / r.heads;
  }
  r.stages = depths;
  r.note("a stage whose image is no larger than a window has one window, which is not shifted");
}

void read_swin_v1(Reading& r) {
  read_swin(r, [](std::int64_t heads, std::int64_t window, std::int64_t) {
    return Swin{.heads = heads, .height = window, .width = window};
  });
}

void read_swin_v2(Reading& r) {
  read_swin(r, [](std::int64_t heads, std::int64_t window, std::int64_t trained) {
    return SwinV2{.heads = heads,
                  .height = window,
                  .width = window,
                  .pretrained_height = trained,
                  .pretrained_width = trained};
  });
}

void read_mllama_vision(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
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

// A learned grid, Swin's bias with three rows for the class token, both, or neither.
void read_beit(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
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
    put(r, swin);
    if (own && shared)
      r.unsupported = "a bias that is the sum of a table per layer and a shared table";
    r.note(own && shared ? "each layer has a separate table, and all layers share another table"
           : own         ? "each layer has a separate table"
                         : "all layers share one table");
  }
  if (learned) put_image_table(r, cells.height * cells.width + 1, width);
  r.out.length = cells.height * cells.width + 1;
  r.image.first_tokens = 1;
}

// A learned grid, and a bias computed from each query and two learned tables, for rows and
// columns.
void read_sam(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  const Cells cells = image_cells(r);
  const std::int64_t window = r.keys.integer({"window_size"}, 0, 1 << 20).value_or(14);
  const auto global = image_layers(r, {2, 5, 8, 11});
  const bool relative = r.keys.boolean({"use_rel_pos"}).value_or(true);
  if (relative) {
    for (const bool whole : {false, true}) {
      const auto attends = [&](std::int64_t l) {
        return (window == 0 || global.contains(l)) == whole;
      };
      const Cells seen = whole ? cells : Cells{window, window};
      const std::vector<Layer*> layers = layers_with(r, attends);
      if (layers.empty()) continue;
      if (std::max(seen.height, seen.width) > 32767)
        r.fail("image_size / patch_size and window_size must be at most 32767");
      put(r, Decomposed{.head_dim = r.head_dim, .height = seen.height, .width = seen.width},
          layers);
      if (!whole)
        for (Layer* const layer : layers)
          layer->attention.partition = CellWindows{window, window};
    }
    r.note(
        "decomposed: the query before its scale, times a row of each table, is added to the "
        "scores");
  }
  const bool learned = r.keys.boolean({"use_abs_pos"}).value_or(true);
  if (learned) put_image_table(r, cells.height * cells.width, width);
  r.out.length = cells.height * cells.width;
}

// One table for rows and one for columns. Index 0 is for padding.
void put_rows_and_columns(Reading& r, std::int64_t rows, std::int64_t width) {
  put(r,
      AxialLearned{.join = AxisJoin::summed, .rows = {rows, rows}, .widths = {width, width}});
  r.out.length = rows - 1;
  r.image.origin = PatchOrigin::from_one;
  r.note("rows and columns count from 1");
}

void read_kosmos_vision(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  put_rows_and_columns(r, r.size_or_default({"max_num_patches"}, 4096), width);
}

void read_pix2struct_vision(Reading& r) {
  const std::int64_t width = read_tower_sizes(r);
  r.head_dim = r.size_or_default({"d_kv"}, 64);
  if (r.head_dim > 65536) r.fail("d_kv must be at most 65536");
  r.softmax_scale = 1;
  r.keys.find({"relative_attention_num_buckets", "relative_attention_max_distance"});
  put_rows_and_columns(r, r.size_or_default({"seq_len"}, 4096), width);
}

// Sines of the row and the column. The queries of the decoder have learned vectors.
void read_detr(Reading& r) {
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
  const std::span<Layer> of_encoder = add_layers(r, encoder, "encoder");
  if (type == "sine") {
    put(r, DetrPage{.width = width}, of_encoder);
  } else if (type == "learned") {
    put(r,
        AxialLearned{
            .join = AxisJoin::concatenated, .rows = {50, 50}, .widths = {width / 2, width / 2}},
        of_encoder);
    for (Layer& layer : of_encoder)
      layer.unsupported = "learned rows and columns, with the vector of the column first";
    r.note("the embedding of the column comes first, then that of the row");
  } else {
    r.fail("position_embedding_type must be sine or learned, got " + type);
  }
  put(r, Learned{.rows = queries, .width = width}, add_layers(r, decoder, "decoder"));
  for (Layer& layer : r.layers) layer.attention.table_input = TableInput::queries_and_keys;
  r.note(
      "added to the queries and keys of every layer, not to the values; the keys of "
      "cross-attention have the embedding of the encoder");
}

// The encoding depends on the task, which is only in `architectures`.
void read_perceiver(Reading& r) {
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
    const std::vector<double> both(2, static_cast<double>(side));
    put(r, FourierLine{.fourier = fourier_perceiver(both, 64), .grid = {side, side}});
  } else {
    r.fail(
        "the position encoding of a perceiver depends on its task: architectures must name a "
        "known task, got " +
        (task.empty() ? "none" : task));
  }
  r.note("the encoding belongs to the inputs, which the cross-attention reads");
}

}  // namespace

void add_window_tower(Families& add) {
  using namespace changes;
  add(rotary, {"donut-swin", "maskformer-swin", "swin"}, read(read_swin_v1), position("Swin"),
      length(512), visibility(bidirectional));
  add(rotary, {"swinv2"}, read(read_swin_v2), position("Swin v2"), length(512),
      visibility(bidirectional), softmax_scale(1));
  add(tower, {"beit", "data2vec-vision"}, read(read_beit),
      position("Swin with three class rows, or learned"), sizes(12, 12, 768), image(224, 16));
  const Family deepseek_ocr2_sam_vision_model =
      add(tower,
          {"deepseek_ocr2_sam_vision_model", "got_ocr2_vision", "sam_hq_vision_model",
           "sam_vision_model", "unlimited_ocr_sam_vision_model"},
          read(read_sam), position("decomposed, and learned grid"), sizes(12, 12, 768),
          image(1024, 16), weights(stacked),
          differences("a window in most layers, the whole image in some"));
  add(deepseek_ocr2_sam_vision_model, {"pp_formulanet_vision", "slanext_vision"},
      image(512, 16));
  add(tower, {"detr", "table-transformer"}, read(read_detr),
      position("sinusoidal 2-D of DETR, or learned"), sizes(6, 8, 256));
  add(tower, {"kosmos_2_5_vision_model"}, read(read_kosmos_vision),
      position("learned rows and columns"), sizes(18, 24, 1536),
      unsupported("tokens other than those of the image"));
  add(tower, {"mllama_vision_model"}, read(read_mllama_vision),
      position("learned grid, gated, and tiles"), sizes(32, 16, 1280), image(448, 14),
      size_names(attention_heads),
      unsupported("a gated table, tables of tiles, and a mask of padded tiles"));
  add(tower, {"perceiver"}, read(read_perceiver), position("learned or Fourier"),
      sizes(0, 0, 768), image(56, 0),
      unsupported("cross-attention, whose keys have the position"));
  add(tower, {"pix2struct_vision_model"}, read(read_pix2struct_vision),
      position("learned rows and columns"), sizes(12, 12, 768));
}

}  // namespace gnomon::model::internal
