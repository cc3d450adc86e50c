// Warp-collective products of matrices of 16-bit elements, asynchronous copies into shared
// memory, and powers of two: instructions of the device, and their emulation.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "src/cuda/context.h"
#include "src/cuda/elements.h"

#if !defined(__CUDACC__)
#include <cstring>
#include <vector>

#include "src/cuda/emulator.h"
#endif

namespace gnomon::cuda {

template <class Context>
class AsyncCopies;

// Values loaded from memory before are loaded again after, instead of kept in registers.
GNOMON_DEVICE void reload_memory() { asm volatile("" ::: "memory"); }
// Returns x. The compiler does not know that, so it computes what depends on the result where
// it is used, and not before a loop.
GNOMON_DEVICE int opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

#if defined(__CUDACC__)

// Error bound of the device: 2^-22 of the result (ex2.approx).
__device__ __forceinline__ float exp2_approximately(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Loads four 8x8 matrices from shared memory. `row` of lane l is row l % 8 of matrix l / 8: 8
// elements, aligned to 16 bytes. to[m] of lane l: elements 2 (l % 4) and the next of row l / 4
// of matrix m.
__device__ __forceinline__ void load_matrices(DeviceContext&, const void* row,
                                              std::uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

// c += a b for M x N products of 16x16 by 16x8 elements of T, in the fragments of
// mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"). Element i of c in lane l is at
// row l / 4 + 8 (i / 2), column 2 (l % 4) + i % 2.
template <typename T, int M, int N>
__device__ __forceinline__ void multiply_add(DeviceContext&, const std::uint32_t (&a)[M][4],
                                             const std::uint32_t (&b)[N][2],
                                             float (&c)[M][N][4]) {
#define GNOMON_MMA(type)                                                                \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                   \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"   \
               : "+f"(c[m][n][0]), "+f"(c[m][n][1]), "+f"(c[m][n][2]), "+f"(c[m][n][3]) \
               : "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b[n][0]),  \
                 "r"(b[n][1]))
  GNOMON_UNROLL
  for (int m = 0; m < M; ++m) {
    GNOMON_UNROLL
    for (int n = 0; n < N; ++n) {
      if constexpr (std::is_same_v<T, BFloat16>)
        GNOMON_MMA("bf16");
      else
        GNOMON_MMA("f16");
    }
  }
#undef GNOMON_MMA
}

// Copies from global to shared memory, in groups that complete in order. A copy that is not
// valid writes zeros and does not read.
template <>
class AsyncCopies<DeviceContext> {
 public:
  template <int bytes>
  __device__ __forceinline__ void copy(void* to, const void* from, bool valid) {
    const int read = valid ? bytes : 0;
    if constexpr (bytes == 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                   "l"(from), "r"(read));
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                   "l"(from), "r"(read));
  }
  // Ends a group.
  __device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::); }
  // Waits for all groups of this thread but the last `pending`. Other threads see the copies
  // after a barrier.
  template <int pending>
  __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
  }
};

#else

inline float exp2_approximately(float x) { return std::exp2(x); }

inline void load_matrices(HostContext& context, const void* row, std::uint32_t (&to)[4]) {
  const std::uint64_t* const rows = context.gather(reinterpret_cast<std::uintptr_t>(row));
  const int lane = context.thread() % 32;
  for (int m = 0; m < 4; ++m) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(
        static_cast<std::uintptr_t>(rows[8 * m + lane / 4]));
    std::memcpy(&to[m], bytes + 4 * (lane % 4), 4);
  }
}

template <typename T>
void unpack(std::uint32_t pair, float* to) {
  to[0] = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(pair)));
  to[1] = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(pair >> 16)));
}

// The sum of the 16 products in double, in order, and one rounding.
template <typename T, int M, int N>
void multiply_add(HostContext& context, const std::uint32_t (&a)[M][4],
                  const std::uint32_t (&b)[N][2], float (&c)[M][N][4]) {
  struct Fragments {
    float a[M][4][2], b[N][2][2];
  } own;
  for (int m = 0; m < M; ++m)
    for (int i = 0; i < 4; ++i) unpack<T>(a[m][i], own.a[m][i]);
  for (int n = 0; n < N; ++n)
    for (int i = 0; i < 2; ++i) unpack<T>(b[n][i], own.b[n][i]);
  const Fragments* all[32];
  const std::uint64_t* const gathered = context.gather(reinterpret_cast<std::uintptr_t>(&own));
  for (int lane = 0; lane < 32; ++lane)
    all[lane] = reinterpret_cast<const Fragments*>(static_cast<std::uintptr_t>(gathered[lane]));
  // Element (row, k) of a: register row / 8 + 2 (k / 8) of lane 4 (row % 8) + k % 8 / 2.
  // Element (k, column) of b: register k / 8 of lane 4 column + k % 8 / 2.
  const int lane = context.thread() % 32;
  for (int m = 0; m < M; ++m)
    for (int half = 0; half < 2; ++half)
      for (int n = 0; n < N; ++n)
        for (int e = 0; e < 2; ++e) {
          const int row = lane / 4, column = 2 * (lane % 4) + e;
          double sum = 0;
          for (int k = 0; k < 16; ++k)
            sum +=
                static_cast<double>(all[4 * row + k % 8 / 2]->a[m][half + 2 * (k / 8)][k % 2]) *
                static_cast<double>(all[4 * column + k % 8 / 2]->b[n][k / 8][k % 2]);
          float& to = c[m][n][2 * half + e];
          to = static_cast<float>(static_cast<double>(to) + sum);
        }
  context.gather(0);  // the fragments of a lane stay valid until all lanes have read them
}

// Copies when they are waited for, so that a kernel that does not wait reads NaN or old data.
template <>
class AsyncCopies<HostContext> {
 public:
  template <int bytes>
  void copy(void* to, const void* from, bool valid) {
    static_assert(bytes == 16 || bytes == 4);
    if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % bytes)
      __builtin_trap();  // a device reports a misaligned address
    copies_.push_back({to, valid ? from : nullptr, bytes, group_});
  }
  void commit() { ++group_; }
  template <int pending>
  void wait() {
    std::size_t kept = 0;
    for (const Copy& one : copies_) {
      if (one.group >= group_ - pending)
        copies_[kept++] = one;
      else if (one.from)
        std::memcpy(one.to, one.from, one.bytes);
      else
        std::memset(one.to, 0, one.bytes);
    }
    copies_.resize(kept);
  }

 private:
  struct Copy {
    void* to;
    const void* from;  // null: zeros
    std::size_t bytes;
    int group;
  };
  std::vector<Copy> copies_;
  int group_ = 0;
};

#endif

}  // namespace gnomon::cuda
