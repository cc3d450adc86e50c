// Context extension of a rotary encoding: how released models reach past the length they were
// trained on. A scaling is a plain value; applying it is a function from a rotary encoding and
// a declared length to frequencies, a scale of cos and sin and a factor of the softmax scale.
// The two are never multiplied into one another, nor with a query's scale by position
// (temperature.h).
//
//   Chen et al. 2023, arXiv:2306.15595 (linear); bloc97 2023 and Peng et al. 2023,
//   arXiv:2309.00071 (NTK-aware, dynamic NTK, YaRN); Ding et al. 2024, arXiv:2402.13753
//   (LongRoPE); Llama 3.1's and Gemma 4's released code (Llama3Scaling, Proportional).
//
// Letters: R rotated elements, i the pair, b the base, f_i = b^(-2i/R), L the declared length.
// A factor of 1 (or factors of 1) is plain rotary in every one of them, to the last bit.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "gnomon/rotary/rotary.h"

namespace gnomon {

struct NoScaling {
  bool operator==(const NoScaling&) const = default;
};

// Position interpolation: f_i / factor. `rope_scaling` type "linear".
struct LinearScaling {
  double factor = 0;  // positive
  bool operator==(const LinearScaling&) const = default;
};

// The base becomes b factor^(R/(R-2)): the fastest pair stays, the slowest slows by `factor`.
struct NtkScaling {
  double factor = 0;  // positive
  bool operator==(const NtkScaling&) const = default;
};

// NTK-aware with a factor that follows the length: 1 up to `trained_length`, then
// factor L / trained_length - (factor - 1). "dynamic", as Hugging Face has it.
struct DynamicNtkScaling {
  double factor = 0;                // at least 1
  std::int64_t trained_length = 0;  // `max_position_embeddings`
  bool operator==(const DynamicNtkScaling&) const = default;
};

enum class YarnRamp {
  whole_pairs = 1,  // the ramp's ends rounded outwards to whole pairs: `truncate` true
  fractional,       // not rounded: `truncate` false (gpt-oss)
};

// Fast pairs stay, slow ones are interpolated, with a ramp between the pairs that turn
// `beta_fast` and `beta_slow` times within the original length.
struct YarnScaling {
  double factor = 0;                 // positive
  std::int64_t original_length = 0;  // `original_max_position_embeddings`
  double beta_fast = 32, beta_slow = 1;
  YarnRamp ramp = YarnRamp::whole_pairs;
  // On cos and sin: this where given, else m(mscale) / m(mscale_all_dim) where both are not
  // 0, else m(1), with m(s) = 1 + 0.1 s ln(factor) (1 for factors up to 1).
  std::optional<double> attention_factor = {};
  double mscale = 0, mscale_all_dim = 0;
  // The softmax is scaled by m(softmax_mscale)^2: DeepSeek's attention passes its
  // mscale_all_dim here, others nothing.
  double softmax_mscale = 0;
  bool operator==(const YarnScaling&) const = default;
};

// f_i / long_factors[i] where the declared length exceeds the original one, else
// f_i / short_factors[i]. Phi-3, MiniCPM.
struct LongRopeScaling {
  std::vector<double> short_factors, long_factors;  // [R/2], positive
  std::int64_t original_length = 0;
  // Context by original context: cos and sin are scaled by sqrt(1 + ln(factor) / ln(original
  // length)) where it exceeds 1; or by what is given, apart for each of the two lists where
  // both are given (Phi-3.5-MoE's short_mscale and long_mscale).
  double factor = 1;
  std::optional<double> attention_factor = {}, long_attention_factor = {};
  bool operator==(const LongRopeScaling&) const = default;
};

// Wavelengths below original_length / high_freq_factor stay, those above
// original_length / low_freq_factor are slowed by `factor`, between them a ramp, linear in the
// frequency. Where the second is not less than the first (Llama 4 Scout) there is no ramp.
struct Llama3Scaling {
  double factor = 0;                                 // positive
  double low_freq_factor = 0, high_freq_factor = 0;  // positive
  std::int64_t original_length = 0;
  bool operator==(const Llama3Scaling&) const = default;
};

// Only the first `turning` pairs turn, all by f_i / factor; the others have frequency 0. Unlike
// partial rotary, R is the whole head: their partners lie half a head away. Gemma 4.
struct ProportionalScaling {
  std::int64_t turning = 0;  // 0 to R/2
  double factor = 1;         // positive
  bool operator==(const ProportionalScaling&) const = default;
};

// f_i / factors[i], as GGUF files carry them (`rope_freqs.weight`).
struct FrequencyFactors {
  std::vector<double> factors;  // [R/2], positive
  bool operator==(const FrequencyFactors&) const = default;
};

using RopeScaling =
    std::variant<NoScaling, LinearScaling, NtkScaling, DynamicNtkScaling, YarnScaling,
                 LongRopeScaling, Llama3Scaling, ProportionalScaling, FrequencyFactors>;

// "none", "linear", "ntk", "dynamic", "yarn", "longrope", "llama3", "proportional", "factors":
// `rope_type` where Hugging Face has one.
std::string_view name(const RopeScaling& scaling) noexcept;

// What an encoding is at one length.
struct ScaledFrequencies {
  std::vector<double> inv_freq;  // [R/2], radians per position
  double table_scale = 1;        // on cos and sin, so q.k has its square
  double softmax_scale = 1;      // times the attention's own scale
  bool operator==(const ScaledFrequencies&) const = default;
};

// Frequencies within one ulp of the formula. `length`: the context that is declared, at least
// 1; of it alone the length-dependent ones (dynamic NTK, LongRoPE) are a function. O(R).
//
// Throws std::invalid_argument naming the field that breaks the bound beside it, or when the
// factors are not R/2.
ScaledFrequencies scaled_frequencies(const Rotary& rotary, const RopeScaling& scaling,
                                     std::int64_t length);

// The same as what a RotaryTable is made from: its frequencies and table_scale.
RotarySchedule schedule(const Rotary& rotary, const RopeScaling& scaling, std::int64_t length);

// A rotary encoding as a model has it: with its scaling, at a declared length, and where the
// model reads positions on several axes (M-RoPE) the axis of each pair. A plain value.
struct ScaledRotary {
  Rotary rotary;
  RopeScaling scaling = NoScaling{};
  std::int64_t length = 0;              // declared; at least 1
  std::vector<std::int32_t> axes = {};  // as in RotarySchedule
  // Inverse: the model rotates by minus the angle (nanochat).
  Direction direction = Direction::forward;
  bool operator==(const ScaledRotary&) const = default;
};
RotarySchedule schedule(const ScaledRotary& scaled);
// The same at another declared length.
RotarySchedule schedule(const ScaledRotary& scaled, std::int64_t length);

// The first length at which another schedule holds than at 1, if there is one: a cache that
// grows to it must be re-rotated (LongRoPE: once; dynamic NTK: from then on at every length).
std::optional<std::int64_t> first_change(const RopeScaling& scaling) noexcept;

}  // namespace gnomon
