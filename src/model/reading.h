// Shared code of the config readers: the keys of a config, the facts of its family, and the
// layers made from both.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/model/config.h"
#include "gnomon/rotary/mrope.h"
#include "src/io/json.h"

namespace gnomon::model::internal {

using gnomon::internal::Json;
using gnomon::internal::JsonDocument;
using gnomon::internal::JsonType;

// Decimal text without trailing zeros: 8, not 8.000000.
std::string shown(double value);

constexpr std::int64_t most_of_any = std::int64_t{1} << 40;  // sums of a few do not overflow
constexpr std::int64_t most_of_few = 1 << 16;                // layers, heads, head dimensions
// Limits of layer kinds and of the frequencies of all kinds, so that the description of a small
// hostile file is small.
constexpr std::size_t most_kinds = 256;
constexpr std::int64_t most_frequencies = 1 << 20;

// Members of an object, searched by several alternative names. Records the names that were
// read. A null is treated as absent.
class Keys {
 public:
  using Names = std::initializer_list<std::string_view>;

  // Throws FormatError if there are more than 65536 members, because each search is linear. A
  // key of `over` takes precedence over the same key of the object.
  explicit Keys(Json object, std::optional<Json> over = {});
  Json object() const { return object_; }
  const std::optional<Json>& over() const { return over_; }

  std::optional<Json> find(Names names);
  std::optional<std::int64_t> integer(Names names, std::int64_t least = -most_of_any,
                                      std::int64_t most = most_of_any);
  std::optional<std::int64_t> size(Names names, std::int64_t most = most_of_any);  // 1 to most
  std::optional<double> number(Names names);                                       // finite
  std::optional<double> positive(Names names);  // finite and above 0
  std::optional<double> base(Names names);      // finite and above 1
  std::optional<double> share(Names names);     // of a head: above 0, at most 1
  std::optional<std::string> string(Names names);
  std::optional<bool> boolean(Names names);
  std::optional<Json> object_in(std::string_view name);
  bool was_asked(std::string_view name) const { return asked_.contains(name); }

 private:
  Json object_;
  std::optional<Json> over_;
  std::set<std::string, std::less<>> asked_;
};

// Rotary encoding of a model, read from a dictionary or from top-level keys.
struct Rope {
  Rotary rotary;
  RopeScaling scaling = NoScaling{};
  std::vector<std::int32_t> axes = {};
  Direction direction = Direction::forward;
};

// Settings of one layer. Equal layers become a group.
struct Layer {
  std::string type = "full_attention";  // as in `layer_types`
  bool attends = true;                  // false: convolution, recurrence
  bool rotates = true;                  // false: no rotation (NoPE)
  std::string rope = {};                // its key in `ropes`, if not its type
  bool normalises = true;               // norms of q and k, if the model has any
  bool slides = false;                  // has the window limits of the draft
  bool sinks = true;                    // has sinks, if the model has any
  std::int64_t heads = 0;               // 0: the number of the model
  std::string unsupported = {};         // unsupported feature of this layer alone
};

struct Reading;

// Facts of a family that its config does not contain. Numbers are the defaults of its
// configuration class.
struct Family {
  std::string_view model_type;
  void (*read)(Reading&);
  std::string_view position;  // text for the list of families
  Pairing pairing = Pairing::halves;
  double base = 10'000;        // rope_theta
  double share = 1;            // partial_rotary_factor
  std::int64_t head_dim = 0;   // 0: hidden size / heads
  std::int64_t length = 2048;  // max_position_embeddings
  // Sizes that multimodal configs omit if they are the defaults.
  std::int64_t layers = 0, heads = 0, hidden = 0;
  std::string_view rope = {};   // rope_parameters, if they contain more than a base
  std::int64_t rotary_dim = 0;  // rotary_dim, in families without a share
  // Image towers: image_size, patch_size, the class token rows of a learned table (added to
  // those of the grid), the names of the sizes, and a note.
  std::int64_t image = 0, patch = 0, rows = 0;
  enum class Names { usual = 1, depth, embed, attention_heads } names = Names::usual;
  std::string_view note = {};
};
constexpr std::int64_t by_heads = -1;
std::span<const Family> rotary_families();  // each in a file with this name
std::span<const Family> other_families();
std::span<const Family> vision_families();
constexpr std::span<const Family> (*all_families[])() = {rotary_families, other_families,
                                                         vision_families};
const Family* find_family(std::string_view model_type);
// Language model of a multimodal family: "qwen2" for "internvl". Other types are returned
// unchanged.
std::string language_model_of(std::string_view model_type);
// Type of a part, if the config does not contain it: "clip_vision_model" for the
// "vision_config" of "llava". Empty: unknown.
std::string part_of(std::string_view model_type, std::string_view part);

// Layers of a model while it is read, and the groups made of them.
struct Draft {
  ModelDescription out = {};
  std::int64_t heads = 0, head_dim = 0;
  std::int64_t key_heads = 0;  // 0: equal to heads
  std::int64_t value_dim = 0;  // 0: equal to head_dim
  // By layer type, if layer types differ.
  std::map<std::string, std::int64_t> key_heads_of = {}, value_dims = {};
  bool trained_norms = true;      // norms of q and k have weights
  LayerAttention attention = {};  // of all layers, except window and scale
  // Window limits of the layers with a window.
  std::optional<std::int64_t> left = {}, right = {};
  std::string unsupported = {};
  std::vector<std::int64_t> stages = {};  // layers of each stage, in towers with stages
  std::map<std::string, std::int64_t> head_dims = {};  // by layer type, if they differ
  std::optional<double> softmax_scale = {};            // if not 1 / sqrt(head_dim)
  std::vector<Layer> layers = {};
  std::map<std::string, Rope> ropes = {};  // by layer type; "" for all others
  std::optional<QueryTemperature> temperature = {};
  // Layers with the query temperature: all, or those without rotation.
  enum class Tempered { all = 1, nope_layers } tempered = Tempered::all;

