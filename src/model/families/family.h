// Rows of the families of models: everything that the library knows about a family and its
// config does not contain. Each file of this folder has the rows of a lineage and their reading
// rules.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "gnomon/attention/qk_norm.h"
#include "gnomon/model/conversion.h"
#include "gnomon/model/description.h"
#include "gnomon/rotary/mrope.h"
#include "gnomon/rotary/rotary.h"
#include "src/model/families/gguf_weights.h"

namespace gnomon::model::internal {

struct Reading;
using Rule = void (*)(Reading&);
// Reads sizes, ropes and layers of a family without special rules.
void read_rotary(Reading& r);

// Keys of the rotated share of a head that the code of a family reads.
enum class ShareKeys {
  unread =
      1,   // in transformers 5.24: the whole head rotates, unless the frequencies are scaled
  factor,  // partial_rotary_factor
  rotary_pct,  // GPT-NeoX
  any,         // families that are not in transformers, each with a name of its own
};

// Layers with a sliding window.
enum class Slides {
  none = 1,    // the key sliding_window is not used
  all,         // every layer
  by_type,     // layers of type sliding_attention
  switched,    // use_sliding_window: every layer
  from_layer,  // use_sliding_window: layers from max_window_layers on
  even_below,  // use_sliding_window: layers of even number below max_window_layers
  unrotated    // use_sliding_window: layers that do not rotate
};
// Layers that do not rotate: none, those with full attention, or those only if other layers
// have a window. Family::nope_every selects them by number instead.
enum class NopeLayers { none = 1, full, full_with_window };
// Rows before and after a query that a window w has in a bidirectional layer.
enum class WindowSides { halves = 1, whole, one_less_before, one_more };
struct SlidingWindow {
  Slides slides = Slides::none;
  std::int64_t size = 0;          // default; 0: none
  std::string_view pattern = {};  // default of layer_types, repeated: 's' slides, 'f' is full
  std::string_view key = "sliding_window";
};

// Norms of queries and keys.
struct Norm {
  NormKind kind = {};  // NormKind{}: none
  NormOrder order = NormOrder::before_rotation;
  NormScope scope = NormScope::head;
  double epsilon = 1e-6;  // default
  double weight_offset = 0;
  std::string_view switched_by = {};  // boolean key that enables the norm; empty: always on
  bool on = true;                     // default of that key
  bool rotated_only = false;          // only in layers that rotate
  bool trained = true;                // false: the norm has no weights
};

// Names of the sizes of an image tower.
enum class SizeNames { usual = 1, depth, embed, attention_heads };

// Rotary pairing of a GGUF file, which does not contain it: the values of
// `llama_model_rope_type`.
enum class RopeType { adjacent = 1, halves, sections, interleaved_sections, none };
// YaRN's factors in the graphs of llama.cpp. `latent`: the softmax scale has the factor too,
// and the file stores a tenth of mscale_all_dim. mscale is mscale_all_dim, or 1.
enum class GgufYarn { usual = 1, latent, latent_with_unit_scale };
// Parts of a model with T5's bias.
enum class GgufParts { none = 1, encoder, encoder_and_decoder };
// Windows of llama.cpp's graphs (llama_swa_type). W: the size. none: the file's window is not
// used. causal: the last W keys. symmetric: W / 2 keys to each side. chunked: chunks of W keys.
enum class GgufWindow { none = 1, causal, symmetric, chunked };
// Base of the sliding layers: rope.freq_base; rope.freq_base_swa, if given; or
// rope.freq_base_swa, by default 10000.
enum class SlidingBase { same = 1, own_or_same, own };
constexpr std::int64_t by_file = -1;  // a key that a GGUF file must have
// Sliding layers of a GGUF file: what llama.cpp reads, and its defaults.
struct GgufSliding {
  GgufWindow window = GgufWindow::none;
  // One layer of so many is full. 0: none, and the file's pattern is not used. by_file: the
  // file must have a list.
  std::int64_t every = 0;
  bool full_first = false;  // the first of so many layers, not the last
  std::int64_t size = 0;    // window without a key; 0: none, as with a window of 0; by_file
  std::int64_t fixed = 0;   // window whatever the file's size, unless that is 0
  std::int64_t layers = 0;  // number of layers of the models with a window. 0: all models
  SlidingBase base = SlidingBase::own_or_same;
  // The scaling applies to sliding layers too. If not: whether rope.scaling.attn_factor does.
  bool scaled = true, table_scaled = true;
};
// Architecture of a GGUF file, as llama.cpp reads it (src/models, one file for each).
struct GgufNames {
  std::string_view architecture = {};
  RopeType rope_type = {};
  GgufYarn yarn = GgufYarn::usual;
  GgufParts parts = GgufParts::none;
  GgufSliding sliding = {};
  // Keys that only some architectures read: "attention.scale", "rope.dimension_sections".
  std::vector<std::string_view> keys = {};
  // One layer of so many has attention, in files without attention.recurrent_layers and
  // full_attention_interval. 0: layers with key heads.
  std::int64_t attention_every = 0;
  // Number of layers of the model whose softmax scale is 1 / sqrt(width / heads). 0: none.
  std::int64_t layers_scaled_by_width = 0;
  bool scaled_by_head_dim = false;    // the softmax scale is 1 / head_dim
  std::int64_t experts_unnormed = 0;  // experts of the model without norms of q and k
  double beta_fast = 32;              // YaRN's, without a key
  std::int64_t layers_with_keys = 0;  // later layers use keys and values of earlier ones
  // Numbers of layers of the models with ALiBi, and of those that rotate, if not all.
  std::int64_t alibi_layers = 0, rotary_layers = 0;
  bool attends_without_ffn = false;  // attention only in layers with a feed_forward_length of 0
  bool full_is_causal = false;       // full layers are causal, whatever attention.causal is
  bool fixed_rope = false;  // base 10000, the whole head and no scaling, whatever the file has
  bool scaled_by_value_dim = false;  // the softmax scale is 1 / sqrt(value_dim)
  bool half_rotated = false;         // full layers rotate half of rope.dimension_count
  bool unfactored = false;           // rope_freqs.weight is not used
  double norm_epsilon = 0;           // of the norms of q and k, whatever the file has
  // Key of a number, or of one for each layer. Row::unsupported applies to layers above 0.
  std::string_view unsupported_by = {};
  std::string_view refused = {};  // why the file is not read
};

// Numbers are the defaults of the configuration class of a family.
struct Family {
  std::string_view model_type = {};
  std::string_view position = "rotary, halves";  // text for the list of families
  std::string_view differences = {};             // between layers, as text
  Rule read = read_rotary;                       // null: only parts of the model are described
  std::string_view refused = {};                 // why no config of this type is read
  Rule read_attention = nullptr;                 // keys of attention that no other family has

