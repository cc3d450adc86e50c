// Two kernels for every encoding of the list. `encoding`: a training step, which lowers the
// parameters to the plan, attends, and computes all gradients including those of the
// parameters. The roof is sgemm with the work of plain attention, so the shares of encodings
// are comparable. `lower`: only the lowering of trained parameters and its gradient.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>

#include "bench/kernels/blocks.h"
#include "bench/kernels/edges.h"
#include "bench/kernels/kernels.h"
#include "gnomon/attention/attention.h"
#include "gnomon/attention/cosine.h"
#include "gnomon/embedding/table.h"
#include "gnomon/model/encoding.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

constexpr int64_t heads = 8, size = 64, width = heads * size;

model::Encoding usual(const model::EncodingInfo& info, int64_t tokens) {
  return info.usual({.width = width, .heads = heads, .length = tokens});
}

class EncodingCall {
 public:
  EncodingCall(const model::EncodingInfo& info, int64_t tokens)
      : tokens_(tokens),
        encoding_(usual(info, tokens)),
        window_{.queries = tokens, .keys = tokens, .ids = {}} {
    const std::array<std::ptrdiff_t, 4> shape{1, tokens, heads, size};
    q_ = random_block<float, 4>(shape, 1), k_ = random_block<float, 4>(shape, 2);
    v_ = random_block<float, 4>(shape, 3), out_grad_ = random_block<float, 4>(shape, 4);
    for (auto* one :
         {&turned_q_, &turned_k_, &normed_q_, &normed_k_, &out_, &q_grad_, &k_grad_, &v_grad_})
      *one = zeros<float, 4>(shape);
    lse_ = zeros<float, 3>({1, heads, tokens});
    x_ = random_block<float, 3>({1, tokens, width}, 5);
    x_grad_ = zeros<float, 3>({1, tokens, width});
    terms_ = model::term_arrays({encoding_}, 1, tokens);
    term_grads_ = terms_;
    std::mt19937_64 engine(6);
    for (const model::Parameter& one : model::parameters(encoding_)) {
      parameters_.push_back(zeros<float, 2>({one.rows, one.columns}));
      gradients_.push_back(zeros<float, 2>({one.rows, one.columns}));
      std::normal_distribution<double> normal(one.initial_mean, one.initial_deviation);
      for (int64_t i = 0; i < one.rows * one.columns; ++i)
        parameters_.back()->data[at(i)] =
            !one.initial.empty()
                ? one.initial[at(i)]
                : static_cast<float>(one.initial_deviation > 0 ? normal(engine)
                                                               : one.initial_mean);
      values_.push_back(parameters_.back()->view);
      grads_.push_back(gradients_.back()->view);
    }
  }

  void run() {
    LayerPlan lowered = lower();
    model::LayerGradient gradient;
    if (lowered.table) add_table(x_grad_->view, lowered.table->view());
    const bool cosine = !lowered.cosine.empty();
    const View<const float, 4> q = prepared(*q_, lowered.query_rotations, *turned_q_);
    const View<const float, 4> k = prepared(*k_, lowered.key_rotations, *turned_k_);
    View<const float, 4> met_q = q, met_k = k;
    if (cosine) {
      normalise(q, lowered.cosine, normed_q_->view), met_q = normed_q_->view;
      normalise(k, {}, normed_k_->view), met_k = normed_k_->view;
    }
    AttentionInput input{.q = met_q, .k = met_k, .v = v_->view};
    const bool has_terms = !terms_.arrays.empty();
    if (has_terms) {
      model::compute_terms({encoding_}, values_, x_->view, terms_.terms<Tensor>());
      input.terms = terms_.terms<ConstTensor>();
    }
    if (lowered.polar) gradient.phases.resize(lowered.polar->phases.size());
    lowered.mask.visibility = Visibility::causal;
    attention(input, lowered, out_->view, lse_->view);
    attention_backward(input, lowered, out_->view, lse_->view, out_grad_->view,
                       {.q = q_grad_->view,
                        .k = k_grad_->view,
                        .v = v_grad_->view,
                        .bias = &gradient.bias,
                        .relative = &gradient.relative,
                        .terms = term_grads_.terms<Tensor>(),
                        .phases = gradient.phases});
    if (trained())
      gradient.frequencies = model::frequencies_gradient(lowered, window_, met_q, q_grad_->view,
                                                         met_k, k_grad_->view);
    if (cosine) {
      gradient.cosine.resize(at(heads));
      normalise_backward(q, q_grad_->view, lowered.cosine, q_grad_->view, gradient.cosine);
      normalise_backward(k, k_grad_->view, {}, k_grad_->view);
    }
    for (auto [grad, rotations] : {std::pair(&q_grad_, &lowered.query_rotations),
                                   std::pair(&k_grad_, &lowered.key_rotations)})
      for (auto one = rotations->rbegin(); one != rotations->rend(); ++one)
        std::visit([&](const auto& table) { rotate_back((*grad)->view, table); }, *one);
    if (lowered.table)  // the gradient of the table is that of x
      gradient.table = {x_grad_->view.data(), {tokens_, width}};
    if (has_terms)
      model::compute_terms_backward({encoding_}, values_, x_->view,
                                    term_grads_.terms<ConstTensor>(), x_grad_->view, grads_);
    gradient_ = std::move(gradient);
    if (trained()) lower_backward();
  }

