#include "gnomon/tensor.h"

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "src/core/tensor.h"

namespace gnomon {
namespace tensor_test {

static_assert(sizeof(DlTensor) == sizeof(DLTensor));
static_assert(offsetof(DlTensor, data) == offsetof(DLTensor, data));
static_assert(offsetof(DlTensor, device) == offsetof(DLTensor, device));
static_assert(offsetof(DlTensor, rank) == offsetof(DLTensor, ndim));
static_assert(offsetof(DlTensor, dtype) == offsetof(DLTensor, dtype));
static_assert(offsetof(DlTensor, shape) == offsetof(DLTensor, shape));
static_assert(offsetof(DlTensor, strides) == offsetof(DLTensor, strides));
static_assert(offsetof(DlTensor, byte_offset) == offsetof(DLTensor, byte_offset));
static_assert(sizeof(DataType) == sizeof(DLDataType) && sizeof(Device) == sizeof(DLDevice));
static_assert(static_cast<int>(DeviceType::cuda) == kDLCUDA);
static_assert(static_cast<int>(DeviceType::cuda_host) == kDLCUDAHost);
static_assert(static_cast<int>(DeviceType::cuda_managed) == kDLCUDAManaged);
static_assert(static_cast<int>(TypeCode::integer) == kDLInt);
static_assert(static_cast<int>(TypeCode::unsigned_integer) == kDLUInt);
static_assert(static_cast<int>(TypeCode::floating) == kDLFloat);
static_assert(static_cast<int>(TypeCode::bfloat) == kDLBfloat);
static_assert(!std::is_constructible_v<Tensor, View<const float, 2>>);

const internal::Argument x_of_rotary{"rotary", "x"};

std::string message(const ConstTensor& tensor, std::int32_t rank) {
  try {
    internal::check_tensor(x_of_rotary, tensor, rank);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

TEST(Tensor, IsADlTensorWithoutACopy) {
  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape = {2, 2}, strides = {3, 1};
  DLTensor from{};
  from.data = values.data();
  from.device = {kDLCPU, 0};
  from.ndim = 2;
  from.dtype = {kDLFloat, 32, 1};
  from.shape = shape.data();
  from.strides = strides.data();
  from.byte_offset = sizeof(float);
  const Tensor tensor(std::bit_cast<DlTensor>(from));
  ASSERT_TRUE(tensor.holds<float>());
  const auto matrix = view<float, 2>(tensor);
  EXPECT_EQ(matrix(0, 0), 1);
  EXPECT_EQ(matrix(1, 1), 5);
  matrix(1, 0) = 9;
  EXPECT_EQ(values[4], 9);
}

TEST(Tensor, WithoutStridesIsRowMajor) {
  std::vector<double> values = {0, 1, 2, 3, 4, 5};
  const View<double, 2> matrix(values.data(), {2, 3});
  Tensor tensor = matrix;
  tensor.strides = nullptr;
  EXPECT_EQ((view<const double, 2>(tensor)(1, 0)), 3);
  EXPECT_EQ(tensor.stride(0), 3);
  EXPECT_EQ(tensor.size(), 6);
}

TEST(Tensor, ComesFromAViewWithItsTypeShapeAndStrides) {
  std::vector<BFloat16> values(24);
  const View<BFloat16, 3> cube(values.data(), {2, 3, 4}, {1, 8, 2});
  const ConstTensor tensor = cube;
  EXPECT_EQ(name(tensor.dtype), "bf16");
  EXPECT_EQ(tensor.rank, 3);
  EXPECT_EQ(tensor.extent(2), 4);
  EXPECT_EQ(tensor.stride(1), 8);
  EXPECT_FALSE(ConstTensor().has_data());
  EXPECT_FALSE((ConstTensor(View<float, 2>()).has_data()));
}

ConstTensor stored_in(std::vector<ConstTensor>& all, float* data) {
  all.emplace_back(View<float, 2>(data, {2, 3}, {4, 1}));  // the view ends here
  all.emplace_back(all.front());
  return all.back();
}

TEST(Tensor, CanBeStoredAfterItsViewIsGone) {
  std::vector<float> values(8);
  std::vector<ConstTensor> all;
  ConstTensor other = View<const double, 1>(nullptr, {7});
  other = stored_in(all, values.data());
  all.clear();
  all.shrink_to_fit();
  EXPECT_EQ(internal::shape_text(other), "[2, 3]");
  EXPECT_EQ(other.stride(0), 4);
  const ConstTensor copy = std::move(other);
  EXPECT_EQ(copy.extent(1), 3);
  EXPECT_NE(copy.shape, other.shape);
}

// A tensor of a DLTensor borrows its shape; its copies do, too.
TEST(Tensor, OfADlTensorBorrowsItsShape) {
  std::vector<float> values(6);
  std::int64_t shape[] = {2, 3};
  DlTensor from = ConstTensor(View<float, 2>(values.data(), {2, 3}));
  from.shape = shape, from.strides = nullptr;
  const ConstTensor tensor(from), copy = tensor;
  EXPECT_EQ(copy.shape, shape);
  EXPECT_EQ(copy.stride(0), 3);
}

TEST(DataType, HasAName) {
  EXPECT_EQ(name(data_type_of<float>), "f32");
  EXPECT_EQ(name(data_type_of<Half>), "f16");
  EXPECT_EQ(name(data_type_of<const double>), "f64");
  EXPECT_EQ(name(data_type_of<std::int8_t>), "i8");
  EXPECT_EQ(name(data_type_of<std::uint8_t>), "u8");
  EXPECT_EQ(name(data_type_of<std::int64_t>), "i64");
  EXPECT_EQ(name({TypeCode::floating, 32, 4}), "f32x4");
}

TEST(CheckTensor, NamesTheRuleAndWhatItGot) {
  std::vector<float> values(6);
  const View<float, 2> matrix(values.data(), {2, 3});
  Tensor tensor = matrix;
  EXPECT_EQ(message(tensor, 2), "");
  EXPECT_EQ(message(tensor, 3), "[rotary] x must have 3 axes, got 2 axes, [2, 3]");
  tensor.device = {DeviceType::cuda, 1};
  EXPECT_EQ(message(tensor, 2), "[rotary] x must be on the device cpu, got cuda:1");
  tensor = matrix;
  tensor.data = nullptr;
  EXPECT_EQ(message(tensor, 2), "[rotary] x must have data, got a null pointer");
  EXPECT_THROW(internal::by_type(x_of_rotary, View<std::int32_t, 1>(), [](auto) {}),
               std::invalid_argument);
  EXPECT_THROW((internal::read<double, 2>(x_of_rotary, matrix)), std::invalid_argument);
}

// An index of such a tensor would overflow, or leave its memory.
TEST(CheckTensor, RefusesSizesThatOverflow) {
  std::vector<float> values(6);
  const auto refused = [&](std::array<std::ptrdiff_t, 2> shape,
                           std::array<std::ptrdiff_t, 2> strides) {
    const View<float, 2> matrix(values.data(), shape, strides);
    return message(matrix, 2).find("must have fewer than 2^59 elements") != std::string::npos;
  };
  EXPECT_FALSE(refused({2, 3}, {3, 1}));
  EXPECT_FALSE(refused({1 << 20, 1 << 20}, {0, 0}));
  EXPECT_FALSE(refused({0, std::ptrdiff_t{1} << 31}, {1, 1}));
  EXPECT_TRUE(refused({7, 7905747460161236407}, {0, 0}));  // 1 modulo 2^64
  EXPECT_TRUE(refused({std::ptrdiff_t{1} << 32, std::ptrdiff_t{1} << 32}, {0, 0}));
  EXPECT_TRUE(refused({std::ptrdiff_t{1} << 62, 0}, {0, 1}));  // a loop over 2^62 empty rows
  EXPECT_TRUE(refused({2, 3}, {PTRDIFF_MAX, 1}));
  EXPECT_TRUE(refused({2, 3}, {PTRDIFF_MIN, 1}));
  EXPECT_TRUE(refused({3, 3}, {std::ptrdiff_t{1} << 58, 1}));
}

TEST(CheckTensor, RefusesRanksThatNoTensorHas) {
  std::vector<float> values(6);
  const View<float, 2> matrix(values.data(), {2, 3});
  Tensor tensor = matrix;
  for (const std::int32_t rank : {-1, 1000000}) {
    tensor.rank = rank;
    EXPECT_EQ(message(tensor, 2),
              "[rotary] x must have 2 axes, got " + std::to_string(rank) + " axes");
  }
}

TEST(CheckTensor, RefusesElementsThatAreNotAligned) {
  std::vector<float> values(6);
  const View<float, 1> row(values.data(), {4});
  Tensor tensor = row;
  tensor.byte_offset = 4;
  EXPECT_EQ(message(tensor, 1), "");
  tensor.byte_offset = 2;
  EXPECT_EQ(message(tensor, 1),
            "[rotary] the elements of x must be aligned to their size, 4 bytes, "
            "got another address");
}

TEST(Tensor, StridesThatNoArrayHasBecomeOneWhereTheyHaveNoEffect) {
  std::vector<float> values(6);
  for (const std::ptrdiff_t wild : {PTRDIFF_MAX, PTRDIFF_MIN, std::ptrdiff_t{1} << 48}) {
    const Tensor tensor = View<float, 3>(values.data(), {1, 6, 1}, {wild, 1, wild});
    EXPECT_EQ(message(tensor, 3), "");
    EXPECT_EQ((view<float, 3>(tensor).strides()), (View<float, 3>::Extents{1, 1, 1}));
    EXPECT_EQ(tensor.stride(0), 1);
  }
  const Tensor usual = View<float, 2>(values.data(), {1, 3}, {6, 2});
  EXPECT_EQ((view<float, 2>(usual).strides()), (View<float, 2>::Extents{6, 2}));
}

// A distance that is negative as a signed number, and one of a tensor without elements.
TEST(CheckTensor, RefusesAByteOffsetPastTheLastAddress) {
  std::vector<float> values(6);
  const View<float, 1> row(values.data(), {4});
  Tensor tensor = row;
  tensor.byte_offset = static_cast<std::uint64_t>(-8);
  EXPECT_EQ(message(tensor, 1),
            "[rotary] the byte_offset of x must not lead past the last address, "
            "got 18446744073709551608");
  tensor.byte_offset = std::uint64_t{1} << 63;  // more than an object has
  EXPECT_EQ(message(tensor, 1),
            "[rotary] the byte_offset of x must not lead past the last address, "
            "got 9223372036854775808");
  Tensor none = View<float, 1>(nullptr, {0});
  none.byte_offset = 8;
  EXPECT_EQ(message(none, 1), "");
  EXPECT_EQ((view<float, 1>(none).data()), nullptr);
}

}  // namespace tensor_test
}  // namespace gnomon
