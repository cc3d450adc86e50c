// Entry of the vectors of Shaw, BERT and wav2vec2-BERT.
#pragma once

#include <algorithm>
#include <cmath>

#include "gnomon/relative/shaw.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<ShawMeets> spellings<ShawMeets>[] = {
    {ShawMeets::queries, "queries"},
    {ShawMeets::queries_and_weights, "queries_and_weights"},
    {ShawMeets::queries_and_keys, "queries_and_keys"}};
template <>
inline constexpr Spelling<ShawOrder> spellings<ShawOrder>[] = {
    {ShawOrder::past_first, "past_first"}, {ShawOrder::future_first, "future_first"}};
template <>
inline constexpr Spelling<ShawOutside> spellings<ShawOutside>[] = {
    {ShawOutside::clipped, "clipped"}, {ShawOutside::refused, "refused"}};

template <>
struct Entry<Shaw> : EntryOf<Shaw> {
  static constexpr EncodingInfo infos[] = {
      {"shaw", "Shaw", "relative position representations", Place::keys_and_values,
       Sharing::each_layer,
       "a trained vector for each distance up to a limit, multiplied by queries and by "
       "attention weights",
       "score(i, j) = scale (q_i . k_j + q_i . K[row])\n"
       "out(i) = sum_j weight(i, j) (v_j + V[row]),\n"
       "row = clip(j - i, -left, right) + left",
       "Shaw et al. 2018, arXiv:1803.02155", "relative/shaw.md", "Tensor2Tensor",
       [](const Shape& s) -> Encoding {
         return Shaw{.head_dim = s.width / s.heads,
                     .value_dim = s.width / s.heads,
                     .left = 16,  // the paper: no gain beyond 16
                     .right = 16,
                     .meets = ShawMeets::queries_and_weights};
       }},
      {"relative-key", "BERT's relative_key", "", Place::keys_and_values, Sharing::each_layer,
       "a trained vector for each distance, multiplied by queries",
       "score(i, j) = scale (q_i . k_j + q_i . K[row])\n"
       "row = i - j + max - 1",
       "Huang et al. 2020, arXiv:2009.13658", "relative/shaw.md", "BERT (with relative_key)",
       [](const Shape& s) -> Encoding {
         return bert_relative_key(s.width / s.heads, s.length);
       }},
      {"relative-key-query", "BERT's relative_key_query", "", Place::keys_and_values,
       Sharing::each_layer,
       "a trained vector for each distance, multiplied by queries and by keys",
       "score(i, j) = scale (q_i . k_j + q_i . K[row] + k_j . K[row])\n"
       "row = i - j + max - 1",
       "Huang et al. 2020, arXiv:2009.13658", "relative/shaw.md",
       "BERT (with relative_key_query)",
       [](const Shape& s) -> Encoding {
         return bert_relative_key_query(s.width / s.heads, s.length);
       }},
      {"wav2vec2-bert", "wav2vec2-BERT's vectors", "", Place::keys_and_values,
       Sharing::each_layer,
       "a trained vector for each distance up to 64 back and 8 ahead, multiplied by queries",
       "score(i, j) = scale (q_i . k_j + q_i . K[row])\n"
       "row = clip(j - i, -64, 8) + 64",
       "Barrault et al. 2023, arXiv:2312.05187", "relative/shaw.md",
       "wav2vec2-BERT, Seamless M4T v2",
       [](const Shape& s) -> Encoding { return relative::wav2vec2_bert(s.width / s.heads); }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::none, .linearity = Linearity::linear};
  static void fields(Shaw& s, auto&& v) {
    v("heads", s.heads), v("head_dim", s.head_dim), v("value_dim", s.value_dim);
    v("left", s.left), v("right", s.right);
    v("meets", s.meets), v("order", s.order), v("outside", s.outside);
  }
  static void derived(const Shaw& s, auto&& v) { v("rows", vectors(s)); }
  // Glorot deviation of a head's table, as in Tensor2Tensor.
  static Parameter table(const char* name, const Shaw& s, std::int64_t size) {
    const double both = static_cast<double>(vectors(s) + size);
    return {name,
            gnomon::internal::checked_product("shaw", "heads x vectors", {s.heads, vectors(s)}),
            size, std::sqrt(2 / both)};
  }
  static std::int64_t head_dim(const Shaw& s) { return s.head_dim; }
  static std::vector<Parameter> parameters(const Shaw& s) {
    std::vector<Parameter> all{table("keys", s, s.head_dim)};
    all[0].path = "distance_embedding.weight";
    if (s.meets == ShawMeets::queries_and_weights)
      all.push_back(table("values", s, s.value_dim));
    return all;
  }
  static constexpr CheckpointName tensors[] = {
      {"keys",
       "layer.{}.attention.self.distance_embedding.weight|"
       "layers.{}.self_attn.distance_embedding.weight|"
       "wrapped_encoder.embed_positions.pe_k.weight"}};
  static std::optional<std::int64_t> capacity(const Shaw& s) {
    if (s.outside == ShawOutside::clipped) return std::nullopt;
    return std::min(s.left, s.right) + 1;
  }
  static void lower(const Shaw& s, const Call& call, Values values, LayerPlan& lowered) {
    const auto [min_distance, count] = call.distances();
    lowered.relative =
        gnomon::lower(s, {values[0], values.size() > 1 ? values[1] : View<const float, 2>()},
                      min_distance, count);
  }
  static void backward(const Shaw& s, const Call&, Values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, grad.relative,
                           {grads[0], grads.size() > 1 ? grads[1] : View<float, 2>()});
  }
};

}  // namespace gnomon::model
