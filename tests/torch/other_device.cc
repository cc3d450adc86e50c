#include "torch/other_device.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/version.h>
#if TORCH_VERSION_MAJOR >= 2
#include <ATen/detail/XPUHooksInterface.h>
#endif

#include <cstdlib>
#include <mutex>
#include <regex>
#include <utility>
#include <vector>

namespace gnomon::testing {
namespace other_device_parts {

using torch::jit::Stack;

std::mutex mutex;
std::set<std::string> operators;

bool is_other(const at::Tensor& one) {
  return one.defined() && one.device().type() == at::DeviceType::XPU;
}

// A CPU tensor of integers on the memory of a tensor of either device.
at::Tensor bits_of(const at::Tensor& one) {
  constexpr at::ScalarType by_size[] = {at::kByte, at::kShort, at::kInt, at::kLong};
  std::size_t size = 0;
  while ((std::int64_t{1} << size) < static_cast<std::int64_t>(one.element_size())) ++size;
  return at::from_blob(one.data_ptr(), one.sizes(), one.strides(), by_size[size]);
}

// Allocates and encodes. The result has the strides of `one`.
at::Tensor to_other(const at::Tensor& one) {
  const std::size_t bytes =
      at::detail::computeStorageNbytes(one.sizes(), one.strides(), one.element_size());
  void* memory = std::calloc(bytes + 1, 1);
  at::DataPtr owner(memory, memory, &std::free, other_device());
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(owner));
  at::Tensor other = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::XPU), one.dtype());
  other.unsafeGetTensorImpl()->set_sizes_and_strides(one.sizes(), one.strides());
  if (one.numel() > 0) bits_of(other).copy_(bits_of(one).bitwise_not());
  return other;
}

at::Tensor to_cpu(const at::Tensor& other) {
  at::Tensor one = at::empty_like(bits_of(other), at::device(at::kCPU).dtype(other.dtype()));
  if (one.numel() > 0) bits_of(one).copy_(bits_of(other).bitwise_not());
  return one;
}

// The arguments and results of one call.
struct Call {
  std::string name;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies = {};  // on the device, on the CPU

  at::Tensor argument(const at::Tensor& one) {
    if (!one.defined()) return one;
    if (is_other(one)) {
      copies.emplace_back(one, to_cpu(one));
      return copies.back().second;
    }
    TORCH_CHECK(one.dim() == 0, name, ": tensors are on different devices, ", one.device(), " ",
                one.sizes(), " among them");
    return one;
  }
  at::Tensor result(const at::Tensor& one) const {
    for (const auto& [other, copy] : copies)
      if (one.defined() && one.is_same(copy)) return other;
    return one.defined() && one.device().is_cpu() ? to_other(one) : one;
  }
};

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  Call call{schema.name()};
  {
    const std::lock_guard lock(mutex);
    operators.insert(schema.name());
  }
  const std::size_t begin = stack->size() - schema.arguments().size();
  std::vector<at::IValue> given(stack->begin() + static_cast<std::ptrdiff_t>(begin),
                                stack->end());
  for (std::size_t i = 0; i < given.size(); ++i) {
    at::IValue& one = (*stack)[begin + i];
    if (one.isTensor()) {
      one = call.argument(one.toTensor());
    } else if (one.isTensorList()) {
      c10::List<at::Tensor> all;
      for (const at::Tensor& part : one.toTensorVector()) all.push_back(call.argument(part));
      one = all;
    } else if (one.isList() && one.toListRef().size() > 0 &&
               schema.arguments()[i].type()->str() == "Tensor?[]") {
      c10::List<c10::optional<at::Tensor>> all;
      for (const at::IValue& part : one.toListRef())
        all.push_back(part.isTensor()
                          ? c10::optional<at::Tensor>(call.argument(part.toTensor()))
                          : c10::nullopt);
      one = all;
    } else if (one.isDevice()) {
      one = at::Device(at::kCPU);
    }
  }
  op.callBoxed(stack);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (!alias || !alias->isWrite() || !given[i].isTensor()) continue;
    for (const auto& [other, copy] : call.copies)
      if (other.is_same(given[i].toTensor())) {
        if (other.sizes() != copy.sizes()) {  // an output whose size is set by the operator
          const at::Tensor fresh = to_other(copy);
          other.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
          other.unsafeGetTensorImpl()->set_sizes_and_strides(fresh.sizes(), fresh.strides());
        } else if (copy.numel() > 0) {
          bits_of(other).copy_(bits_of(copy).bitwise_not());
        }
      }
  }
  for (std::size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) {
    at::IValue& one = (*stack)[i];
    if (one.isTensor()) {
      one = call.result(one.toTensor());
    } else if (one.isTensorList()) {
      c10::List<at::Tensor> all;
      for (const at::Tensor& part : one.toTensorVector()) all.push_back(call.result(part));
      one = all;
    }
  }
}

// copy_(self, src, non_blocking): between devices.
void copy(const c10::OperatorHandle&, Stack* stack) {
  const bool waits = torch::jit::pop(stack).toBool();
  const at::Tensor from = torch::jit::pop(stack).toTensor(),
                   to = torch::jit::pop(stack).toTensor();
  at::Tensor source = is_other(from) ? to_cpu(from) : from;
  if (!is_other(to)) {
    to.copy_(source, waits);
  } else if (to.numel() > 0) {
    source = source.to(to.scalar_type()).expand(to.sizes()).contiguous();
    bits_of(to).copy_(bits_of(source).bitwise_not());
  }
  torch::jit::push(stack, to);
}

