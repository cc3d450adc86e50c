// The results of drawn calls of the functions of gnomon.h that compute attention, its gradients
// and its biases, against formulas in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "c/results.h"

namespace gnomon {
namespace results_attention_test {

using drawn::Argument;
using drawn::Exact;
using drawn::Placed;
using drawn::Role;
using drawn::Type;
using std::int64_t;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t at(int64_t index) { return static_cast<std::size_t>(index); }

enum class Bias { none = 1, slopes, strip, dense };

class Layers : public drawn::Results {
 public:
  using Results::Results;
  void call() override {
    begin();
    draw_sizes();
    draw_plan();
    const int64_t which = draw.below(10);
    if (which == 0) return slopes_of_alibi();
    if (which == 1) return bias_matrix();
    draw_inputs();
    if (which < 6) return forward();
    which < 8 ? weights() : backward();
  }

 private:
  void draw_sizes();
  void draw_plan();
  void draw_inputs();
  void slopes_of_alibi();
  void bias_matrix();
  void forward();
  void weights();
  void backward();

  // The scores of a query, -infinity for keys that it does not see, and the factor of the cap
  // on their derivatives.
  struct Row {
    std::vector<double> score, slope, weight;
    double lse = -infinity, sink_weight = 0;
    bool is_hidden = false;  // it sees a row that is not finite
  };
  Row row(int64_t b, int64_t h, int64_t i) const;
  bool sees(int64_t i, int64_t j) const {
    const int64_t own = i + offset;
    if (causal && j > own) return false;
    if (left >= 0 && own - j > left) return false;
    if (right >= 0 && j - own > right) return false;
    return sequences.empty() ||
           (sequences[at(i)] == sequences[at(S + j)] && sequences[at(i)] >= 0);
  }
  int64_t distance(int64_t i, int64_t j) const {
    return ids.empty() ? j - i - offset : ids[at(S + j)] - ids[at(i)];
  }
  double bias_at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    switch (bias) {
      case Bias::slopes:
        return -given[at(h)] * static_cast<double>(std::abs(distance(i, j)));
      case Bias::strip:
        return given[at(h * distances + distance(i, j) - least)];
      case Bias::dense:
        return given[at(((b * H + h) * T + i) * S + j)];
      default:
        return 0;
    }
  }
  double q_at(int64_t b, int64_t i, int64_t h, int64_t d) const {
    return q_values[at(((b * T + i) * H + h) * D + d)];
  }
  double k_at(int64_t b, int64_t j, int64_t h, int64_t d) const {
    return k_values[at(((b * S + j) * Hk + h / group) * D + d)];
  }
  double v_at(int64_t b, int64_t j, int64_t h, int64_t d) const {
    return v_values[at(((b * S + j) * Hk + h / group) * Dv + d)];
  }
  gnomon_attention_input input() const {
    gnomon_attention_input all{};
    all.size = sizeof all;
    all.q = q->get(), all.k = k->get(), all.v = v->get();
    return all;
  }

