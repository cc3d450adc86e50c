// Entry of DeBERTa.
#pragma once

#include <algorithm>
#include <cmath>

#include "gnomon/relative/deberta.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<DebertaDistance> spellings<DebertaDistance>[] = {
    {DebertaDistance::raw, "raw"}, {DebertaDistance::logarithmic, "logarithmic"}};
template <>
inline constexpr Spelling<DebertaTerms> spellings<DebertaTerms>[] = {
    {DebertaTerms::content_to_position, "content_to_position"},
    {DebertaTerms::position_to_content, "position_to_content"},
    {DebertaTerms::both, "both"}};

template <>
struct Entry<Deberta> : EntryOf<Deberta> {
  static constexpr EncodingInfo infos[] = {
      {"deberta", "DeBERTa", "DeBERTa v1, disentangled attention", Place::keys_and_values,
       Sharing::each_layer,
       "trained embeddings of distances, projected and multiplied by queries and by keys",
       "score[h, i, j] = scale ( q_i . k_j + q_i . K_h[row] + k_j . Q_h[row] ),\n"
       "K = W_k x,  Q = W_q x\n"
       "row = clip(f(i - j) + span, 0, 2 span - 1)",
       "He et al. 2020, arXiv:2006.03654", "relative/deberta.md", "DeBERTa",
       [](const Shape& s) -> Encoding {
         return Deberta{.heads = s.heads,
                        .head_dim = s.width / s.heads,
                        .width = s.width,
                        .span = s.length,
                        .distance = DebertaDistance::raw};
       }},
      {"deberta-v3", "DeBERTa v2 and v3", "DeBERTa v2", Place::keys_and_values,
       Sharing::each_layer,
       "DeBERTa with logarithmic buckets of distances and normalised embeddings",
       "score[h, i, j] = scale ( q_i . k_j + q_i . K_h[row] + k_j . Q_h[row] ),\n"
       "K = W_k x,  Q = W_q x\n"
       "row = clip(f(i - j) + span, 0, 2 span - 1)\n"
       "f(r) = sign(r) ( ceil( ln(|r| / mid) / ln((m - 1) / mid) * (mid - 1) ) + mid )",
       "He et al. 2020, arXiv:2006.03654", "relative/deberta.md",
       "DeBERTa (v2 and v3), mDeBERTa",
       [](const Shape& s) -> Encoding {  // released models: 256 buckets for 512 positions
         const std::int64_t span = std::max<std::int64_t>(s.length / 4 * 2, 4);
         return Deberta{.heads = s.heads,
                        .head_dim = s.width / s.heads,
                        .width = s.width,
                        .span = span,
                        .distance = DebertaDistance::logarithmic,
                        .max_distance = 2 * span,
                        .norm_epsilon = 1e-7};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::none, .linearity = Linearity::nonlinear};
  static void fields(Deberta& s, auto&& v) {
    v("heads", s.heads), v("head_dim", s.head_dim), v("width", s.width), v("span", s.span);
    v("distance", s.distance), v("max_distance", s.max_distance), v("terms", s.terms);
    v("norm_epsilon", s.norm_epsilon);
  }
  // The key projection has no bias: it would add the same value to all scores of a query, and
  // softmax ignores it. Deviations are those of PyTorch's linear layers.
  static std::vector<Parameter> parameters(const Deberta& s) {
    const double linear = 1 / std::sqrt(3 * static_cast<double>(s.width));
    const std::int64_t wide =
        gnomon::internal::checked_product("deberta", "heads x head_dim", {s.heads, s.head_dim});
    std::vector<Parameter> all{
        {"embeddings", gnomon::internal::checked_product("deberta", "2 x span", {2, s.span}),
         s.width, table_deviation, 0, "rel_embeddings.weight"}};
    if (s.terms != DebertaTerms::position_to_content)
      all.push_back({"key", wide, s.width, linear, 0, "pos_proj.weight"});
    if (s.terms != DebertaTerms::content_to_position) {
      all.push_back({"query", wide, s.width, linear, 0, "pos_q_proj.weight"});
      all.push_back({"query_bias", 1, wide, 0, 0, "pos_q_proj.bias", {wide}});
    }
    if (s.norm_epsilon) {
      all.push_back({"norm_weight", 1, s.width, 0, 1, "LayerNorm.weight", {s.width}});
      all.push_back({"norm_bias", 1, s.width, 0, 0, "LayerNorm.bias", {s.width}});
    }
    return all;
  }
  static constexpr CheckpointName tensors[] = {
      {"embeddings", "encoder.rel_embeddings.weight"},
      {"key",
       "layer.{}.attention.self.pos_key_proj.weight|layer.{}.attention.self.pos_proj.weight|"
       "layer.{}.attention.self.key_proj.weight"},
      {"query",
       "layer.{}.attention.self.pos_query_proj.weight|"
       "layer.{}.attention.self.pos_q_proj.weight|layer.{}.attention.self.query_proj.weight"},
      {"query_bias",
       "layer.{}.attention.self.pos_query_proj.bias|layer.{}.attention.self.pos_q_proj.bias|"
       "layer.{}.attention.self.query_proj.bias"},
      {"norm_weight", "encoder.LayerNorm.weight"},
      {"norm_bias", "encoder.LayerNorm.bias"}};
  template <typename T>
  static auto named(const Deberta& s, std::span<const View<T, 2>> all) {
    std::conditional_t<std::is_const_v<T>, DebertaWeights, DebertaGradients> weights{};
    auto next = all.begin();
    weights.embeddings = *next++;
    if (s.terms != DebertaTerms::position_to_content) weights.key = *next++;
    if (s.terms != DebertaTerms::content_to_position)
      weights.query = *next++, weights.query_bias = *next++;
    if (s.norm_epsilon) weights.norm_weight = *next++, weights.norm_bias = *next++;
    return weights;
  }
  static double softmax_factor(const Deberta& s, std::int64_t) {
    return gnomon::softmax_scale(s) * std::sqrt(static_cast<double>(s.head_dim));
  }
  static std::int64_t head_dim(const Deberta& s) { return s.head_dim; }
  static void lower(const Deberta& s, const Call& call, Values values, LayerPlan& lowered) {
    const auto [min_distance, count] = call.distances();
    lowered.relative = gnomon::lower(s, named(s, values), min_distance, count);
  }
  static void backward(const Deberta& s, const Call& call, Values values,
                       const LayerGradient& grad, Gradients grads) {
    const auto [min_distance, count] = call.distances();
    gnomon::lower_backward(s, named(s, values), min_distance, count, grad.relative,
                           named(s, grads));
  }
};

}  // namespace gnomon::model
