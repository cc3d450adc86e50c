// Entry of mixed 2-D rotary. Text is read as the rows of a page.
#pragma once

#include <vector>

#include "gnomon/rotary/mixed.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/rotary.h"

namespace gnomon::model {

template <>
struct Entry<RotaryMixed> : EntryOf<RotaryMixed> {
  static constexpr EncodingInfo infos[] = {
      {"rotary-mixed", "Mixed 2-D rotary", "mixed RoPE, RoPE-Mixed, mixed rotary",
       Place::queries_and_keys, Sharing::each_layer,
       "trained frequencies of each head on both axes of a page, whose angles are added",
       "pair i of head h is rotated by x fx[h, i] + y fy[h, i]",
       "Heo et al. 2024, arXiv:2403.13298", "rotary/mixed.md", "RoPE-ViT (timm)",
       [](const Shape& s) -> Encoding {
         return RotaryMixed{.heads = s.heads,
                            .rotary_dim = s.width / s.heads / 4 * 4,
                            .pairing = Pairing::adjacent,
                            .grid = {page_size(s.length).height, page_size(s.length).width}};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(RotaryMixed& s, auto&& v) {
    v("heads", s.heads), v("rotary_dim", s.rotary_dim), v("pairing", s.pairing);
    v("base", s.base), v("head_offset", s.head_offset), v("seed", s.seed), v("grid", s.grid);
  }
  // timm has one tensor for all layers, `freqs` [2, depth, H, R/2], with x first.
  static std::vector<Parameter> parameters(const RotaryMixed& s) {
    const std::vector<float> all = initial_frequencies(s);
    const auto half = all.begin() + std::ssize(all) / 2;
    return {{"x", s.heads, s.rotary_dim / 2, 0, 0, "freqs_x", {}, false, {all.begin(), half}},
            {"y", s.heads, s.rotary_dim / 2, 0, 0, "freqs_y", {}, false, {half, all.end()}}};
  }
  static std::optional<std::int64_t> capacity(const RotaryMixed& s) { return cells(s.grid); }
  static void lower(const RotaryMixed& s, const Call& call, Values values, LayerPlan& lowered) {
    const HeadFrequencies all = gnomon::lower(s, {values[0], values[1]});
    put_rotation(all, all, call, s.grid, lowered);
    lowered.trained_frequencies = true;
  }
  static void backward(const RotaryMixed& s, const Call&, Values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, grad.frequencies, {grads[0], grads[1]});
  }
};

}  // namespace gnomon::model
