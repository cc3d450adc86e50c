// Entries of ComRoPE. Text is read as the rows of a page.
#pragma once

#include <vector>

#include "gnomon/rotary/comrope.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<ComRopeForm> spellings<ComRopeForm>[] = {
    {ComRopeForm::axial_partition, "axial_partition"},
    {ComRopeForm::linearly_dependent, "linearly_dependent"}};

template <>
struct Entry<ComRope> : EntryOf<ComRope> {
  static ComRope usual(const Shape& s, ComRopeForm form) {
    return {.heads = s.heads,
            .rotary_dim = s.width / s.heads / 4 * 4,
            .form = form,
            .grid = {page_size(s.length).height, page_size(s.length).width}};
  }
  static constexpr EncodingInfo infos[] = {
      {"comrope", "ComRoPE (LD)", "ComRoPE, ComRoPE-LD, commuting angle matrices",
       Place::queries_and_keys, Sharing::each_layer,
       "a trained angle of each pair, times a trained factor of each axis",
       "pair j of head h is rotated by theta[h, j] (m[0, j] y + m[1, j] x)\n"
       "theta[h, j] = P[h, j, 1, 0] - P[h, j, 0, 1]",
       "Yu et al. 2025, arXiv:2506.03737", "rotary/comrope.md", "",
       [](const Shape& s) -> Encoding { return usual(s, ComRopeForm::linearly_dependent); }},
      {"comrope-axial", "ComRoPE (AP)", "ComRoPE-AP", Place::queries_and_keys,
       Sharing::each_layer, "a trained angle of each pair, along one axis of a page",
       "pair j of head h is rotated by theta[h, j] y if j is even, theta[h, j] x if j is odd",
       "Yu et al. 2025, arXiv:2506.03737", "rotary/comrope.md", "",
       [](const Shape& s) -> Encoding { return usual(s, ComRopeForm::axial_partition); }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::nonlinear};
  static void fields(ComRope& s, auto&& v) {
    v("heads", s.heads), v("rotary_dim", s.rotary_dim), v("form", s.form);
    v("head_offset", s.head_offset), v("grid", s.grid);
  }
  // The deviations of the released code, `init_std` = 1 and randn.
  static std::vector<Parameter> parameters(const ComRope& s) {
    const std::int64_t pairs = s.rotary_dim / 2, axes = std::ssize(s.grid);
    std::vector<Parameter> all = {
        {"freqs", s.heads, 4 * pairs, 1, 0, "freqs", {s.heads, 1, pairs, 2, 2}}};
    if (s.form == ComRopeForm::linearly_dependent)
      all.push_back({"multiplier", axes, pairs, 1, 0, "multiplier", {1, axes, pairs, 1, 1}});
    return all;
  }
  static std::optional<std::int64_t> capacity(const ComRope& s) { return cells(s.grid); }
  template <typename T>
  static ComRopeMatrices<T> matrices(std::span<const View<T, 2>> all) {
    return {all[0], all.size() > 1 ? all[1] : View<T, 2>()};
  }
  static void lower(const ComRope& s, const Call& call, Values values, LayerPlan& lowered) {
    const HeadFrequencies all = gnomon::lower(s, matrices(values));
    put_rotation(all, all, call, s.grid, lowered);
    lowered.trained_frequencies = true;
  }
  static void backward(const ComRope& s, const Call&, Values values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, matrices(values), grad.frequencies, matrices(grads));
  }
};

}  // namespace gnomon::model
