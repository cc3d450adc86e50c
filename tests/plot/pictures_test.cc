#include "gnomon/plot/pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "testing.h"

namespace gnomon::plot {
namespace pictures_test {

using Json = nlohmann::json;
using gnomon::testing::message_of;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Pictures, ATableMeetsAtZero) {
  const Json spec = Json::parse(table_picture(Matrix(2, 2, {1, -0.5, 0, 0.25})));
  EXPECT_EQ(spec["mark"]["type"], "rect");
  EXPECT_EQ(spec["data"]["values"][0]["data"], Json({1, -0.5, 0, 0.25}));
  EXPECT_EQ(spec["encoding"]["y"]["title"], "position");
  EXPECT_EQ(spec["encoding"]["x"]["title"], "channel");
  EXPECT_EQ(spec["encoding"]["color"]["scale"]["domain"], Json({-1, 1}));
  const Json thinned = Json::parse(table_picture(
      {.values = {2, 2, {1, 2, 3, 4}}, .rows = {.title = "position", .step = 8}}));
  EXPECT_EQ(thinned["encoding"]["y"]["scale"]["domain"], Json({-4, 12}));
}

TEST(Pictures, SimilarityIsSquare) {
  const Json spec = Json::parse(similarity_picture(
      {.values = {2, 2, {1, 0.5, 0.5, 1}}, .title = "cosine", .range = Range{-1, 1}}));
  EXPECT_EQ(spec["usermeta"]["gnomon"]["tall"], 1);
  EXPECT_EQ(spec["width"], spec["height"]);
  EXPECT_EQ(spec["encoding"]["color"]["title"], "cosine");
  EXPECT_EQ(spec["encoding"]["color"]["scale"]["domain"], Json({-1, 1}));
  EXPECT_EQ(message_of([] { similarity_picture({.values = {1, 2, {1, 2}}}); }),
            "[pictures] similarity must be square, got 1 x 2");
}

TEST(Pictures, GridCellsAreMultiplesInOneScale) {
  const GridPicture picture{.height = 2,
                            .width = 3,
                            .chosen = {{.y = 0, .x = 0, .similarity = {1, 2, 3, 4, 5, 6}},
                                       {.y = 1, .x = 2, .similarity = {9, 8, 7, 6, 5, 0}}}};
  const Json spec = Json::parse(grid_picture(picture));
  EXPECT_EQ(spec["data"]["values"][0]["data"], Json({1, 2, 3, 4, 5, 6, 9, 8, 7, 6, 5, 0}));
  EXPECT_EQ(spec["facet"]["field"], "panel");
  EXPECT_EQ(spec["facet"]["header"]["labelExpr"],
            "[\"row 0, column 0\",\"row 1, column 2\"][datum.value]");
  EXPECT_EQ(spec["columns"], 2);
  ASSERT_EQ(spec["spec"]["layer"].size(), 2u);
  EXPECT_EQ(spec["spec"]["width"], 220);
  EXPECT_EQ(spec["spec"]["height"], 147);
  EXPECT_FALSE(spec.contains("width"));
  EXPECT_EQ(spec["spec"]["layer"][0]["encoding"]["color"]["scale"]["domain"], Json({0, 9}));
  const Json cross = spec["spec"]["layer"][1];
  EXPECT_EQ(cross["mark"]["type"], "point");
  EXPECT_EQ(cross["transform"][0]["filter"],
            "(datum.panel == 0 && datum.row == 0 && datum.column == 0) || "
            "(datum.panel == 1 && datum.row == 1 && datum.column == 2)");
  const Json own = spec["usermeta"]["gnomon"];
  EXPECT_EQ(own["count"], 2);
  EXPECT_LE(own["narrowest"], 390 - 2 * 16 - own["margin"].get<int>()) << "fits a phone";
}

TEST(Pictures, RefusesGridsThatCannotBe) {
  EXPECT_EQ(message_of([] { grid_picture({}); }),
            "[pictures] chosen must have at least one cell, got 0");
  EXPECT_EQ(message_of([] {
              grid_picture({.height = 1, .width = 1, .chosen = {{.y = 1, .similarity = {1}}}});
            }),
            "[pictures] a chosen cell must be in the grid, got row 1, column 0");
  EXPECT_EQ(message_of([] {
              grid_picture({.height = 1, .width = 2, .chosen = {{.similarity = {1}}}});
            }),
            "[chart] a matrix must have 2 values, got 1");
}

TEST(Pictures, RotaryScoresHaveABandWhereRandom) {
  RotaryPicture picture{.distances = {0, 1, 2},
                        .all_ones = {1, 0.5, 0.25},
                        .samples = {{"normal", {0, 0, 0}, {-1, -1, -1}, {1, 1, 1}}}};
  Json spec = Json::parse(rotary_picture(picture));
  ASSERT_EQ(spec["data"]["values"].size(), 2u);
  EXPECT_EQ(spec["data"]["values"][1]["y"], Json({1, 0.5, 0.25})) << "in front of the band";
  EXPECT_EQ(spec["data"]["values"][0]["name"], "normal");
  ASSERT_EQ(spec["layer"][0]["mark"]["type"], "area");
  EXPECT_EQ(spec["layer"][0]["data"]["values"].size(), 1u);
  picture.samples[0].high.pop_back();
  EXPECT_EQ(message_of([&] { rotary_picture(picture); }),
            "[pictures] high must have one value per distance (3), got 2");
  picture.samples.clear();
  spec = Json::parse(rotary_picture(picture));
  EXPECT_EQ(spec["data"]["values"].size(), 1u);
  picture.all_ones.clear();
  EXPECT_EQ(message_of([&] { rotary_picture(picture); }),
            "[pictures] there must be scores to draw, got 0");
}

TEST(Pictures, WavelengthsTellWhichPairsCompleteNoRotation) {
  const Json spec = Json::parse(wavelength_picture(
      {.specs = {{"base", {6.28, 100, 100.1, INFINITY}}, {"longer", {800}}}, .context = 100}));
  const Json rows = spec["data"]["values"];
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0]["kind"], "full rotation in 100 tokens");
  EXPECT_EQ(rows[1]["kind"], "full rotation in 100 tokens") << "one whole turn";
  EXPECT_EQ(rows[2]["kind"], "no full rotation in 100 tokens");
  EXPECT_TRUE(rows[3]["length"].is_null()) << "a pair that does not turn at all";
  EXPECT_EQ(rows[3]["kind"], "no full rotation in 100 tokens");
  EXPECT_EQ(rows[4]["turns"], 0.125);
  EXPECT_EQ(rows[4]["name"], "longer");
  EXPECT_EQ(spec["layer"][1]["data"]["values"][0]["context"], 100);
  const Json levels = Json::parse(wavelength_picture(
      {.specs = {{"a", {1}}}, .context = 8, .others = {{16, "b"}, {2, "c"}}}))["layer"];
  ASSERT_EQ(levels.size(), 5u);
  EXPECT_EQ(levels[2]["data"]["values"][0]["label"], "b");
  EXPECT_EQ(levels[2]["mark"]["baseline"], "bottom") << "above the highest line";
  EXPECT_EQ(levels[3]["data"]["values"][0]["context"], 8);
  EXPECT_EQ(levels[3]["mark"]["baseline"], "top");
  const auto message = [](const WavelengthPicture& picture) {
    return message_of([&] { wavelength_picture(picture); });
  };
  EXPECT_EQ(message({.specs = {}, .context = 1}),
            "[pictures] there must be at least one spec, got 0");
  EXPECT_EQ(message({.specs = {{"a", {1}}}}),
            "[pictures] context must be finite and above 0, got 0");
  EXPECT_EQ(message({.specs = {{"a", {0}}}, .context = 1}),
            "[pictures] a wavelength must be above 0, got 0");
}

