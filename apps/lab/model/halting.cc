#include "apps/lab/model/halting.h"

#include <ATen/ATen.h>

namespace gnomon::lab {

Halting::Halting(const at::Tensor& x, std::int64_t steps)
    : left_(steps),
      running_(at::ones({x.size(0), x.size(1)}, x.options().requires_grad(false))),
      sum_(at::zeros_like(running_)),
      output_(at::zeros(x.sizes(), x.options().requires_grad(false))),
      ponder_{sum_, sum_} {}

at::Tensor Halting::step(const at::Tensor& x, const at::Tensor& y,
                         const at::Tensor& probability) {
  const at::Tensor stays =
      --left_ > 0 ? running_ * (sum_ + probability).le(1 - epsilon) : at::zeros_like(running_);
  const at::Tensor halts = running_ - stays, remainder = halts * (1 - sum_);
  output_ = output_ + (stays * probability + remainder).unsqueeze(2) * y;
  ponder_.steps = ponder_.steps + running_;
  ponder_.remainder = ponder_.remainder + remainder;
  sum_ = sum_ + stays * probability;
  const at::Tensor next = at::where(running_.unsqueeze(2).gt(0), y, x);
  running_ = stays;
  return next;
}

bool Halting::ended() const { return running_.eq(0).all().item<bool>(); }

}  // namespace gnomon::lab
