// Entry of the bias tables of Swin and BEiT.
#pragma once

#include "gnomon/bias/swin.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<Swin> : EntryOf<Swin> {
  static constexpr EncodingInfo infos[] = {
      {"swin", "Swin bias", "", Place::scores, Sharing::each_layer,
       "a trained bias for each head and each offset between two cells of a window",
       "score(h, query, key) += table[index(query - key), h]\n"
       "index = (dy + height - 1) (2 width - 1) + dx + width - 1",
       "Liu et al. 2021, arXiv:2103.14030", "bias/swin.md", "Swin Transformer, MaskFormer",
       [](const Shape& s) -> Encoding {
         return Swin{.heads = s.heads,
                     .height = page_size(s.length).height,
                     .width = page_size(s.length).width};
       }},
      {"beit", "BEiT bias", "", Place::scores, Sharing::each_layer,
       "the table of Swin, and three more biases per head for a class token before the cells",
       "score(h, query, key) += table[index(query - key), h]\n"
       "N - 3 from the class token to a cell, N - 2 from a cell to it, N - 1 to itself",
       "Bao et al. 2021, arXiv:2106.08254", "bias/swin.md", "BEiT, Data2Vec Vision",
       [](const Shape& s) -> Encoding {
         return Swin{.heads = s.heads,  // the first token of a text is the class token
                     .height = page_size(s.length - 1).height,
                     .width = page_size(s.length - 1).width,
                     .class_tokens = 1};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(Swin& s, auto&& v) {
    v("heads", s.heads), v("height", s.height), v("width", s.width);
    v("class_tokens", s.class_tokens);
  }
  static void derived(const Swin& s, auto&& v) { v("rows", offsets(s)); }
  static std::vector<Parameter> parameters(const Swin& s) {
    return {{"table", offsets(s), s.heads, table_deviation, 0, "relative_position_bias_table"}};
  }
  static constexpr CheckpointName tensors[] = {
      {"table",
       "layers.{stage}.blocks.{block}.attention.self.relative_position_bias_table|"
       "layer.{}.attention.attention.relative_position_bias.relative_position_bias_table|"
       "encoder.relative_position_bias.relative_position_bias_table"}};
  static std::optional<std::int64_t> capacity(const Swin& s) { return tokens(s); }
  static void lower(const Swin& s, const Call&, Values values, LayerPlan& lowered) {
    lowered.bias = gnomon::lower(s, values[0]);
  }
  static void backward(const Swin& s, const Call&, Values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, grad.bias.values, grads[0]);
  }
};

}  // namespace gnomon::model
