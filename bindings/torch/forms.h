// The forms of attention in LibTorch's operators. Not installed.
#pragma once

#include <torch/types.h>

#include "gnomon/bias/form.h"
#include "gnomon/relative/form.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/vjepa2.h"

namespace gnomon::libtorch {

// Positions of queries [B or 1, T] and keys [B or 1, S], int64, on the device of the scores.
struct Places {
  at::Tensor queries, keys;
};

// x: [B, T, H, D]. Returns x rotated by the table.
at::Tensor rotated(const at::Tensor& x, const RotaryTable& table);
at::Tensor rotated(const at::Tensor& x, const Vjepa2Table& table);

// The bias [B or 1, H, T, S]. numbers: the values of the form, [H, N], on the device and of the
// type of the scores. Throws std::invalid_argument for a DenseBias.
at::Tensor bias_of(const BiasForm& form, const at::Tensor& numbers, const Places& places);

// Expands products by vector to products by pair of query and key, [B, H, T, S]. products: of
// queries with the vectors of a table, [B, H, T, R], or of keys, [B, H, S, R].
at::Tensor met_by_queries(const RelativeVectors& table, const at::Tensor& products,
                          const Places& places);
at::Tensor met_by_keys(const RelativeVectors& table, const at::Tensor& products,
                       const Places& places);
// Sums weights [B, H, T, S] by vector: [B, H, T, R].
at::Tensor weight_of_each(const RelativeVectors& table, const at::Tensor& weights,
                          const Places& places);

}  // namespace gnomon::libtorch
