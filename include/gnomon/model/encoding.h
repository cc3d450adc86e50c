// List of all position encodings, and a common interface to them.
//
// `Encoding` is the variant of all specs. `encodings()` is the list by name that the program,
// the lab and the docs read. `lower` lowers any encoding to the forms that a Transformer
// requires: a table added to the embeddings, a rotation of q and k, a bias on the scores,
// vectors multiplied by q, k and the attention weights. `lower_backward` computes the gradients
// of the encoding's parameters from those of the forms. A layer with several encodings has a
// `Mixture`.
//
// To add an encoding, add its spec to the variant below, its Entry to src/model/encodings/ and
// a line to each of the files that docs/contributing.md names, "Add an encoding".
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
#include "gnomon/attention/stick_breaking.h"
#include "gnomon/attention/token_terms.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/clipped.h"
#include "gnomon/bias/dynamic.h"
#include "gnomon/bias/fire.h"
#include "gnomon/bias/form.h"
#include "gnomon/bias/fox.h"
#include "gnomon/bias/grape.h"
#include "gnomon/bias/graphormer.h"
#include "gnomon/bias/kerple.h"
#include "gnomon/bias/layout.h"
#include "gnomon/bias/path.h"
#include "gnomon/bias/sandwich.h"
#include "gnomon/bias/swin.h"
#include "gnomon/bias/swin_v2.h"
#include "gnomon/bias/t5.h"
#include "gnomon/bias/wall.h"
#include "gnomon/bias/wavlm.h"
#include "gnomon/embedding/axial.h"
#include "gnomon/embedding/cross_modal.h"
#include "gnomon/embedding/grid.h"
#include "gnomon/embedding/index.h"
#include "gnomon/embedding/learned.h"
#include "gnomon/embedding/learned_fourier.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/embedding/universal.h"
#include "gnomon/embedding/video.h"
#include "gnomon/model/text_readings.h"
#include "gnomon/position/positions.h"
#include "gnomon/relative/cope.h"
#include "gnomon/relative/deberta.h"
#include "gnomon/relative/decomposed.h"
#include "gnomon/relative/form.h"
#include "gnomon/relative/relative_logits.h"
#include "gnomon/relative/shaw.h"
#include "gnomon/relative/transformer_xl.h"
#include "gnomon/rotary/axial.h"
#include "gnomon/rotary/comrope.h"
#include "gnomon/rotary/contextual.h"
#include "gnomon/rotary/learned.h"
#include "gnomon/rotary/mamba3.h"
#include "gnomon/rotary/mixed.h"
#include "gnomon/rotary/mrope.h"
#include "gnomon/rotary/plus_plus.h"
#include "gnomon/rotary/pope.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/scaling.h"
#include "gnomon/rotary/selective.h"
#include "gnomon/rotary/temperature.h"
#include "gnomon/rotary/vjepa2.h"
#include "gnomon/rotary/xpos.h"
#include "gnomon/view.h"

