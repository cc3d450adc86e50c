#include "gnomon/embedding/axial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace embedding_axial_test {

using ::testing::ElementsAre;
using testing::iota;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

const AxialLearned pair_of_axes{
    .join = AxisJoin::concatenated, .rows = {3, 4}, .widths = {2, 5}};

template <typename T>
struct Tables {
  std::vector<Tensor<T, 2>> tensors;
  std::vector<View<const T, 2>> views;
  std::vector<View<T, 2>> mutable_views;

  explicit Tables(const AxialLearned& axial, bool random = true) {
    for (std::size_t a = 0; a < axial.rows.size(); ++a)
      tensors.push_back(random ? random_tensor<T, 2>({axial.rows[a], axial.widths[a]},
                                                     static_cast<unsigned>(a + 1))
                               : Tensor<T, 2>({axial.rows[a], axial.widths[a]}));
    for (auto& tensor : tensors) {
      views.push_back(tensor.view());
      mutable_views.push_back(tensor.view());
    }
  }
};

// The code of Reformer: each weight is broadcast over the grid [a, b, ...], the grid is
// flattened, and the parts are concatenated along the channels.
std::vector<double> broadcast(const AxialLearned& axial, const Tables<double>& tables) {
  std::vector<double> all;
  std::vector<std::int64_t> cell(axial.rows.size(), 0);
  for (bool more = true; more;) {
    std::vector<double> row;
    for (std::size_t a = 0; a < cell.size(); ++a)
      for (std::int64_t c = 0; c < axial.widths[a]; ++c) {
        const double value = tables.views[a](cell[a], c);
        if (axial.join == AxisJoin::summed && a > 0)
          row[static_cast<std::size_t>(c)] += value;
        else
          row.push_back(value);
      }
    all.insert(all.end(), row.begin(), row.end());
    more = false;
    for (std::size_t a = cell.size(); a-- > 0 && !more;) {  // the next cell, last axis first
      more = ++cell[a] < axial.rows[a];
      if (!more) cell[a] = 0;
    }
  }
  return all;
}

TEST(Axial, IsReformersBroadcast) {
  for (const AxialLearned& axial :
       {pair_of_axes, AxialLearned{AxisJoin::summed, {4, 3}, {5, 5}},
        AxialLearned{AxisJoin::concatenated, {7}, {3}},
        AxialLearned{AxisJoin::concatenated, {2, 3, 5}, {1, 4, 2}},
        AxialLearned{AxisJoin::summed, {2, 1, 3}, {2, 2, 2}}}) {
    const Tables<double> tables(axial);
    Tensor<double, 2> out({capacity(axial), width(axial)});
    fill<double>(axial, tables.views, iota(0, capacity(axial)), out.view());
    EXPECT_EQ(out.values, broadcast(axial, tables));
  }
}

TEST(Axial, RowsByHand) {
  EXPECT_EQ(capacity(pair_of_axes), 12);
  EXPECT_EQ(width(pair_of_axes), 7);
  const std::int64_t positions[] = {0, 3, 4, 11, 5};
  EXPECT_THAT(axial_rows(pair_of_axes, 0, positions), ElementsAre(0, 0, 1, 2, 1));
  EXPECT_THAT(axial_rows(pair_of_axes, 1, positions), ElementsAre(0, 3, 0, 3, 1));
}

TEST(Axial, TheTableOfPositionsHoldsTheirRows) {
  for (const auto join : {AxisJoin::concatenated, AxisJoin::summed}) {
    AxialLearned axial{.join = join, .rows = {6, 5}, .widths = {4, 4}};
    const Tables<float> tables(axial);
    const std::vector<std::int64_t> positions{29, 0, 7, 7};
    const EmbeddingTable table = lower(axial, tables.views, positions);
    Tensor<float, 2> all({30, width(axial)});
    fill<float>(axial, tables.views, iota(0, 30), all.view());
    for (std::int64_t t = 0; t < 4; ++t)
      for (std::int64_t c = 0; c < width(axial); ++c)
        EXPECT_EQ(table.view()(t, c), all.view()(positions[static_cast<std::size_t>(t)], c));
    EXPECT_EQ(lower(axial, tables.views, {}).values.size(), 0u);
  }
}

