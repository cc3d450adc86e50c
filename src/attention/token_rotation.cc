#include "src/attention/token_rotation.h"

#include <algorithm>
#include <string>

#include "gnomon/error.h"
#include "gnomon/rotary/token_angles.h"
#include "src/attention/check.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon::internal {
namespace {

constexpr Argument attention_argument(std::string_view name) { return {"attention", name}; }

// Rows [begin, begin + count) of the token axis. shape: of the result, kept by the caller.
template <typename TensorType>
TensorType rows_of(TensorType tensor, std::int64_t begin, std::int64_t count,
                   std::int64_t (&shape)[4], std::int64_t (&strides)[4]) {
  for (std::int32_t axis = 0; axis < 4; ++axis) {
    shape[axis] = axis == 1 ? count : tensor.extent(axis);
    strides[axis] = tensor.stride(axis);
  }
  if (tensor.data)
    tensor.data =
        static_cast<std::byte*>(tensor.start()) + begin * strides[1] * (tensor.dtype.bits / 8);
  tensor.byte_offset = 0;
  tensor.shape = shape;
  tensor.strides = strides;
  return tensor;
}

// A contiguous tensor like x, with memory of its own.
Tensor copy_like(const ConstTensor& x, DataType type, std::unique_ptr<std::byte[]>& memory,
                 std::int64_t (&shape)[4]) {
  for (std::int32_t axis = 0; axis < 4; ++axis) shape[axis] = x.extent(axis);
  const std::size_t bytes =
      checked_size("attention", "the elements of q or k",
                   {shape[0], shape[1], shape[2], shape[3], type.bits / 8});
  memory.reset(new std::byte[std::max<std::size_t>(bytes, 1)]);
  Tensor copy;
  copy.data = memory.get();
  copy.rank = 4;
  copy.dtype = type;
  copy.shape = shape;
  return copy;
}

}  // namespace

RotatedInput::RotatedInput(const AttentionInput& input, const AttentionPlan& plan)
    : input_(input) {
  const ConstTensor& angles = input.terms.angles;
  if (plan.token_rotation.has_value() != angles.has_data())
    refuse("attention", "angles must be given if, and only if, the plan has a token_rotation",
           angles.has_data() ? "angles" : "no angles");
  if (!plan.token_rotation) return;
  rotation_ = &*plan.token_rotation;
  for (const auto& [name, tensor] :
       {std::pair("q", &input.q), {"k", &input.k}, {"angles", &angles}})
    check_tensor(attention_argument(name), *tensor, 4);
  offset_ = known_mask(plan, input.q.extent(1), input.k.extent(1)).offset;
  if (input.k_scales.has_data())
    refuse("attention", "keys of int8 must be rotated before they are stored, got", "angles");
  if (angles.extent(1) != input.k.extent(1))
    refuse("attention",
           "angles must be given for all keys, " + std::to_string(input.k.extent(1)),
           angles.extent(1));
  if (offset_ < 0 || offset_ > input.k.extent(1) - input.q.extent(1))
    refuse(
        "attention",
        "queries that are rotated by the angles of tokens must be rows of the keys; with the "
        "offset, the last is row",
        offset_ + input.q.extent(1) - 1);
  if (rotation_->term == AngleTerm::increments) {
    keys_ = plan.keys ? *plan.keys : consecutive(input.k.extent(1));
    const Tensor sums = copy_like(
        angles, input.q.holds<double>() ? input.q.dtype : angles.dtype, angles_, angle_shape_);
    cumulative_angles(angles, keys_, {}, {}, sums);
    input_.terms.angles = sums;
  } else if (rotation_->term != AngleTerm::angles) {
    refuse("attention", "the term of a token_rotation must be angles or increments",
           static_cast<int>(rotation_->term));
  }
  const Tensor q = copy_like(input.q, input.q.dtype, q_, q_shape_),
               k = copy_like(input.k, input.k.dtype, k_, k_shape_);
  std::int64_t shape[4], strides[4];
  rotate_by_angles(input.q,
                   rows_of(input_.terms.angles, offset_, input.q.extent(1), shape, strides),
                   *rotation_, Direction::forward, q);
  rotate_by_angles(input.k, input_.terms.angles, *rotation_, Direction::forward, k);
  input_.q = q;
  input_.k = k;
}

void RotatedInput::backward(const AttentionGradient& gradient) const {
  if (!rotation_) return;
  const ConstTensor& angles = input_.terms.angles;
  const Tensor& grad = gradient.terms.angles;
  std::int64_t shape[4], strides[4], grad_shape[4], grad_strides[4];
  const std::int64_t queries = input_.q.extent(1);
  const ConstTensor of_queries = rows_of(angles, offset_, queries, shape, strides);
  if (!grad.has_data()) {
    rotate_by_angles(gradient.q, of_queries, *rotation_, Direction::inverse);
    rotate_by_angles(gradient.k, angles, *rotation_, Direction::inverse);
    return;
  }
  if (grad.rank == 4 && grad.extent(1) != angles.extent(1))
    refuse("attention",
           "the gradient of angles must be for all keys, " + std::to_string(angles.extent(1)),
           grad.extent(1));
  const bool increments = rotation_->term == AngleTerm::increments;
  std::unique_ptr<std::byte[]> memory;  // of the gradient of the sums
  std::int64_t sums_shape[4];
  const Tensor sums = increments ? copy_like(angles, angles.dtype, memory, sums_shape) : grad;
  by_type(attention_argument("the gradient of angles"), sums, [&]<typename T>(T) {
    const auto view = write<T, 4>(attention_argument("the gradient of angles"), sums);
    for (std::ptrdiff_t b = 0; b < view.extent(0); ++b)
      for (std::ptrdiff_t t = 0; t < view.extent(1); ++t)
        for (std::ptrdiff_t h = 0; h < view.extent(2); ++h)
          for (std::ptrdiff_t i = 0; i < view.extent(3); ++i) view(b, t, h, i) = T(0.0f);
  });
  rotate_by_angles_backward(input_.q, of_queries, *rotation_, gradient.q,
                            rows_of(sums, offset_, queries, grad_shape, grad_strides));
  rotate_by_angles_backward(input_.k, angles, *rotation_, gradient.k, sums);
  if (increments) cumulative_angles_backward(sums, keys_, {}, grad);
}

}  // namespace gnomon::internal
