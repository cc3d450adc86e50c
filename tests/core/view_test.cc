#include "gnomon/view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace gnomon {
namespace view_test {

TEST(View, ReadsRowMajorAndSlicesWithoutCopying) {
  std::vector<int> data(24);
  std::iota(data.begin(), data.end(), 0);
  const View<int, 3> x(data.data(), {2, 3, 4});
  EXPECT_EQ(x(1, 2, 3), 23);
  EXPECT_EQ(x[1](0, 2), 14);
  const auto part = x.slice(1, 1, 2);
  EXPECT_EQ(part(0, 0, 0), 4);
  EXPECT_EQ(part.size(), 16);
  EXPECT_TRUE(x.contiguous());
  EXPECT_FALSE(part.contiguous());
  const View<const int, 3> read_only = x;
  EXPECT_EQ(&read_only(1, 1, 1), &x(1, 1, 1));
}

TEST(View, TakesNegativeAndZeroStrides) {
  std::vector<int> data{1, 2, 3};
  const View<int, 1> backwards(data.data() + 2, {3}, {-1});
  EXPECT_EQ(backwards(0), 3);
  EXPECT_EQ(backwards(2), 1);
  const View<int, 2> same_row(data.data(), {5, 3}, {0, 1});
  EXPECT_EQ(same_row(4, 1), 2);
}

TEST(View, WithoutMemoryHasPartsWithoutMemory) {
  const View<int, 2> none(nullptr, {3, 0}, {12, 1});
  EXPECT_EQ(none[2].data(), nullptr);
  EXPECT_EQ(none.slice(0, 1, 2).data(), nullptr);
}

}  // namespace view_test
}  // namespace gnomon
