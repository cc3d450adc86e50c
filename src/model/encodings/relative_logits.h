// Entry of Inkling's relative logits.
#pragma once

#include "gnomon/relative/relative_logits.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<RelativeLogits> : EntryOf<RelativeLogits> {
  static constexpr EncodingInfo infos[] = {
      {"relative-logits", "Relative logits (Inkling)", "", Place::keys_and_values,
       Sharing::each_layer,
       "a small query of each token and head, met by a trained vector for each distance into "
       "the past",
       "r_i = W_h x_i\n"
       "score(h, i, j) += r_i . E[i - j] if 0 <= i - j < extent",
       "Thinking Machines 2026, Inkling (code)", "relative/relative_logits.md",
       "Inkling, Inkling 2", [](const Shape& s) -> Encoding {
         return RelativeLogits{.heads = s.heads, .width = s.width};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::none,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear};
  static void fields(RelativeLogits& s, auto&& v) {
    v("heads", s.heads), v("width", s.width), v("rank", s.rank);
    v("extent", s.extent), v("clip", s.clip);
  }
  // The deviation of both is 0.02 in Transformers (`initializer_range`).
  static std::vector<Parameter> parameters(const RelativeLogits& s) {
    std::vector<Parameter> all = {
        {"projection",
         gnomon::internal::checked_product("relative_logits", "heads x rank",
                                           {s.heads, s.rank}),
         s.width, table_deviation, 0, "r_proj.weight"},
        {"table", s.rank, s.extent, table_deviation, 0, "rel_logits_proj.proj"}};
    if (s.clip > 0) all.push_back({"scale", s.heads, s.rank, 0, 1, "rel_l2_clip.scale"});
    return all;
  }
  static std::span<const CheckpointName> tensors(const RelativeLogits& s) {
    static constexpr CheckpointName all[] = {
        {"projection", "layers.{}.self_attn.r_proj.weight"},
        {"table", "layers.{}.self_attn.rel_logits_proj.proj"},
        {"scale", "layers.{}.self_attn.rel_l2_clip.scale"}};
    return std::span(all).first(s.clip > 0 ? 3 : 2);
  }
  template <typename T>
  static RelativeProjection<T> projection(std::span<const View<T, 2>> all) {
    if (all.empty()) return {};
    return {all[0], all.size() > 2 ? all[2] : View<T, 2>()};
  }
  static void lower(const RelativeLogits& s, const Call&, Values values, LayerPlan& lowered) {
    lowered.relative = gnomon::lower(s, values[1]);
  }
  static void backward(const RelativeLogits& s, const Call&, Values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, grad.relative, grads[1]);
  }
  static std::vector<TermShape> terms(const RelativeLogits& s) {
    return {{"relative_queries", s.heads, s.rank}};
  }
  static void compute_terms(const RelativeLogits& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::relative_queries(s, projection(values), in.x, view<float, 4>(out.relative_queries));
  }
  static void compute_terms_backward(const RelativeLogits& s, Values values,
                                     const TermInput& in, const TokenTerms& grad,
                                     View<float, 3> x_grad, Gradients grads) {
    gnomon::relative_queries_backward(s, projection(values), in.x,
                                      view<const float, 4>(grad.relative_queries), x_grad,
                                      projection(grads));
  }
};

}  // namespace gnomon::model