// The loss sum(out * grad) is linear in the tables, so its gradient is the change of the loss
// when one entry changes from 0 to 1.
TEST(Axial, GradientIsTheChangeOfTheLoss) {
  for (const AxialLearned& axial :
       {pair_of_axes, AxialLearned{AxisJoin::summed, {4, 3}, {5, 5}}}) {
    const std::vector<std::int64_t> positions{5, 11, 0, 5, 7};
    const auto grad = random_tensor<double, 2>({5, width(axial)}, 9);
    Tables<double> got(axial), probe(axial, false);
    const Tables<double> before(axial);
    fill_backward<double>(axial, grad.view(), positions, got.mutable_views);
    for (std::size_t a = 0; a < axial.rows.size(); ++a)
      for (std::size_t i = 0; i < probe.tensors[a].values.size(); ++i) {
        probe.tensors[a].values[i] = 1;
        Tensor<double, 2> out({5, width(axial)});
        fill<double>(axial, probe.views, positions, out.view());
        double loss = before.tensors[a].values[i];
        for (std::size_t j = 0; j < out.values.size(); ++j)
          loss += out.values[j] * grad.values[j];
        EXPECT_NEAR(got.tensors[a].values[i], loss, 1e-14) << a << ' ' << i;
        probe.tensors[a].values[i] = 0;
      }
  }
}

TEST(Axial, StridesAndThreadsChangeNoBit) {
  const AxialLearned axial{
      .join = AxisJoin::concatenated, .rows = {9, 11}, .widths = {150, 70}};
  const auto positions = iota(0, 99);
  const auto grad = random_tensor<float, 2>({220, 99}, 3);
  const View<const float, 2> columns(grad.values.data(), {99, 220}, {1, 99});
  Tables<float> first(axial);
  fill_backward<float>(axial, columns, positions, first.mutable_views);
  const int before = threads();
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    Tables<float> again(axial);
    fill_backward<float>(axial, columns, positions, again.mutable_views);
    for (std::size_t a = 0; a < 2; ++a)
      EXPECT_EQ(again.tensors[a].values, first.tensors[a].values);
  }
  set_threads(before);
}

TEST(Axial, RefusesWhatBreaksItsBounds) {
  AxialLearned axial = pair_of_axes;
  axial.join = {};
  EXPECT_EQ(message_of([&] { width(axial); }),
            "[axial] join must be concatenated or summed, got 0");
  axial.join = AxisJoin::summed;
  EXPECT_EQ(message_of([&] { width(axial); }),
            "[axial] summed axes must have equal widths, 2, got 5");
  axial.widths = {2};
  EXPECT_EQ(message_of([&] { width(axial); }),
            "[axial] widths must have one entry per axis, 2, got 1");
  axial.rows = {};
  EXPECT_EQ(message_of([&] { width(axial); }),
            "[axial] there must be at least one axis, got 0");
  axial = pair_of_axes, axial.rows[1] = 0;
  EXPECT_EQ(message_of([&] { capacity(axial); }), "[axial] rows must be at least 1, got 0");
  axial.rows[1] = std::int64_t{1} << 62;
  EXPECT_EQ(message_of([&] { capacity(axial); }),
            "[axial] the product of rows must be below 2^63: rows, got 4611686018427387904");
  axial = pair_of_axes, axial.widths[0] = 0;
  EXPECT_EQ(message_of([&] { capacity(axial); }), "[axial] widths must be at least 1, got 0");
  const std::int64_t beyond[] = {11, 12};
  EXPECT_EQ(message_of([&] { axial_rows(pair_of_axes, 0, beyond); }),
            "[axial] position must have a row: the tables hold 0 to 11, got 12");
  EXPECT_EQ(message_of([&] { axial_rows(pair_of_axes, 2, {}); }),
            "[axial] axis must be from 0 to 1, got 2");
  Tables<float> tables(pair_of_axes);
  EXPECT_EQ(
      message_of([&] { fill<float>(pair_of_axes, std::span(tables.views).first(1), {}, {}); }),
      "[axial] there must be one table per axis, 2, got 1");
  EXPECT_EQ(
      message_of([&] { fill<float>(pair_of_axes, tables.views, std::span(beyond, 1), {}); }),
      "[axial] out must be [T, C] = [1, 7], got [0, 0]");
  std::swap(tables.mutable_views[0], tables.mutable_views[1]);
  EXPECT_EQ(
      message_of([&] { fill_backward<float>(pair_of_axes, {}, {}, tables.mutable_views); }),
      "[axial] table 0 must be [3, 2], got [4, 5]");
}

}  // namespace embedding_axial_test
}  // namespace gnomon
