// Devices, streams, memory and errors of CUDA.
//
// The component `cuda` has the operations of the library for tensors in the memory of a GPU. A
// Tensor says where its data is: Device{DeviceType::cuda, 0}. All operations take a stream and
// return after they have started their kernels: they do not wait for the device, allocate
// nothing, and can be captured into a CUDA graph. Arguments are checked before the first kernel
// is started. Contents of device memory (positions, rows, slots) cannot be checked without
// waiting, so each header states what an invalid value gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "gnomon/tensor.h"

struct CUstream_st;

namespace gnomon::cuda {

// A cudaStream_t. Null: the default stream.
using Stream = CUstream_st*;

// Thrown if a call of the CUDA runtime fails: "[cuda] cudaMalloc: out of memory
// (cudaErrorMemoryAllocation)".
class Error : public std::runtime_error {
 public:
  Error(std::string call, int code, const std::string& message)
      : std::runtime_error("[cuda] " + call + ": " + message),
        call_(std::move(call)),
        code_(code) {}

  const std::string& call() const noexcept { return call_; }  // "cudaMalloc"
  int code() const noexcept { return code_; }                 // a cudaError_t

 private:
  std::string call_;
  int code_;
};

// Returns the number of devices; 0 if there is no driver or no GPU.
int device_count() noexcept;

// Returns the name of a device: "NVIDIA H100 80GB HBM3". Throws Error if there is none.
std::string device_name(int device = 0);

// Start a copy within a device, or a fill with zeros, of `bytes` bytes on a stream.
void copy(void* to, const void* from, std::size_t bytes, Stream stream = nullptr);
void clear(void* to, std::size_t bytes, Stream stream = nullptr);

// Waits for all work of a stream. Throws Error, also if a kernel of the stream has failed.
void synchronize(Stream stream = nullptr);

// Bytes in the memory of a device. Movable, not copyable. Throws Error if CUDA fails.
class Memory {
 public:
  Memory() noexcept = default;
  explicit Memory(std::size_t bytes, int device = 0);  // not initialized
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  int device() const noexcept { return device_; }
  // Copy from and to host memory; they wait for the copy. `bytes` must not exceed bytes().
  void write(const void* from, std::size_t bytes);
  void read(void* to, std::size_t bytes) const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
};

// An array of T in the memory of a device.
template <typename T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() noexcept = default;
  explicit Array(std::size_t count, int device = 0) : memory_(count * sizeof(T), device) {}
  explicit Array(std::span<const T> values, int device = 0) : Array(values.size(), device) {
    memory_.write(values.data(), values.size_bytes());
  }

  T* data() const noexcept { return static_cast<T*>(memory_.data()); }
  std::size_t size() const noexcept { return memory_.bytes() / sizeof(T); }
  int device() const noexcept { return memory_.device(); }
  std::vector<T> to_host() const {
    std::vector<T> values(size());
    memory_.read(values.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  Memory memory_;
};

// Returns a tensor with the data on a CUDA device: rotate(on_device(View<...>(...)), ...). Like
// the tensor of a View, it borrows the shape and the strides.
inline Tensor on_device(Tensor tensor, std::int32_t id = 0) noexcept {
  tensor.device = {DeviceType::cuda, id};
  return tensor;
}
inline ConstTensor on_device(ConstTensor tensor, std::int32_t id = 0) noexcept {
  tensor.device = {DeviceType::cuda, id};
  return tensor;
}
template <typename T, std::size_t Rank>
auto on_device(const View<T, Rank>& view, std::int32_t id = 0) noexcept {
  return on_device(std::conditional_t<std::is_const_v<T>, ConstTensor, Tensor>(view), id);
}

}  // namespace gnomon::cuda
