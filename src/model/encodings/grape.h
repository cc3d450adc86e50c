// Entries of additive GRAPE: slopes of keys (GRAPE-A) and sums of edges (GRAPE-AP).
#pragma once

#include <cmath>

#include "gnomon/bias/grape.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<GrapeAdditive> : EntryOf<GrapeAdditive> {
  static constexpr EncodingInfo infos[] = {
      {"grape-additive", "GRAPE-A (key-gated)", "GRAPE-A", Place::scores, Sharing::each_layer,
       "a penalty proportional to the distance, with a slope of each key computed from it",
       "g(h, j) = s_h softplus(o_h) softplus(u_h . x_j / (|u_h| sqrt(C)))\n"
       "score(h, i, j) -= g(h, j) |i - j|",
       "Zhang et al. 2025, arXiv:2512.07805", "bias/grape.md", "",
       [](const Shape& s) -> Encoding {
         return GrapeAdditive{.heads = s.heads, .width = s.width};
       }}};
  static constexpr Properties properties = {.reversal = Effect::none,
                                            .shift = Effect::none,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear,
                                            .divisible = false};
  static void fields(GrapeAdditive& s, auto&& v) { v("heads", s.heads), v("width", s.width); }
  // softplus(omega) starts at 1, and the direction is random, as in the authors' code, so
  // slopes start at those of ALiBi times softplus of numbers near 0.
  static std::vector<Parameter> parameters(const GrapeAdditive& s) {
    return {
        {"direction", s.heads, s.width, 1 / std::sqrt(static_cast<double>(s.width)), 0,
         "keygated_bias.u"},
        {"omega", s.heads, 1, 0, std::log(std::expm1(1.0)), "keygated_bias.omega", {s.heads}}};
  }
  template <typename T>
  static GrapeGate<T> gate(std::span<const View<T, 2>> all) {
    if (all.empty()) return {};
    return {all[0], column(all[1])};
  }
  static std::vector<TermShape> terms(const GrapeAdditive& s) {
    return {{"key_slopes", s.heads}};
  }
  static void compute_terms(const GrapeAdditive& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::key_slopes(s, gate(values), in.x, view<float, 3>(out.key_slopes));
  }
  static void compute_terms_backward(const GrapeAdditive& s, Values values, const TermInput& in,
                                     const TokenTerms& grad, View<float, 3> x_grad,
                                     Gradients grads) {
    gnomon::key_slopes_backward(s, gate(values), in.x, view<const float, 3>(grad.key_slopes),
                                x_grad, gate(grads));
  }
};

template <>
struct Entry<GrapePath> : EntryOf<GrapePath> {
  static constexpr EncodingInfo infos[] = {
      {"grape-path", "GRAPE-AP (path sums)", "GRAPE-AP", Place::scores, Sharing::each_layer,
       "a penalty that sums edges between key and query, each computed from the query and a "
       "token between them",
       "e(i, l) = ln sigmoid(p_i . R(-l) rms(p_l) / P)\n"
       "score(h, i, j) += s_h (e(i, j+1) + ... + e(i, i))",
       "Zhang et al. 2025, arXiv:2512.07805", "bias/grape.md", "",
       [](const Shape& s) -> Encoding {
         return GrapePath{.heads = s.heads, .width = s.width};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::some,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear,
                                            .causal = true,
                                            .divisible = false};
  static void fields(GrapePath& s, auto&& v) {
    v("heads", s.heads), v("width", s.width), v("size", s.size);
  }
  // The deviation of the authors' code. Products of p start small, so slopes start near those
  // of ALiBi times ln 2.
  static std::vector<Parameter> parameters(const GrapePath& s) {
    return {{"weight",
             gnomon::internal::checked_product("grape", "heads x size", {s.heads, s.size}),
             s.width, 0.5 / std::sqrt(static_cast<double>(s.width)), 0, "c_p.weight"}};
  }
  static void lower(const GrapePath& s, const Call& call, Values, LayerPlan& lowered) {
    lowered.edges = gnomon::lower(s);
    const RotaryFrequencies frequencies{
        .pairing = Pairing::halves,
        .inv_freq = std::vector<double>(static_cast<std::size_t>(s.size / 2), 1.0)};
    lowered.edge_rotary = table_of(frequencies, {&call.key_positions(), 1});
  }
  static std::vector<TermShape> terms(const GrapePath& s) {
    return {{"edge_queries", s.heads, s.size}, {"edge_keys", s.heads, s.size}};
  }
  static void compute_terms(const GrapePath& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::edge_vectors(s, values[0], in.x, view<float, 4>(out.edge_queries),
                         view<float, 4>(out.edge_keys));
  }
  static void compute_terms_backward(const GrapePath& s, Values values, const TermInput& in,
                                     const TokenTerms& grad, View<float, 3> x_grad,
                                     Gradients grads) {
    gnomon::edge_vectors_backward(s, values[0], in.x, view<const float, 4>(grad.edge_queries),
                                  view<const float, 4>(grad.edge_keys), x_grad,
                                  grads.empty() ? View<float, 2>() : grads[0]);
  }
};

}  // namespace gnomon::model
