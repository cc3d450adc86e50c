// Launches of kernels, on a device or in the emulator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gnomon/cuda/device.h"
#include "src/cuda/context.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include "src/cuda/emulator.h"
#endif

namespace gnomon::cuda {

struct Launch {
  std::int64_t blocks = 0;
  int threads = 0;
  std::size_t shared_bytes = 0;
};

// Makes a device current while it exists.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = -1;  // -1: was current
};

// Returns the number of multiprocessors of a device.
int multiprocessors(int device);

#if defined(__CUDACC__)

// Throws Error with the name of the call unless the result is cudaSuccess.
void check(cudaError_t result, const char* call);

// The least number of blocks on a multiprocessor, from which the compiler computes the number
// of registers. Kernels may define it.
template <class Kernel>
inline constexpr int blocks_at_once = 1;
template <class Kernel>
  requires requires { Kernel::blocks_at_once; }
inline constexpr int blocks_at_once<Kernel> = Kernel::blocks_at_once;

template <class Kernel>
__global__ void __launch_bounds__(Kernel::max_threads, blocks_at_once<Kernel>)
    run_kernel(const __grid_constant__ Kernel kernel) {
  DeviceContext context;
  kernel(context);
}

// The current device must be that of the pointers of the kernel.
template <class Kernel>
void launch(const Kernel& kernel, const Launch& launch, Stream stream) {
  if (launch.blocks == 0) return;
  constexpr std::size_t without_opt_in = 48 << 10;  // bytes of shared memory
  const auto* const function = reinterpret_cast<const void*>(&run_kernel<Kernel>);
  if (launch.shared_bytes > without_opt_in)
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(launch.shared_bytes)),
          "cudaFuncSetAttribute");
  void* arguments[] = {const_cast<Kernel*>(&kernel)};
  check(cudaLaunchKernel(function, dim3(static_cast<unsigned>(launch.blocks)),
                         dim3(static_cast<unsigned>(launch.threads)), arguments,
                         launch.shared_bytes, stream),
        "cudaLaunchKernel");
}

#else

template <class Kernel>
void launch(const Kernel& kernel, const Launch& launch, Stream) {
  static_assert(Kernel::max_threads <= emulator::most_threads);
  const auto lane = [](const void* self, HostContext& context) {
    (*static_cast<const Kernel*>(self))(context);
  };
  emulator::run({launch.blocks, launch.threads, launch.shared_bytes, Kernel::max_threads,
                 Kernel::synchronizes},
                lane, &kernel);
}

#endif

}  // namespace gnomon::cuda