  bool trained() const { return !grads_.empty(); }
  LayerPlan lower() const { return model::lower(encoding_, window_, values_); }
  void lower_backward() {  // after `run`
    model::lower_backward(encoding_, window_, values_, gradient_, grads_);
  }
  // The trained entries of the plan, after `run`.
  int64_t plan_bytes() const {
    std::size_t doubles = gradient_.bias.values.size() + gradient_.relative.shift.size() +
                          gradient_.cosine.size() + gradient_.frequencies.size() +
                          gradient_.relative.contextual.size() + gradient_.phases.size();
    for (const auto* part : {&gradient_.relative.keys, &gradient_.relative.queries,
                             &gradient_.relative.values, &gradient_.relative.projected})
      for (const auto& table : *part) doubles += table.size();
    return 8 * static_cast<int64_t>(doubles) + 4 * gradient_.table.size();
  }

  // The largest difference of some rows of the output from a computation in double.
  double error() const {
    const LayerPlan lowered = lower();
    double worst = 0;
    for (const int64_t query : {int64_t{0}, tokens_ / 3, tokens_ - 1}) {
      const HeadVectors exact = exact_rows(lowered, query);
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t d = 0; d < size; ++d)
          worst = std::max(
              worst, std::fabs(exact[at(h * size + d)] - double{out_->view(0, query, h, d)}));
    }
    return worst;
  }

 private:
  using HeadVectors = std::vector<double>;  // [H, D]

  static double scale_of(const LayerPlan& lowered) {
    return lowered.cosine.empty() ? softmax_scale(size) * lowered.softmax.factor : 1;
  }

  template <typename Table>
  static void rotate_back(View<float, 4> grad, const Table& table) {
    rotate(grad, table, Direction::inverse);
  }
  static void rotate_back(View<float, 4> grad, const Vjepa2Table& table) {
    rotate_backward(grad, table);
  }

  // Returns x, or x rotated into `out` if there are rotations.
  static View<const float, 4> prepared(const Block<float, 4>& x,
                                       const std::vector<HeadRotation>& rotations,
                                       const Block<float, 4>& out) {
    if (rotations.empty()) return x.view;
    std::copy_n(x.view.data(), x.view.size(), out.view.data());
    for (const HeadRotation& one : rotations)
      std::visit([&](const auto& table) { rotate(out.view, table); }, one);
    return out.view;
  }

  // Rotates a head in double, by the cos and sin of a V-JEPA 2 table.
  static void rotate_head(const Vjepa2Table& table, int64_t token, int64_t, double* head) {
    for (int64_t e = 0; e < table.cos().extent(2); e += 2) {
      const double a = head[e], b = head[e + 1];
      head[e] = a * double{table.cos()(0, token, e)} - b * double{table.sin()(0, token, e)};
      head[e + 1] =
          b * double{table.cos()(0, token, e + 1)} + a * double{table.sin()(0, token, e + 1)};
    }
  }
  static void rotate_head(const RotaryTable& table, int64_t token, int64_t, double* head) {
    const int64_t pairs = table.cos().extent(2), first = table.frequencies().head_offset;
    for (int64_t p = 0; p < pairs; ++p)
      rotate_pair(head + first, p, pairs, table.frequencies().pairing, table.cos()(0, token, p),
                  table.sin()(0, token, p));
  }
  static void rotate_head(const HeadAngles& angles, int64_t token, int64_t h, double* head) {
    const HeadFrequencies& f = angles.frequencies();
    const int64_t pairs = f.rotary_dim() / 2;
    for (int64_t p = 0; p < pairs; ++p) {
      double u = f.phases.empty() ? 0 : f.phases[at(h)];
      for (int64_t a = 0; a < f.axes; ++a)
        u += static_cast<double>(angles.axes()[at(a)].ids[at(token)]) *
             f.inv_freq[at((h * f.axes + a) * pairs + p)];
      rotate_pair(head + f.head_offset, p, pairs, f.pairing, std::cos(u), std::sin(u));
    }
  }
  static void rotate_pair(double* head, int64_t p, int64_t pairs, Pairing pairing, double cos,
                          double sin) {
    const bool halves = pairing == Pairing::halves;
    double& a = head[halves ? p : 2 * p];
    double& b = head[halves ? p + pairs : 2 * p + 1];
    const double turned = a * cos - b * sin;
    b = a * sin + b * cos, a = turned;
  }

  // A head vector after rotations and norms.
  HeadVectors ready(const Block<float, 4>& x, int64_t token,
                    const std::vector<HeadRotation>& rotations,
                    const std::optional<RotaryTable>& table, const std::vector<double>& scales,
                    bool normed) const {
    HeadVectors row(at(width));
    for (int64_t n = 0; n < width; ++n)
      row[at(n)] = double{x.view(0, token, n / size, n % size)};
    for (int64_t h = 0; h < heads; ++h) {
      double* const head = row.data() + h * size;
      for (const HeadRotation& one : rotations)
        std::visit([&](const auto& table) { rotate_head(table, token, h, head); }, one);
      if (normed) {
        double square = 0;
        for (int64_t d = 0; d < size; ++d) square += head[d] * head[d];
        const double scale = (scales.empty() ? 1 : scales[at(h)]) / std::sqrt(square);
        for (int64_t d = 0; d < size; ++d) head[d] *= scale;
      }
      if (table) rotate_head(*table, token, h, head);
    }
    return row;
  }

  HeadVectors exact_rows(const LayerPlan& lowered, int64_t query) const {
    const int64_t keys = query + 1;
    const bool cosine = !lowered.cosine.empty();
    const double scale = scale_of(lowered);
    const std::optional<RotaryTable> none;  // polar rows rotate after they are expanded
    HeadVectors q = ready(*q_, query, lowered.query_rotations,
                          lowered.polar ? none : lowered.query_rotary, lowered.cosine, cosine);
    HeadVectors k;
    for (int64_t j = 0; j < keys; ++j) {
      const HeadVectors row = ready(*k_, j, lowered.key_rotations,
                                    lowered.polar ? none : lowered.key_rotary, {}, cosine);
      k.insert(k.end(), row.begin(), row.end());
    }
    if (lowered.token_rotation) turn(*lowered.token_rotation, query, q, k);
    HeadVectors scores(at(heads * keys)), bias(at(heads * keys));
    dense(lowered.bias, query, View<double, 3>(bias.data(), {heads, 1, keys}));
    const auto& contextual = lowered.relative.contextual;
    if (!contextual)
      relative_scores(lowered.relative, query,
                      View<const double, 3>(q.data(), {1, heads, size}),
                      View<const double, 3>(k.data(), {keys, heads, size}),
                      View<double, 3>(scores.data(), {heads, 1, keys}));
    HeadVectors out(at(width));
    for (int64_t h = 0; h < heads; ++h) {
      const double gate = lowered.gated ? term("gates", h, query) : 1.0;
      double forgotten = 0;  // log gates, or edges, of later keys
      double* const row = scores.data() + h * keys;
      double most = -HUGE_VAL, sum = 0;
      HeadVectors decays(at(size));
      for (int64_t j = keys - 1; j >= 0; --j) {
        const double product =
            row[j] + product_of(lowered, h, query - j, j, q.data() + h * size,
                                k.data() + (j * heads + h) * size, decays.data());
        row[j] = scale * product + gate * bias[at(h * keys + j)] + forgotten +
                 projected(lowered.relative, h, query, j - query);
        if (lowered.cumulative) forgotten += term("log_gates", h, j);
        if (lowered.key_slopes)
          row[j] -= term("key_slopes", h, j) * static_cast<double>(query - j);
        if (lowered.edges) forgotten += edge_of(lowered, terms_, heads, h, query, j);
      }
      const std::span all(row, at(keys));
      if (contextual)
        add_contextual(*contextual, contextual->heads == 1 ? 0 : h,
                       std::span(q).subspan(at(h * size), at(size)), all);
      if (lowered.stick_breaking) {
        stick_weights(*lowered.stick_breaking, all);
        sum = 1;
      } else {
        for (const double score : all) most = std::max(most, score);
        for (double& score : all) sum += score = std::exp(score - most);
      }
      for (int64_t j = 0; j < keys; ++j)
        for (int64_t d = 0; d < size; ++d)
          out[at(h * size + d)] += row[j] / sum *
                                   (double{v_->view(0, j, h, d)} +
                                    met_by_weights(lowered.relative, h, j - query, d));
    }
    return out;
  }

  // Rotates the query and the keys up to it by the sums of the increments.
  void turn(const TokenRotation& rotation, int64_t query, HeadVectors& q,
            HeadVectors& k) const {
    const int64_t pairs = rotation.rotary_dim / 2;
    const bool halves = rotation.pairing == Pairing::halves;
    for (const TermArrays::Array& one : terms_.arrays) {
      if (one.name != "angles") continue;
      const int64_t own = one.shape[2];  // heads of the angles
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < pairs; ++i) {
          const int64_t a = rotation.head_offset + (halves ? i : 2 * i);
          const int64_t b = halves ? a + pairs : a + 1;
          double sum = 0;
          const auto rotate_pair = [&](double* head) {
            const double first = head[a] * std::cos(sum) - head[b] * std::sin(sum);
            head[b] = head[a] * std::sin(sum) + head[b] * std::cos(sum), head[a] = first;
          };
          for (int64_t t = 0; t <= query; ++t) {
            sum += double{one.values[at((t * own + h * own / heads) * pairs + i)]};
            rotate_pair(k.data() + (t * heads + h) * size);
          }
          rotate_pair(q.data() + h * size);
        }
    }
  }

  // The product of a query and key j, and the change of the query, or of the logarithms of
  // decays, before the key before it.
  double product_of(const LayerPlan& lowered, int64_t h, int64_t distance, int64_t j, double* q,
                    const double* k, double* decays) const {
    double sum = 0, along = 0;
    for (int64_t d = 0; d < size; ++d) {
      double one = q[d] * k[d];
      if (const auto& polar = lowered.polar)
        one = std::log1p(std::exp(q[d])) * std::log1p(std::exp(k[d])) *
              std::cos(static_cast<double>(distance) *
                           lowered.query_rotary->frequencies().inv_freq[at(d)] -
                       polar->phases[at(h * size + d)]);
      sum += one * std::exp(decays[d]);
      if (lowered.product == PairProduct::channel_gates)
        decays[d] += element("channel_gates", h, j, d);
      if (lowered.product == PairProduct::householder)
        along += element("householder", h, j, d) * q[d];
    }
    if (lowered.product == PairProduct::householder)
      for (int64_t d = 0; d < size; ++d)
        q[d] -= term("betas", h, j) * along * element("householder", h, j, d);
    return sum;
  }

  // An element of a term [1, T, H, D].
  double element(std::string_view name, int64_t head, int64_t token, int64_t d) const {
    for (const TermArrays::Array& one : terms_.arrays)
      if (one.name == name) return double{one.values[at((token * heads + head) * size + d)]};
    return 0;
  }

  // An element of a term [1, H, T].
  double term(std::string_view name, int64_t head, int64_t token) const {
    for (const TermArrays::Array& one : terms_.arrays)
      if (one.name == name) return double{one.values[at(head * tokens_ + token)]};
    return 0;
  }

  // The product of the relative query and its vector.
  double projected(const RelativeForm& form, int64_t head, int64_t query,
                   int64_t distance) const {
    double sum = 0;
    for (const RelativeVectors& table : form.projected) {
      const int64_t n = distance - table.min_distance;
      if (n < 0 || n >= table.distances()) continue;
      const int64_t row = (table.heads == 1 ? 0 : head) * table.vectors() + table.rows[at(n)];
      for (const TermArrays::Array& one : terms_.arrays)
        for (int64_t d = 0; one.name == "relative_queries" && d < table.head_dim; ++d)
          sum += double{one.values[at((query * heads + head) * table.head_dim + d)]} *
                 table.values[at(row * table.head_dim + d)];
    }
    return sum;
  }

  static double met_by_weights(const RelativeForm& form, int64_t head, int64_t distance,
                               int64_t d) {
    double sum = 0;
    for (const RelativeVectors& table : form.values) {
      const int64_t row = table.rows[at(distance - table.min_distance)];
      sum +=
          table.values[at(((table.heads == 1 ? 0 : head) * table.vectors() + row) * size + d)];
    }
    return sum;
  }

  int64_t tokens_;
  model::Encoding encoding_;
  model::Window window_;
  Shared<float, 4> q_, k_, v_, turned_q_, turned_k_, normed_q_, normed_k_;
  Shared<float, 4> out_, out_grad_, q_grad_, k_grad_, v_grad_;
  Shared<float, 3> lse_, x_, x_grad_;
  TermArrays terms_, term_grads_;
  std::vector<Shared<float, 2>> parameters_, gradients_;
  std::vector<View<const float, 2>> values_;
  std::vector<View<float, 2>> grads_;
  model::LayerGradient gradient_;
};

