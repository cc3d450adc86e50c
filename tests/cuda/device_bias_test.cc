#include "gnomon/cuda/device_bias.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "cuda/devices.h"
#include "testing.h"

namespace gnomon {
namespace cuda_device_bias_test {

using testing::message_of;

TEST(CudaDeviceBias, HasTheViewOfTheForm) {
  const cuda::DeviceBias slope(SlopeBias{{0.5, 0.25}});
  EXPECT_EQ(std::get<cuda::SlopeView>(slope.view()).heads, 2);
  EXPECT_EQ(slope.gradient_size(), 1);

  const cuda::DeviceBias strip(StripBias{2, -4, std::vector<double>(10)});
  EXPECT_EQ(std::get<cuda::StripView>(strip.view()).min_distance, -4);
  EXPECT_EQ(std::get<cuda::StripView>(strip.view()).distances, 5);
  EXPECT_EQ(strip.heads(), 2);

  const cuda::DeviceBias grid(GridBias{1, 2, 3, 1, std::vector<double>(18)});
  EXPECT_EQ(std::get<cuda::GridView>(grid.view()).height, 2);
  EXPECT_EQ(std::get<cuda::GridView>(grid.view()).width, 3);
  EXPECT_EQ(std::get<cuda::GridView>(grid.view()).leading, 1);
  EXPECT_EQ(grid.gradient_size(), 18);

  const cuda::DeviceBias pieces(PiecewiseLogBias{1, 0.5, 9, 0.25, {0, 1}, {3, 4}, {5, 6}});
  const auto& view = std::get<cuda::PiecewiseLogView>(pieces.view());
  EXPECT_EQ(view.pieces, 2);
  EXPECT_EQ(view.c, 0.5f);
  EXPECT_EQ(view.threshold, 9);
  EXPECT_EQ(view.epsilon, 0.25f);
  EXPECT_EQ(pieces.gradient_size(), 6);
}

// Copies numbers of a device.
std::vector<float> read(const float* from, std::size_t count) {
  const cuda::Array<float> there(count);
  cuda::copy(there.data(), from, count * sizeof(float));
  return there.to_host();
}

TEST(CudaDeviceBias, HasTheValues) {
  const cuda::DeviceBias strip(StripBias{1, 0, {1, 2, 0.1}});
  const auto& values = std::get<cuda::StripView>(strip.view());
  EXPECT_EQ(read(values.values, 3), (std::vector<float>{1, 2, 0.1f}));
  cuda::DeviceBias pieces(PiecewiseLogBias{1, 0.5, 9, 0, {0, 1}, {3, 4}, {5, 6}});
  const cuda::DeviceBias moved = std::move(pieces);
  const auto& view = std::get<cuda::PiecewiseLogView>(moved.view());
  EXPECT_EQ(read(view.knots, 2), (std::vector<float>{0, 1}));
  EXPECT_EQ(read(view.offsets, 2), (std::vector<float>{3, 4}));
  EXPECT_EQ(read(view.slopes, 2), (std::vector<float>{5, 6}));
}

TEST(CudaDeviceBiasErrors, NameTheRule) {
  EXPECT_EQ(message_of([] { cuda::DeviceBias(NoBias{}); }),
            "[device_bias] the form must be a slope, a strip, a grid or piecewise logarithmic, "
            "got NoBias");
  EXPECT_EQ(message_of([] { cuda::DeviceBias(AxesBias{1, {{0, {1}, {}}}}); }).substr(0, 13),
            "[device_bias]");
  EXPECT_EQ(message_of([] { cuda::DeviceBias(PiecewiseLogBias{1, 0, 9, 0, {0}, {3}, {5}}); }),
            "[bias] c must be positive and finite, got 0");
}

}  // namespace cuda_device_bias_test
}  // namespace gnomon