  // Sizes. 0: a config must have the size.
  std::int64_t layers = 0, heads = 0, hidden = 0;
  std::int64_t head_dim = 0;     // 0: hidden / heads. by_heads: always
  std::int64_t key_heads = 0;    // 0: the query heads. by_heads: always
  std::int64_t value_dim = 0;    // 0: head_dim
  std::int64_t length = 2048;    // max_position_embeddings
  bool rounds_head_dim = false;  // head_dim is hidden / heads, rounded down
  // Width of the embeddings, if it is not hidden: its key and default.
  std::pair<std::string_view, std::int64_t> embedding_width = {};
  // Key of the layers, if num_hidden_layers is an object.
  std::string_view layers_in_object = {};

  // Rotation.
  Pairing pairing = Pairing::halves;
  bool reads_pairing = false;  // from rope_interleave
  double base = 10'000;        // rope_theta
  double share = 1;            // partial_rotary_factor
  ShareKeys share_keys = ShareKeys::unread;
  bool odd_share = false;       // an odd number of rotated elements is rounded up
  std::int64_t rotary_dim = 0;  // rotary_dim, in families without a share
  std::string_view rope = {};   // rope_parameters, if they contain more than a base
  double local_base = 0;        // base of sliding layers, if it differs
  std::int64_t full_every = 0;  // one layer of so many has full attention
  std::int64_t nope_every = 0;  // one layer of so many does not rotate
  NopeLayers nope_layers = NopeLayers::none;
  // Positions on several axes: the order of the axes over the pairs, and the default sections.
  std::optional<MRopeOrder> mrope = {};
  std::array<std::int64_t, 3> sections = {};