namespace gnomon::model {

// No position encoding (NoPE). Causal attention alone gives some information about the order.
struct NoPosition {
  bool operator==(const NoPosition&) const = default;
};

using Encoding =
    std::variant<NoPosition, Index, Sinusoidal, UniversalTransformer, Learned, AxialLearned,
                 FourierLine, LearnedFourier, DetrPage, SinusoidalGrid, SinusoidalVideo,
                 CrossModal, PathLaplacian, PathRandomWalk, PathDegree, Rotary, ScaledRotary,
                 AxialRotary, MRope, Vjepa2, XPos, RotaryPlusPlus, Pope, RotaryLearned,
                 RotaryMixed, ComRope, SelectiveRotary, RotaryContextual, RotaryMamba3, Alibi,
                 T5Bias, ClippedBias, Kerple, Sandwich, DynamicBias, Fire, Swin, SwinV2, WavLm,
                 Fox, GrapeAdditive, GrapePath, Wall, PathAttention, StickBreaking, LayoutBias,
                 Graphormer, Shaw, TransformerXl, Deberta, Cope, Decomposed, RelativeLogits>;

// Sizes of a Transformer that an encoding may depend on.
struct Shape {
  std::int64_t width = 0;   // C, width of the embeddings
  std::int64_t heads = 0;   // H, query heads; the head dimension is width / heads
  std::int64_t length = 0;  // training length, in tokens
  // Keys that a query attends to. If bidirectional, a bias by distance also has parameters for
  // keys after the query.
  Visibility reads = Visibility::causal;
};

// Where position enters the Transformer: one place, or several joined with `|`.
enum class Place : unsigned {
  nowhere = 1,
  embeddings = 2,        // a table added to x
  queries_and_keys = 4,  // rotated
  scores = 8,            // a bias added to the scores
  keys_and_values = 16,  // vectors by distance, multiplied by queries, keys and weights
  weights = 32,          // weights that are not those of a softmax (stick-breaking)
};
constexpr Place operator|(Place a, Place b) noexcept {
  return static_cast<Place>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool includes(Place places, Place one) noexcept {
  return (static_cast<unsigned>(places) & static_cast<unsigned>(one)) != 0;
}
std::string name(Place places);  // "nowhere", "queries and keys", "embeddings, scores"

// Whether layers share the parameters of an encoding.
enum class Sharing {
  all_layers = 1,  // one set for the model: a table of embeddings, T5
  each_layer,      // separate sets in each layer: Swin, Shaw
};

// A named setting of an encoding. A spec may have several names (swin and beit). The first name
// is the one that `info` returns and that JSON uses.
struct EncodingInfo {
  std::string_view name;      // as in --encodings: "rotary"
  std::string_view title;     // "Rotary (RoPE)"
  std::string_view synonyms;  // names in papers and code, separated by ", "; may be empty
  Place enters;
  Sharing sharing;
  std::string_view summary;         // one line
  std::string_view formula;         // lines of the page
  std::string_view source;          // the paper
  std::string_view page;            // page under docs/
  std::string_view users;           // released models, separated by ", "; may be empty
  Encoding (*usual)(const Shape&);  // usual settings for models of that shape
};

// Effect of a change of the positions on bidirectional attention.
enum class Effect {
  none = 1,  // outputs are unchanged, up to rounding
  some,      // outputs change
};

// How the score of a key depends on its distance from the query, for equal content.
enum class Decay {
  unspecified = 1,
  monotonic,  // nearer keys score higher
};

// How the plan and the token terms of an encoding depend on its trained parameters.
enum class Linearity {
  linear = 1,  // up to a constant; also an encoding without parameters
  nonlinear,
};

// Facts that the definition of an encoding fixes. `gnomon check` measures the first three at
// the usual settings, with random parameters, and the tests measure all. The linearities hold
// for all settings.
struct Properties {
  Effect reversal;  // all tokens in the opposite order: does the encoding tell left from right?
  Effect shift;     // the same offset added to all positions
  Decay decay = Decay::unspecified;
  Linearity linearity = Linearity::linear;  // linearity of plan and token terms
  Linearity plan_linearity = linearity;     // linearity of the plan alone
  bool causal = false;                      // defined for causal attention only
  bool divisible = true;                    // `shard` (shard.h) gives each part of the heads
};

// Returns the list of encodings, in display order.
std::span<const EncodingInfo> encodings();

// Returns the encoding with that name, title or common synonym: "rotary", "Rotary (RoPE)",
// "RoPE". Case, hyphens, underscores and spaces do not count. Throws std::invalid_argument with
// the nearest names if there is none.
const EncodingInfo& find_encoding(std::string_view name);
// Returns a scheme (scheme.h) with the name of each encoding as in the list: "rotary+alibi" for
// "RoPE+ALiBi". The rest of the text is not checked. Throws as find_encoding.
std::string canonical_names(std::string_view scheme);
// Returns the info of the first name of the encoding's spec.
const EncodingInfo& info(const Encoding& encoding);

// Returns the facts that the entry of the encoding's spec declares.
const Properties& properties(const Encoding& encoding);

// Returns whether scores depend on contents otherwise than by q . k, so that the encoding has
// no matrix of biases: encodings for causal attention depend on the tokens between query and
// key, and PoPE on the elements of both.
bool depends_on_contents(const Encoding& encoding);

// The encodings of one layer: for example rotary and a bias, or a table and relative vectors.
// At most one encoding enters at each place; two rotations are an exception (see `lower`). An
// empty mixture is the same as NoPosition.
using Mixture = std::vector<Encoding>;
Place enters(const Mixture& mixture);
std::string names(const Mixture& mixture);  // "rotary+alibi"

// Trained matrix of an encoding, for example a learned table or T5's buckets.
struct Parameter {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  double initial_deviation = 0;  // standard deviation of the normal distribution
  double initial_mean = 0;
  // Name in the state dict of a module, as in the code of the models in Hugging Face
  // Transformers, or in the code that a comment of the entry names.
  std::string path = {};                 // empty: `name`
  std::vector<std::int64_t> shape = {};  // empty: [rows, columns]
  bool transposed = false;               // the matrix is the transpose of the stored tensor
  std::vector<float> initial = {};  // [rows, columns] in place of random values; empty: random
};
std::vector<Parameter> parameters(const Encoding& encoding);
// Returns the parameters of all encodings, in the order of the mixture. If the mixture has more
// than one encoding, names have a prefix: "t5.buckets".
std::vector<Parameter> parameters(const Mixture& mixture);

// Returns the number n of supported positions, 0 to n - 1, or nothing if there is no limit. A
// mixture has the smallest capacity of its encodings.
std::optional<std::int64_t> capacity(const Encoding& encoding);
std::optional<std::int64_t> capacity(const Mixture& mixture);

// Range of `count` distances, position(key) - position(query), from `min_distance`.
struct Distances {
  std::int64_t min_distance = 0, count = 0;
  bool operator==(const Distances&) const = default;
};

// Positions and sequences of a batch: padding, packing, or different positions in each row.
struct BatchPositions {
  Positions queries;  // [B or 1, T]
  Positions keys;     // [B or 1, S]
  bool operator==(const BatchPositions&) const = default;
};

// Tokens of a forward pass: S keys at positions 0 to keys - 1, or at `ids`. The queries are the
// last T keys. For several position axes: LayerTokens in layer.h.
struct Window {
  std::int64_t queries = 0, keys = 0;  // T, S
  std::vector<std::int64_t> ids = {};  // positions, [keys]; empty: 0 to keys - 1
  // Positions of a batch, instead of `ids`. The number of queries may then exceed that of keys.
  std::optional<BatchPositions> batch = {};
  // Scale of q.k before the factor of an encoding. 0: 1 / sqrt(head_dim), if the spec of an
  // encoding has a head dimension.
  double softmax_scale = 0;
  // Declared context length, for which length-dependent frequencies (dynamic NTK, LongRoPE) are
  // resolved. 0: the length in the spec.
  std::int64_t length = 0;

  // Row of the first query among the keys.
  std::int64_t offset() const noexcept { return keys > queries ? keys - queries : 0; }
  Positions query_positions() const;
  Positions key_positions() const;
  Distances distances() const;  // smallest range with all distances; count is at least 1
  bool operator==(const Window&) const = default;
};

// Lowers an encoding for the tokens of a window. `values`: one matrix for each of the
// parameters, in their order and shape.
//
// Throws std::invalid_argument if `values` do not match the parameters, if a position exceeds
// the capacity, or if two encodings of a mixture have the same part. Two rotations are allowed
// if they rotate different elements of a head.
//
// Cost: O(T C) for a table, O(S R) for rotations, O(H N) for a bias over N distances.
LayerPlan lower(const Encoding& encoding, const Window& window,
                std::span<const View<const float, 2>> values);
LayerPlan lower(const Mixture& mixture, const Window& window,
                std::span<const View<const float, 2>> values);

// Gradients of the parts of a LayerPlan. A member is empty if the plan has no such part.
struct LayerGradient {
  View<const float, 2> table = {};  // [queries, C]
  BiasGradient bias = {};
  RelativeGradient relative = {};
  std::vector<double> cosine = {};       // [H]
  std::vector<double> frequencies = {};  // as trained_values of the plan
  std::vector<double> phases = {};       // [H, D], of a polar form
};
// Adds the gradients of the parameters to `grads`, which has the shapes of `values`. `values`
// and `window` must be those of `lower`. Throws as `lower`.
void lower_backward(const Encoding& encoding, const Window& window,
                    std::span<const View<const float, 2>> values, const LayerGradient& lowered,
                    std::span<const View<float, 2>> grads);
void lower_backward(const Mixture& mixture, const Window& window,
                    std::span<const View<const float, 2>> values, const LayerGradient& lowered,
                    std::span<const View<float, 2>> grads);

// Returns LayerGradient::frequencies from queries and keys and their gradients, all before or
// all after the rotation; empty if the plan has no trained frequencies.
std::vector<double> frequencies_gradient(const LayerPlan& plan, const Window& window,
                                         const ConstTensor& q, const ConstTensor& q_grad,
                                         const ConstTensor& k, const ConstTensor& k_grad);

// Token terms: the inputs of attention that an encoding computes from the input of the layer
// (gnomon/attention/token_terms.h): the gates of WavLM, the forget gates of FoX.
struct TermShape {
  std::string_view name;   // as in named_terms: "log_gates"
  std::int64_t heads = 0;  // H of the term
  std::int64_t size = 0;   // elements of a vector; 0: one number for each token and head

  // Returns [B, H, T] or [B, T, H, size].
  std::vector<std::int64_t> shape(std::int64_t batch, std::int64_t tokens) const;
  bool operator==(const TermShape&) const = default;
};
// Returns the terms of all encodings of the mixture, in its order; empty if there are none.
std::vector<TermShape> token_terms(const Mixture& mixture);
// Returns arrays of these shapes.
TermArrays term_arrays(const Mixture& mixture, std::int64_t batch, std::int64_t tokens);
// Returns the number of earlier tokens on which the terms of a token depend (a convolution of
// width 4: 3).
std::int64_t term_history(const Mixture& mixture);

// Computes the terms of the last T tokens of x: [B, P + T, C], the input of the layer, with P
// tokens before them, at most term_history (fewer: as if zeros were before). `out`: the terms,
// which have the shapes of token_terms for T tokens. `tokens`: sequences of the P + T tokens,
// so that the terms of a token do not depend on other sequences; null: one sequence.
//
// compute_terms_backward adds to x_grad [B, P + T, C] and to grads, shaped as `values`. x_grad
// may have no data, and grads may be empty.
//
// Both throw std::invalid_argument if the mixture has no terms or a shape does not match.
void compute_terms(const Mixture& mixture, std::span<const View<const float, 2>> values,
                   View<const float, 3> x, const TokenTermOutputs& out,
                   const Positions* tokens = nullptr);
void compute_terms_backward(const Mixture& mixture,
                            std::span<const View<const float, 2>> values,
                            View<const float, 3> x, const TokenTerms& out_grad,
                            View<float, 3> x_grad, std::span<const View<float, 2>> grads,
                            const Positions* tokens = nullptr);

// Returns the rotary frequencies of Rotary, ScaledRotary, AxialRotary and MRope at a declared
// length, or nothing for other encodings. length 0: the length in the spec. `lower` computes
// its tables from them. (xPos has two sets of frequencies, V-JEPA 2 has none.)
std::optional<RotaryFrequencies> rotary_frequencies(const Encoding& encoding,
                                                    std::int64_t length = 0);
// Returns Softmax::factor of the plan at a declared length. Throws as scaled_frequencies.
double softmax_factor(const Encoding& encoding, std::int64_t length = 0);

// JSON of a spec: {"kind": "rotary", "rotary_dim": 64, "pairing": "halves", ...}; a scaling
// inside it: {"type": "yarn", "factor": 4.0, ...}. `encoding_from_json` throws
// std::invalid_argument if a key is unknown or a value has the wrong type.
std::string to_json(const Encoding& encoding);
std::string to_json(const RopeScaling& scaling);
Encoding encoding_from_json(std::string_view json);

}  // namespace gnomon::model
