// Entry of the decomposed relative vectors of SAM and MViT.
#pragma once

#include <cmath>

#include "gnomon/error.h"
#include "gnomon/relative/decomposed.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<Decomposed> : EntryOf<Decomposed> {
  static constexpr EncodingInfo infos[] = {
      {"decomposed", "Decomposed (MViTv2, SAM)", "MViTv2, SAM", Place::keys_and_values,
       Sharing::each_layer,
       "trained vectors for the offsets of rows and of columns, multiplied by queries",
       "score(i, j) = scale q_i . k_j + q_i . R_height[y_i - y_j + h - 1] + q_i . R_width[x_i "
       "- x_j + w - 1]",
       "Li et al. 2021, arXiv:2112.01526", "relative/decomposed.md", "MViTv2, SAM",
       [](const Shape& s) -> Encoding {
         const auto [height, width] = page_size(s.length);
         return Decomposed{.head_dim = s.width / s.heads, .height = height, .width = width};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(Decomposed& s, auto&& v) {
    v("head_dim", s.head_dim), v("height", s.height), v("width", s.width);
    v("key_height", s.key_height), v("key_width", s.key_width);
    v("table_height", s.table_height), v("table_width", s.table_width);
    v("class_tokens", s.class_tokens);
  }
  static void derived(const Decomposed& s, auto&& v) {
    v("height_rows", table_height(s)), v("width_rows", table_width(s));
  }
  static std::vector<Parameter> parameters(const Decomposed& s) {
    return {{"height", table_height(s), s.head_dim, table_deviation, 0, "rel_pos_h"},
            {"width", table_width(s), s.head_dim, table_deviation, 0, "rel_pos_w"}};
  }
  static constexpr CheckpointName tensors[] = {{"height", "layers.{}.attn.rel_pos_h"},
                                               {"width", "layers.{}.attn.rel_pos_w"}};
  static std::optional<std::int64_t> capacity(const Decomposed& s) {
    return gnomon::internal::checked_product("decomposed", "height x width",
                                             {s.height, s.width});
  }
  static std::int64_t head_dim(const Decomposed& s) { return s.head_dim; }
  // Positions are the cells of a single grid.
  static void lower(const Decomposed& s, const Call& call, Values values, LayerPlan& lowered) {
    if (s.class_tokens || s.key_height || s.key_width)
      refuse("decomposed", "an encoding by name must have one grid and no class token",
             to_json(s));
    lowered.relative = gnomon::lower(s, {values[0], values[1]}, call.softmax_scale).form;
  }
  static void backward(const Decomposed& s, const Call& call, Values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, call.softmax_scale, grad.relative, {grads[0], grads[1]});
  }
};

}  // namespace gnomon::model
