#include "gnomon/cuda/device.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
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

TEST(CudaMemory, IsCopiedAndCleared) {
  const std::vector<int> numbers = {1, 2, 3};
  const cuda::Array<int> from{std::span<const int>(numbers)}, to(3);
  cuda::copy(to.data(), from.data(), 8);
  cuda::clear(to.data() + 2, 4);
  EXPECT_EQ(to.to_host(), (std::vector<int>{1, 2, 0}));
  EXPECT_FALSE(cuda::device_name().empty());
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

// Runs in the program of the component, with no visible GPU.
TEST(CudaNoDevice, IsAnErrorWithTheNameOfTheCall) {
  if (cuda::device_count() > 0) {
    EXPECT_EQ(cuda::Array<int>(3).size(), 3u);
    return;
  }
  try {
    cuda::Array<int> there(3);
    FAIL() << "no exception";
  } catch (const cuda::Error& error) {
    EXPECT_NE(error.code(), 0);
    EXPECT_EQ(std::string(error.what()).find("[cuda] " + error.call() + ": "), 0u);
    EXPECT_EQ(error.call().find("cuda"), 0u) << error.what();
  }
}

}  // namespace cuda_device_test
}  // namespace gnomon
