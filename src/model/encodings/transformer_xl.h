// Entry of Transformer-XL and Conformer.
#pragma once

#include <cmath>

#include "gnomon/relative/transformer_xl.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<XlSinusoid> spellings<XlSinusoid>[] = {
    {XlSinusoid::half_split, "half_split"}, {XlSinusoid::interleaved, "interleaved"}};

template <>
struct Entry<TransformerXl> : EntryOf<TransformerXl> {
  static constexpr Place places = Place::scores | Place::keys_and_values;
  static TransformerXl usual(const Shape& s, XlSinusoid sinusoid) {
    return {.heads = s.heads,
            .head_dim = s.width / s.heads,
            .width = s.width + s.width % 2,
            .sinusoid = sinusoid};
  }
  static constexpr EncodingInfo infos[] = {
      {"transformer-xl", "Transformer-XL", "TXL", places, Sharing::each_layer,
       "a projected sinusoid of the distance, multiplied by queries, and two trained vectors "
       "added to the queries",
       "score[h, i, j] = scale ( (q_i + u_h) . k_j + (q_i + v_h) . W_h r(i - j) )",
       "Dai et al. 2019, arXiv:1901.02860", "relative/transformer_xl.md",
       "Transformer-XL, XLNet",
       [](const Shape& s) -> Encoding { return usual(s, XlSinusoid::half_split); }},
      {"conformer", "Conformer", "", places, Sharing::each_layer,
       "Transformer-XL with interleaved sines and cosines",
       "score[h, i, j] = scale ( (q_i + u_h) . k_j + (q_i + v_h) . W_h r(i - j) )",
       "Gulati et al. 2020, arXiv:2005.08100", "relative/transformer_xl.md",
       "wav2vec2-conformer, Parakeet, FastSpeech 2",
       [](const Shape& s) -> Encoding { return usual(s, XlSinusoid::interleaved); }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::none, .linearity = Linearity::nonlinear};
  static void fields(TransformerXl& s, auto&& v) {
    v("heads", s.heads), v("head_dim", s.head_dim), v("width", s.width);
    v("sinusoid", s.sinusoid), v("clamp", s.clamp), v("base", s.base);
  }
  // Deviation of PyTorch's linear layers, uniform up to 1 / sqrt(inputs).
  static std::vector<Parameter> parameters(const TransformerXl& s) {
    const double linear = 1 / std::sqrt(3 * static_cast<double>(s.width));
    const bool conformer = s.sinusoid == XlSinusoid::interleaved;
    return {
        {"w",
         gnomon::internal::checked_product("transformer_xl", "heads x head_dim",
                                           {s.heads, s.head_dim}),
         s.width, linear, 0, conformer ? "linear_pos.weight" : "r_net.weight"},
        {"u", s.heads, s.head_dim, table_deviation, 0, conformer ? "pos_bias_u" : "r_w_bias"},
        {"v", s.heads, s.head_dim, table_deviation, 0, conformer ? "pos_bias_v" : "r_r_bias"}};
  }
  static constexpr CheckpointName tensors[] = {
      {"w", "layers.{}.self_attn.linear_pos.weight|layers.{}.dec_attn.r_net.weight"},
      {"w", "layer.{}.rel_attn.r", TensorLayout::flattened},
      {"u",
       "layers.{}.self_attn.pos_bias_u|layer.{}.rel_attn.r_w_bias|layers.{}.dec_attn.r_w_bias"},
      {"v",
       "layers.{}.self_attn.pos_bias_v|layer.{}.rel_attn.r_r_bias|layers.{}.dec_attn.r_r_"
       "bias"}};
  static std::int64_t head_dim(const TransformerXl& s) { return s.head_dim; }
  static void lower(const TransformerXl& s, const Call& call, Values values,
                    LayerPlan& lowered) {
    const auto [min_distance, count] = call.distances();
    TransformerXlPlan plan = gnomon::lower(s, {values[0], values[1], values[2]}, min_distance,
                                           count, call.softmax_scale);
    lowered.relative = std::move(plan.form);
    lowered.bias = StripBias{
        .heads = s.heads, .min_distance = min_distance, .values = std::move(plan.strip)};
  }
  static void backward(const TransformerXl& s, const Call& call, Values values,
                       const LayerGradient& grad, Gradients grads) {
    const auto [min_distance, count] = call.distances();
    gnomon::lower_backward(s, {values[0], values[1], values[2]}, min_distance, count,
                           call.softmax_scale, grad.relative, grad.bias.values,
                           {grads[0], grads[1], grads[2]});
  }
};

}  // namespace gnomon::model
