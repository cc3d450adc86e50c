#include "src/cuda/arguments.h"

#include "src/core/tensor.h"

namespace gnomon::cuda {
namespace {

std::string device_text(Device device) {
  switch (device.type) {
    case DeviceType::cpu:
      return "cpu";
    case DeviceType::cuda:
    case DeviceType::cuda_managed:
      return "cuda:" + std::to_string(device.id);
    case DeviceType::cuda_host:
      return "cuda_host";
  }
  return "device type " + std::to_string(static_cast<int>(device.type));
}

std::string shape_of(const ConstTensor& tensor) { return internal::shape_text(tensor); }

}  // namespace

void Arguments::check(std::string_view name, const ConstTensor& tensor, std::int32_t least,
                      std::int32_t most) {
  const std::string subject(name);
  if (!tensor.data && !tensor.shape)
    refuse(operation_, subject + " must be given", "no tensor");
  if (tensor.rank < least || tensor.rank > most || !tensor.shape)
    refuse(operation_,
           subject + " must have " + std::to_string(least) +
               (least == most ? "" : " to " + std::to_string(most)) + " axes",
           std::to_string(tensor.rank) + " axes, " + shape_of(tensor));
  const Device device = tensor.device;
  if (device.type != DeviceType::cuda && device.type != DeviceType::cuda_managed)
    refuse(operation_, subject + " must be on a CUDA device", device_text(device));
  if (device_ >= 0 && device.id != device_)
    refuse(operation_, subject + " must be on the device cuda:" + std::to_string(device_),
           device_text(device));
  device_ = device.id;
  for (std::int32_t axis = 0; axis < tensor.rank; ++axis)
    if (tensor.shape[axis] < 0)
      refuse(operation_, "the extents of " + subject + " must not be negative",
             shape_of(tensor));
  if (!internal::fits(tensor))
    refuse(operation_, subject + " must have fewer than 2^59 elements", shape_of(tensor));
  if (!tensor.data && tensor.size() != 0)
    refuse(operation_, subject + " must have data", "a null pointer");
}

void Arguments::check(std::string_view name, const ConstTensor& tensor, std::int32_t rank,
                      DataType type) {
  check(name, tensor, rank, rank);
  check_type(name, tensor, type);
}

void Arguments::check_rows(std::string_view name, const ConstTensor& tensor, std::int32_t least,
                           std::int32_t most) {
  check(name, tensor, least, most);
  if (tensor.extent(tensor.rank - 1) > 1 && tensor.stride(tensor.rank - 1) != 1)
    refuse(operation_,
           "the last axis of " + std::string(name) + " must be contiguous: stride 1",
           tensor.stride(tensor.rank - 1));
}

void Arguments::check_type(std::string_view name, const ConstTensor& tensor,
                           DataType type) const {
  if (tensor.dtype == type) return;
  refuse(operation_, std::string(name) + " must have elements of " + gnomon::name(type),
         gnomon::name(tensor.dtype));
}

void Arguments::refuse_shape(std::string_view name, std::string_view rule,
                             const ConstTensor& tensor) const {
  refuse(operation_, std::string(name) + " must be " + std::string(rule), shape_of(tensor));
}

bool aligned(const ConstTensor& tensor, std::int64_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(data<char>(tensor)) % static_cast<std::uintptr_t>(bytes))
    return false;
  for (std::int32_t axis = 0; axis + 1 < tensor.rank; ++axis)
    if (tensor.extent(axis) > 1 && tensor.stride(axis) * (tensor.dtype.bits / 8) % bytes)
      return false;
  return true;
}

}  // namespace gnomon::cuda