  // Attention.
  Visibility visibility = Visibility::causal;
  SlidingWindow window = {};
  WindowSides window_sides = WindowSides::halves;
  std::int64_t window_divisor = 1;
  bool window_on = false;  // default of use_sliding_window
  std::int64_t chunk = 0;  // attention_chunk_size
  Norm norm = {};
  bool value_norm = false;           // RMS without weights
  double softmax_scale = 0;          // 0: 1 / sqrt(head_dim)
  std::string_view scale_key = {};   // softmax_scale
  std::string_view scalar_key = {};  // x of a softmax scale 1 / sqrt(x)
  double softcap = 0;                // attn_logit_softcapping; 0: the key is not used
  bool sinks = false;
  OutputGate output_gate = OutputGate::none;
  std::int64_t alibi_heads = 0;       // models with so many heads have ALiBi. by_heads: all
  std::string_view unsupported = {};  // feature that LayerAttention does not have

  // Image towers.
  bool tower = false;
  std::int64_t image = 0, patch = 0;  // image_size, patch_size
  std::int64_t rows = 0;  // rows of a learned table before those of the grid, or all rows
  SizeNames size_names = SizeNames::usual;
  std::string_view note = {};

  // Weights of queries and keys.
  WeightLayout weights = {};
  std::string_view inconvertible = {};   // rule that conversion would break
  std::string_view convertible_if = {};  // boolean key that must be true

  // Types of the parts of a multimodal model, if the config does not contain them: of the
  // language model, and of other parts by their key. A leading star stands for model_type.
  std::string_view language = {};
  std::vector<std::pair<std::string_view, std::string_view>> parts = {};

  GgufNames gguf = {};
  GgufWeights gguf_weights = {};
};
constexpr std::int64_t by_heads = -1;

// Collects the rows.
class Families {
 public:
  // Adds a row for each name: `base` with changes, which are functions of a row (namespace
  // changes). Returns the row, as a base of others.
  Family operator()(const Family& base, std::initializer_list<std::string_view> names,
                    const auto&... facts) {
    Family row = base;
    row.model_type = {}, row.gguf = {}, row.gguf_weights = {};
    (facts(row), ...);
    for (const std::string_view name : names) {
      row.model_type = name;
      rows_.push_back(row);
    }
    if (names.size() == 0) rows_.push_back(row);
    return row;
  }
  std::vector<Family> rows() && { return std::move(rows_); }

