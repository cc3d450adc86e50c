// What the readers of configs share: the keys of a config, what is known of its family, and the
// layers that are put together from both.
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

// As people write it: 8, not 8.000000.
std::string shown(double value);

constexpr std::int64_t most_of_any = std::int64_t{1} << 40;  // sums of a few still fit
constexpr std::int64_t most_of_few = 1 << 16;                // layers, heads, head sizes
// Kinds of layers, and the frequencies of all: a small hostile file makes no large description.
constexpr std::size_t most_kinds = 256;
constexpr std::int64_t most_frequencies = 1 << 20;

// The members of an object, by any of several names; it remembers which were asked for. A null
// is as good as absent.
class Keys {
 public:
  using Names = std::initializer_list<std::string_view>;

  // Throws FormatError when there are more than 65536: each key is searched among all. A key
  // of `over` comes before the same key of the object.
  explicit Keys(Json object, std::optional<Json> over = {});
  Json object() const { return object_; }
  const std::optional<Json>& over() const { return over_; }

  std::optional<Json> find(Names names);
  std::optional<std::int64_t> integer(Names names);
  std::optional<std::int64_t> size(Names names, std::int64_t most = most_of_any);  // 1 to most
  std::optional<double> number(Names names);                                       // finite
  std::optional<double> positive(Names names);  // and above 0
  std::optional<double> base(Names names);      // and above 1
  std::optional<std::string> string(Names names);
  std::optional<bool> boolean(Names names);
  std::optional<Json> object_in(std::string_view name);
  bool was_asked(std::string_view name) const { return asked_.contains(name); }

 private:
  Json object_;
  std::optional<Json> over_;
  std::set<std::string, std::less<>> asked_;
};

// One rotary encoding of a model, read from one dictionary or from the keys beside the sizes.
struct Rope {
  Rotary rotary;
  RopeScaling scaling = NoScaling{};
  std::vector<std::int32_t> axes = {};
  Direction direction = Direction::forward;
};

// What one layer does; layers that do the same become a group.
struct Layer {
  std::string type = "full_attention";  // as in `layer_types`
  bool attends = true;                  // or convolution, recurrence: nothing to encode
  bool turns = true;                    // or no rotation (NoPE)
  std::string rope = {};                // its key in `ropes`, where that is not its type
  bool normalises = true;               // its queries and keys, where the model does
  bool slides = false;                  // has the window of `Draft::window`
  bool sinks = true;                    // where the model has any
  std::int64_t heads = 0;               // 0: as the model
  std::string unsupported = {};         // what of it alone lower_layer cannot give
};

struct Reading;

// What no config says. The defaults are those of the family's configuration class.
struct Family {
  std::string_view model_type;
  void (*read)(Reading&);
  std::string_view position;  // for the list of families
  Pairing pairing = Pairing::halves;
  double base = 10'000;        // rope_theta
  double share = 1;            // partial_rotary_factor
  std::int64_t head_dim = 0;   // 0: hidden size / heads
  std::int64_t length = 2048;  // max_position_embeddings
  // Multimodal configs leave out what is the class's default.
  std::int64_t layers = 0, heads = 0, hidden = 0;
  std::string_view rope = {};  // rope_parameters, where they are more than a base
  // Of images: image_size and patch_size, the rows of a learned table beside those of the
  // grid's cells (class tokens), how the sizes are called, and a note.
  std::int64_t image = 0, patch = 0, rows = 0;
  enum class Names { usual = 1, depth, embed, attention_heads } names = Names::usual;
  std::string_view note = {};
};
constexpr std::int64_t by_heads = -1;
std::span<const Family> rotary_families();  // each in a file of its name
std::span<const Family> other_families();
std::span<const Family> vision_families();
constexpr std::span<const Family> (*all_families[])() = {rotary_families, other_families,
                                                         vision_families};
const Family* find_family(std::string_view model_type);
// "qwen2" for "internvl"; the same name for what has no parts.
std::string language_model_of(std::string_view model_type);
// "clip_vision_model" for the "vision_config" of "llava", where a config does not say it;
// empty where it is not known.
std::string part_of(std::string_view model_type, std::string_view part);

