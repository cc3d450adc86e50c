// Entry of Graphormer's bias. Text is read as a path graph, without a graph token and edge
// features.
#pragma once

#include <vector>

#include "gnomon/bias/graphormer.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<GraphToken> spellings<GraphToken>[] = {{GraphToken::none, "none"},
                                                                 {GraphToken::first, "first"}};
template <>
inline constexpr Spelling<GivenBias> spellings<GivenBias>[] = {{GivenBias::once, "once"},
                                                               {GivenBias::twice, "twice"}};

template <>
struct Entry<Graphormer> : EntryOf<Graphormer> {
  static constexpr EncodingInfo infos[] = {
      {"graphormer", "Graphormer bias", "", Place::scores, Sharing::all_layers,
       "a trained bias for each head and each distance in a graph; for text, |distance|",
       "score(h, i, j) += spatial[d(i, j) + 1, h] + 1/n sum over k < n, g of x_k[g] hops[k, g, "
       "h]",
       "Ying et al. 2021, arXiv:2106.05234", "bias/graphormer.md", "Graphormer",
       [](const Shape& s) -> Encoding {
         return Graphormer{
             .heads = s.heads, .token = GraphToken::none, .given = GivenBias::once};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::none, .shift = Effect::none, .linearity = Linearity::linear};
  static void fields(Graphormer& s, auto&& v) {
    v("heads", s.heads), v("unreachable", s.unreachable), v("edge_rows", s.edge_rows);
    v("hops", s.hops), v("token", s.token), v("given", s.given);
  }
  static std::vector<Parameter> parameters(const Graphormer& s) {
    return {{"spatial", s.unreachable + 2, s.heads, table_deviation, 0,
             "spatial_pos_encoder.weight"}};
  }
  static void lower(const Graphormer& s, const Call& call, Values values, LayerPlan& lowered) {
    const auto [min_distance, count] = call.distances();
    lowered.bias = gnomon::lower(s, values[0], min_distance, count);
  }
  static void backward(const Graphormer& s, const Call& call, Values, const LayerGradient& grad,
                       Gradients grads) {
    const auto [min_distance, count] = call.distances();
    gnomon::lower_backward(s, grad.bias.values, min_distance, count, grads[0]);
  }
};

}  // namespace gnomon::model