 private:
  std::vector<Family> rows_;
};

// Changes of a row.
namespace changes {

template <auto member>
struct Fact {
  constexpr auto operator()(auto value) const {
    return [value](Family& row) { row.*member = value; };
  }
};
inline constexpr Fact<&Family::position> position;
inline constexpr Fact<&Family::differences> differences;
inline constexpr Fact<&Family::read> read;
inline constexpr Fact<&Family::refused> refused;
inline constexpr Fact<&Family::read_attention> attention;
inline constexpr Fact<&Family::head_dim> head_dim;
inline constexpr Fact<&Family::key_heads> key_heads;
inline constexpr Fact<&Family::value_dim> value_dim;
inline constexpr Fact<&Family::length> length;
inline constexpr Fact<&Family::layers_in_object> layers_in_object;
inline constexpr Fact<&Family::rounds_head_dim> rounds_head_dim;
inline constexpr Fact<&Family::reads_pairing> reads_pairing;
inline constexpr Fact<&Family::base> base;
inline constexpr Fact<&Family::odd_share> odd_share;
inline constexpr Fact<&Family::rotary_dim> rotary_dim;
inline constexpr Fact<&Family::rope> rope;
inline constexpr Fact<&Family::local_base> local_base;
inline constexpr Fact<&Family::full_every> full_every;
inline constexpr Fact<&Family::nope_every> nope_every;
inline constexpr Fact<&Family::nope_layers> nope_layers;
inline constexpr Fact<&Family::visibility> visibility;
inline constexpr Fact<&Family::window_sides> window_sides;
inline constexpr Fact<&Family::window_divisor> window_divisor;
inline constexpr Fact<&Family::window_on> window_on;
inline constexpr Fact<&Family::chunk> chunk;
inline constexpr Fact<&Family::value_norm> value_norm;
inline constexpr Fact<&Family::softmax_scale> softmax_scale;
inline constexpr Fact<&Family::scale_key> scale_key;
inline constexpr Fact<&Family::scalar_key> scalar_key;
inline constexpr Fact<&Family::softcap> softcap;
inline constexpr Fact<&Family::sinks> sinks;
inline constexpr Fact<&Family::output_gate> output_gate;
inline constexpr Fact<&Family::alibi_heads> alibi_heads;
inline constexpr Fact<&Family::unsupported> unsupported;
inline constexpr Fact<&Family::rows> rows;
inline constexpr Fact<&Family::size_names> size_names;
inline constexpr Fact<&Family::note> note;
inline constexpr Fact<&Family::weights> weights;
inline constexpr Fact<&Family::inconvertible> inconvertible;
inline constexpr Fact<&Family::convertible_if> convertible_if;
inline constexpr Fact<&Family::language> language;

constexpr auto sizes(std::int64_t layers, std::int64_t heads, std::int64_t hidden) {
  return [=](Family& row) { row.layers = layers, row.heads = heads, row.hidden = hidden; };
}
constexpr auto embedding_width(std::string_view key, std::int64_t otherwise) {
  return [=](Family& row) { row.embedding_width = {key, otherwise}; };
}
constexpr auto pairing(Pairing pairing) {
  return [=](Family& row) {
    row.pairing = pairing;
    row.position = pairing == Pairing::halves ? "rotary, halves" : "rotary, adjacent";
  };
}
// The default, and the keys that the code reads.
constexpr auto share(double share, ShareKeys keys = ShareKeys::unread) {
  return [=](Family& row) { row.share = share, row.share_keys = keys; };
}
constexpr auto mrope(MRopeOrder order, std::array<std::int64_t, 3> sections) {
  return [=](Family& row) { row.mrope = order, row.sections = sections; };
}
constexpr auto window(Slides slides, std::int64_t size = 0, std::string_view pattern = {},
                      std::string_view key = "sliding_window") {
  return [=](Family& row) { row.window = {slides, size, pattern, key}; };
}
constexpr auto norm(NormKind kind, NormOrder order, NormScope scope, double epsilon,
                    double weight_offset = 0, std::string_view switched_by = {}, bool on = true,
                    bool rotated_only = false, bool trained = true) {
  return [=](Family& row) {
    row.norm = {kind,        order, scope,        epsilon, weight_offset,
                switched_by, on,    rotated_only, trained};
  };
}
constexpr auto image(std::int64_t size, std::int64_t patch) {
  return [=](Family& row) { row.image = size, row.patch = patch; };
}
// The type of the part with this key.
constexpr auto part(std::string_view key, std::string_view type) {
  return [=](Family& row) {
    std::erase_if(row.parts, [&](const auto& one) { return one.first == key; });
    row.parts.emplace_back(key, type);
  };
}
constexpr auto gguf(std::string_view architecture, RopeType rope_type) {
  return [=](Family& row) {
    row.gguf.architecture = architecture, row.gguf.rope_type = rope_type;
  };
}
// Names in a GGUF file that is written.
inline auto to_gguf(GgufWeights weights) {
  return [weights = std::move(weights)](Family& row) { row.gguf_weights = weights; };
}
constexpr auto gguf_window(const GgufSliding& sliding) {
  return [=](Family& row) { row.gguf.sliding = sliding; };
}
constexpr auto gguf_keys(auto... keys) {
  return [=](Family& row) { row.gguf.keys = {keys...}; };
}
template <auto member>
struct GgufFact {
  constexpr auto operator()(auto value) const {
    return [value](Family& row) { row.gguf.*member = value; };
  }
};
inline constexpr GgufFact<&GgufNames::yarn> gguf_yarn;
inline constexpr GgufFact<&GgufNames::parts> gguf_parts;
inline constexpr GgufFact<&GgufNames::attention_every> gguf_attention_every;
inline constexpr GgufFact<&GgufNames::layers_scaled_by_width> gguf_layers_scaled_by_width;
inline constexpr GgufFact<&GgufNames::scaled_by_head_dim> gguf_scaled_by_head_dim;
inline constexpr GgufFact<&GgufNames::experts_unnormed> gguf_experts_unnormed;
inline constexpr GgufFact<&GgufNames::beta_fast> gguf_beta_fast;
inline constexpr GgufFact<&GgufNames::layers_with_keys> gguf_layers_with_keys;
inline constexpr GgufFact<&GgufNames::alibi_layers> gguf_alibi_layers;
inline constexpr GgufFact<&GgufNames::rotary_layers> gguf_rotary_layers;
inline constexpr GgufFact<&GgufNames::fixed_rope> gguf_fixed_rope;
inline constexpr GgufFact<&GgufNames::attends_without_ffn> gguf_attends_without_ffn;
inline constexpr GgufFact<&GgufNames::full_is_causal> gguf_full_is_causal;
inline constexpr GgufFact<&GgufNames::scaled_by_value_dim> gguf_scaled_by_value_dim;
inline constexpr GgufFact<&GgufNames::half_rotated> gguf_half_rotated;
inline constexpr GgufFact<&GgufNames::unfactored> gguf_unfactored;
inline constexpr GgufFact<&GgufNames::norm_epsilon> gguf_norm_epsilon;
inline constexpr GgufFact<&GgufNames::unsupported_by> gguf_unsupported_by;
inline constexpr GgufFact<&GgufNames::refused> gguf_refused;

// Values of these changes.
using enum Slides;
using enum SizeNames;
using enum NormScope;
using enum ShareKeys;

constexpr Pairing halves = Pairing::halves, adjacent = Pairing::adjacent;
constexpr NormKind rms = NormKind::rms, layer_norm = NormKind::layer;
constexpr NormOrder before = NormOrder::before_rotation, after = NormOrder::after_rotation;
constexpr Visibility bidirectional = Visibility::bidirectional, causal = Visibility::causal;
constexpr OutputGate per_head = OutputGate::per_head, per_channel = OutputGate::per_channel;
constexpr WeightLayout stacked{.fused = Fused::stacked}, grouped{.fused = Fused::grouped},
    quarters{.fused = Fused::quarters}, gated{.query = QueryRows::gated},
    transposed{.fused = Fused::stacked, .outputs = Outputs::columns};

}  // namespace changes

// All rows, sorted by name. Rows without a name have an architecture of GGUF files.
const std::vector<Family>& all_families();
// The row of a family with an encoding, or null.
const Family* find_family(std::string_view model_type);
// The row of a family or of a multimodal model, or null.
const Family* find_row(std::string_view model_type);
// The row of a GGUF architecture, or null.
const Family* find_architecture(std::string_view architecture);

// Each in a file of this name.
void add_audio_encoder(Families& add);
void add_bert(Families& add);
void add_deepseek(Families& add);
void add_encoder_decoder(Families& add);
void add_gemma(Families& add);
void add_glm(Families& add);
void add_gpt(Families& add);
void add_granite(Families& add);
void add_hybrid(Families& add);
void add_inkling(Families& add);
void add_llama(Families& add);
void add_multimodal(Families& add);
void add_qwen(Families& add);
void add_refused(Families& add);
void add_rotary_tower(Families& add);
void add_sliding(Families& add);
void add_speech(Families& add);
void add_vit(Families& add);
void add_window_tower(Families& add);

}  // namespace gnomon::model::internal
