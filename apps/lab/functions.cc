#include "apps/lab/functions.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/torch.h>

#include "apps/lab/kernels.h"
#include "apps/lab/products.h"

namespace gnomon::lab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

bool for_kernels(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat;
}
kernels::Rows rows(const at::Tensor& x) { return {x.size(0), x.size(1)}; }
const float* read(const at::Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }
float* write(const at::Tensor& x) { return x.data_ptr<float>(); }
at::Tensor contiguous(const at::Tensor& x) { return x.defined() ? x.contiguous() : x; }

struct RowsOf : Function<RowsOf> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight,
                            const at::Tensor& ids) {
    context->save_for_backward({ids});
    context->saved_data["count"] = weight.size(0);
    return weight.index_select(0, ids);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor ids = context->get_saved_variables()[0], grad = grads[0].contiguous();
    const std::int64_t width = grad.size(1);
    const at::Tensor sum =
        at::zeros({context->saved_data["count"].toInt(), width}, grad.options());
    const std::int64_t* id = ids.data_ptr<std::int64_t>();
    const float* from = read(grad);
    for (std::int64_t n = 0; n < grad.size(0); ++n, from += width) {
      float* to = write(sum) + id[n] * width;
      for (std::int64_t c = 0; c < width; ++c) to[c] += from[c];
    }
    return {sum, {}};
  }
};

struct AddAndNorm : Function<AddAndNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x_in,
                               at::TensorList added_in, const at::Tensor& gain,
                               const at::Tensor& shift) {
    context->set_materialize_grads(false);
    context->saved_data["adds"] = !added_in.empty();
    const at::Tensor x = contiguous(x_in);
    const at::Tensor added = added_in.empty() ? at::Tensor() : added_in[0].contiguous();
    const at::Tensor sum = added.defined() ? at::empty_like(x) : x, normed = at::empty_like(x);
    const at::Tensor mean = at::empty({x.size(0)}, x.options()), inverse = at::empty_like(mean);
    kernels::norm(rows(x), read(x), read(added), read(gain), read(shift), write(sum),
                  write(normed), write(mean), write(inverse));
    context->save_for_backward({sum, mean, inverse, gain});
    return {sum, normed};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &sum = saved[0], &gain = saved[3];
    const at::Tensor sum_grad = contiguous(grads[0]), normed_grad = contiguous(grads[1]);
    const at::Tensor gain_grad = at::empty_like(gain), shift_grad = at::empty_like(gain);
    const at::Tensor x_grad = at::empty_like(sum);
    kernels::norm_backward(rows(sum), read(sum), read(saved[1]), read(saved[2]), read(gain),
                           read(normed_grad), read(sum_grad), write(x_grad), write(gain_grad),
                           write(shift_grad));
    if (!context->saved_data["adds"].toBool()) return {x_grad, gain_grad, shift_grad};
    return {x_grad, x_grad, gain_grad, shift_grad};
  }
};

// LibTorch's own node computes the gradient of weight^T, which must then be copied.
struct Project : Function<Project> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    return product(x, weight.t());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    return {product(grads[0], saved[1]), product(grads[0].t(), saved[0])};
  }
};

struct FeedForward : Function<FeedForward> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& in,
                            const at::Tensor& out) {
    const at::Tensor slope = product(x, in.t()), bent = at::empty_like(slope);
    kernels::gelu(slope.numel(), write(slope), write(bent));
    context->save_for_backward({x, in, out, slope, bent});
    return product(bent, out.t());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &in = saved[1], &out = saved[2], &slope = saved[3],
                     &bent = saved[4];
    const at::Tensor out_grad = product(grads[0].t(), bent), inner = product(grads[0], out);
    kernels::multiply(inner.numel(), read(slope), write(inner));
    return {product(inner, in), product(inner.t(), x), out_grad};
  }
};

struct MeanCrossEntropy : Function<MeanCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits_in,
                            const at::Tensor& targets) {
    const at::Tensor logits = logits_in.contiguous(), grad = at::empty_like(logits);
    const double loss = kernels::cross_entropy(rows(logits), read(logits),
                                               targets.data_ptr<std::int64_t>(), write(grad));
    context->save_for_backward({grad});
    return at::scalar_tensor(loss, logits.options());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor grad = context->get_saved_variables()[0];
    const bool last = grads[0].item<float>() == 1;  // the loss is the root of the backward pass
    return {last ? grad : grad * grads[0], {}};
  }
};

}  // namespace

at::Tensor rows_of(const at::Tensor& weight, const at::Tensor& ids) {
  return for_kernels(weight) ? RowsOf::apply(weight, ids) : weight.index_select(0, ids);
}

NormedSum add_and_norm(const at::Tensor& x, const at::Tensor& added, const at::Tensor& gain,
                       const at::Tensor& shift) {
  if (for_kernels(x)) {
    const variable_list both = AddAndNorm::apply(
        x, added.defined() ? at::TensorList(added) : at::TensorList(), gain, shift);
    return {both[0], both[1]};
  }
  const at::Tensor sum = added.defined() ? x + added : x;
  return {sum, at::layer_norm(sum, {sum.size(1)}, gain, shift)};
}

at::Tensor project(const at::Tensor& x, const at::Tensor& weight) {
  return for_kernels(x) ? Project::apply(x, weight) : at::linear(x, weight);
}

at::Tensor feed_forward(const at::Tensor& x, const at::Tensor& in, const at::Tensor& out) {
  if (for_kernels(x)) return FeedForward::apply(x, in, out);
  return at::linear(at::gelu(at::linear(x, in)), out);
}

at::Tensor mean_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  if (!for_kernels(logits)) return at::cross_entropy_loss(logits, targets);
  if (at::GradMode::is_enabled()) return MeanCrossEntropy::apply(logits, targets);
  const at::Tensor here = logits.contiguous();
  return at::scalar_tensor(
      kernels::cross_entropy(rows(here), read(here), targets.data_ptr<std::int64_t>(), nullptr),
      here.options());
}

}  // namespace gnomon::lab
