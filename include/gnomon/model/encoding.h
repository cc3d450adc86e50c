// One list of every encoding, and one way to use any of them.
//
// `Encoding` is the variant of all specs. `encodings()` is the list by name that the program,
// the lab and the docs read. `lower` turns any encoding into the three forms that a Transformer
// needs (a table added to the embeddings, a rotation of q and k, a bias on the scores), and
// `lower_backward` turns the gradients of these forms into those of the encoding's parameters.
// A new encoding joins here, in src/model/encoding.cc, and nowhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gnomon/bias/alibi.h"
#include "gnomon/bias/clipped.h"
#include "gnomon/bias/fire.h"
#include "gnomon/bias/form.h"
#include "gnomon/bias/swin.h"
#include "gnomon/bias/t5.h"
#include "gnomon/embedding/learned.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/scaling.h"
#include "gnomon/rotary/xpos.h"
#include "gnomon/view.h"

namespace gnomon::model {

// Nothing: causal attention alone tells some order (NoPE).
struct NoPosition {
  bool operator==(const NoPosition&) const = default;
};

using Encoding = std::variant<NoPosition, Sinusoidal, Learned, Rotary, ScaledRotary, XPos,
                              Alibi, T5Bias, ClippedBias, Swin, Fire>;

// The sizes of a Transformer that an encoding may depend on.
struct Shape {
  std::int64_t width = 0;   // channels C of the embeddings
  std::int64_t heads = 0;   // query heads H; head size is width / heads
  std::int64_t length = 0;  // tokens of a training window
};

// Where position enters the Transformer.
enum class Place { nowhere = 1, embeddings, queries_and_keys, scores };
std::string_view name(Place place) noexcept;  // "nowhere", ..., "queries and keys", "scores"

struct EncodingInfo {
  std::string_view name;   // as in --encodings and JSON: "rotary"
  std::string_view title;  // "Rotary (RoPE)"
  Place enters;
  std::string_view summary;         // one line
  std::string_view source;          // the paper
  std::string_view page;            // its doc page under docs/
  Encoding (*usual)(const Shape&);  // the settings most models of that shape use
};

// In the order in which they are shown.
std::span<const EncodingInfo> encodings();

// Throws std::invalid_argument that lists the names when there is none such.
const EncodingInfo& find_encoding(std::string_view name);
// The entry that an encoding belongs to.
const EncodingInfo& info(const Encoding& encoding);

// A trained matrix of an encoding: a learned table, T5's buckets.
struct Parameter {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  double initial_deviation = 0;  // of a normal distribution
  double initial_mean = 0;
};
std::vector<Parameter> parameters(const Encoding& encoding);

// Positions the encoding can be asked for: nothing means any; n means 0 to n - 1 only.
std::optional<std::int64_t> capacity(const Encoding& encoding);

// The stretch of positions a forward pass covers: keys at 0 to keys - 1, queries the last
// `queries` of them.
struct Window {
  std::int64_t queries = 0, keys = 0;
  std::int64_t offset() const noexcept { return keys - queries; }
  bool operator==(const Window&) const = default;
};

// What to do at each of the places where position can enter.
struct Lowered {
  std::optional<EmbeddingTable> table;  // [queries, C]
  std::optional<RotaryTable> query_rotary, key_rotary;
  BiasForm bias;
};
// `values`: one matrix for each of parameters(encoding), in its order and shape. Throws when
// they do not match, or the window exceeds the capacity.
Lowered lower(const Encoding& encoding, const Window& window,
              std::span<const View<const float, 2>> values);

// The gradients of a Lowered: of its table [queries, C], and of its bias.
struct LoweredGradient {
  View<const float, 2> table;
  BiasGradient bias;
};
// Adds to grads, shaped as `values`, which are those that `lower` had.
void lower_backward(const Encoding& encoding, const Window& window,
                    std::span<const View<const float, 2>> values,
                    const LoweredGradient& lowered, std::span<const View<float, 2>> grads);

// {"kind": "rotary", "dim": 64, "pairing": "halves", ...} and back; reading refuses unknown
// keys and wrong types with std::invalid_argument.
// A scaling inside: {"type": "yarn", "factor": 4.0, ...}.
std::string to_json(const Encoding& encoding);
std::string to_json(const RopeScaling& scaling);
Encoding encoding_from_json(std::string_view json);

}  // namespace gnomon::model
