// The kinds of `gnomon table` that program_test.cc does not have, from their formulas, and the
// tables and biases of graphs in files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/io/npy.h"
#include "program.h"

namespace gnomon::cli {
namespace cli_table_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Tables : public InFolder {
 protected:
  io::Array table(Words words) const {
    words.insert(words.begin(), "table");
    words.insert(words.end(), {"-o", file("t.npy")});
    EXPECT_EQ(done(words), "");
    return io::read_npy(file("t.npy"));
  }
  std::string edges(const std::string& text) const {
    return testing::put(file("edges.txt"), text).string();
  }
};

// The rows of a float or double array, flat.
std::vector<double> values(const io::Array& array) { return array.to_doubles(); }

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << i;
}

TEST_F(Tables, UniversalAddsTheStep) {
  expect_near(values(table({"universal", "--dim", "2", "--positions", "2", "--step", "3"})),
              {std::sin(2) + std::sin(3), std::cos(2) + std::cos(3)});
}

TEST_F(Tables, XposHasCosSinAndTheFactorOfQueries) {
  const io::Array array = table({"xpos", "--dim", "4", "--positions", "100", "--pairing",
                                 "halves", "--centre", "50", "--dtype", "f64"});
  ASSERT_EQ(array.shape(), (io::Array::Shape{3, 1, 2}));
  const auto factor = [](double i) {
    return std::pow((2 * i / 4 + 0.4) / 1.4, (100.0 - 50) / 512);
  };
  expect_near(values(array),
              {std::cos(100), std::cos(1), std::sin(100), std::sin(1), factor(0), factor(1)});
}

TEST_F(Tables, AxialRotaryHasTheAxesOfAModel) {
  const auto all =
      values(table({"axial-rotary", "--dim", "8", "--grid", "2x3", "--recipe", "qwen-vl"}));
  ASSERT_EQ(all.size(), 2u * 6 * 4);
  // The cell y = 1, x = 2: the first two pairs rotate by y, the others by x.
  expect_near({all.begin() + 20, all.begin() + 24},
              {std::cos(1), std::cos(0.01), std::cos(2), std::cos(0.02)});
  expect_near({all.end() - 4, all.end()},
              {std::sin(1), std::sin(0.01), std::sin(2), std::sin(0.02)});
  EXPECT_EQ(
      table({"axial-rotary", "--dim", "32", "--grid", "2x3x4", "--recipe", "wan"}).shape(),
      (io::Array::Shape{2, 24, 16}));
  EXPECT_THAT(refused({"table", "axial-rotary", "--dim", "8", "--grid", "2x3x4", "--recipe",
                       "pixtral"}),
              HasSubstr("[grid] must be HxW"));
  EXPECT_THAT(refused({"table", "axial-rotary", "--dim", "8", "--grid", "2x3"}),
              HasSubstr("[recipe] must be one of pixtral, qwen-vl"));
}

TEST_F(Tables, GridsOfAnyNumberOfAxes) {
  const auto all = values(table({"grid", "--dim", "6", "--grid", "2x2x2"}));
  ASSERT_EQ(all.size(), 8u * 6);
  expect_near({all.begin() + 30, all.begin() + 36},  // the cell 1, 0, 1
              {std::sin(1), std::cos(1), 0, 1, std::sin(1), std::cos(1)});
  const auto summed =
      values(table({"grid", "--dim", "2", "--grid", "2x2x2", "--join", "summed"}));
  expect_near({summed.begin() + 10, summed.begin() + 12},
              {2 * std::sin(1), 2 * std::cos(1) + 1});
  EXPECT_THAT(refused({"table", "grid", "--dim", "5", "--grid", "2x2"}),
              HasSubstr("--dim must be a multiple of the number of axes"));
  EXPECT_THAT(refused({"table", "grid", "--dim", "8", "--grid", "1x2x3x4x5"}),
              HasSubstr("[grid] must be 1 to 4 extents"));
  EXPECT_THAT(refused({"table", "grid", "--dim", "8", "--grid", "99999999x99999999"}),
              HasSubstr("[grid] must have fewer than 2^28 cells"));
}

TEST_F(Tables, VideoByRecipe) {
  const auto video = [&](const char* recipe) {
    return values(table({"video", "--dim", "16", "--grid", "3x2x2", "--recipe", recipe}));
  };
  for (const char* recipe : {"cogvideox", "vjepa"}) {
    const auto all = video(recipe);
    ASSERT_EQ(all.size(), 12u * 16) << recipe;
    EXPECT_NEAR(all[8 * 16], std::sin(2), 1e-6) << recipe;  // the first cell of frame 2
  }
  EXPECT_NEAR(video("videomae")[11 * 16], std::sin(11), 1e-6);
}

TEST_F(Tables, FourierFeaturesOfCells) {
  const auto nerf =
      values(table({"fourier", "--grid", "5", "--recipe", "nerf", "--count", "2"}));
  ASSERT_EQ(nerf.size(), 25u);
  expect_near({nerf.end() - 5, nerf.end()},
              {1, std::sin(1), std::cos(1), std::sin(2), std::cos(2)});
  EXPECT_EQ(
      table({"fourier", "--grid", "4x4", "--recipe", "perceiver", "--count", "3"}).shape(),
      (io::Array::Shape{16, 2 + 2 * 2 * 3}));
  EXPECT_EQ(table({"fourier", "--grid", "4x4", "--recipe", "gaussian", "--count", "3",
                   "--deviation", "2", "--seed", "7"})
                .shape(),
            (io::Array::Shape{16, 6}));
  EXPECT_THAT(refused({"table", "fourier", "--grid", "5", "--recipe", "nerf", "--count", "2",
                       "--seed", "1"}),
              HasSubstr("--deviation and --seed apply to --recipe gaussian, got nerf"));
}

