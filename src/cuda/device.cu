// Memory, streams and errors, on a device or in the emulator.
#include "gnomon/cuda/device.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "src/cuda/launch.h"

namespace gnomon::cuda {

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

#if defined(__CUDACC__)

void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // otherwise the next call reports the same error
  throw Error(call, result,
              std::string(cudaGetErrorString(result)) + " (" + cudaGetErrorName(result) + ")");
}

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::string device_name(int device) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties.name;
}

void copy(void* to, const void* from, std::size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
}
void clear(void* to, std::size_t bytes, Stream stream) {
  check(cudaMemsetAsync(to, 0, bytes, stream), "cudaMemsetAsync");
}

void synchronize(Stream stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

DeviceScope::DeviceScope(int device) {
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  if (current == device) return;
  check(cudaSetDevice(device), "cudaSetDevice");
  before_ = current;
}
DeviceScope::~DeviceScope() {
  if (before_ >= 0) cudaSetDevice(before_);
}

int multiprocessors(int device) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return count;
}

Memory::Memory(std::size_t bytes, int device) : bytes_(bytes), device_(device) {
  const DeviceScope scope(device);
  if (bytes) check(cudaMalloc(&data_, bytes), "cudaMalloc");
}
Memory::~Memory() {
  if (data_) cudaFree(data_);
}
void Memory::write(const void* from, std::size_t bytes) {
  if (bytes) check(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}
void Memory::read(void* to, std::size_t bytes) const {
  if (bytes) check(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

#else

int device_count() noexcept { return 1; }
std::string device_name(int) { return "emulator"; }
void copy(void* to, const void* from, std::size_t bytes, Stream) {
  if (bytes) std::memcpy(to, from, bytes);
}
void clear(void* to, std::size_t bytes, Stream) {
  if (bytes) std::memset(to, 0, bytes);
}
void synchronize(Stream) {}
DeviceScope::DeviceScope(int) {}
DeviceScope::~DeviceScope() = default;
int multiprocessors(int) { return 4; }  // few, so that small tests use all kernels

Memory::Memory(std::size_t bytes, int device)
    : data_(bytes ? ::operator new(bytes, std::align_val_t(256)) : nullptr),
      bytes_(bytes),
      device_(device) {}
Memory::~Memory() { ::operator delete(data_, std::align_val_t(256)); }
void Memory::write(const void* from, std::size_t bytes) {
  if (bytes) std::memcpy(data_, from, bytes);
}
void Memory::read(void* to, std::size_t bytes) const {
  if (bytes) std::memcpy(to, data_, bytes);
}

#endif

}  // namespace gnomon::cuda