TEST(Pictures, ABiasIsALineAHead) {
  const Json spec = Json::parse(
      bias_picture({.distances = {0, 1, 2}, .values = {2, 3, {0, -1, -2, 0, nan, -0.5}}}));
  const Json rows = spec["data"]["values"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["y"], Json({0, -1, -2}));
  EXPECT_EQ(rows[1]["y"], Json({0, nullptr, -0.5}));
  EXPECT_EQ(rows[1]["head"], 1);
  EXPECT_EQ(spec["encoding"]["color"]["type"], "quantitative");
  EXPECT_EQ(spec["encoding"]["color"]["scale"]["domain"], Json({0, 1}));
  const Json one = Json::parse(bias_picture({.distances = {0, 1}, .values = {1, 2, {0, -1}}}));
  EXPECT_EQ(one["encoding"]["color"]["scale"]["domain"], Json({0, 1})) << "not one colour";
  EXPECT_EQ(message_of([] { bias_picture({.distances = {0}, .values = {1, 2, {0, 1}}}); }),
            "[pictures] values must have a column for each of 1 distances, got 2");
}

TEST(Pictures, PanelsHaveOneShapeAndOneScale) {
  PanelsPicture picture{.panels = {{"a", {1, 2, {1, 2}}}, {"b", {1, 2, {3, 4}}}},
                        .columns = {.title = "key", .labels = {"x", "y"}}};
  const Json spec = Json::parse(panels_picture(picture));
  EXPECT_EQ(spec["data"]["values"][0]["data"], Json({1, 2, 3, 4}));
  EXPECT_EQ(spec["spec"]["encoding"]["color"]["scale"]["domain"], Json({1, 4}));
  EXPECT_EQ(spec["usermeta"]["gnomon"]["count"], 2);
  picture.panels[1].values = {2, 1, {3, 4}};
  EXPECT_EQ(message_of([&] { panels_picture(picture); }),
            "[pictures] panels must have the same shape (1 x 2), got 2 x 1");
  EXPECT_EQ(message_of([] { panels_picture({}); }),
            "[pictures] there must be at least one panel, got 0");
}