// The layers of a model as they are found out, and the groups made of them.
struct Draft {
  ModelDescription out = {};
  std::int64_t heads = 0, head_dim = 0;
  std::int64_t key_heads = 0;  // 0: as heads
  std::int64_t value_dim = 0;  // 0: as head_dim
  // By layer type, where they differ.
  std::map<std::string, std::int64_t> key_heads_of = {}, value_dims = {};
  bool trained_norms = true;      // norms of q and k have weights
  LayerAttention attention = {};  // of all layers, without window and scale
  // The rows that layers with a window see before and after their own.
  std::optional<std::int64_t> left = {}, right = {};
  std::string unsupported = {};
  std::vector<std::int64_t> stages = {};  // layers of each stage, of towers that have stages
  std::map<std::string, std::int64_t> head_dims = {};  // by layer type, where they differ
  std::optional<double> softmax_scale = {};            // where it is not 1 / sqrt(head_dim)
  std::vector<Layer> layers = {};
  std::map<std::string, Rope> ropes = {};  // by layer type; "" for all others
  std::optional<QueryTemperature> temperature = {};
  // On which layers: all, or those that do not turn.
  enum class Tempered { all = 1, still } tempered = Tempered::all;

  virtual ~Draft() = default;
  // Throws FormatError at where the model is described.
  [[noreturn]] virtual void fail(const std::string& reason) const = 0;
  std::int64_t head_dim_of(const std::string& type) const;
  void note(std::string text);
};

// A draft from the keys of a config.
struct Reading : Draft {
  Reading(Json object, const ConfigOptions& options, const Family& family)
      : keys(object), options(options), family(family) {}

  Keys keys;
  ConfigOptions options;
  const Family& family;
  bool length_given = false;
  std::optional<std::int64_t> rotary_dim = {};        // where a key of the family says it
  std::int64_t first = 0;                             // the first rotated element (MLA)
  std::shared_ptr<const JsonDocument> defaults = {};  // the family's rope_parameters
  std::optional<MRopeOrder> mrope = {};
  std::vector<std::int64_t> sections = {};  // mrope_section where it is not given
  // Families with an encoding for each layer type: the bases of entries that have none, or are
  // not there; and the layer types to whose entries the keys of rope_scaling are added.
  std::map<std::string, double> bases = {};
  std::set<std::string> scaled = {};
  bool by_layer_type = false;  // rope_parameters has an entry for each layer type

  [[noreturn]] void fail(const std::string& reason) const override;
  // At the value of the first of the names that has one.
  [[noreturn]] void fail_at(Keys::Names names, const std::string& reason);
  // A size that must be there, 1 to `most`.
  std::int64_t size(Keys::Names names);
  std::int64_t size(Keys::Names names, std::int64_t otherwise, std::int64_t most = most_of_any);
  // One that may be missing where the family has a default; a note says so.
  std::int64_t size_or_default(Keys::Names names, std::int64_t otherwise,
                               std::int64_t most = most_of_any);
};

// heads, head_dim, layers, length: from the usual keys, or the family's defaults.
void read_sizes(Reading& r);
std::int64_t hidden_size(Reading& r);
// `layer_types`, where it is given.
void read_layer_types(Reading& r);
// Layers that keep a state (linear attention, convolution) see no positions.
bool keeps_state(std::string_view layer_type);
// The one rotary encoding of a dictionary (rope_scaling, rope_parameters, or the entry of a
// layer type), which may be absent. Keys of `over` come before those of an entry.
Rope read_rope(Reading& r, std::optional<Json> dictionary, double base,
               const std::string& type = {}, std::optional<Json> over = {});
// Sizes, ropes, groups: a family with nothing special.
void read_rotary(Reading& r);
// The ropes of all layer types, from rope_scaling or rope_parameters, in old or new spelling.
void read_ropes(Reading& r);
// Groups of r.layers, from r.ropes.
void put_rotary_groups(Draft& r);
// A group for all layers, or those of a part. A layer may be put into several groups: `finish`
// joins their encodings.
LayerGroup& put_group(Draft& r, Mixture position, std::int64_t layers = -1,
                      std::string part = {});
// Makes the groups final: one for each layer, with its attention and the names of its tensors.
void finish(Draft& r);
// Sizes and rules of attention besides position, from the keys of a config and what is known of
// its family.
void read_attention(Reading& r);
// Names of the checkpoint tensors of a group's parameters.
std::vector<ParameterTensor> tensors_of(const LayerGroup& group);

// A family that is not known by name: by its keys alone, or an error where they do not tell.
void read_unknown(Reading& r);

double inverse_sqrt(double x);

}  // namespace gnomon::model::internal
