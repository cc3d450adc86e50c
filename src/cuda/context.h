// The context of a kernel: indices, barriers, shuffles and vectors. A kernel is a functor over
// the context, compiled by nvcc for the device (DeviceContext) and by the C++ compiler for the
// emulator (HostContext, emulator.h):
//
//   struct Add {
//     static constexpr bool synchronizes = false;  // whether lanes wait for each other
//     static constexpr int max_threads = 256;
//     float* x;
//     template <class Context>
//     GNOMON_DEVICE void operator()(Context& context) const { x[context.thread()] += 1; }
//   };
//
// The compilers must not fuse products and sums (--fmad=false, -ffp-contract=off): kernels call
// std::fma where they want it, so a kernel has the same bits on the device and in the emulator.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define GNOMON_DEVICE __device__ __forceinline__
#define GNOMON_UNROLL _Pragma("unroll")
#define GNOMON_NO_UNROLL _Pragma("unroll 1")
#else
#define GNOMON_DEVICE inline
#define GNOMON_UNROLL
#define GNOMON_NO_UNROLL
#endif

namespace gnomon::cuda {

constexpr int warp_size = 32;

// N elements that are loaded or stored by one instruction; aligned to their size.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vector {
  T values[N];

  GNOMON_DEVICE T& operator[](int i) { return values[i]; }
  GNOMON_DEVICE const T& operator[](int i) const { return values[i]; }
};

template <typename T, int N>
GNOMON_DEVICE Vector<T, N> load(const T* from) {
  return *reinterpret_cast<const Vector<T, N>*>(from);
}
template <typename T, int N>
GNOMON_DEVICE void store(T* to, const Vector<T, N>& vector) {
  *reinterpret_cast<Vector<T, N>*>(to) = vector;
}

// Division of numbers below 2^31 by a number that the host knows: a product instead of the 20
// instructions of a division (Granlund and Montgomery 1994).
struct Divisor {
  std::uint32_t value = 1, multiplier = 1, shift = 0;

  Divisor() = default;
  // of: 1 to 2^31
  explicit Divisor(std::int64_t of) : value(static_cast<std::uint32_t>(of)) {
    while ((std::uint64_t{1} << shift) < value) ++shift;
    const std::uint64_t rest = (std::uint64_t{1} << shift) - value;
    multiplier = static_cast<std::uint32_t>((rest << 32) / value + 1);
  }
  GNOMON_DEVICE std::uint32_t quotient(std::uint32_t n) const {
#if defined(__CUDA_ARCH__)
    return (__umulhi(n, multiplier) + n) >> shift;
#else
    return (static_cast<std::uint32_t>(std::uint64_t{n} * multiplier >> 32) + n) >> shift;
#endif
  }
  GNOMON_DEVICE int quotient(int n) const {
    return static_cast<int>(quotient(static_cast<std::uint32_t>(n)));
  }
  // The divisor, as a factor.
  GNOMON_DEVICE int times(int n) const { return n * static_cast<int>(value); }
};

template <typename T>
GNOMON_DEVICE T least(T a, T b) {
  return b < a ? b : a;
}

#if defined(__CUDACC__)

class DeviceContext {
 public:
  __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ int threads() const { return static_cast<int>(blockDim.x); }
  __device__ __forceinline__ std::int64_t block() const { return blockIdx.x; }
  __device__ __forceinline__ std::int64_t blocks() const { return gridDim.x; }

  // Waits for all threads of the block. Memory written before is visible after.
  __device__ __forceinline__ void barrier() const { __syncthreads(); }
  // The dynamic shared memory of the block, aligned to 16 bytes.
  template <typename T>
  __device__ __forceinline__ T* shared() const {
    extern __shared__ uint4 gnomon_shared[];
    return reinterpret_cast<T*>(gnomon_shared);
  }

  // Collective in a warp: all 32 threads must call them.
  template <typename T>
  __device__ __forceinline__ T shuffle(T value, int lane) const {
    return __shfl_sync(0xffffffffu, value, lane);
  }
  template <typename T>
  __device__ __forceinline__ T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  }
  // Bit i: whether thread i of the warp has the condition.
  __device__ __forceinline__ std::uint32_t ballot(bool condition) const {
    return __ballot_sync(0xffffffffu, condition);
  }
};

#endif

}  // namespace gnomon::cuda