TEST(Pictures, ABiasOfAWindowIsAMapOfOffsets) {
  BiasGridPicture picture{.height = 2, .width = 1, .values = {2, 3, {1, 2, 3, 4, 5, -8}}};
  const Json spec = Json::parse(bias_grid_picture(picture));
  EXPECT_EQ(spec["data"]["values"][0]["data"], Json({1, 2, 3, 4, 5, -8}));
  EXPECT_EQ(spec["facet"]["header"]["labelExpr"], "[\"head 0\",\"head 1\"][datum.value]");
  const Json encoding = spec["spec"]["encoding"];
  EXPECT_EQ(encoding["y"]["scale"]["domain"], Json({-1.5, 1.5})) << "offsets -1 to 1";
  EXPECT_EQ(encoding["x"]["scale"]["domain"], Json({-0.5, 0.5}));
  EXPECT_EQ(encoding["color"]["scale"]["domain"], Json({-8, 8}));
  picture.width = 2;
  EXPECT_EQ(message_of([&] { bias_grid_picture(picture); }),
            "[pictures] values must have a column for each of 9 offsets, got 3");
  picture.height = 0;
  EXPECT_EQ(message_of([&] { bias_grid_picture(picture); }),
            "[pictures] sides of a window must be 1 to 32767, got 0 x 2");
}

TEST(Pictures, AttentionIsComparedByItsDifference) {
  const AttentionPicture picture{.without = {2, 2, {1, nan, 0.5, 0.5}},
                                 .with = {2, 2, {1, nan, 0.25, 0.75}}};
  const Json spec = Json::parse(attention_picture(picture));
  EXPECT_EQ(spec["data"]["values"][0]["data"],
            Json({1, nullptr, 0.5, 0.5, 1, nullptr, 0.25, 0.75, 0, nullptr, -0.25, 0.25}));
  EXPECT_EQ(spec["facet"]["header"]["labelExpr"],
            "[\"without position\",\"with position\",\"difference: with - without\"]"
            "[datum.value]");
  const Json weights = spec["spec"]["layer"][0], difference = spec["spec"]["layer"][1];
  EXPECT_EQ(weights["encoding"]["color"]["scale"]["domain"], Json({0.25, 1}));
  EXPECT_EQ(difference["encoding"]["fill"]["scale"]["domain"], Json({-0.25, 0.25}));
  EXPECT_FALSE(difference["encoding"].contains("color")) << "one legend per scale";
  EXPECT_EQ(difference["transform"][0]["filter"], "datum.panel == 2");
  EXPECT_EQ(spec["spec"]["width"], spec["spec"]["height"]);
  EXPECT_EQ(
      message_of([] { attention_picture({.without = {1, 1, {1}}, .with = {1, 2, {1, 0}}}); }),
      "[pictures] both weights must have the same shape (1 x 1), got 1 x 2");
}

TEST(Pictures, TextIsKept) {
  const std::string evil = "</script> & \" '";
  const Json spec = Json::parse(attention_picture({.without = {1, 1, {1}},
                                                   .with = {1, 1, {1}},
                                                   .queries = {.title = evil, .labels = {evil}},
                                                   .without_title = evil}));
  EXPECT_EQ(spec["spec"]["layer"][0]["encoding"]["y"]["title"], evil);
  EXPECT_EQ(
      spec["facet"]["header"]["labelExpr"],
      Json({evil, "with position", "difference: with - without"}).dump() + "[datum.value]");
}

}  // namespace pictures_test
}  // namespace gnomon::plot
