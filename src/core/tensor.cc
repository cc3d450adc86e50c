#include "src/core/tensor.h"

#include <span>

namespace gnomon {

std::string name(DataType type) {
  const char* kind = "?";
  switch (type.code) {
    case TypeCode::integer:
      kind = "i";
      break;
    case TypeCode::unsigned_integer:
      kind = "u";
      break;
    case TypeCode::floating:
      kind = "f";
      break;
    case TypeCode::bfloat:
      kind = "bf";
      break;
    case TypeCode::complex:
      kind = "complex";
      break;
    case TypeCode::boolean:
      return "bool";
    case TypeCode::float8_e4m3fn:
      return "f8e4m3";
  }
  std::string text(kind);
  text += std::to_string(type.bits);
  if (type.lanes != 1) text.append("x").append(std::to_string(type.lanes));
  return text;
}

namespace internal {
namespace {

std::string subject(const Argument& argument) {
  return argument.name.empty() ? "the tensor" : std::string(argument.name);
}

std::string device_text(Device device) {
  switch (device.type) {
    case DeviceType::cpu:
      return "cpu";
    case DeviceType::cuda:
      return "cuda:" + std::to_string(device.id);
    case DeviceType::cuda_host:
      return "cuda_host";
    case DeviceType::cuda_managed:
      return "cuda_managed:" + std::to_string(device.id);
  }
  return "device type " + std::to_string(static_cast<int>(device.type));
}

[[noreturn]] void refuse_missing(const Argument& argument) {
  refuse(argument.operation, subject(argument) + " must be given", "no tensor");
}

}  // namespace

std::string shape_text(const ConstTensor& tensor) {
  constexpr std::int32_t most = 64;  // as in NumPy
  if (tensor.rank < 0 || tensor.rank > most || !tensor.shape)
    return std::to_string(tensor.rank) + " axes";
  return gnomon::shape_text(
      std::span<const std::int64_t>(tensor.shape, static_cast<std::size_t>(tensor.rank)));
}

void refuse_rank(Argument argument, const ConstTensor& tensor, std::string_view ranks) {
  const std::string shape = shape_text(tensor), axes = std::to_string(tensor.rank) + " axes";
  refuse(argument.operation, subject(argument) + " must have " + std::string(ranks) + " axes",
         shape == axes ? axes : axes + ", " + shape);
}

void refuse_type(Argument argument, std::string_view types, DataType got) {
  if (got.bits == 0) refuse_missing(argument);
  refuse(argument.operation, subject(argument) + " must have elements of " + std::string(types),
         name(got));
}

void check_tensor_slowly(Argument argument, const ConstTensor& tensor, std::int32_t rank) {
  if (!tensor.data && !tensor.shape) refuse_missing(argument);
  if (tensor.rank != rank || (rank && !tensor.shape))
    refuse_rank(argument, tensor, std::to_string(rank));
  if (tensor.device.type != DeviceType::cpu)
    refuse(argument.operation, subject(argument) + " must be on the device cpu",
           device_text(tensor.device));
  for (std::int32_t axis = 0; axis < rank; ++axis)
    if (tensor.shape[axis] < 0)
      refuse(argument.operation,
             "the extents of " + subject(argument) + " must not be negative",
             shape_text(tensor));
  if (!fits(tensor))
    refuse(
        argument.operation,
        subject(argument) +
            " must have fewer than 2^59 elements, with the gaps between them (an extent of 0 "
            "counts as 1, and then at most 2^31)",
        shape_text(tensor));
  if (!addressable(tensor))
    refuse(argument.operation,
           "the byte_offset of " + subject(argument) + " must not lead past the last address",
           std::to_string(tensor.byte_offset));
  if (tensor.data && !aligned(tensor))
    refuse(argument.operation,
           "the elements of " + subject(argument) + " must be aligned to their size, " +
               std::to_string(tensor.dtype.bits / 8) + " bytes",
           "another address");
  if (!tensor.data && tensor.size() != 0)
    refuse(argument.operation, subject(argument) + " must have data", "a null pointer");
}

void refuse_type(Argument argument, DataType type, DataType got) {
  refuse_type(argument, name(type), got);
}

}  // namespace internal
}  // namespace gnomon
