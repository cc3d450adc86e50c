// DeBERTa among the encodings.
#pragma once

#include <algorithm>
#include <cmath>

#include "gnomon/relative/deberta.h"
#include "src/model/entry.h"

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
      {"deberta", "DeBERTa", Place::keys_and_values, Sharing::each_layer,
       "trained embeddings of distances, projected: queries meet one, keys the other",
       "He et al. 2020, arXiv:2006.03654", "relative/deberta.md",
       [](const Shape& s) -> Encoding {
         return Deberta{.heads = s.heads,
                        .size = s.width / s.heads,
                        .channels = s.width,
                        .span = s.length,
                        .distance = DebertaDistance::raw};
       }},
      {"deberta-v3", "DeBERTa v2 and v3", Place::keys_and_values, Sharing::each_layer,
       "as DeBERTa, with logarithmic buckets of distances and normed embeddings",
       "He et al. 2020, arXiv:2006.03654", "relative/deberta.md",
       [](const Shape& s) -> Encoding {  // released: 256 buckets for 512 positions
         const std::int64_t span = std::max<std::int64_t>(s.length / 4 * 2, 4);
         return Deberta{.heads = s.heads,
                        .size = s.width / s.heads,
                        .channels = s.width,
                        .span = span,
                        .distance = DebertaDistance::logarithmic,
                        .max_distance = 2 * span,
                        .norm_epsilon = 1e-7};
       }}};
  static void fields(Deberta& s, auto&& v) {
    v("heads", s.heads), v("size", s.size), v("channels", s.channels), v("span", s.span);
    v("distance", s.distance), v("max_distance", s.max_distance), v("terms", s.terms);
    v("norm_epsilon", s.norm_epsilon);
  }
  // A bias of the keys' projection would be the same number for all keys of a query, which
  // softmax does not see; so there is none. The deviation is that of PyTorch's linear layers.
  static std::vector<Parameter> parameters(const Deberta& s) {
    const double linear = 1 / std::sqrt(3 * static_cast<double>(s.channels));
    const std::int64_t wide = s.heads * s.size;
    std::vector<Parameter> all{{"embeddings", 2 * s.span, s.channels, table_deviation}};
    if (s.terms != DebertaTerms::position_to_content)
      all.push_back({"key", wide, s.channels, linear});
    if (s.terms != DebertaTerms::content_to_position) {
      all.push_back({"query", wide, s.channels, linear});
      all.push_back({"query_bias", 1, wide, 0});
    }
    if (s.norm_epsilon) {
      all.push_back({"norm_weight", 1, s.channels, 0, 1});
      all.push_back({"norm_bias", 1, s.channels, 0});
    }
    return all;
  }
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
    return gnomon::softmax_scale(s) * std::sqrt(static_cast<double>(s.size));
  }
  static std::int64_t head_dim(const Deberta& s) { return s.size; }
  static void lower(const Deberta& s, const Call& call, Values values, LayerPlan& lowered) {
    const auto [first, count] = call.distances();
    lowered.relative = gnomon::lower(s, named(s, values), first, count);
  }
  static void backward(const Deberta& s, const Call& call, Values values,
                       const LayerGradient& grad, Gradients grads) {
    const auto [first, count] = call.distances();
    gnomon::lower_backward(s, named(s, values), first, count, grad.relative, named(s, grads));
  }
};

}  // namespace gnomon::model
