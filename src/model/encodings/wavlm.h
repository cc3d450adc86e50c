// Entry of WavLM's gated bias.
#pragma once

#include "gnomon/bias/wavlm.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/t5.h"

namespace gnomon::model {

template <>
struct Entry<WavLm> : EntryOf<WavLm> {
  static constexpr EncodingInfo infos[] = {
      {"wavlm", "WavLM bias", "", Place::scores, Sharing::each_layer,
       "the bias of T5, multiplied by a gate for each query and head, computed from the input",
       "score(h, i, j) += gate(h, i) b[h, bucket(j - i)]\n"
       "gate = g_a (g_b constant[h] - 1) + 2",
       "Chen et al. 2021, arXiv:2110.13900", "bias/wavlm.md", "WavLM",
       [](const Shape& s) -> Encoding {
         WavLm wavlm{.head_dim = s.width / s.heads};
         wavlm.t5.heads = s.heads;
         wavlm.t5.direction = direction(s);
         return wavlm;
       }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::none,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear};
  static void fields(WavLm& s, auto&& v) {
    Entry<T5Bias>::fields(s.t5, v);
    v("head_dim", s.head_dim);
  }
  static std::int64_t head_dim(const WavLm& s) { return s.head_dim; }
  static std::vector<Parameter> parameters(const WavLm& s) {
    std::vector<Parameter> all = Entry<T5Bias>::parameters(s.t5);
    all[0].path = "rel_attn_embed.weight";
    all.push_back(
        {"gate_weight", 8, s.head_dim, table_deviation, 0, "gru_rel_pos_linear.weight"});
    all.push_back({"gate_bias", 8, 1, 0, 0, "gru_rel_pos_linear.bias", {8}});
    all.push_back(
        {"gate_constant", s.t5.heads, 1, 0, 1, "gru_rel_pos_const", {1, s.t5.heads, 1, 1}});
    return all;
  }
  static constexpr CheckpointName tensors[] = {
      {"buckets", "layers.0.attention.rel_attn_embed.weight"},
      {"gate_weight", "layers.{}.attention.gru_rel_pos_linear.weight"},
      {"gate_bias", "layers.{}.attention.gru_rel_pos_linear.bias"},
      {"gate_constant", "layers.{}.attention.gru_rel_pos_const"}};
  template <typename T>
  static WavLmGate<T> gate(std::span<const View<T, 2>> all) {
    return {all[1], column(all[2]), column(all[3])};
  }
  static void lower(const WavLm& s, const Call& call, Values values, LayerPlan& lowered) {
    Entry<T5Bias>::lower(s.t5, call, values, lowered);
  }
  static void backward(const WavLm& s, const Call& call, Values values,
                       const LayerGradient& grad, Gradients grads) {
    Entry<T5Bias>::backward(s.t5, call, values, grad, grads);
  }
  static std::vector<TermShape> terms(const WavLm& s) { return {{"gates", s.t5.heads}}; }
  static void compute_terms(const WavLm& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::gates<float>(s, gate(values), in.x, view<float, 3>(out.gates));
  }
  static void compute_terms_backward(const WavLm& s, Values values, const TermInput& in,
                                     const TokenTerms& grad, View<float, 3> x_grad,
                                     Gradients grads) {
    gnomon::gates_backward<float>(s, gate(values), in.x, view<const float, 3>(grad.gates),
                                  x_grad, grads.empty() ? WavLmGate<float>{} : gate(grads));
  }
};

}  // namespace gnomon::model