  int64_t B = 0, T = 0, S = 0, H = 0, Hk = 0, D = 0, Dv = 0, group = 1;
  int64_t offset = 0, left = -1, right = -1, distances = 0, least = 0;
  bool causal = true, finite = true;
  double scale = 1, cap = 0;
  Bias bias = Bias::none;
  std::vector<double> given, sinks;
  std::vector<int64_t> ids, sequences;  // of T queries at 0, of S keys at S
  Type type = Type::f32;
  Placed *q = nullptr, *k = nullptr, *v = nullptr;
  std::vector<double> q_values, k_values, v_values;
  std::unique_ptr<gnomon_layer_plan, void (*)(gnomon_layer_plan*)> plan{
      nullptr, gnomon_layer_plan_destroy};
};

void Layers::draw_sizes() {
  const bool is_long = draw.one_in(12);
  B = 1 + draw.below(3), Hk = 1 + draw.below(3), group = 1 + draw.below(4), H = Hk * group;
  T = is_long ? 1 + draw.below(70) : draw.below(7);
  S = is_long ? T + draw.below(100) : T + draw.below(6);
  D = draw.of<int64_t>({1, 2, 4, 8, 16, 20}), Dv = 1 + draw.below(20);
  offset = draw.one_in(4) ? draw.below(S + 1) : S - T;
}

void Layers::draw_plan() {
  gnomon_layer_plan* made = nullptr;
  ASSERT_EQ(gnomon_layer_plan_create(&made), GNOMON_OK);
  plan.reset(made);
  causal = draw.one_in(2);
  if (draw.one_in(3)) left = draw.below(6);
  if (draw.one_in(3)) right = draw.below(6);
  ASSERT_EQ(gnomon_layer_plan_set_mask(made, causal ? GNOMON_CAUSAL : GNOMON_BIDIRECTIONAL,
                                       T == S && offset == 0 && draw.one_in(2) ? -1 : offset,
                                       left, right),
            GNOMON_OK);
  scale = draw.one_in(2) ? NAN : 0.25 * static_cast<double>(draw.below(3));
  cap = draw.one_in(4) ? 5 : 0;
  Placed& of_sinks = place(Type::f64, {H}, {}, numbers());
  if (draw.one_in(3)) sinks = of_sinks.values();
  ASSERT_EQ(
      gnomon_layer_plan_set_softmax(made, scale, cap, sinks.empty() ? nullptr : of_sinks.get()),
      GNOMON_OK);
  if (std::isnan(scale)) scale = 1 / std::sqrt(static_cast<double>(D));
  if (draw.one_in(3)) {
    const bool packs = draw.one_in(2);
    const auto draw_ids = [&](int64_t count) -> Placed& {
      return place(Type::i64, {1, count}, {}, [&] { return draw.below(40); });
    };
    const auto draw_packs = [&](int64_t count) -> Placed& {
      return place(Type::i32, {1, count}, {}, [&] { return draw.below(4) - 1; });
    };
    Placed &of_q = draw_ids(T), &of_k = draw_ids(S);
    Placed &packs_q = draw_packs(T), &packs_k = draw_packs(S);
    ASSERT_EQ(gnomon_layer_plan_set_positions(made, of_q.get(), packs ? packs_q.get() : nullptr,
                                              of_k.get(), packs ? packs_k.get() : nullptr),
              GNOMON_OK)
        << gnomon_error_message();
    const auto together = [&](Placed& one, Placed& two) {
      std::vector<int64_t> all = one.integers();
      all.resize(at(S));  // T <= S
      for (const int64_t id : two.integers()) all.push_back(id);
      return all;
    };
    ids = together(of_q, of_k);
    if (packs) sequences = together(packs_q, packs_k);
  }
  bias = draw.of<Bias>({Bias::none, Bias::slopes, Bias::strip, Bias::dense});
  if (bias == Bias::slopes) {
    Placed& slopes =
        place(Type::f64, {H}, {}, [&] { return 0.1 * static_cast<double>(draw.below(4)); });
    ASSERT_EQ(gnomon_layer_plan_set_slopes(made, slopes.get()), GNOMON_OK);
    given = slopes.values();
  } else if (bias == Bias::strip) {
    least = -T - S - 40, distances = 2 * (T + S + 40) + 1;
    Placed& strip = place(Type::f64, {H, distances}, {}, numbers());
    ASSERT_EQ(gnomon_layer_plan_set_strip(made, strip.get(), least), GNOMON_OK);
    given = strip.values();
  } else if (bias == Bias::dense) {
    Placed& dense = place(Type::f32, {B, H, T, S}, {}, numbers());
    ASSERT_EQ(gnomon_layer_plan_set_dense(made, dense.get()), GNOMON_OK)
        << gnomon_error_message();
    given = dense.values();
  }
}

void Layers::draw_inputs() {
  type = draw.of<Type>({Type::f32, Type::f32, Type::f64, Type::f16, Type::bf16});
  const Type of_keys =
      type == Type::f32 ? draw.of<Type>({Type::f32, Type::f32, Type::f16, Type::bf16}) : type;
  // Rows that are not finite may be hidden.
  finite = !draw.one_in(4);
  const auto elements = [&]() -> Placed::Element {
    if (finite) return numbers();
    return [this, bad = 0.0, left_of = int64_t{0}]() mutable {
      if (left_of-- <= 0)
        left_of = D, bad = draw.one_in(5) ? draw.of<double>({NAN, infinity}) : 0;
      return bad != 0 ? bad : static_cast<double>(draw.below(4001) - 2000) / 1000;
    };
  };
  q = &heads(type, {B, T, H, D}, false);
  k = &place(of_keys, {B, S, Hk, D}, {.last_contiguous = true}, elements());
  v = &place(of_keys, {B, S, Hk, Dv}, {.last_contiguous = true}, elements());
  q_values = q->values(), k_values = k->values(), v_values = v->values();
}

Layers::Row Layers::row(int64_t b, int64_t h, int64_t i) const {
  Row one;
  one.score.assign(at(S), -infinity), one.slope.assign(at(S), 1), one.weight.assign(at(S), 0);
  double most = sinks.empty() ? -infinity : sinks[at(h)];
  for (int64_t j = 0; j < S; ++j) {
    if (!sees(i, j)) continue;
    double dot = 0, size = 0;
    for (int64_t d = 0; d < D; ++d) dot += q_at(b, i, h, d) * k_at(b, j, h, d);
    for (int64_t d = 0; d < Dv; ++d) size += v_at(b, j, h, d);
    double score = scale * dot;
    if (cap != 0) {
      const double bent = std::tanh(score / cap);
      score = cap * bent, one.slope[at(j)] = 1 - bent * bent;
    }
    one.score[at(j)] = score + bias_at(b, h, i, j);
    one.is_hidden |= !std::isfinite(one.score[at(j)] + size);
    most = std::max(most, one.score[at(j)]);
  }
  if (most == -infinity) return one;
  double sum = sinks.empty() ? 0 : std::exp(sinks[at(h)] - most);
  for (const double score : one.score) sum += std::exp(score - most);
  one.lse = most + std::log(sum);
  for (std::size_t j = 0; j < one.score.size(); ++j)
    one.weight[j] = std::exp(one.score[j] - one.lse);
  if (!sinks.empty()) one.sink_weight = std::exp(sinks[at(h)] - one.lse);
  return one;
}

void Layers::slopes_of_alibi() {
  const int64_t all = 1 + draw.below(257), count = 1 + draw.below(all),
                first = draw.below(all - count + 1);
  Placed& out = place(Type::f64, {count}, {.written = true}, numbers());
  check(
      "alibi_slopes", {{&out, Role::written}},
      [&] { return gnomon_alibi_slopes(all, first, out.get()); },
      [&] {
        int64_t power = 1;
        while (2 * power <= all) power *= 2;
        std::vector<Exact> exact;
        for (int64_t h = first; h < first + count; ++h) {
          const long double exponent =
              h < power ? -8.0L * static_cast<long double>(h + 1) / power
                        : -4.0L * static_cast<long double>(2 * (h - power) + 1) / power;
          const auto slope = static_cast<double>(std::exp2(exponent));
          exact.push_back({slope, slope * 0x1p-52});
        }
        expect("slopes", out.values(), exact);
      });
}

void Layers::bias_matrix() {
  const Type to = draw.of<Type>({Type::f32, Type::f64});
  Placed& out = place(to, {H, T, S}, {.written = true}, numbers());
  ids.clear();  // the queries are at offset + t
  if (bias == Bias::none) return;
  check(
      "layer_plan_bias", {{&out, Role::written}},
      [&] { return gnomon_layer_plan_bias(plan.get(), offset, out.get()); },
      [&] {
        std::vector<Exact> exact;
        for (int64_t h = 0; h < H; ++h)
          for (int64_t i = 0; i < T; ++i)
            for (int64_t j = 0; j < S; ++j) {
              const double value = bias_at(0, h, i, j);
              exact.push_back({value, std::abs(value) * (drawn::rounding(to) + 0x1p-52)});
            }
        expect("bias", out.values(), exact);
      });
}

void Layers::forward() {
  const Type of_sums = type == Type::f64 ? Type::f64 : Type::f32;
  Placed &out = heads(type, {B, T, H, Dv}, true),
         &lse = place(of_sums, {B, H, T}, {.written = true}, numbers());
  const bool has_lse = !draw.one_in(3);
  std::vector<Argument> all{{q}, {k}, {v}, {&out, Role::written}};
  if (has_lse) all.push_back({&lse, Role::written, true});
  const gnomon_attention_input from = input();
  check(
      "attention", all,
      [&] {
        return gnomon_attention(&from, plan.get(), out.get(), has_lse ? lse.get() : nullptr);
      },
      [&] {
        double most = 0;
        for (const double one : v_values)
          if (std::isfinite(one)) most = std::max(most, std::abs(one));
        const double own = type == Type::f64    ? 0x1p-46 * most
                           : type == Type::bf16 ? (0x1p-17 + 0x1p-8) * most
                                                : 0x1p-17 * most;
        const bool narrow = type == Type::f16 || type == Type::bf16;
        std::vector<Exact> exact(at(B * T * H * Dv)), of_lse;
        for (int64_t b = 0; b < B; ++b)
          for (int64_t h = 0; h < H; ++h)
            for (int64_t i = 0; i < T; ++i) {
              const Row one = row(b, h, i);
              const double unknown = one.is_hidden ? infinity : 0;
              of_lse.push_back({one.lse, unknown + (type == Type::f64 ? 0x1p-46 : 0x1p-18) *
                                                       std::max(1.0, std::abs(one.lse))});
              for (int64_t d = 0; d < Dv; ++d) {
                double sum = 0;
                for (int64_t j = 0; j < S; ++j)
                  if (one.weight[at(j)] != 0) sum += one.weight[at(j)] * v_at(b, j, h, d);
                exact[at(((b * T + i) * H + h) * Dv + d)] = {
                    sum, unknown + own +
                             (narrow ? drawn::rounding(type) * (std::abs(sum) + own) +
                                           drawn::least_number(type)
                                     : 0)};
              }
            }
        expect("out", out.values(), exact);
        if (has_lse) expect("lse", lse.values(), of_lse);
      });
}

void Layers::weights() {
  if (!finite) return;
  const Type to = draw.of<Type>({Type::f32, Type::f64});
  Placed &p = place(to, {B, H, T, S}, {.written = true}, numbers()),
         &scores = place(to, {B, H, T, S}, {.written = true}, numbers());
  const gnomon_attention_input from = input();
  check(
      "attention_weights",
      {{q}, {k}, {&p, Role::written, true}, {&scores, Role::written, true}},
      [&] { return gnomon_attention_weights(&from, plan.get(), p.get(), scores.get()); },
      [&] {
        std::vector<Exact> of_weights, of_scores;
        for (int64_t b = 0; b < B; ++b)
          for (int64_t h = 0; h < H; ++h)
            for (int64_t i = 0; i < T; ++i) {
              const Row one = row(b, h, i);
              for (int64_t j = 0; j < S; ++j) {
                const double w = one.weight[at(j)], s = one.score[at(j)];
                of_weights.push_back({w, 0x1p-46 + w * drawn::rounding(to)});
                of_scores.push_back({s, 0x1p-40 * std::max(1.0, std::abs(one.lse)) +
                                            std::abs(s) * drawn::rounding(to)});
              }
            }
        expect("weights", p.values(), of_weights);
        expect("scores", scores.values(), of_scores);
      });
}

void Layers::backward() {
  if (!finite || k->type() != type || type == Type::f16 || type == Type::bf16) return;
  Placed &out = heads(type, {B, T, H, Dv}, true),
         &lse = place(type, {B, H, T}, {.written = true}, numbers()),
         &out_grad = heads(type, {B, T, H, Dv}, false),
         &q_grad = heads(type, {B, T, H, D}, true), &k_grad = heads(type, {B, S, Hk, D}, true),
         &v_grad = heads(type, {B, S, Hk, Dv}, true);
  const gnomon_attention_input from = input();
  ASSERT_EQ(gnomon_attention(&from, plan.get(), out.get(), lse.get()), GNOMON_OK)
      << gnomon_error_message();
  for (Placed* one : {&out, &lse}) one->settle();
  gnomon_plan_gradient* made = nullptr;
  ASSERT_EQ(gnomon_plan_gradient_create(&made), GNOMON_OK);
  const std::unique_ptr<gnomon_plan_gradient, void (*)(gnomon_plan_gradient*)> of_plan(
      made, gnomon_plan_gradient_destroy);
  Placed sinks_grad(Type::f64, {H});
  gnomon_attention_gradient to{};
  to.size = sizeof to;
  to.q = q_grad.get(), to.k = k_grad.get(), to.v = v_grad.get(), to.plan = made;
  if (!sinks.empty()) to.sinks = sinks_grad.get();
  check(
      "attention_backward",
      {{q},
       {k},
       {v},
       {&out},
       {&lse},
       {&out_grad},
       {&q_grad, Role::written},
       {&k_grad, Role::written},
       {&v_grad, Role::written}},
      [&] {
        return gnomon_attention_backward(&from, plan.get(), out.get(), lse.get(),
                                         out_grad.get(), &to);
      },
      [&] {
        const std::vector<double> grads = out_grad.values();
        std::vector<Exact> of_q(at(B * T * H * D)), of_k(at(B * S * Hk * D)),
            of_v(at(B * S * Hk * Dv));
        std::vector<Exact> of_bias(at(bias == Bias::slopes  ? H
                                      : bias == Bias::strip ? H * distances
                                                            : 0)),
            of_sinks(at(H));
        std::vector<double> heaviest(at(B * S * Hk));
        const double e = type == Type::f64 ? 0x1p-46 : 0x1p-18;
        const double longest_out = drawn::longest(grads, Dv);
        const double g = longest_out * drawn::longest(v_values, Dv);
        for (int64_t b = 0; b < B; ++b)
          for (int64_t h = 0; h < H; ++h)
            for (int64_t i = 0; i < T; ++i) {
              const Row one = row(b, h, i);
              const auto grad = [&](int64_t d) {
                return grads[at(((b * T + i) * H + h) * Dv + d)];
              };
              std::vector<double> products(at(S));
              double mean = 0;
              for (int64_t j = 0; j < S; ++j) {
                for (int64_t d = 0; d < Dv; ++d) products[at(j)] += grad(d) * v_at(b, j, h, d);
                mean += one.weight[at(j)] * products[at(j)];
              }
              of_sinks[at(h)].value -= one.sink_weight * mean;
              of_sinks[at(h)].bound += e * g * one.sink_weight;
              for (int64_t j = 0; j < S; ++j) {
                const double w = one.weight[at(j)], ds = w * (products[at(j)] - mean);
                const double dot = ds * one.slope[at(j)] * scale;
                const int64_t key = (b * S + j) * Hk + h / group;
                heaviest[at(key)] += w;
                for (int64_t d = 0; d < D; ++d) {
                  of_q[at(((b * T + i) * H + h) * D + d)].value += dot * k_at(b, j, h, d);
                  of_k[at(key * D + d)].value += dot * q_at(b, i, h, d);
                }
                for (int64_t d = 0; d < Dv; ++d) of_v[at(key * Dv + d)].value += w * grad(d);
                if (of_bias.empty() || w == 0) continue;
                const auto far = static_cast<double>(std::abs(distance(i, j)));
                Exact& entry = bias == Bias::slopes
                                   ? of_bias[at(h)]
                                   : of_bias[at(h * distances + distance(i, j) - least)];
                const double factor = bias == Bias::slopes ? -far : 1;
                entry.value += factor * ds, entry.bound += e * g * w * std::abs(factor);
              }
            }
        const double most = std::max(
            1.0, heaviest.empty() ? 0 : *std::max_element(heaviest.begin(), heaviest.end()));
        for (Exact& one : of_q) one.bound = e * scale * g * drawn::longest(k_values, D);
        for (Exact& one : of_k) one.bound = e * scale * g * drawn::longest(q_values, D) * most;
        for (Exact& one : of_v) one.bound = e * longest_out * most;
        expect("the gradient of q", q_grad.values(), of_q);
        expect("the gradient of k", k_grad.values(), of_k);
        expect("the gradient of v", v_grad.values(), of_v);
        if (!sinks.empty()) expect("the gradient of the sinks", sinks_grad.values(), of_sinks);
        if (of_bias.empty()) return;
        Placed got(Type::f64, bias == Bias::slopes ? std::vector<int64_t>{H}
                                                   : std::vector<int64_t>{H, distances});
        EXPECT_EQ(gnomon_plan_gradient_bias(made, got.get()), GNOMON_OK)
            << gnomon_error_message();
        expect("the gradient of the bias", got.values(), of_bias);
      });
}

TEST(ResultsAttention, AreThoseOfTheFormulas) { drawn::check_results<Layers>(1500, 5); }

}  // namespace results_attention_test
}  // namespace gnomon
