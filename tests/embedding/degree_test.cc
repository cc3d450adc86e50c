#include "gnomon/embedding/degree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing.h"

namespace gnomon {
namespace degree_test {

using ::testing::ElementsAre;
using testing::message_of;
using testing::Tensor;

// Arcs 0 -> 1, 0 -> 2, 1 -> 2, 2 -> 2; node 3 is isolated. In-degrees 0 1 3 0, out-degrees 2 1
// 1 0.
Graph arrows() {
  static const std::vector<std::int64_t> ends{0, 1, 0, 2, 1, 2, 2, 2};
  return Graph(4, {ends.data(), {4, 2}}, EdgeKind::directed);
}

TEST(Degree, RowsAreDegreesAndOne) {
  const Degree degree{.rows = 5, .width = 3, .beyond = DegreeBeyond::refused};
  const DegreeRows rows = degree_rows(degree, arrows());
  EXPECT_THAT(rows.in, ElementsAre(1, 2, 4, 1));
  EXPECT_THAT(rows.out, ElementsAre(3, 2, 2, 1));
  const DegreeRows ring = degree_rows(degree, ring_graph(4));
  EXPECT_THAT(ring.in, ElementsAre(3, 3, 3, 3));
  EXPECT_EQ(ring.in, ring.out);
}

TEST(Degree, BeyondTheTableIsCappedOrRefused) {
  Degree degree{.rows = 4, .width = 3, .beyond = DegreeBeyond::capped};
  EXPECT_THAT(degree_rows(degree, arrows()).in, ElementsAre(1, 2, 3, 1));
  EXPECT_EQ(degree_row(degree, 2), 3);
  EXPECT_EQ(degree_row(degree, 1'000'000), 3);
  degree.beyond = DegreeBeyond::refused;
  EXPECT_EQ(message_of([&] { degree_rows(degree, arrows()); }),
            "[degree] a node's degree must be at most 2, got 3");
  const Degree released = degree_graphormer(8);
  EXPECT_EQ(degree_row(released, 510), 511);
  EXPECT_EQ(message_of([&] { degree_row(released, 511); }),
            "[degree] a node's degree must be at most 510, got 511");
}

TEST(Degree, TheTableIsTheSumOfBothRows) {
  const Degree degree{.rows = 5, .width = 7, .beyond = DegreeBeyond::refused};
  const auto in = testing::random_tensor<float, 2>({5, 7});
  const auto out = testing::random_tensor<float, 2>({5, 7}, 2);
  const EmbeddingTable table =
      lower(degree, degree_rows(degree, arrows()), in.view(), out.view());
  ASSERT_EQ(table.tokens, 4);
  const std::int64_t of_in[] = {1, 2, 4, 1}, of_out[] = {3, 2, 2, 1};
  for (std::int64_t n = 0; n < 4; ++n)
    for (std::int64_t c = 0; c < 7; ++c)
      EXPECT_EQ(table.view()(n, c), static_cast<float>(double{in.view()(of_in[n], c)} +
                                                       double{out.view()(of_out[n], c)}));
}

TEST(Degree, GradientIsThatOfFiniteDifferences) {
  const Degree degree{.rows = 5, .width = 6, .beyond = DegreeBeyond::refused};
  const DegreeRows rows = degree_rows(degree, arrows());
  auto in = testing::random_tensor<float, 2>({5, 6});
  auto out = testing::random_tensor<float, 2>({5, 6}, 2);
  const auto weights = testing::random_tensor<float, 2>({4, 6}, 3);
  Tensor<float, 2> in_grad({5, 6}, 1.0f), out_grad({5, 6}, 1.0f);
  lower_backward(degree, rows, weights.view(), in_grad.view(), out_grad.view());
  const std::int64_t of_in[] = {1, 2, 4, 1}, of_out[] = {3, 2, 2, 1};
  const auto objective = [&] {
    long double sum = 0;
    for (std::int64_t n = 0; n < 4; ++n)
      for (std::int64_t c = 0; c < 6; ++c)
        sum += static_cast<long double>(weights.view()(n, c)) *
               (static_cast<long double>(in.view()(of_in[n], c)) +
                static_cast<long double>(out.view()(of_out[n], c)));
    return sum;
  };
  for (auto* const part : {&in, &out}) {
    const Tensor<float, 2>& grad = part == &in ? in_grad : out_grad;
    for (std::size_t i = 0; i < part->values.size(); ++i) {
      const float kept = part->values[i];
      part->values[i] = kept + 0.5f;
      const long double above = objective();
      const float up = part->values[i];
      part->values[i] = kept - 0.5f;
      const long double below = objective();
      const long double step =
          static_cast<long double>(up) - static_cast<long double>(part->values[i]);
      part->values[i] = kept;
      EXPECT_NEAR(grad.values[i], 1 + static_cast<double>((above - below) / step), 1e-6);
    }
  }
}

TEST(Degree, RefusesWhatBreaksItsBounds) {
  const Degree good{.rows = 5, .width = 3, .beyond = DegreeBeyond::capped};
  const auto changed = [&](auto change) {
    Degree degree = good;
    change(degree);
    return message_of([&] { degree_row(degree, 0); });
  };
  EXPECT_EQ(changed([](Degree& d) { d.rows = 1; }), "[degree] rows must be at least 2, got 1");
  EXPECT_EQ(changed([](Degree& d) { d.width = 0; }),
            "[degree] width must be at least 1, got 0");
  EXPECT_EQ(changed([](Degree& d) { d.beyond = {}; }),
            "[degree] beyond must be capped or refused, got 0");
  EXPECT_EQ(message_of([&] { degree_row(good, -1); }),
            "[degree] a node's degree must not be negative, got -1");
  Tensor<float, 2> table({5, 3}), narrow({5, 2}), grad({4, 3}), few({3, 3});
  DegreeRows rows = degree_rows(good, arrows());
  EXPECT_EQ(message_of([&] { lower(good, rows, table.view(), narrow.view()); }),
            "[degree] each table must be [5, 3], got [5, 2]");
  EXPECT_EQ(
      message_of([&] { lower_backward(good, rows, few.view(), table.view(), table.view()); }),
      "[degree] the table's gradient must be [4, 3], got [3, 3]");
  rows.in[1] = 5;
  EXPECT_EQ(message_of([&] { lower(good, rows, table.view(), table.view()); }),
            "[degree] rows must be 0 to 4, got 5");
  rows.in.pop_back();
  EXPECT_EQ(
      message_of([&] { lower_backward(good, rows, grad.view(), table.view(), table.view()); }),
      "[degree] in and out must have equal length, 3, got 4");
}

}  // namespace degree_test
}  // namespace gnomon
