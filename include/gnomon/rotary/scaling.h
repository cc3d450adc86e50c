// Context extension of a rotary encoding: the scalings that released models use for contexts
// beyond their training length. A scaling is a plain value. A rotary encoding, a scaling and a
// declared length give frequencies, a scale of cos and sin, and a factor on the softmax scale.
// These two scales are kept separate, also from the query scale by position (temperature.h).
//
//   Chen et al. 2023, arXiv:2306.15595 (linear); bloc97 2023 and Peng et al. 2023,
//   arXiv:2309.00071 (NTK-aware, dynamic NTK, YaRN); Ding et al. 2024, arXiv:2402.13753
//   (LongRoPE); Llama 3.1's and Gemma 4's released code (Llama3Scaling, Proportional); Li et
//   al. 2026, arXiv:2602.05258 (ClippedScaling).
//
// Letters: R rotary dimension, i the pair, b the base, f_i = b^(-2i/R), L the declared length.
// Every scaling with factor 1 (or factors 1) is bit-identical to plain rotary.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "gnomon/rotary/rotary.h"

namespace gnomon {

// Plain rotary: f_i.
struct NoScaling {
  bool operator==(const NoScaling&) const = default;
};

// Position interpolation: f_i / factor. `rope_scaling` type "linear".
struct LinearScaling {
  double factor = 0;  // positive
  bool operator==(const LinearScaling&) const = default;
};

// NTK-aware: the base becomes b factor^(R/(R-2)). The highest frequency is unchanged and the
// lowest is divided by `factor`.
struct NtkScaling {
  double factor = 0;  // positive
  bool operator==(const NtkScaling&) const = default;
};

// Dynamic NTK: NTK-aware with a factor that depends on the declared length L. It is 1 for L up
// to `trained_length` and factor L / trained_length - (factor - 1) beyond. Hugging Face's type
// "dynamic".
struct DynamicNtkScaling {
  double factor = 0;                // at least 1
  std::int64_t trained_length = 0;  // `max_position_embeddings`
  bool operator==(const DynamicNtkScaling&) const = default;
};

// Rounding of the ends of YaRN's ramp. `truncate` in Hugging Face configs.
enum class YarnRamp {
  whole_pairs = 1,  // rounded outwards to whole pairs: `truncate` true
  fractional,       // not rounded: `truncate` false (gpt-oss)
};

// YaRN. High frequencies are unchanged and low frequencies are divided by `factor`. A ramp over
// the pairs connects the two, from the pair with `beta_fast` full rotations within the original
// length to the pair with `beta_slow`.
struct YarnScaling {
  double factor = 0;                     // positive
  std::int64_t original_length = 0;      // `original_max_position_embeddings`; at least 1
  double beta_fast = 32, beta_slow = 1;  // full rotations; positive
  YarnRamp ramp = YarnRamp::whole_pairs;
  // Scale of cos and sin: `attention_factor` if given; otherwise m(mscale) / m(mscale_all_dim)
  // if both are nonzero; otherwise m(1). m(s) = 1 + 0.1 s ln(factor), and 1 if factor <= 1.
  std::optional<double> attention_factor = {};
  double mscale = 0, mscale_all_dim = 0;
  // The softmax scale is multiplied by m(softmax_mscale)^2. DeepSeek's attention uses its
  // mscale_all_dim here; other models use 0.
  double softmax_mscale = 0;
  bool operator==(const YarnScaling&) const = default;
};

// LongRoPE: f_i / long_factors[i] if L > original_length, otherwise f_i / short_factors[i].
// Phi-3, MiniCPM.
struct LongRopeScaling {
  std::vector<double> short_factors, long_factors;  // [R/2], positive
  std::int64_t original_length = 0;                 // at least 2
  // `factor` is the context length divided by the original length; positive. Scale of cos and
  // sin: `attention_factor` if given; otherwise sqrt(1 + ln(factor) / ln(original_length)) if
  // factor > 1; otherwise 1. `long_attention_factor`, if given, replaces it for the long
  // factors (Phi-3.5-MoE: short_mscale and long_mscale).
  double factor = 1;
  std::optional<double> attention_factor = {}, long_attention_factor = {};
  bool operator==(const LongRopeScaling&) const = default;
};

// Llama 3.1. Frequencies with a wavelength below original_length / high_freq_factor are
// unchanged. Frequencies with a wavelength above original_length / low_freq_factor are divided
// by `factor`. In between there is a ramp, linear in the frequency. There is no ramp if
// low_freq_factor >= high_freq_factor (Llama 4 Scout).
struct Llama3Scaling {
  double factor = 0;                                 // positive
  double low_freq_factor = 0, high_freq_factor = 0;  // positive
  std::int64_t original_length = 0;                  // positions; at least 1
  bool operator==(const Llama3Scaling&) const = default;
};

// Proportional: the first `rotated_pairs` pairs have frequency f_i / factor, all other pairs
// have frequency 0. Unlike partial rotary, R is the whole head, so the two elements of a pair
// (halves) are half a head apart. Gemma 4.
struct ProportionalScaling {
  std::int64_t rotated_pairs = 0;  // pairs that rotate, 0 to R/2
  double factor = 1;               // positive
  bool operator==(const ProportionalScaling&) const = default;
};

// Frequency factors: f_i / factors[i]. GGUF files store them as `rope_freqs.weight`.
struct FrequencyFactors {
  std::vector<double> factors;  // [R/2], positive
  bool operator==(const FrequencyFactors&) const = default;
};

// Clipped: the n slowest pairs, i = R/2 - n + m with m = 0 to n - 1, have frequency
// f_i (1 + cos(pi m / (n - 1))) / 2: unchanged at m = 0, and 0 for the slowest pair. If n = 1,
// nothing changes. Scales are 1. The paper calls it CoPE; relative/cope.h is another encoding.
struct ClippedScaling {
  // Pairs with a period 2 pi / f_i greater than this length are clipped. At least 1.
  std::int64_t original_length = 0;
  // n, 0 to R/2, in place of that rule. The released code uses 20 of 64 for Llama 3.
  std::optional<std::int64_t> clipped_pairs = {};
  bool operator==(const ClippedScaling&) const = default;
};

using RopeScaling = std::variant<NoScaling, LinearScaling, NtkScaling, DynamicNtkScaling,
                                 YarnScaling, LongRopeScaling, Llama3Scaling,
                                 ProportionalScaling, FrequencyFactors, ClippedScaling>;

// Returns the name of a scaling: "none", "linear", "ntk", "dynamic", "yarn", "longrope",
// "llama3", "proportional", "factors" or "clipped". Equal to Hugging Face's `rope_type` if it
// has one.
std::string_view name(const RopeScaling& scaling) noexcept;

// Scaled encoding at one declared length.
struct ScaledFrequencies {
  std::vector<double> inv_freq;  // [R/2], radians per position
  double table_scale = 1;        // factor on cos and sin; a score q.k has its square
  double softmax_scale = 1;      // factor on the softmax scale of attention
  bool operator==(const ScaledFrequencies&) const = default;
};

// Returns the scaled frequencies and scales. `length`: the declared context length, in
// positions, at least 1. Dynamic NTK and LongRoPE depend on the length only through this
// argument. Error bound: each frequency is within one ulp of the formula. Cost: O(R).
//
// Throws std::invalid_argument if a field violates the bound stated next to it (the message
// names the field), or a list of factors does not have R/2 elements.
ScaledFrequencies scaled_frequencies(const Rotary& rotary, const RopeScaling& scaling,
                                     std::int64_t length);

// Lowers the scaled encoding to rotary frequencies, with its frequencies and table_scale
// (without softmax_scale). Throws as scaled_frequencies.
RotaryFrequencies lower(const Rotary& rotary, const RopeScaling& scaling, std::int64_t length);

// Rotary encoding of a model: with its scaling, a declared length and, for a model with several
// position axes (M-RoPE), the axis of each pair. A plain value.
struct ScaledRotary {
  Rotary rotary;
  RopeScaling scaling = NoScaling{};
  std::int64_t length = 0;              // declared context length; at least 1
  std::vector<std::int32_t> axes = {};  // as in RotaryFrequencies
  // Inverse: the model rotates by the negative angle (nanochat).
  Direction direction = Direction::forward;
  bool operator==(const ScaledRotary&) const = default;
};
// Lowers the encoding to rotary frequencies at `scaled.length`. Throws as scaled_frequencies.
RotaryFrequencies lower(const ScaledRotary& scaled);
// Lowers the encoding to rotary frequencies at another declared length.
RotaryFrequencies lower(const ScaledRotary& scaled, std::int64_t length);

// Returns the smallest length whose frequencies differ from those at length 1, if there is
// one. Keys in a cache that grows to this length must be re-rotated (LongRoPE: once; dynamic
// NTK: at every length from there on).
std::optional<std::int64_t> first_change(const RopeScaling& scaling) noexcept;

}  // namespace gnomon