  virtual ~Draft() = default;
  // Throws FormatError at the byte of the model's description.
  [[noreturn]] virtual void fail(const std::string& reason) const = 0;
  std::int64_t head_dim_of(const std::string& type) const;
  void note(std::string text);
};

// Draft from the keys of a config.
struct Reading : Draft {
  Reading(Json object, const ConfigOptions& options, const Family& family)
      : keys(object), options(options), family(family) {}

  Keys keys;
  ConfigOptions options;
  const Family& family;
  bool length_given = false;
  std::optional<std::int64_t> rotary_dim = {};        // if a key of the family contains it
  std::int64_t head_offset = 0;                       // first rotated element (MLA)
  std::shared_ptr<const JsonDocument> defaults = {};  // the family's rope_parameters
  std::optional<MRopeOrder> mrope = {};
  std::vector<std::int64_t> sections = {};  // default of mrope_section
  // Families with an encoding for each layer type: default bases of the layer types, and the
  // layer types whose entries receive the keys of rope_scaling.
  std::map<std::string, double> bases = {};
  std::set<std::string> scaled = {};
  bool by_layer_type = false;  // rope_parameters has an entry for each layer type

  [[noreturn]] void fail(const std::string& reason) const override;
  // Throws FormatError at the value of the first name that has one.
  [[noreturn]] void fail_at(Keys::Names names, const std::string& reason);
  // Returns a required size, 1 to `most`.
  std::int64_t size(Keys::Names names);
  std::int64_t size(Keys::Names names, std::int64_t otherwise, std::int64_t most = most_of_any);
  // Returns a size for which the family may have a default. A note names the default.
  std::int64_t size_or_default(Keys::Names names, std::int64_t otherwise,
                               std::int64_t most = most_of_any);
};

// Reads heads, head_dim, layers and length from the usual keys, or the family's defaults.
void read_sizes(Reading& r);
std::int64_t hidden_size(Reading& r);
// Returns a share of a head in elements, rounded down.
std::int64_t of_head(std::int64_t head_dim, double share);
// Reads `layer_types`, if given.
void read_layer_types(Reading& r);
// Whether layers of this type keep a state (linear attention, convolution) and have no
// positions.
bool keeps_state(std::string_view layer_type);
// Reads the rotary encoding of a dictionary (rope_scaling, rope_parameters, or the entry of a
// layer type), which may be absent. Keys of `over` take precedence over those of the entry.
Rope read_rope(Reading& r, std::optional<Json> dictionary, double base,
               const std::string& type = {}, std::optional<Json> over = {});
// Reads sizes, ropes and groups of a family without special rules.
void read_rotary(Reading& r);
// Reads the ropes of all layer types, from rope_scaling or rope_parameters, in all spellings.
void read_ropes(Reading& r);
// Puts groups of r.layers, with the encodings of r.ropes.
void put_rotary_groups(Draft& r);
// Puts a group of all layers, or of a part. If a layer is in several groups, `finish` joins
// their encodings.
LayerGroup& put_group(Draft& r, Mixture position, std::int64_t layers = -1,
                      std::string part = {});
// Makes the groups final: each layer is in one group, with its attention and tensor names.
void finish(Draft& r);
// Reads sizes and rules of attention, from the keys of a config and the facts of its family.
void read_attention(Reading& r);
// Returns the names of the checkpoint tensors of a group's parameters.
std::vector<ParameterTensor> tensors_of(const LayerGroup& group);

// Reads an unknown family from its keys. Throws FormatError if they are not sufficient.
void read_unknown(Reading& r);

double inverse_sqrt(double x);

}  // namespace gnomon::model::internal
