// The pieces of the lab's Transformer that are memory's work, each one function with its
// gradient: what LibTorch does in several passes and several nodes of a graph. Tensors of float
// on the CPU go through kernels.h; all others through LibTorch's operators, which say the same.
//
// Letters: N rows (windows times bytes), C and D numbers in a row.
#pragma once

#include <torch/types.h>

namespace gnomon::lab {

// weight[ids]: ids [N] int64, weight [V, C]; returns [N, C].
at::Tensor rows_of(const at::Tensor& weight, const at::Tensor& ids);

// The residual sum x + added and its layer norm, all [N, C]. `added` may be undefined: x is the
// sum then.
struct NormedSum {
  at::Tensor sum, normed;
};
NormedSum add_and_norm(const at::Tensor& x, const at::Tensor& added, const at::Tensor& gain,
                       const at::Tensor& shift);

// x weight^T: x [N, C], weight [D, C]; returns [N, D].
at::Tensor project(const at::Tensor& x, const at::Tensor& weight);

// project(gelu(project(x, in)), out): in [D, C], out [C, D].
at::Tensor feed_forward(const at::Tensor& x, const at::Tensor& in, const at::Tensor& out);

// The mean cross-entropy in nats of logits [N, C] and targets [N] int64: a scalar.
at::Tensor mean_cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace gnomon::lab
