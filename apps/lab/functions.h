// The memory-bound parts of the lab's Transformer, each as one function with its gradient
// instead of several operators and nodes of a graph. Float tensors on the CPU run on the
// kernels of kernels.h. Other tensors run on LibTorch's operators, with the same results.
//
// Letters: N rows (windows times bytes), C and D numbers in a row.
#pragma once

#include <torch/types.h>

namespace gnomon::lab {

// weight[ids]: ids [N] int64, weight [V, C]; returns [N, C].
at::Tensor rows_of(const at::Tensor& weight, const at::Tensor& ids);

// The residual sum x + added and its layer norm, all [N, C]. If `added` is undefined, the sum
// is x.
struct NormedSum {
  at::Tensor sum, normed;
};
NormedSum add_and_norm(const at::Tensor& x, const at::Tensor& added, const at::Tensor& gain,
                       const at::Tensor& shift);

// x weight^T: x [N, C], weight [D, C]; returns [N, D].
at::Tensor project(const at::Tensor& x, const at::Tensor& weight);

// project(gelu(project(x, in)), out): in [D, C], out [C, D].
at::Tensor feed_forward(const at::Tensor& x, const at::Tensor& in, const at::Tensor& out);

// Returns the mean cross entropy in nats of logits [N, C] and targets [N] int64, a scalar.
at::Tensor mean_cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace gnomon::lab
