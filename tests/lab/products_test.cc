#include "apps/lab/products.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <thread>
#include <vector>

#include "apps/lab/products_amx.h"
#include "gnomon/parallel.h"

namespace gnomon::lab {
namespace lab_products_test {

// A random matrix [m, n] with contiguous rows or contiguous columns.
at::Tensor matrix(std::int64_t m, std::int64_t n, bool rows) {
  return rows ? at::randn({m, n}) : at::randn({n, m}).t();
}

// The bound of products_amx.h, plus the rounding of float sums.
TEST(LabProducts, OfEveryOrderAndSize) {
  struct {
    std::int64_t m, n, k;
  } const sizes[] = {{1, 1, 1},   {16, 16, 32},   {33, 31, 65},  {5, 70, 1030},
                     {70, 5, 31}, {129, 257, 17}, {300, 40, 513}};
  torch::manual_seed(1);
  for (const auto& size : sizes)
    for (const bool a_rows : {true, false})
      for (const bool b_rows : {true, false}) {
        const at::Tensor a = matrix(size.m, size.k, a_rows), b = matrix(size.k, size.n, b_rows);
        const at::Tensor found = product(a, b);
        const at::Tensor wide = at::mm(a.to(at::kDouble), b.to(at::kDouble));
        const at::Tensor most = at::mm(a.abs().to(at::kDouble), b.abs().to(at::kDouble));
        const double error = ((found.to(at::kDouble) - wide).abs() / most).max().item<double>();
        EXPECT_LE(error, 3.5 / 65536) << size.m << " " << size.n << " " << size.k;
      }
}

// An OpenBLAS without locks fails here: threads share its buffers.
TEST(LabProducts, OfConcurrentThreadsAreRight) {
  const at::Tensor a = at::randn({160, 160}), b = at::randn({160, 160});
  const at::Tensor expected = at::mm(a, b);
  std::atomic<int> different{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      at::set_num_threads(1);
      for (int n = 0; n < 10000; ++n) different += !at::mm(a, b).allclose(expected, 0, 1e-3);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, 0);
}

TEST(LabProducts, SameBitsForAnyNumberOfThreads) {
  const at::Tensor a = at::randn({300, 700}), b = at::randn({700, 90});
  const int before = threads();
  set_threads(1);
  const at::Tensor one = product(a, b), turned = product(b.t(), a.t());
  for (int count : {2, 7}) {
    set_threads(count);
    EXPECT_TRUE(product(a, b).equal(one));
    EXPECT_TRUE(product(b.t(), a.t()).equal(turned));
  }
  set_threads(before);
}

TEST(LabProducts, OfNothingAreZero) {
  EXPECT_TRUE(product(at::zeros({3, 0}), at::zeros({0, 2})).equal(at::zeros({3, 2})));
  EXPECT_EQ(product(at::zeros({0, 4}), at::zeros({4, 2})).numel(), 0);
}

TEST(LabProducts, OfDoublesStayDoubles) {
  const at::Tensor a = at::randn({9, 8}, at::kDouble), b = at::randn({8, 7}, at::kDouble);
  EXPECT_TRUE(product(a, b).equal(at::mm(a, b)));
}

}  // namespace lab_products_test
}  // namespace gnomon::lab
