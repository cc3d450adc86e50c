// Attention with an encoding beside plain attention of the same call: the roof is the plain
// call, so the share is the time of plain attention divided by that of the encoding.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <type_traits>
#include <variant>

#include "bench/kernels/blocks.h"
#include "bench/kernels/kernels.h"
#include "gnomon/attention/layer_plan.h"
#include "gnomon/model/encoding.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

constexpr int64_t beside_heads = 2, beside_size = 64;

enum class BesidePass { forward = 1, backward };

// Inputs, terms and gradients of one call, with or without the encoding.
class BesideCall {
 public:
  BesideCall(const model::EncodingInfo& info, int64_t tokens, BesidePass pass)
      : encoding_(info.usual(
            {.width = beside_heads * beside_size, .heads = beside_heads, .length = tokens})),
        terms_(model::term_arrays({encoding_}, 1, tokens)),
        term_grads_(terms_) {
    const std::array<std::ptrdiff_t, 4> shape{1, tokens, beside_heads, beside_size};
    q_ = random_block<float, 4>(shape, 1), k_ = random_block<float, 4>(shape, 2);
    v_ = random_block<float, 4>(shape, 3), out_grad_ = random_block<float, 4>(shape, 4);
    for (auto* one : {&turned_q_, &turned_k_, &out_, &q_grad_, &k_grad_, &v_grad_})
      *one = zeros<float, 4>(shape);
    lse_ = zeros<float, 3>({1, beside_heads, tokens});
    std::mt19937_64 engine(6);
    std::vector<Shared<float, 2>> parameters;
    std::vector<View<const float, 2>> values;
    for (const model::Parameter& one : model::parameters(encoding_)) {
      parameters.push_back(zeros<float, 2>({one.rows, one.columns}));
      std::normal_distribution<double> normal(one.initial_mean, one.initial_deviation);
      for (int64_t i = 0; i < one.rows * one.columns; ++i)
        parameters.back()->data[at(i)] =
            !one.initial.empty()
                ? one.initial[at(i)]
                : static_cast<float>(one.initial_deviation > 0 ? normal(engine)
                                                               : one.initial_mean);
      values.push_back(parameters.back()->view);
    }
    window_ = {.queries = tokens, .keys = tokens, .ids = {}};
    plan_ = model::lower(encoding_, window_, values);
    plan_.mask.visibility = plain_.mask.visibility = Visibility::causal;
    if (!terms_.arrays.empty()) {
      const auto x = random_block<float, 3>({1, tokens, beside_heads * beside_size}, 5);
      model::compute_terms({encoding_}, values, x->view, terms_.terms<Tensor>());
    }
    if (pass == BesidePass::backward) forward(), plain_forward();
  }

  void forward() {
    if (!plan_.query_rotations.empty()) {
      std::copy_n(q_->view.data(), q_->view.size(), turned_q_->view.data());
      std::copy_n(k_->view.data(), k_->view.size(), turned_k_->view.data());
      prepare(plan_, turned_q_->view, turned_k_->view);
    }
    attention(input(), plan_, out_->view, lse_->view);
  }
  void plain_forward() {
    attention({q_->view, k_->view, v_->view}, plain_, out_->view, lse_->view);
  }
  void backward() {
    forward_once(kind_, 1);
    attention_backward(input(), plan_, out_->view, lse_->view, out_grad_->view,
                       {.q = q_grad_->view,
                        .k = k_grad_->view,
                        .v = v_grad_->view,
                        .bias = &bias_,
                        .relative = &relative_,
                        .terms = term_grads_.terms<Tensor>()});
    model::frequencies_gradient(plan_, window_, input().q, q_grad_->view, input().k,
                                k_grad_->view);
    rotate_back(plan_.query_rotations, q_grad_->view);
    rotate_back(plan_.key_rotations, k_grad_->view);
  }
  void plain_backward() {
    forward_once(kind_, 2);
    attention_backward({q_->view, k_->view, v_->view}, plain_, out_->view, lse_->view,
                       out_grad_->view,
                       {.q = q_grad_->view, .k = k_grad_->view, .v = v_grad_->view});
  }

 private:
  AttentionInput input() const {
    const bool turned = !plan_.query_rotations.empty();
    return {.q = (turned ? turned_q_ : q_)->view,
            .k = (turned ? turned_k_ : k_)->view,
            .v = v_->view,
            .terms = terms_.terms<ConstTensor>()};
  }
  static void rotate_back(const std::vector<HeadRotation>& rotations, View<float, 4> grad) {
    for (const HeadRotation& one : rotations)  // at most one
      std::visit(
          [&]<typename Table>(const Table& table) {
            if constexpr (std::is_same_v<Table, Vjepa2Table>)
              rotate_backward(grad, table);
            else
              rotate(grad, table, Direction::inverse);
          },
          one);
  }
  // The results of the forward pass that the backward pass reads.
  void forward_once(int& kind, int wanted) {
    if (kind == wanted) return;
    wanted == 1 ? forward() : plain_forward();
    kind = wanted;
  }

  model::Encoding encoding_;
  mutable TermArrays terms_;  // its tensors are not constant
  TermArrays term_grads_;
  model::Window window_;
  LayerPlan plan_;
  AttentionPlan plain_;
  Shared<float, 4> q_, k_, v_, turned_q_, turned_k_, out_, out_grad_, q_grad_, k_grad_, v_grad_;
  Shared<float, 3> lse_;
  BiasGradient bias_;
  RelativeGradient relative_;
  int kind_ = 0;
};

Kernel beside_kernel(const model::EncodingInfo& info, int64_t tokens, BesidePass pass) {
  const bool forward = pass == BesidePass::forward;
  // Separate calls, because the roof runs between the runs of the kernel.
  const auto call = std::make_shared<BesideCall>(info, tokens, pass);
  const auto plain = std::make_shared<BesideCall>(info, tokens, pass);
  Kernel kernel;
  kernel.name = "beside";
  kernel.detail = fmt::format("{} {} [{}, {}, {}]", info.name, forward ? "forward" : "backward",
                              tokens, beside_heads, beside_size);
  kernel.roof = Roof::arithmetic;
  const auto count = static_cast<double>(tokens);
  kernel.work = count * (count + 1) / 2 * beside_heads * beside_size * (forward ? 4 : 10);
  kernel.run = [=] { forward ? call->forward() : call->backward(); };
  const double work = kernel.work;
  kernel.make_roof = [=]() -> RoofRun {
    return {[=] { forward ? plain->plain_forward() : plain->plain_backward(); }, work,
            "plain attention of the same call"};
  };
  return kernel;
}

}  // namespace

// The encodings that change attention itself, and rotations without a table for all heads.
std::vector<KernelMaker> beside_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  for (const model::EncodingInfo& info : model::encodings()) {
    const model::Encoding usual = info.usual({64, 1, 64});
    const bool rotation = model::includes(info.enters, model::Place::queries_and_keys) &&
                          !model::rotary_frequencies(usual);
    if (!rotation && !model::includes(info.enters, model::Place::scores) &&
        !model::properties(usual).causal && model::token_terms({usual}).empty())
      continue;
    for (const BesidePass pass : {BesidePass::forward, BesidePass::backward})
      all.push_back({"beside " + std::string(info.name), [&info, only, pass] {
                       return beside_kernel(info, only.value_or(4096), pass);
                     }});
  }
  return all;
}

}  // namespace gnomon::bench
