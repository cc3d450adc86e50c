// Memory-bound operations of a training step, fused: one pass over memory for several operators
// of LibTorch. They read and write plain float arrays, are vectorized, and divide the work
// among threads in pieces that depend on the sizes only. functions.cc and adamw.cc call them.
//
// Letters: N rows, C numbers in a row.
#pragma once

#include <cstdint>

namespace gnomon::lab::kernels {

struct Rows {
  std::int64_t count, width;  // N, C
};

// sum = x + added; normed = (sum - mean) / sqrt(variance + 1e-5) gain + shift, for each row. If
// `added` is null, `sum` is x and is not written. mean, inverse: [N], for the backward pass.
void norm(Rows rows, const float* x, const float* added, const float* gain, const float* shift,
          float* sum, float* normed, float* mean, float* inverse);
// x_grad = sum_grad (null: zero) + the gradient through the norm. It is the gradient of x and
// of `added`. gain_grad and shift_grad [C] are overwritten.
void norm_backward(Rows rows, const float* sum, const float* mean, const float* inverse,
                   const float* gain, const float* normed_grad, const float* sum_grad,
                   float* x_grad, float* gain_grad, float* shift_grad);

// out = x Phi(x), and x becomes the derivative of x Phi(x). Error bound of both: 4e-7 max(1,
// |x|).
void gelu(std::int64_t count, float* x, float* out);
void multiply(std::int64_t count, const float* factor, float* x);  // x *= factor

// Returns the mean over rows of -log softmax(logits)[target], in nats. If `grad` is not null,
// writes the gradient of this mean to it.
double cross_entropy(Rows rows, const float* logits, const std::int64_t* targets, float* grad);

double sum_of_squares(std::int64_t count, const float* x);

// One step of AdamW (Loshchilov and Hutter 2019), with the formulas of LibTorch:
//
//   g = gradient_scale grad     m = beta1 m + (1 - beta1) g     v = beta2 v + (1 - beta2) g^2
//   x = keep x - step m / (sqrt(v) / root + epsilon)
struct AdamWStep {
  float beta1, beta2, epsilon;
  float gradient_scale;
  float keep;  // 1 - rate decay
  float step;  // rate / (1 - beta1^t)
  float root;  // sqrt(1 - beta2^t)
};
void adamw(std::int64_t count, const AdamWStep& step, const float* grad, float* m, float* v,
           float* x);

}  // namespace gnomon::lab::kernels
