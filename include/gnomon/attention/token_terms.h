// Inputs of attention that depend on the tokens, beside q, k and v: gates, queries of relative
// vectors, angles. An encoding computes them from the input of the layer
// (model::token_terms), or the model computes them itself.
//
// Letters: B batch, T query tokens, S key tokens, Hq query heads, Hk key heads, D head
// dimension, R rotated elements, K elements of a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "gnomon/tensor.h"

namespace gnomon {

// One tensor for each term, float, any strides; without data if the plan does not use the term.
template <typename TensorType>
struct TokenTermsOf {
  // A factor on the bias of each query (WavLM). [B or 1, Hq, T]
  TensorType gates = {};
  // Logarithms of forget gates, of all keys (FoX, CABLE). [B, Hq, S]
  TensorType log_gates = {};
  // Slopes of the bias by distance, of all keys: score -= slope |distance| (GRAPE-A).
  // [B, Hq, S]
  TensorType key_slopes = {};
  // Logarithms of forget gates of each channel, of all keys (Wall). [B, S, Hq, D]
  TensorType channel_gates = {};
  // Vectors of the edges between keys and queries (GRAPE-AP: EdgeBias). [B, T, Hq, P] and
  // [B, S, Hq, P]
  TensorType edge_queries = {};
  TensorType edge_keys = {};
  // Vectors whose products with a table by distance are added to the scores (Inkling).
  // [B, T, Hq, K]
  TensorType relative_queries = {};
  // The sink of each query, in place of one for each head (Inkling 2). [B, Hq, T]
  TensorType sinks = {};
  // Directions and strengths of Householder factors, of all keys (PaTH). [B, S, Hk, D] and
  // [B, Hk, S]
  TensorType householder = {};
  TensorType betas = {};
  // Angles, in radians, by which attention rotates queries and keys, or their increments
  // (TokenRotation::term), of all keys. For `prepare`: the angles of its tokens. Ha divides Hq
  // and Hk. Also double. [B or 1, S, Ha, R/2]
  TensorType angles = {};
};
using TokenTerms = TokenTermsOf<ConstTensor>;
using TokenTermGradients = TokenTermsOf<Tensor>;
using TokenTermOutputs = TokenTermsOf<Tensor>;

// The tokens of a term: the queries, or all keys, those in a cache included.
enum class TermTokens { queries = 1, keys };

// A term by name, for code that handles all of them alike.
template <typename TensorType>
struct NamedTerm {
  std::string_view name;
  TensorType TokenTermsOf<TensorType>::* member;
  TermTokens tokens;
  int rank;  // 3: [B, H, T]; 4: [B, T, H, K]
};
template <typename TensorType>
inline constexpr NamedTerm<TensorType> named_terms[] = {
    {"gates", &TokenTermsOf<TensorType>::gates, TermTokens::queries, 3},
    {"log_gates", &TokenTermsOf<TensorType>::log_gates, TermTokens::keys, 3},
    {"key_slopes", &TokenTermsOf<TensorType>::key_slopes, TermTokens::keys, 3},
    {"channel_gates", &TokenTermsOf<TensorType>::channel_gates, TermTokens::keys, 4},
    {"edge_queries", &TokenTermsOf<TensorType>::edge_queries, TermTokens::queries, 4},
    {"edge_keys", &TokenTermsOf<TensorType>::edge_keys, TermTokens::keys, 4},
    {"relative_queries", &TokenTermsOf<TensorType>::relative_queries, TermTokens::queries, 4},
    {"sinks", &TokenTermsOf<TensorType>::sinks, TermTokens::queries, 3},
    {"householder", &TokenTermsOf<TensorType>::householder, TermTokens::keys, 4},
    {"betas", &TokenTermsOf<TensorType>::betas, TermTokens::keys, 3},
    {"angles", &TokenTermsOf<TensorType>::angles, TermTokens::keys, 4}};

inline constexpr std::size_t token_term_count = std::size(named_terms<ConstTensor>);

// Terms that own their memory: contiguous arrays, initially zero. model::term_arrays makes
// those of an encoding.
class TermArrays {
 public:
  struct Array {
    std::string_view name;  // as in named_terms
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  std::vector<Array> arrays;

  void add(std::string_view name, std::vector<std::int64_t> shape) {
    std::size_t size = 1;
    for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
    arrays.push_back({name, std::move(shape), std::vector<float>(size)});
  }
  // Returns tensors that borrow the arrays, valid until `add`.
  template <typename TensorType>
  TokenTermsOf<TensorType> terms() {
    TokenTermsOf<TensorType> all;
    for (Array& array : arrays)
      for (const NamedTerm<TensorType>& one : named_terms<TensorType>) {
        if (one.name != array.name) continue;
        TensorType& tensor = all.*one.member;
        tensor.data = array.values.data(), tensor.dtype = data_type_of<float>;
        tensor.rank = static_cast<std::int32_t>(array.shape.size());
        tensor.shape = array.shape.data();
      }
    return all;
  }
};

}  // namespace gnomon
