// Layers of a GGUF file: their sizes, layers without attention, sliding layers, and layers that
// do not rotate, by the facts of the architecture's row.
#include <algorithm>
#include <utility>

#include "src/model/gguf/gguf_draft.h"

namespace gnomon::model::internal {
namespace {

constexpr const char* sliding = "sliding_attention";
constexpr const char* window_key = "attention.sliding_window";
constexpr const char* pattern_key = "attention.sliding_window_pattern";

// Returns one number for all layers, one for each layer, or nothing.
std::vector<std::int64_t> counts(const GgufDraft& r, const std::string& name) {
  auto given = r.file().integers(r.key(name));
  if (!given) return {};
  for (const std::int64_t count : *given)
    if (count < 0 || count > max_count)
      r.fail(r.key(name), name + " must be 0 to 65536, got " + std::to_string(count));
  if (given->size() > 1) r.require_length(name, given->size());
  return std::move(*given);
}

// Returns an array of booleans or integers by layer, or nothing if the value is no array.
std::optional<std::vector<bool>> flags(const GgufDraft& r, const char* name) {
  const GgufEntry* const entry = r.file().find(r.key(name));
  if (!entry || entry->type != GgufType::array) return std::nullopt;
  std::vector<bool> values;
  if (entry->element == GgufType::boolean) {
    values = *r.file().booleans(r.key(name));
  } else {
    const auto integers = *r.file().integers(r.key(name));
    for (const std::int64_t one : integers) values.push_back(one != 0);
  }
  r.require_length(name, values.size());
  return values;
}

void read_heads(GgufDraft& r) {
  const auto heads = counts(r, "attention.head_count");
  if (heads.empty()) r.fail(r.key("attention.head_count") + " is missing");
  r.heads = *std::max_element(heads.begin(), heads.end());
  const auto keys = counts(r, "attention.head_count_kv");
  // Latent attention: the file has the one head of the compressed keys.
  const bool latent = r.size("attention.key_length_mla", 1 << 16) != 0;
  if (!keys.empty() && !latent) r.key_heads = *std::max_element(keys.begin(), keys.end());
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    Layer& layer = r.layers[l];
    const std::int64_t own = heads[heads.size() > 1 ? l : 0];
    if (heads.size() > 1) layer.heads = own;
    layer.attends = own != 0;
    if (keys.empty()) continue;
    const std::int64_t own_keys = keys[keys.size() > 1 ? l : 0];
    if (own_keys == 0) layer.attends = false;
    if (keys.size() > 1 && !latent) layer.key_heads = own_keys;
    if (layer.attends && own % own_keys != 0)
      r.fail(r.key("attention.head_count_kv"),
             "attention.head_count_kv must divide the heads " + std::to_string(own) + ", got " +
                 std::to_string(own_keys));
  }
}

void read_head_dim(GgufDraft& r) {
  for (const char* name : {"attention.key_length_mla", "attention.key_length"})
    if (r.head_dim == 0) r.head_dim = r.size(name, 1 << 16);
  for (const char* name : {"attention.value_length_mla", "attention.value_length"})
    if (r.value_dim == 0) r.value_dim = r.size(name, max_count);
  if (r.head_dim != 0) return;
  const std::int64_t width = r.required("embedding_length", 1 << 24);
  const std::int64_t first = r.layers.front().heads;
  const std::int64_t heads = first != 0 ? first : r.heads;
  if (width % heads != 0 || width / heads > max_count)
    r.fail(r.key("embedding_length"), "embedding_length must be a multiple of the heads " +
                                          std::to_string(heads) + ", got " +
                                          std::to_string(width));
  r.head_dim = width / heads;
}

// Returns the number of layers without the last ones, which predict further tokens.
std::int64_t read_layer_count(GgufDraft& r) {
  const std::int64_t layers = r.required("block_count");
  const char* const key = "nextn_predict_layers";
  const std::int64_t further = r.integer(key).value_or(0);
  if (further < 0 || further >= layers)
    r.fail(r.key(key), r.key(key) + " must be 0 to " + std::to_string(layers - 1) + ", got " +
                           std::to_string(further));
  if (further > 0)
    r.note("the last layers (" + std::to_string(further) + " of " + std::to_string(layers) +
           ") predict further tokens and are not described");
  const std::int64_t loops = r.reads("num_loops") ? r.size("num_loops") : 0;
  if (loops <= 1) return layers - further;
  if (loops > max_count / layers)
    r.fail(r.key("num_loops"), "block_count times num_loops must be at most 65536, got " +
                                   std::to_string(layers) + " x " + std::to_string(loops));
  r.note("num_loops " + std::to_string(loops) +
         ": layers are numbered as in llama.cpp's cache");
  return (layers - further) * loops;
}

void read_recurrent(GgufDraft& r) {
  if (r.row->gguf.attends_without_ffn) {
    const auto widths = r.file().integers(r.key("feed_forward_length"));
    if (widths && widths->size() > 1) r.require_length("feed_forward_length", widths->size());
    for (std::size_t l = 0; widths && !widths->empty() && l < r.layers.size(); ++l)
      if ((*widths)[widths->size() > 1 ? l : 0] != 0) r.layers[l].attends = false;
  }
  if (r.row->gguf.attention_every == 0) return;
  const auto recurrent = flags(r, "attention.recurrent_layers");
  const std::int64_t given = r.size("full_attention_interval");
  const std::int64_t every = given ? given : r.row->gguf.attention_every;
  for (Layer& layer : r.layers)
    if (recurrent ? (*recurrent)[static_cast<std::size_t>(layer.number)]
                  : (layer.number + 1) % every != 0)
      layer.attends = false;
}

// Returns the window of the sliding layers, or 0.
std::int64_t read_window(GgufDraft& r) {
  const GgufSliding& facts = r.row->gguf.sliding;
  const auto given = r.integer(window_key);
  if (given && (*given < 0 || *given > max_number))
    r.fail(r.key(window_key), r.key(window_key) + " must be 0 to " +
                                  std::to_string(max_number) + ", got " +
                                  std::to_string(*given));
  const auto unused = [&](const std::string& why) {
    if (given && *given != 0)
      r.note(std::string(window_key) + " " + std::to_string(*given) + " is not used: " + why);
  };
  if (facts.window == GgufWindow::none) {
    unused("in llama.cpp, no layer of " + r.arch + " has a window");
    return 0;
  }
  if (facts.layers != 0 && facts.layers != r.out.layers) {
    unused("in llama.cpp, only models of " + r.arch + " with " + std::to_string(facts.layers) +
           " layers have a window");
    return 0;
  }
  const std::int64_t size = given.value_or(facts.size);
  if (size == by_file) r.fail(r.key(window_key) + " is missing");
  if (size == 0 && facts.size != 0 && facts.fixed == 0)
    r.fail(r.key(window_key),
           r.key(window_key) + " must be at least 1, got 0: in llama.cpp, sliding layers of " +
               r.arch + " then attend to nothing");
  if (!given && size == 0 && r.row->window.slides != Slides::none)
    r.note(std::string(window_key) + " is not given: in llama.cpp, no layer slides");
  if (size == 0 || facts.fixed == 0) return size;
  if (size != facts.fixed)
    unused("in llama.cpp, the window of " + r.arch + " is " + std::to_string(facts.fixed));
  return facts.fixed;
}

void read_sliding(GgufDraft& r) {
  r.window = read_window(r);
  if (r.window == 0) return;
  const GgufSliding& facts = r.row->gguf.sliding;
  std::int64_t every = facts.every;
  const auto list = every != 0 ? flags(r, pattern_key) : std::nullopt;
  if (!list && every == by_file)
    r.fail(r.key(pattern_key), r.key(pattern_key) + " must be an array");
  if (!list && every != 0) every = r.integer(pattern_key).value_or(every);
  if (!list && (every < 0 || every > max_number))
    r.fail(r.key(pattern_key),
           r.key(pattern_key) + " must not be negative, got " + std::to_string(every));
  for (Layer& layer : r.layers) {
    const bool full = every != 0 && layer.number % every == (facts.full_first ? 0 : every - 1);
    if (list ? (*list)[static_cast<std::size_t>(layer.number)]
             : !full && (every != 0 || layer.attends))
      layer.type = sliding;
  }
  for (const char* name : {"attention.key_length_swa", "attention.key_length_mla_swa"})
    if (const std::int64_t width = r.size(name, max_count); width != 0)
      r.set(&Layer::head_dim, sliding, width);
  for (const char* name : {"attention.value_length_swa", "attention.value_length_mla_swa"})
    if (const std::int64_t width = r.size(name, max_count); width != 0)
      r.set(&Layer::value_dim, sliding, width);
}

// Whether the layer has the number at which llama.cpp omits the rotation, or its type.
bool is_nope(const GgufDraft& r, const Layer& layer) {
  const Family& row = *r.row;
  // The graph takes a step of all layers for the sign that all layers rotate.
  if (row.nope_every != 0 && row.gguf.sliding.full_first)
    return row.nope_every != r.out.layers && layer.number % row.nope_every == 0;
  if (row.nope_every != 0) return (layer.number + 1) % row.nope_every == 0;
  return row.nope_layers != NopeLayers::none && layer.type != sliding;
}

void read_rotating(GgufDraft& r) {
  const Family& row = *r.row;
  const bool tuned = !r.reads("rope.scaling.finetuned") ||
                     r.file().boolean(r.key("rope.scaling.finetuned")).value_or(true);
  const auto listed =
      r.reads("attention.rope_pattern") ? flags(r, "attention.rope_pattern") : std::nullopt;
  const bool nope = r.window != 0 || row.nope_layers != NopeLayers::full_with_window;
  const char* const dense_key = "leading_dense_block_count";
  const std::int64_t dense = r.reads(dense_key) ? r.integer(dense_key).value_or(0) : 0;
  for (Layer& layer : r.layers)
    layer.rotates = tuned && (layer.number < dense || !(nope && is_nope(r, layer))) &&
                    (!listed || (*listed)[static_cast<std::size_t>(layer.number)]);
}

// Marks layers with the feature that Gnomon does not have, if the file says which they are.
void read_unsupported(GgufDraft& r) {
  const std::string_view name = r.row->gguf.unsupported_by;
  const auto values = r.file().integers(r.key(name)).value_or(std::vector<std::int64_t>());
  if (values.empty()) return;
  if (values.size() > 1) r.require_length(name, values.size());
  for (Layer& layer : r.layers)
    if (values[values.size() > 1 ? static_cast<std::size_t>(layer.number) : 0] != 0)
      layer.unsupported = r.row->unsupported;
}

// Marks layers that use the keys and values of an earlier layer.
void read_shared(GgufDraft& r) {
  const char* const key = "attention.shared_kv_layers";
  const std::int64_t shared = r.reads(key) ? r.integer(key).value_or(0) : 0;
  if (shared < 0 || shared > r.out.layers)
    r.fail(r.key(key), r.key(key) + " must be 0 to " + std::to_string(r.out.layers) + ", got " +
                           std::to_string(shared));
  const std::int64_t known = r.row->gguf.layers_with_keys;
  const std::int64_t first = known != 0 ? known : r.out.layers - shared;
  for (Layer& layer : r.layers)
    if (layer.number >= first) layer.unsupported = "keys and values of an earlier layer";
}

}  // namespace

void read_layers(GgufDraft& r) {
  r.out.layers = read_layer_count(r);
  r.out.length = r.size("context_length");
  all_layers(r);
  const bool has_heads = r.file().find(r.key("attention.head_count"));
  if (r.is_unrotated() && !has_heads) return;
  read_heads(r);
  if (r.heads == 0) {  // the converter writes 0 for state-space models
    if (!r.is_unrotated())
      r.fail(r.key("attention.head_count"), "attention.head_count must be at least 1, got 0");
    for (Layer& layer : r.layers) layer.attends = true;
    return;
  }
  read_head_dim(r);
  read_recurrent(r);
  read_sliding(r);
  read_rotating(r);
  read_shared(r);
  read_unsupported(r);
}

}  // namespace gnomon::model::internal