Kernel encoding_kernel(const model::EncodingInfo& info, int64_t tokens) {
  const auto call = std::make_shared<EncodingCall>(info, tokens);
  Kernel kernel;
  kernel.name = "encoding";
  kernel.detail = fmt::format("{} [{}, {}, {}]", info.name, tokens, heads, size);
  kernel.roof = Roof::arithmetic;
  const auto count = static_cast<double>(tokens);
  kernel.work = count * (count + 1) / 2 * width * 14;  // seven products of plain attention
  kernel.run = [=] { call->run(); };
  kernel.make_roof = best_multiplier;
  kernel.error = [=] { return call->error(); };
  return kernel;
}

enum class Lowering { forward = 1, backward };

// The roof writes the trained entries of the plan.
Kernel lower_kernel(const model::EncodingInfo& info, int64_t tokens, Lowering lowering) {
  const auto call = std::make_shared<EncodingCall>(info, tokens);
  call->run();
  const int64_t bytes = std::max<int64_t>(8, call->plan_bytes());
  Kernel kernel;
  kernel.name = "lower";
  kernel.detail =
      fmt::format("{}{} [{}, {}, {}]", info.name,
                  lowering == Lowering::forward ? "" : " backward", tokens, heads, size);
  kernel.roof = Roof::memory;
  kernel.work = static_cast<double>(bytes);
  if (lowering == Lowering::forward)
    kernel.run = [=] { call->lower(); };
  else
    kernel.run = [=] { call->lower_backward(); };
  kernel.make_roof = [=] { return writing(bytes); };
  return kernel;
}

}  // namespace

std::vector<KernelMaker> encoding_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  const int64_t tokens = only.value_or(1024);
  for (const model::EncodingInfo& info : model::encodings())
    all.push_back({"encoding " + std::string(info.name),
                   [=, &info] { return encoding_kernel(info, tokens); }});
  for (const model::EncodingInfo& info : model::encodings())
    for (const Lowering lowering : {Lowering::forward, Lowering::backward})
      if (!model::parameters(usual(info, 1024)).empty())
        all.push_back({"lower " + std::string(info.name),
                       [=, &info] { return lower_kernel(info, tokens, lowering); }});
  return all;
}

}  // namespace gnomon::bench
