// The forms of attention in LibTorch's operators. Not installed.
#pragma once

#include <torch/types.h>

#include <memory>
#include <variant>

#include "gnomon/bias/form.h"
#include "gnomon/relative/form.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/vjepa2.h"

namespace gnomon::libtorch {

// Positions of queries [B or 1, T] and keys [B or 1, S], int64, on the device of the scores.
struct Places {
  at::Tensor queries, keys;
};

// A table of rotations and the plan that owns it.
struct Rotation {
  std::variant<const RotaryTable*, const Vjepa2Table*> table;
  std::shared_ptr<const void> owner;
};
// x: [B, T, H, D]. Returns x rotated, with derivatives of every order.
at::Tensor rotated(const at::Tensor& x, const Rotation& rotation);
// The rotation of `rotated` and of its gradient (Direction::inverse, the transpose), without
// derivatives, on any device. A kernel of a device is called here.
at::Tensor rotate_heads(const at::Tensor& x, const RotaryTable& table, Direction direction);
at::Tensor rotate_heads(const at::Tensor& x, const Vjepa2Table& table, Direction direction);

// The bias [B or 1, H, T, S], with derivatives in the numbers. numbers: the values of the form,
// [H, N], on the device and of the type of the scores. Throws std::invalid_argument for a
// DenseBias.
at::Tensor bias_of(std::shared_ptr<const BiasForm> form, const at::Tensor& numbers,
                   const Places& places);
// The gradient of the numbers, [H, N], from that of the bias, [B or 1, H, T, S], without
// further derivatives, on any device. A kernel of a device is called here. Deterministic on
// CUDA: sums over axes, and index_put with accumulation, which sorts the indices.
at::Tensor bias_gradient(const BiasForm& form, const at::Tensor& numbers, const Places& places,
                         const at::Tensor& grad);

// Expands products by vector to products by pair of query and key, [B, H, T, S]. products: of
// queries with the vectors of a table, [B, H, T, R], or of keys, [B, H, S, R].
at::Tensor met_by_queries(const RelativeVectors& table, const at::Tensor& products,
                          const Places& places);
at::Tensor met_by_keys(const RelativeVectors& table, const at::Tensor& products,
                       const Places& places);
// As met_by_queries; a pair without a vector has a product of zero.
at::Tensor met_within(const RelativeVectors& table, const at::Tensor& products,
                      const Places& places);
// Sums weights [B, H, T, S] by vector: [B, H, T, R].
at::Tensor weight_of_each(const RelativeVectors& table, const at::Tensor& weights,
                          const Places& places);

}  // namespace gnomon::libtorch
