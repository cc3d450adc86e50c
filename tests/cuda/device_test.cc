#include "gnomon/cuda/device.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "cuda/devices.h"

namespace gnomon {
namespace cuda_device_test {

TEST(CudaMemory, HoldsWhatWasWritten) {
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 5);
  cuda::Array<int> there{std::span<const int>(numbers)};
  EXPECT_EQ(there.to_host(), numbers);
  cuda::Array<int> moved = std::move(there);
  EXPECT_EQ(moved.to_host(), numbers);
  EXPECT_EQ(there.size(), 0u);
  EXPECT_EQ(cuda::Array<int>(0).data(), nullptr);
}

TEST(CudaError, NamesTheCall) {
  const cuda::Error error("cudaMalloc", 2, "out of memory (cudaErrorMemoryAllocation)");
  EXPECT_STREQ(error.what(), "[cuda] cudaMalloc: out of memory (cudaErrorMemoryAllocation)");
  EXPECT_EQ(error.call(), "cudaMalloc");
  EXPECT_EQ(error.code(), 2);
}

TEST(CudaTensors, AreOnADevice) {
  float number = 0;
  const View<float, 1> view(&number, {1});
  EXPECT_EQ(cuda::on_device(view, 3).device, (Device{DeviceType::cuda, 3}));
  EXPECT_GE(cuda::device_count(), 0);
}

}  // namespace cuda_device_test
}  // namespace gnomon
