// Entry of Swin v2's network and cosine scores.
#pragma once

#include "gnomon/bias/swin_v2.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<SwinV2> : EntryOf<SwinV2> {
  static constexpr EncodingInfo infos[] = {
      {"swin-v2", "Swin v2", "Swin v2 bias, continuous position bias, CPB", Place::scores,
       Sharing::each_layer,
       "a bias computed from the offset of two cells by a small trained network; cosine scores",
       "score(h, q, k) = exp(min(logit_scale[h], ln 100)) cos(q, k) + 16 sigmoid( w2[h] . "
       "max(0, w1 (t(dy), t(dx)) + b1) )\n"
       "t = sign(x) log2(1 + |x|) / log2(8),\n"
       "x = 8 delta / (window - 1)",
       "Liu et al. 2021, arXiv:2111.09883", "bias/swin_v2.md", "Swin Transformer V2",
       [](const Shape& s) -> Encoding {
         return SwinV2{.heads = s.heads,
                       .height = page_size(s.length).height,
                       .width = page_size(s.length).width};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::nonlinear};
  static void fields(SwinV2& s, auto&& v) {
    v("heads", s.heads), v("height", s.height), v("width", s.width), v("hidden", s.hidden);
    v("pretrained_height", s.pretrained_height), v("pretrained_width", s.pretrained_width);
  }
  // Deviations of PyTorch's linear layers, uniform up to 1 / sqrt(inputs).
  static std::vector<Parameter> parameters(const SwinV2& s) {
    const double first = 1 / std::sqrt(6.0);
    const double second = 1 / std::sqrt(3 * static_cast<double>(s.hidden));
    return {{"w1", s.hidden, 2, first, 0, "continuous_position_bias_mlp.0.weight"},
            {"b1", s.hidden, 1, first, 0, "continuous_position_bias_mlp.0.bias", {s.hidden}},
            {"w2", s.heads, s.hidden, second, 0, "continuous_position_bias_mlp.2.weight"},
            {"logit_scale", s.heads, 1, 0, std::log(10.0), "logit_scale", {s.heads, 1, 1}}};
  }
  static constexpr CheckpointName tensors[] = {
      {"w1",
       "layers.{stage}.blocks.{block}.attention.self.continuous_position_bias_mlp.0.weight"},
      {"b1",
       "layers.{stage}.blocks.{block}.attention.self.continuous_position_bias_mlp.0.bias"},
      {"w2",
       "layers.{stage}.blocks.{block}.attention.self.continuous_position_bias_mlp.2.weight"},
      {"logit_scale", "layers.{stage}.blocks.{block}.attention.self.logit_scale"}};
  template <typename T>
  static SwinV2Parameters<T> network(std::span<const View<T, 2>> all) {
    return {all[0], column(all[1]), all[2]};
  }
  static std::optional<std::int64_t> capacity(const SwinV2& s) {
    return gnomon::internal::checked_product("swin_v2", "height x width", {s.height, s.width});
  }
  static void lower(const SwinV2& s, const Call&, Values values, LayerPlan& lowered) {
    lowered.bias = gnomon::lower(s, network(values));
    lowered.cosine = cosine_scales(column(values[3]));
  }
  static void backward(const SwinV2& s, const Call&, Values values, const LayerGradient& grad,
                       Gradients grads) {
    if (!grad.bias.values.empty())
      gnomon::lower_backward(s, network(values), grad.bias.values, network(grads));
    if (!grad.cosine.empty())
      cosine_scales_backward(column(values[3]), grad.cosine, column(grads[3]));
  }
};

}  // namespace gnomon::model