TEST_F(Tables, WhatDoesNotFitIsRefused) {
  for (const Words& words :
       {Words{"universal", "--positions", "0:1000000", "--dim", "1000000"},
        Words{"axial-rotary", "--grid", "8192x8192", "--dim", "1000000", "--recipe", "sam2"},
        Words{"grid", "--grid", "8192x8192", "--dim", "1000000"},
        Words{"fourier", "--grid", "8192x8192", "--recipe", "gaussian", "--count",
              "1000000"}}) {
    Words all = words;
    all.insert(all.begin(), "table");
    EXPECT_THAT(refused(all), HasSubstr("must fit in memory")) << words[0];
  }
  EXPECT_THAT(refused({"table", "grid", "--grid", "2x2", "--dim", "4000000000"}),
              HasSubstr("[table] --dim must be at most 2^24, got 4000000000"));
}

TEST_F(Tables, NodesOfAGraph) {
  const std::string path = edges("# a path\n0 1\r\n1\t2\n");
  const double s = 1 / std::sqrt(2.0), u = 1 / std::sqrt(6.0);
  expect_near(values(table({"laplacian", "--dim", "2", "--graph", path})),
              {s, -u, 0, 2 * u, -s, -u});
  expect_near(values(table({"random-walk", "--dim", "2", "--graph", path})),
              {0, 0.5, 0, 1, 0, 0.5});
  const io::Array degrees =
      table({"degree", "--directed", "--graph", edges("0 1\n1 2\n0 2\n")});
  ASSERT_EQ(degrees.shape(), (io::Array::Shape{3, 2}));
  EXPECT_THAT(values(degrees), ElementsAre(0, 2, 1, 1, 2, 0));
  EXPECT_THAT(done({"table", "degree", "--graph", path}), HasSubstr("degree i64 [3, 2]"));
}

TEST_F(Tables, FilesOfEdgesAreReadAsHostile) {
  const auto message = [&](const std::string& text) {
    return refused({"table", "random-walk", "--dim", "2", "--graph", edges(text)});
  };
  EXPECT_THAT(message("0 1\n1 x\n"), HasSubstr("at byte"));
  EXPECT_THAT(message("0 -1\n"), HasSubstr("at byte"));
  EXPECT_THAT(message(std::string("0 \0 1\n", 6)), HasSubstr("at byte"));
  EXPECT_THAT(message("2147483647 0\n"),
              HasSubstr("[graph] must have at most 2^20 nodes, got 2147483648"));
  EXPECT_THAT(message("# nothing\n"), HasSubstr("[graph] must have at least one edge"));
  EXPECT_THAT(refused({"table", "degree", "--graph", folder()}), HasSubstr("got a folder"));
  EXPECT_THAT(refused({"bias", "graphormer", "--heads", "2", "--indices", "--graph",
                       edges("1048575 0\n")}),
              HasSubstr("must fit in memory"));
}

TEST_F(Tables, GraphormerReadsAGraph) {
  const std::string path = edges("0 1\n1 2\n3 3\n");  // node 3 has a loop only
  done({"bias", "graphormer", "--heads", "2", "--unreachable", "5", "--indices", "--graph",
        path, "-o", file("i.npy")});
  const io::Array indices = io::read_npy(file("i.npy"));
  ASSERT_EQ(indices.shape(), (io::Array::Shape{4, 4}));
  EXPECT_THAT(values(indices), ElementsAre(1, 2, 3, 6, 2, 1, 2, 6, 3, 2, 1, 6, 6, 6, 6, 1));

  const auto table = testing::random_tensor<float, 2>({7, 2});
  io::write_npy(file("spatial.npy"), table.view());
  done({"bias", "graphormer", "--heads", "2", "--unreachable", "5", "--parameters",
        file("spatial.npy"), "--graph", path, "-o", file("b.npy")});
  const io::Array bias = io::read_npy(file("b.npy"));
  ASSERT_EQ(bias.shape(), (io::Array::Shape{2, 4, 4}));
  EXPECT_EQ((bias.view<float, 3>()(1, 0, 2)), table.view()(3, 1));
  EXPECT_EQ((bias.view<float, 3>()(0, 3, 1)), table.view()(6, 0));

  EXPECT_THAT(
      refused({"bias", "graphormer", "--heads", "2", "--graph", path, "--queries", "4"}),
      HasSubstr("--queries must not be given with --graph"));
  EXPECT_THAT(refused({"bias", "graphormer", "--heads", "2", "--graph", path, "--parameters",
                       file("spatial.npy")}),
              HasSubstr("the spatial table must be [512, 2], got [7, 2]"));
  EXPECT_THAT(refused({"bias", "graphormer", "--heads", "2"}),
              HasSubstr("--queries is required"));
  EXPECT_THAT(refused({"bias", "alibi", "--heads", "2", "--graph", path}),
              HasSubstr("--graph applies to graphormer, got alibi"));
  // Text is a path of its tokens.
  done({"bias", "graphormer", "--heads", "1", "--queries", "1", "--keys", "3", "--indices",
        "-o", file("i.npy")});
  EXPECT_THAT(values(io::read_npy(file("i.npy"))), ElementsAre(1, 2, 3));
}

}  // namespace cli_table_test
}  // namespace gnomon::cli
