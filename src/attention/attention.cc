#include "gnomon/attention/attention.h"

#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "src/attention/check.h"
#include "src/attention/problem.h"

namespace gnomon {
namespace {

using std::int64_t;

template <typename T, std::size_t Rank>
void check_shape(std::string_view name, View<T, Rank> tensor,
                 const std::array<std::ptrdiff_t, Rank>& wanted) {
  for (std::size_t axis = 0; axis < Rank; ++axis)
    if (tensor.extent(axis) != wanted[axis])
      refuse("attention",
             "axis " + std::to_string(axis) + " of " + std::string(name) + " must be " +
                 std::to_string(wanted[axis]),
             int64_t{tensor.extent(axis)});
}

template <typename T>
void check_contiguous(std::string_view name, View<T, 4> tensor) {
  if (tensor.extent(3) > 1 && tensor.stride(3) != 1)
    refuse("attention", "the last axis of " + std::string(name) + " must have stride 1",
           int64_t{tensor.stride(3)});
}

template <typename T>
void check_tensor(std::string_view name, View<T, 4> tensor,
                  const std::array<std::ptrdiff_t, 4>& wanted) {
  check_shape(name, tensor, wanted);
  check_contiguous(name, tensor);
}

template <typename T>
internal::Operand operand(View<const T, 4> tensor) {
  return {tensor.data(), {tensor.stride(0), tensor.stride(1), tensor.stride(2)}};
}
template <typename T>
internal::Result result(View<T, 4> tensor) {
  return {tensor.data(), {tensor.stride(0), tensor.stride(1), tensor.stride(2)}};
}

template <typename T>
void describe(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
              const AttentionMask& mask, const AttentionPosition& position, double scale,
              internal::AttentionProblem& problem) {
  problem.dtype = dtype_of<T>;
  problem.batch = q.extent(0), problem.queries = q.extent(1), problem.heads = q.extent(2);
  problem.size = q.extent(3);
  problem.keys = k.extent(1), problem.key_heads = k.extent(2);
  problem.value_size = v.extent(3);
  problem.scale = scale;
  problem.mask = mask, problem.position = position;
  problem.q = operand(q), problem.k = operand(k), problem.v = operand(v);
  check_contiguous("q", q);
  check_tensor("k", k, {q.extent(0), k.extent(1), k.extent(2), q.extent(3)});
  check_tensor("v", v, {q.extent(0), k.extent(1), k.extent(2), v.extent(3)});
  internal::check(problem);
}

}  // namespace

double softmax_scale(int64_t head_size) {
  if (head_size < 1) refuse("attention", "head size must be at least 1", head_size);
  return 1 / std::sqrt(static_cast<double>(head_size));
}

template <typename T>
void attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
               const AttentionMask& mask, const AttentionPosition& position,
               double softmax_scale, View<T, 4> out, View<Accumulator<T>, 3> lse) {
  internal::ForwardProblem<Accumulator<T>> problem;
  describe(q, k, v, mask, position, softmax_scale, problem);
  check_tensor("out", out, {q.extent(0), q.extent(1), q.extent(2), v.extent(3)});
  if (lse.data()) check_shape("lse", lse, {q.extent(0), q.extent(2), q.extent(1)});
  problem.out = result(out);
  problem.lse = lse;
  internal::run_forward(problem);
}

template <typename T>
void attention_backward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                        const AttentionMask& mask, const AttentionPosition& position,
                        double softmax_scale, View<const T, 4> out,
                        View<const Accumulator<T>, 3> lse, View<const T, 4> out_grad,
                        View<T, 4> q_grad, View<T, 4> k_grad, View<T, 4> v_grad,
                        BiasGradient* bias_grad) {
  internal::BackwardProblem<Accumulator<T>> problem;
  describe(q, k, v, mask, position, softmax_scale, problem);
  const std::array<std::ptrdiff_t, 4> of_out = {q.extent(0), q.extent(1), q.extent(2),
                                                v.extent(3)};
  check_tensor("out", out, of_out);
  check_tensor("out_grad", out_grad, of_out);
  check_shape("lse", lse, {q.extent(0), q.extent(2), q.extent(1)});
  check_tensor("q_grad", q_grad, q.extents());
  check_tensor("k_grad", k_grad, k.extents());
  check_tensor("v_grad", v_grad, v.extents());

  int64_t numbers = 0;  // of the bias for one head
  if (bias_grad) {
    const auto* strip = std::get_if<StripBias>(&position.bias);
    if (strip) numbers = strip->distances();
    if (std::holds_alternative<SlopeBias>(position.bias)) numbers = 1;
    if (std::holds_alternative<DenseBias>(position.bias) && bias_grad->dense.data()) {
      check_shape("bias_grad.dense", bias_grad->dense,
                  {q.extent(0), q.extent(2), q.extent(1), k.extent(1)});
      problem.dense_grad = bias_grad->dense;
    }
  }
  const int64_t per_row = problem.heads * numbers;
  std::vector<double> sums(static_cast<std::size_t>(problem.batch * per_row));
  std::vector<double> total(static_cast<std::size_t>(per_row));
  problem.bias_sums = sums.empty() ? nullptr : sums.data();
  problem.bias_numbers = numbers;
  problem.out = operand(out), problem.out_grad = operand(out_grad), problem.lse = lse;
  problem.q_grad = result(q_grad), problem.k_grad = result(k_grad);
  problem.v_grad = result(v_grad);
  for (std::ptrdiff_t b = 0; b < problem.dense_grad.extent(0); ++b)
    for (std::ptrdiff_t h = 0; h < problem.dense_grad.extent(1); ++h)
      for (std::ptrdiff_t i = 0; i < problem.dense_grad.extent(2); ++i)
        for (std::ptrdiff_t j = 0; j < problem.dense_grad.extent(3); ++j)
          problem.dense_grad(b, h, i, j) = 0;
  internal::run_backward(problem);
  for (std::size_t i = 0; i < sums.size(); ++i) total[i % total.size()] += sums[i];
  if (bias_grad) bias_grad->values = std::move(total);
}

#define GNOMON_INSTANTIATE(T)                                                                 \
  template void attention(View<const T, 4>, View<const T, 4>, View<const T, 4>,               \
                          const AttentionMask&, const AttentionPosition&, double, View<T, 4>, \
                          View<Accumulator<T>, 3>);                                           \
  template void attention_backward(                                                           \
      View<const T, 4>, View<const T, 4>, View<const T, 4>, const AttentionMask&,             \
      const AttentionPosition&, double, View<const T, 4>, View<const Accumulator<T>, 3>,      \
      View<const T, 4>, View<T, 4>, View<T, 4>, View<T, 4>, BiasGradient*);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
GNOMON_INSTANTIATE(double)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
