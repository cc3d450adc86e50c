#include "bindings/torch/device.h"

#if GNOMON_TORCH_CUDA
#include <c10/core/impl/VirtualGuardImpl.h>

#include "bindings/torch/views.h"
#include "gnomon/cuda/rotate.h"
#endif

namespace gnomon::libtorch {

#if GNOMON_TORCH_CUDA

namespace {

Tensor on_device(const at::Tensor& from) {
  return cuda::on_device(tensor(from), from.device().index());
}

}  // namespace

at::Tensor rotate_on_device(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            const RotaryFrequencies& frequencies, Direction direction) {
  if (!x.is_cuda() || x.scalar_type() == at::kDouble) return {};
  const at::Tensor from = with_contiguous_rows(x);
  at::Tensor out = at::empty_like(from, at::MemoryFormat::Contiguous);
  const c10::Stream stream =
      c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device());
  cuda::rotate(on_device(from),
               {.pairing = frequencies.pairing,
                .head_offset = frequencies.head_offset,
                .cos = on_device(cos),
                .sin = on_device(sin)},
               direction, on_device(out), static_cast<cuda::Stream>(stream.native_handle()));
  return out;
}

#else

at::Tensor rotate_on_device(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const RotaryFrequencies&, Direction) {
  return {};
}

#endif

}  // namespace gnomon::libtorch
