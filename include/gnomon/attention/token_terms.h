// Inputs of attention that depend on the tokens, beside q, k and v: gates, queries of relative
// vectors, angles. An encoding computes them from the input of the layer
// (model::token_terms), or the model computes them itself.
//
// Letters: B batch, T query tokens, S key tokens, Hq query heads, Hk key heads, D head
// dimension, R rotated elements, K elements of a vector.
#pragma once

#include <cstddef>
#include <string_view>

#include "gnomon/tensor.h"

namespace gnomon {

// One tensor for each term, float, any strides; without data if the plan does not use the term.
template <typename TensorType>
struct TokenTermsOf {
  // A factor on the bias of each query (WavLM). [B or 1, Hq, T]
  TensorType gates = {};
  // Logarithms of forget gates, of all keys (FoX, CABLE). [B, Hq, S]
  TensorType log_gates = {};
  // Logarithms of forget gates of each channel, of all keys (Wall). [B, S, Hq, D]
  TensorType channel_gates = {};
  // Vectors whose products with a table by distance are added to the scores (Inkling).
  // [B, T, Hq, K]
  TensorType relative_queries = {};
  // The sink of each query, in place of one for each head (Inkling 2). [B, Hq, T]
  TensorType sinks = {};
  // Directions and strengths of Householder factors, of all keys (PaTH). [B, S, Hk, D] and
  // [B, Hk, S]
  TensorType householder = {};
  TensorType betas = {};
  // Angles, in radians, by which attention rotates queries and keys, of all keys; or, of new
  // tokens, by which `prepare` rotates them before they are appended to a cache (Selective
  // RoPE). Ha divides Hq and Hk. Also double. [B or 1, S, Ha, R/2]
  TensorType angles = {};
};
using TokenTerms = TokenTermsOf<ConstTensor>;
using TokenTermGradients = TokenTermsOf<Tensor>;

// A term by name, for code that handles all of them alike.
template <typename TensorType>
struct NamedTerm {
  std::string_view name;
  TensorType TokenTermsOf<TensorType>::* member;
};
template <typename TensorType>
inline constexpr NamedTerm<TensorType> named_terms[] = {
    {"gates", &TokenTermsOf<TensorType>::gates},
    {"log_gates", &TokenTermsOf<TensorType>::log_gates},
    {"channel_gates", &TokenTermsOf<TensorType>::channel_gates},
    {"relative_queries", &TokenTermsOf<TensorType>::relative_queries},
    {"sinks", &TokenTermsOf<TensorType>::sinks},
    {"householder", &TokenTermsOf<TensorType>::householder},
    {"betas", &TokenTermsOf<TensorType>::betas},
    {"angles", &TokenTermsOf<TensorType>::angles}};
inline constexpr std::size_t token_term_count = 8;

}  // namespace gnomon
