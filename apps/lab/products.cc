#include "apps/lab/products.h"

#include <torch/torch.h>

#include <atomic>
#include <optional>

#include "apps/lab/products_amx.h"

namespace gnomon::lab {
namespace {

std::atomic<Products> chosen{Products::fastest};

// The tensor as a factor for AMX. Empty if AMX does not support it.
std::optional<amx::Factor> factor(const at::Tensor& x, std::int64_t summed) {
  if (!x.device().is_cpu() || x.scalar_type() != at::kFloat) return {};
  if (x.stride(summed) == 1)
    return amx::Factor{x.data_ptr<float>(), x.stride(1 - summed), amx::Order::summed_last};
  if (x.stride(1 - summed) == 1)
    return amx::Factor{x.data_ptr<float>(), x.stride(summed), amx::Order::summed_first};
  return {};
}

}  // namespace

void set_products(Products products) { chosen = products; }

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  if (chosen == Products::fastest && amx::available() && a.numel() && b.numel()) {
    const auto left = factor(a, 1), right = factor(b, 0);
    if (left && right) {
      at::Tensor c = at::empty({a.size(0), b.size(1)}, a.options());
      amx::multiply(a.size(0), b.size(1), a.size(1), *left, *right, c.data_ptr<float>());
      return c;
    }
  }
  return at::mm(a, b);
}

}  // namespace gnomon::lab
