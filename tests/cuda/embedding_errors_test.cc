#include <gtest/gtest.h>

#include "cuda/devices.h"
#include "gnomon/cuda/embedding.h"

namespace gnomon {
namespace cuda_embedding_errors_test {

using std::int64_t;
using testing::message_of;

TEST(CudaEmbeddingWorkspace, HasAListAndTheBeginsOfRows) {
  EXPECT_EQ(cuda::add_rows_backward_workspace(0, 0), 4);
  EXPECT_EQ(cuda::add_rows_backward_workspace(10, 3), 96);
  EXPECT_EQ(cuda::add_rows_backward_workspace(0x7fffffff, 0x7fffffff),
            int64_t{8} * 0x7fffffff + (int64_t{4} << 31));
  EXPECT_EQ(message_of([] { cuda::add_rows_backward_workspace(int64_t{1} << 31, 3); }),
            "[embedding] tokens must be in [0, 2^31), got 2147483648");
  EXPECT_EQ(message_of([] { cuda::add_rows_backward_workspace(3, -1); }),
            "[embedding] table_rows must be in [0, 2^31), got -1");
}

TEST(CudaEmbeddingErrors, NameTheRule) {
  const cuda::Array<float> floats(256);
  const cuda::Array<int64_t> ids(16);
  const cuda::Array<std::uint8_t> bytes(64);
  const View<float, 3> x(floats.data(), {2, 3, 4});
  const View<float, 2> table(floats.data(), {3, 4}), wide(floats.data(), {3, 5}),
      more(floats.data(), {7, 4});
  const View<const int64_t, 2> rows(ids.data(), {2, 3}), fewer(ids.data(), {2, 2});
  const View<std::uint8_t, 1> workspace(bytes.data(), {64}), odd(bytes.data() + 4, {64}),
      small(bytes.data(), {63});
  const auto adds = [](const Tensor& to, const ConstTensor& of) {
    return message_of([&] { cuda::add_table(to, of); });
  };
  const auto on = [](const auto& view) { return cuda::on_device(view); };
  EXPECT_EQ(adds(x, on(table)), "[embedding] x must be on a CUDA device, got cpu");
  EXPECT_EQ(adds(on(x), cuda::on_device(table, 1)),
            "[embedding] table must be on the device cuda:0, got cuda:1");
  EXPECT_EQ(adds(on(x), on(more)), "[embedding] table must be [T, C] = [3, 4], got [7, 4]");
  EXPECT_EQ(adds(on(View<float, 1>(floats.data(), {4})), on(table)),
            "[embedding] x must have 2 to 3 axes, got 1 axes, [4]");
  EXPECT_EQ(adds(on(View<float, 3>(floats.data(), {2, 3, 4}, {24, 8, 2})), on(table)),
            "[embedding] the last axis of x must be contiguous: stride 1, got 2");
  EXPECT_EQ(
      adds(on(View<double, 3>(reinterpret_cast<double*>(floats.data()), {2, 3, 4})), on(table)),
      "[embedding] x must have elements of f32, f16 or bf16, got f64");
  EXPECT_EQ(adds(on(x), on(View<const int64_t, 2>(ids.data(), {3, 4}))),
            "[embedding] table must have elements of f32, f16 or bf16, got i64");
  EXPECT_EQ(
      adds(on(View<float, 3>(floats.data(), {1 << 16, 1 << 15, 4}, {0, 0, 1})), on(table)),
      "[embedding] x must be of fewer than 2^31 tokens, with a width of at most 2^24, "
      "got [65536, 32768, 4]");

  const auto looks_up = [&](const ConstTensor& of, const ConstTensor& ids_of) {
    return message_of([&] { cuda::add_rows(on(x), of, ids_of); });
  };
  EXPECT_EQ(looks_up(on(wide), on(rows)),
            "[embedding] table must be [N, C] with C = 4, got [3, 5]");
  EXPECT_EQ(looks_up(on(table), on(fewer)),
            "[embedding] rows must be [B or 1, T] with B = 2 and T = 3, got [2, 2]");
  EXPECT_EQ(looks_up(on(table), on(table)),
            "[embedding] rows must have elements of i64, got f32");
  EXPECT_EQ(message_of([&] { cuda::gather_rows(on(table), on(rows), Tensor()); }),
            "[embedding] out must be given, got no tensor");

  const View<Half, 2> halves(reinterpret_cast<Half*>(floats.data()), {3, 4});
  EXPECT_EQ(message_of([&] { cuda::add_table_backward(on(x), 1.0f, on(halves)); }),
            "[embedding] table_grad must have elements of f32, got f16");
  const auto backward = [&](const Tensor& to, const Tensor& with) {
    return message_of([&] { cuda::add_rows_backward(on(x), on(rows), to, with); });
  };
  EXPECT_EQ(backward(on(halves), on(workspace)),
            "[embedding] table_grad must have elements of f32, got f16");
  EXPECT_EQ(backward(on(table), on(small)),
            "[embedding] workspace must have at least 64 bytes, got 63");
  EXPECT_EQ(backward(on(table), on(odd)),
            "[embedding] the address of workspace must be a multiple of 8 bytes, got a "
            "remainder of 4");
  EXPECT_EQ(backward(on(table), on(table)),
            "[embedding] workspace must have 1 axes, got 2 axes, [3, 4]");
}

}  // namespace cuda_embedding_errors_test
}  // namespace gnomon