at::Tensor view_of(const at::Tensor& one, at::IntArrayRef sizes, at::IntArrayRef strides,
                   std::int64_t offset) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(one.storage()), one.key_set(), one.dtype());
  view.unsafeGetTensorImpl()->set_storage_offset(offset);
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return view;
}

// as_strided(self, size, stride, storage_offset)
void as_strided(const c10::OperatorHandle&, Stack* stack) {
  const at::IValue offset = torch::jit::pop(stack);
  const std::vector<std::int64_t> strides = torch::jit::pop(stack).toIntVector(),
                                  sizes = torch::jit::pop(stack).toIntVector();
  const at::Tensor one = torch::jit::pop(stack).toTensor();
  torch::jit::push(stack, view_of(one, sizes, strides,
                                  offset.isNone() ? one.storage_offset() : offset.toInt()));
}

// _reshape_alias(self, size, stride)
void reshape_alias(const c10::OperatorHandle&, Stack* stack) {
  const std::vector<std::int64_t> strides = torch::jit::pop(stack).toIntVector(),
                                  sizes = torch::jit::pop(stack).toIntVector();
  const at::Tensor one = torch::jit::pop(stack).toTensor();
  torch::jit::push(stack, view_of(one, sizes, strides, one.storage_offset()));
}

// view(self, size)
void view(const c10::OperatorHandle&, Stack* stack) {
  const std::vector<std::int64_t> wanted = torch::jit::pop(stack).toIntVector();
  const at::Tensor one = torch::jit::pop(stack).toTensor();
  const at::DimVector sizes = at::infer_size_dv(wanted, one.numel());
  const auto strides = at::detail::computeStride(one.sizes(), one.strides(), sizes);
  TORCH_CHECK(strides.has_value(), "view: the strides do not allow ", at::IntArrayRef(sizes));
  torch::jit::push(stack, view_of(one, sizes, *strides, one.storage_offset()));
}

// set_(self, source, storage_offset, size, stride): archives read whole storages.
void set_storage(const c10::OperatorHandle&, Stack* stack) {
  const std::vector<std::int64_t> strides = torch::jit::pop(stack).toIntVector(),
                                  sizes = torch::jit::pop(stack).toIntVector();
  const std::int64_t offset = torch::jit::pop(stack).toInt();
  const c10::Storage storage = torch::jit::pop(stack).toStorage();
  const at::Tensor one = torch::jit::pop(stack).toTensor();
  one.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
  one.unsafeGetTensorImpl()->set_storage_offset(offset);
  one.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  torch::jit::push(stack, one);
}

// One device with one stream. Nothing is asynchronous.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  at::DeviceType type() const override { return at::DeviceType::XPU; }
  at::Device exchangeDevice(at::Device) const override { return other_device(); }
  at::Device getDevice() const override { return other_device(); }
  void setDevice(at::Device) const override {}
  void uncheckedSetDevice(at::Device) const noexcept override {}
  c10::Stream getStream(at::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, other_device());
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};
C10_REGISTER_GUARD_IMPL(XPU, Guard);

#if TORCH_VERSION_MAJOR >= 2
// A backward pass asks the accelerator of LibTorch for its streams.
struct Hooks final : at::XPUHooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasXPU() const override { return true; }
  at::DeviceIndex getNumGPUs() const override { return 1; }
  at::DeviceIndex current_device() const override { return 0; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
};
}  // namespace other_device_parts
}  // namespace gnomon::testing
namespace at {
C10_REGISTER_CLASS(XPUHooksRegistry, XPUHooks, gnomon::testing::other_device_parts::Hooks)
}
namespace gnomon::testing {
namespace other_device_parts {
#endif

TORCH_LIBRARY_IMPL(_, XPU, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, XPU, library) {
  library.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&copy>());
  library.impl("as_strided", torch::CppFunction::makeFromBoxedFunction<&as_strided>());
  library.impl("_reshape_alias", torch::CppFunction::makeFromBoxedFunction<&reshape_alias>());
  library.impl("set_.source_Storage_storage_offset",
               torch::CppFunction::makeFromBoxedFunction<&set_storage>());
  library.impl("view", torch::CppFunction::makeFromBoxedFunction<&view>());
}

}  // namespace other_device_parts

std::set<std::string> take_operators_of_other_device() {
  const std::lock_guard lock(other_device_parts::mutex);
  return std::exchange(other_device_parts::operators, {});
}

std::set<std::string> unfit_for_cuda(const std::set<std::string>& operators) {
  const std::regex unfit(
      "aten::(avg_pool3d_backward|_?adaptive_.*_pool.*_backward|fractional_max_pool.*_backward|"
      "max_unpool.*|upsample_.*_backward|reflection_pad.*_backward|nll_loss2d_.*|"
      "_?ctc_loss.*_backward|_embedding_bag.*_backward|put_?|histc|bincount|median|nanmedian|"
      "grid_sampler_.*_backward|scatter_reduce_?|index_reduce_?|kthvalue|"
      "normal_?|uniform_?|random_?|bernoulli_?|exponential_?|multinomial|rand.*|native_"
      "dropout)");
  std::set<std::string> found;
  for (const std::string& name : operators)
    if (std::regex_match(name, unfit)) found.insert(name);
  return found;
}

}  // namespace gnomon::testing
