// Checks of input tensors. Every function throws std::invalid_argument. Not installed.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "gnomon/model/encoding.h"
#include "gnomon/torch/position.h"

namespace gnomon::libtorch {

std::string shape_text(const at::Tensor& tensor);

// Checks that the tensor is defined, strided, has `dims` dimensions and one of the four element
// types. `wanted`: the shape for the message, "[B, T, C]". Returns the tensor with a pending
// negation resolved.
at::Tensor checked(std::string_view operation, std::string_view name, const at::Tensor& tensor,
                   std::int64_t dims, std::string_view wanted);

// q, k and v as views [B, T, H, D], [B, S, Hk, D] and [B, S, Hk, Dv].
struct Inputs {
  at::Tensor q, k, v;
};
// Checks the layout, the types, the devices, and that the sizes fit each other.
Inputs checked_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const AttendOptions& options);
at::Tensor checked_packed(const at::Tensor& qkv, std::int64_t key_heads,
                          const AttendOptions& options);
// Converts a result to the layout of the inputs.
at::Tensor in_layout(const at::Tensor& out, Layout layout);

// Checks the visibility, the positions, and that the form of each encoding fits the visibility.
// queries: [B, T, ...]; `keys`: S.
void check_call(const model::Mixture& mixture, const at::Tensor& queries, std::int64_t keys,
                const AttendOptions& options);

// Checks the number of heads, if the lowered encodings have values for each head. `wanted`: the
// shape for the message.
void check_heads(const model::Mixture& mixture, const LayerPlan& lowered,
                 std::string_view wanted, const at::Tensor& given, std::int64_t heads);
// "[B, T, H, D]" or "[B, H, T, D]".
std::string_view wanted_shape(Layout layout);

}  // namespace gnomon::libtorch
