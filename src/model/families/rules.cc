// Helpers of the reading rules.
#include "src/model/families/rules.h"

#include <cmath>

namespace gnomon::model::internal {

void prepare(Reading& r) {
  read_sizes(r);
  read_layer_types(r);
}

void slide_all_but_every(Reading& r, std::int64_t n) {
  type_layers(r, [&](std::int64_t l) { return (l + 1) % n == 0 ? full : sliding; });
}

void set_nope_layers(Reading& r, std::string_view type) {
  for (Layer& layer : r.layers)
    if (layer.type == type) layer.rotates = false;
}

void rotate_by_list(Reading& r) {
  const std::int64_t interval = r.size({"no_rope_layer_interval"}, r.family.nope_every);
  const auto list = r.keys.find({"no_rope_layers"});
  const auto rotates = list ? list->integers("no_rope_layers") : std::vector<std::int64_t>();
  if (!rotates.empty()) require_length(r, *list, rotates.size(), "no_rope_layers");
  for (std::int64_t l = 0; l < r.out.layers; ++l)
    r.layers[to_size(l)].rotates =
        rotates.empty() ? (l + 1) % interval != 0 : rotates[to_size(l)] != 0;
}

std::vector<std::int64_t> layer_numbers(const Reading& r, const Json& list,
                                        std::string_view name, std::int64_t first) {
  std::vector<std::int64_t> numbers;
  list.require(JsonType::array, name);
  list.for_each_element([&](const Json& one) {
    const std::int64_t number = one.integer(name);
    if (number < first || number - first >= r.out.layers)
      one.fail(std::string(name) + " must be " + std::to_string(first) + " to " +
               std::to_string(r.out.layers - 1 + first) + ", got " + one.shown());
    numbers.push_back(number - first);
  });
  return numbers;
}

void require_length(const Reading& r, const Json& list, std::size_t size,
                    std::string_view name) {
  if (std::cmp_less(size, r.out.layers))
    list.fail(std::string(name) + " must have one value for each of " +
              std::to_string(r.out.layers) + " layers, got " + std::to_string(size));
}

bool has_ropes_by_type(Reading& r) {
  bool nested = false;
  for (const char* name : {"rope_parameters", "rope_scaling"})
    if (const auto dictionary = r.keys.find({name}))
      dictionary->for_each_member(
          [&](const std::string&, Json value) { nested |= value.is(JsonType::object); });
  return nested;
}

void read_temperature(Reading& r, const Json& dictionary) {
  Keys keys(dictionary);
  const auto beta = keys.number({"llama_4_scaling_beta"});
  if (!beta) return;
  const auto original = keys.size({"original_max_position_embeddings"});
  if (!original)
    dictionary.fail("llama_4_scaling_beta requires original_max_position_embeddings");
  if (*beta < 0)
    keys.find({"llama_4_scaling_beta"})
        ->fail("llama_4_scaling_beta must not be negative, got " + shown(*beta));
  r.temperature = ministral3_temperature(*beta, *original);
}

void read_sizes_without_length(Reading& r) {
  r.keys.find({"max_position_embeddings"});
  read_sizes(r);
  std::erase_if(r.out.notes, [](const std::string& note) {
    return note.starts_with("max_position_embeddings is not given");
  });
}

void put_learned(Reading& r, std::int64_t rows, std::int64_t offset, std::span<Layer> layers) {
  if (offset < 0 || offset >= rows || rows > max_number)
    r.fail("the position table must have more rows than its offset " + std::to_string(offset) +
           ", got " + std::to_string(rows));
  // Some families project the embeddings to the width of the layers.
  const auto [key, usual] = r.family.embedding_width;
  r.out.width = key.empty() ? hidden_size(r) : r.size({key}, usual, max_count);
  put(r, Learned{.rows = rows, .width = r.out.width, .offset = offset}, layers);
  r.out.length = rows - offset;
}

Stacks read_stacks(Reading& r) {
  const std::int64_t width = hidden_size(r);
  const Keys::Names encoder = {"encoder_layers", "num_encoder_layers", "num_hidden_layers"};
  r.size(encoder);
  const Stacks stacks{r.size(encoder, 1, max_count),
                      r.size({"decoder_layers", "num_decoder_layers"}, 1, max_count)};
  r.out.layers = stacks.encoder;
  r.heads = r.size({"encoder_attention_heads", "num_encoder_attention_heads",
                    "decoder_attention_heads", "num_attention_heads"});
  if (width % r.heads != 0)
    r.fail_at({"d_model", "hidden_size"}, "d_model must be a multiple of the heads " +
                                              std::to_string(r.heads) + ", got " +
                                              std::to_string(width));
  r.head_dim = width / r.heads;
  r.out.length = r.size({"max_position_embeddings", "max_target_positions"}, r.family.length);
  return stacks;
}

void put_sinusoidal(Reading& r, SinusoidalRecipe recipe, std::int64_t offset,
                    std::span<Layer> layers) {
  put(r, Sinusoidal{.width = hidden_size(r), .recipe = recipe, .offset = offset}, layers);
}

void ignore_ropes(Reading& r) {
  r.keys.find({"rope_theta", "rope_scaling", "rope_parameters"});
}

std::int64_t padding_offset(Reading& r) {
  return r.keys.integer({"pad_token_id"}, 0).value_or(1) + 1;
}

void read_learned(Reading& r) {
  read_sizes(r);
  put_learned(r, r.out.length, 0, all_layers(r));
}

void read_learned_after_two(Reading& r) {
  read_sizes(r);
  put_learned(r, r.out.length + 2, 2, all_layers(r));
}

void attend_at(Reading& r, std::string_view name) {
  const auto list = r.keys.find({name});
  if (!list) return;
  for (Layer& layer : r.layers) layer.attends = false;
  for (const std::int64_t l : layer_numbers(r, *list, name))
    r.layers[to_size(l)].attends = true;
}

void read_local_base(Reading& r, std::string_view name) {
  const double otherwise = r.family.local_base;
  const auto local = r.keys.base({name});
  r.bases = {{full, r.keys.base({"rope_theta"}).value_or(r.family.base)},
             {sliding, local.value_or(otherwise)}};
  r.scaled = {full};
  if (has_ropes_by_type(r)) return;
  if (!local)
    r.note(std::string(name) + " is not given: " + shown(otherwise) + ", the default of " +
           r.out.model_type);
  r.ropes[sliding] = read_rope(r, std::nullopt, local.value_or(otherwise), sliding);
}

Cells image_cells(Reading& r) {
  const Cells patch = sides(r, "patch_size", r.family.patch);
  return divided(r, sides(r, "image_size", r.family.image), patch);
}

std::set<std::int64_t> image_layers(Reading& r, std::set<std::int64_t> otherwise) {
  const auto given = r.keys.find({"global_attn_indexes"});
  if (!given) return otherwise;
  const auto layers = given->integers("global_attn_indexes");
  return {layers.begin(), layers.end()};
}

std::int64_t read_tower_sizes(Reading& r) {
  constexpr std::int64_t most = 1 << 16;
  const auto check = [&](const char* what, std::int64_t value) {
    if (value > most)
      r.fail(std::string(what) + " must be at most 65536, got " + std::to_string(value));
  };
  const bool deep =
      r.family.size_names == SizeNames::depth || r.family.size_names == SizeNames::embed;
  r.out.layers = deep ? r.size_or_default({"depth", "num_hidden_layers"}, r.family.layers)
                      : r.size_or_default({"num_hidden_layers"}, r.family.layers);
  check("num_hidden_layers", r.out.layers);
  if (r.family.size_names == SizeNames::attention_heads)
    r.heads = r.size_or_default({"attention_heads", "num_attention_heads"}, r.family.heads);
  else if (deep)
    r.heads = r.size_or_default({"num_heads", "num_attention_heads"}, r.family.heads);
  else
    r.heads = r.size_or_default({"num_attention_heads"}, r.family.heads);
  check("num_attention_heads", r.heads);
  // hidden_size of Qwen2-VL is that of the language model.
  const std::int64_t width = r.family.size_names == SizeNames::embed
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

void resize_table(Reading& r, const TableResize& rule) {
  const Cells cells = image_cells(r);
  r.image.table = GridSize{cells.height, cells.width};
  r.image.resize = rule;
}

std::vector<Layer*> layers_with(Reading& r,
                                const std::function<bool(std::int64_t)>& is_wanted) {
  std::vector<Layer*> layers;
  for (Layer& layer : all_layers(r))
    if (is_wanted(layer.number)) layers.push_back(&layer);
  return layers;
}

void put(Reading& r, Encoding encoding, std::span<Layer* const> layers) {
  for (Layer* const layer : layers) layer->encodings.push_back(r.encodings.size());
  r.encodings.push_back(std::move(encoding));
}

void put_image_table(Reading& r, std::int64_t rows, std::int64_t width) {
  if (rows < 1 || rows > std::int64_t{1} << 40)
    r.fail("the position table must have 1 to 2^40 rows, got " + std::to_string(rows));
  put(r, Learned{.rows = rows, .width = width});
  r.out.length = rows;
}

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

}  // namespace gnomon::model::internal
