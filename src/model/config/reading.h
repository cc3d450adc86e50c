// Shared code of the config readers: the keys of a config, the row of its family, and the
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
#include "src/model/families/family.h"

namespace gnomon::model::internal {

using gnomon::internal::Json;
using gnomon::internal::JsonDocument;
using gnomon::internal::JsonType;

// Decimal text without trailing zeros: 8, not 8.000000.
std::string shown(double value);

constexpr std::int64_t max_number = std::int64_t{1} << 40;  // sums of a few do not overflow
constexpr std::int64_t max_count = 1 << 16;                 // layers, heads, head dimensions
// Limits of layer kinds and of the frequencies of all kinds, so that the description of a small
// hostile file is small.
constexpr std::size_t max_kinds = 256;
constexpr std::int64_t max_frequencies = 1 << 20;

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
  std::optional<std::int64_t> integer(Names names, std::int64_t least = -max_number,
                                      std::int64_t most = max_number);
  std::optional<std::int64_t> size(Names names, std::int64_t most = max_number);  // 1 to most
  std::optional<double> number(Names names);                                      // finite
  std::optional<double> positive(Names names);  // finite and above 0
  std::optional<double> base(Names names);      // finite and above 1
  std::optional<double> share(Names names);     // share of a head: above 0, at most 1
  std::optional<std::string> string(Names names);
  std::optional<bool> boolean(Names names);
  std::optional<Json> object_in(std::string_view name);
  bool was_read(std::string_view name) const { return read_.contains(name); }
  // Whether the key is there with the value null.
  bool is_null(std::string_view name) const;

 private:
  Json object_;
  std::optional<Json> over_;
  std::set<std::string, std::less<>> read_;
};

// Rotary encoding of a model, read from a dictionary or from top-level keys.
struct Rope {
  Rotary rotary;
  RopeScaling scaling = NoScaling{};
  std::vector<std::int32_t> axes = {};
  Direction direction = Direction::forward;
};

// One layer. Equal layers become a group.
struct Layer {
  std::int64_t number = 0;                  // in its part
  std::string part = {};                    // "encoder" or "decoder", if a model has both
  std::string type = "full_attention";      // as in `layer_types`
  bool attends = true;                      // false: convolution, recurrence
  bool rotates = true;                      // false: no rotation (NoPE)
  std::string rope = {};                    // its key in Draft::ropes, if not its type
  std::vector<std::size_t> encodings = {};  // indices in Draft::encodings
  // 0: the number of the model.
  std::int64_t heads = 0, key_heads = 0, head_dim = 0, value_dim = 0;
  LayerAttention attention = {};  // softmax_scale 0: that of the model
  std::string unsupported = {};   // unsupported feature of this layer alone

  bool operator==(const Layer&) const = default;
};

// Layers of a model while it is read, and what they have in common.
struct Draft {
  ModelDescription out = {};
  std::int64_t heads = 0, head_dim = 0;
  std::int64_t key_heads = 0;                // 0: equal to heads
  std::int64_t value_dim = 0;                // 0: equal to head_dim
  std::optional<double> softmax_scale = {};  // if not 1 / sqrt(head_dim)
  std::string unsupported = {};
  std::vector<std::int64_t> stages = {};  // layers of each stage, in towers with stages
  std::vector<Layer> layers = {};
  std::vector<Encoding> encodings = {};
  std::map<std::string, Rope> ropes = {};  // by layer type; "" for all others

  virtual ~Draft() = default;
  // Throws FormatError at the byte of the model's description.
  [[noreturn]] virtual void fail(const std::string& reason) const = 0;
  // The head dimension of the layers of a type.
  std::int64_t head_dim_of(std::string_view type) const;
  // Sets a member of the layers of a type.
  void set(std::int64_t Layer::* size, std::string_view type, std::int64_t value);
  void note(std::string text);
};

// Draft from the keys of a config.
struct Reading : Draft {
  Reading(Json object, const ConfigOptions& options, const Family& family);

  Keys keys;
  ConfigOptions options;
  const Family& family;
  Visibility visibility = {};                         // default, without a part
  std::optional<std::int64_t> rotary_dim = {};        // if a key of the family contains it
  std::int64_t head_offset = 0;                       // first rotated element (MLA)
  std::optional<std::int64_t> fixed_key_heads = {};   // if the rule of the family knows them
  std::shared_ptr<const JsonDocument> defaults = {};  // the family's rope_parameters
  std::optional<QueryTemperature> temperature = {};   // query scale of all layers
  bool lists_are_longrope = false;  // a scaling with short_factor is longrope of any type
  // Families with an encoding for each layer type: default bases of the layer types, and the
  // layer types whose entries receive the keys of rope_scaling.
  std::map<std::string, double> bases = {};
  std::set<std::string> scaled = {};
  bool by_layer_type = false;  // rope_parameters has an entry for each layer type
  ImageTokens image = {};      // image towers only

  [[noreturn]] void fail(const std::string& reason) const override;
  // Throws FormatError at the value of the first name that has one.
  [[noreturn]] void fail_at(Keys::Names names, const std::string& reason);
  // Returns a required size, 1 to `most`.
  std::int64_t size(Keys::Names names);
  std::int64_t size(Keys::Names names, std::int64_t otherwise, std::int64_t most = max_number);
  // Returns a size for which the family may have a default. A note names the default.
  std::int64_t size_or_default(Keys::Names names, std::int64_t otherwise,
                               std::int64_t most = max_number);
  // Returns a boolean, or `otherwise` if the value has another type, as in some configs.
  bool is_true(std::string_view name, bool otherwise);
};

// Reads heads, head_dim, layers and length from the usual keys, or the family's defaults.
void read_sizes(Reading& r);
std::int64_t hidden_size(Reading& r);
// Returns a share of a head in elements, rounded down.
std::int64_t of_head(std::int64_t head_dim, double share);
// Adds the layers, and reads `layer_types` and `per_layer_config`, if given.
void read_layer_types(Reading& r);
// Whether layers of this type keep a state (linear attention, convolution) and have no
// positions.
bool keeps_state(std::string_view layer_type);
// Reads the rotary encoding of a dictionary (rope_scaling, rope_parameters, or the entry of a
// layer type), which may be absent. Keys of `over` take precedence over those of the entry.
Rope read_rope(Reading& r, std::optional<Json> dictionary, double base,
               const std::string& type = {}, std::optional<Json> over = {});
// Reads the ropes of all layer types, from rope_scaling or rope_parameters, in all spellings.
void read_ropes(Reading& r);
// Adds layers, whose numbers start at 0 in a new part.
std::span<Layer> add_layers(Draft& r, std::int64_t count, const std::string& part = {});
// Returns all layers. Adds the layers of the model if there are none.
std::span<Layer> all_layers(Draft& r);
// Adds an encoding to all layers, or to these.
void put(Draft& r, Encoding encoding);
void put(Draft& r, Encoding encoding, std::span<Layer> layers);
// Adds the encodings of Draft::ropes to the layers that rotate.
void put_ropes(Draft& r);
void note_idle_layers(Draft& r);
// Completes each layer, and groups equal layers.
void finish(Draft& r);
// Reads sizes and rules of attention, from the keys of a config and the row of its family.
void read_attention(Reading& r);
// Returns the names of the checkpoint tensors of a group's parameters.
std::vector<ParameterTensor> tensors_of(const LayerGroup& group);

double inverse_sqrt(double x);

}  // namespace gnomon::model::internal
