// One list of every encoding, and one way to use any of them.
//
// `Encoding` is the variant of all specs. `encodings()` is the list by name that the program,
// the lab and the docs read. `lower` turns any encoding into the forms that a Transformer needs
// (a table added to the embeddings, a rotation of q and k, a bias on the scores, vectors met by
// q, k and the weights), and `lower_backward` turns the gradients of these forms into those of
// the encoding's parameters. Layers that use several at once have a `Mixture`.
//
// A new encoding joins in the variant below, in src/model/encodings/ and nowhere else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/layer_plan.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/clipped.h"
#include "gnomon/bias/dynamic.h"
#include "gnomon/bias/fire.h"
#include "gnomon/bias/form.h"
#include "gnomon/bias/graphormer.h"
#include "gnomon/bias/kerple.h"
#include "gnomon/bias/layout.h"
#include "gnomon/bias/sandwich.h"
#include "gnomon/bias/swin.h"
#include "gnomon/bias/swin_v2.h"
#include "gnomon/bias/t5.h"
#include "gnomon/bias/wavlm.h"
#include "gnomon/embedding/axial.h"
#include "gnomon/embedding/cross_modal.h"
#include "gnomon/embedding/grid.h"
#include "gnomon/embedding/learned.h"
#include "gnomon/embedding/learned_fourier.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/embedding/video.h"
#include "gnomon/model/text_readings.h"
#include "gnomon/position/positions.h"
#include "gnomon/relative/deberta.h"
#include "gnomon/relative/decomposed.h"
#include "gnomon/relative/form.h"
#include "gnomon/relative/shaw.h"
#include "gnomon/relative/transformer_xl.h"
#include "gnomon/rotary/axial.h"
#include "gnomon/rotary/mrope.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/scaling.h"
#include "gnomon/rotary/temperature.h"
#include "gnomon/rotary/vjepa2.h"
#include "gnomon/rotary/xpos.h"
#include "gnomon/view.h"

namespace gnomon::model {

// Nothing: causal attention alone tells some order (NoPE).
struct NoPosition {
  bool operator==(const NoPosition&) const = default;
};

using Encoding =
    std::variant<NoPosition, Sinusoidal, Learned, AxialLearned, FourierLine, LearnedFourier,
                 DetrPage, SinusoidalGrid, SinusoidalVideo, CrossModal, PathLaplacian,
                 PathRandomWalk, PathDegree, Rotary, ScaledRotary, AxialRotary, MRope, Vjepa2,
                 XPos, Alibi, T5Bias, ClippedBias, Kerple, Sandwich, DynamicBias, Fire, Swin,
                 SwinV2, WavLm, LayoutBias, Graphormer, Shaw, TransformerXl, Deberta,
                 Decomposed>;

// The sizes of a Transformer that an encoding may depend on.
struct Shape {
  std::int64_t width = 0;   // channels C of the embeddings
  std::int64_t heads = 0;   // query heads H; head size is width / heads
  std::int64_t length = 0;  // tokens of a training window
  // What a query reads: of both sides, a bias by distance has numbers for keys ahead, too.
  Visibility reads = Visibility::causal;
};

// Where position enters the Transformer: one place, or several joined by `|`.
enum class Place : unsigned {
  nowhere = 1,
  embeddings = 2,        // a table added to x
  queries_and_keys = 4,  // turned
  scores = 8,            // a bias added to them
  keys_and_values = 16,  // vectors by distance, met by queries, keys and weights
};
constexpr Place operator|(Place a, Place b) noexcept {
  return static_cast<Place>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool includes(Place places, Place one) noexcept {
  return (static_cast<unsigned>(places) & static_cast<unsigned>(one)) != 0;
}
std::string name(Place places);  // "nowhere", "queries and keys", "embeddings, scores"

// Whose parameters they are.
enum class Sharing {
  all_layers = 1,  // one set for the whole model: a table of embeddings, T5
  each_layer,      // each layer has its own: Swin, Shaw
};

// A name with settings. Several may belong to one spec (swin and beit); the first of them names
// the spec itself, as its `info` and in JSON.
struct EncodingInfo {
  std::string_view name;   // as in --encodings: "rotary"
  std::string_view title;  // "Rotary (RoPE)"
  Place enters;
  Sharing sharing;
  std::string_view summary;         // one line
  std::string_view source;          // the paper
  std::string_view page;            // its doc page under docs/
  Encoding (*usual)(const Shape&);  // the settings most models of that shape use
};

// In the order in which they are shown.
std::span<const EncodingInfo> encodings();

// Throws std::invalid_argument that lists the names when there is none such.
const EncodingInfo& find_encoding(std::string_view name);
// The first name of the encoding's spec.
const EncodingInfo& info(const Encoding& encoding);

// What one layer uses together: rotary and a bias, a table and relative vectors. Each place has
// at most one of them. Empty is as NoPosition.
using Mixture = std::vector<Encoding>;
Place enters(const Mixture& mixture);
std::string names(const Mixture& mixture);  // "rotary+alibi"

// A trained matrix of an encoding: a learned table, T5's buckets.
struct Parameter {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  double initial_deviation = 0;  // of a normal distribution
  double initial_mean = 0;
};
std::vector<Parameter> parameters(const Encoding& encoding);
// Those of its encodings one after another; of more than one, named "t5.buckets".
std::vector<Parameter> parameters(const Mixture& mixture);

// Positions the encoding can be asked for: nothing means any; n means 0 to n - 1 only.
std::optional<std::int64_t> capacity(const Encoding& encoding);
std::optional<std::int64_t> capacity(const Mixture& mixture);

// Distances, position(key) - position(query): `first` to `first + count - 1`.
struct Distances {
  std::int64_t first = 0, count = 0;
  bool operator==(const Distances&) const = default;
};

// Positions and sequences of a batch: padding, packing, positions per row.
struct BatchPositions {
  Positions queries;  // [B or 1, T]
  Positions keys;     // [B or 1, S]
  bool operator==(const BatchPositions&) const = default;
};

// The tokens of a forward pass: keys at positions 0 to keys - 1, or at `ids`; the queries are
// the last `queries` of them. Several position axes: LayerTokens in layer.h.
struct Window {
  std::int64_t queries = 0, keys = 0;  // T, S
  std::vector<std::int64_t> ids = {};  // [keys], or none
  // Given in place of `ids`. The queries may then be more than the keys.
  std::optional<BatchPositions> batch = {};
  // The attention's own scale of q . k, before an encoding's factor. 0: 1 / sqrt(head_dim),
  // for encodings whose spec has a head_dim.
  double softmax_scale = 0;
  // The declared context length that length-dependent frequencies (dynamic NTK, LongRoPE) are
  // resolved for. 0: the spec's own.
  std::int64_t length = 0;

  // The key row of the first query.
  std::int64_t offset() const noexcept { return keys > queries ? keys - queries : 0; }
  Positions query_positions() const;
  Positions key_positions() const;
  Distances distances() const;  // all that can occur; at least one
  bool operator==(const Window&) const = default;
};

// `values`: one matrix for each of the parameters, in their order and shape. Throws when they
// do not match, when the window exceeds the capacity, or when two encodings of a mixture have
// the same part (two rotations may, of different elements of a head).
LayerPlan lower(const Encoding& encoding, const Window& window,
                std::span<const View<const float, 2>> values);
LayerPlan lower(const Mixture& mixture, const Window& window,
                std::span<const View<const float, 2>> values);

// The gradients of a LayerPlan; empty where it has no such part.
struct LayerGradient {
  View<const float, 2> table = {};  // [queries, C]
  BiasGradient bias = {};
  RelativeGradient relative = {};
  std::vector<double> cosine = {};  // [H]
};
// Adds to grads, shaped as `values`, which are those that `lower` had.
void lower_backward(const Encoding& encoding, const Window& window,
                    std::span<const View<const float, 2>> values, const LayerGradient& lowered,
                    std::span<const View<float, 2>> grads);
void lower_backward(const Mixture& mixture, const Window& window,
                    std::span<const View<const float, 2>> values, const LayerGradient& lowered,
                    std::span<const View<float, 2>> grads);

// A bias that each query multiplies by a factor of what its token holds (WavLM). x: [B, T, C],
// what enters the layer; out, [B, H, T], gets the factors. Throws std::invalid_argument where
// nothing is gated. The backward pass adds to x_grad and grads, which may be without data.
bool gated(const Mixture& mixture);
void gates(const Mixture& mixture, std::span<const View<const float, 2>> values,
           View<const float, 3> x, View<float, 3> out);
void gates_backward(const Mixture& mixture, std::span<const View<const float, 2>> values,
                    View<const float, 3> x, View<const float, 3> out_grad,
                    View<float, 3> x_grad, std::span<const View<float, 2>> grads);

// The schedule of a rotary encoding (Rotary, ScaledRotary, AxialRotary, MRope) at a declared
// length; 0: the spec's own. Nothing for other encodings. `lower` makes its tables from this
// schedule. (xPos has two schedules, V-JEPA 2 none.)
std::optional<RotarySchedule> rotary_schedule(const Encoding& encoding,
                                              std::int64_t length = 0);
// Softmax::factor of the plan at a declared length. Throws as scaled_frequencies.
double softmax_factor(const Encoding& encoding, std::int64_t length = 0);

// {"kind": "rotary", "dim": 64, "pairing": "halves", ...} and back; reading refuses unknown
// keys and wrong types with std::invalid_argument.
// A scaling inside: {"type": "yarn", "factor": 4.0, ...}.
std::string to_json(const Encoding& encoding);
std::string to_json(const RopeScaling& scaling);
Encoding encoding_from_json(std::string_view json);

}  // namespace gnomon::model
