// The table of the numbers of a chart: `numbers` of page.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "gnomon/plot/page.h"
#include "gnomon/plot/pictures.h"

namespace gnomon::plot {
namespace numbers_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> titles(const Table& table) {
  std::vector<std::string> all;
  for (const Column& column : table.columns) all.push_back(column.title);
  return all;
}
std::vector<std::string> row(const Table& table, std::size_t index) {
  std::vector<std::string> all;
  for (const Cell& cell : table.rows.at(index)) all.push_back(cell.text);
  return all;
}

TEST(Numbers, FewSeriesAreColumns) {
  const auto table = numbers(lines(
      {.series = {{.name = "a", .x = {1, 2}, .y = {0.123456, 2}, .low = {0, 1}, .high = {1, 3}},
                  {.name = "b", .x = {2, 4}, .y = {nan, 5}}},
       .x = {.title = "length"},
       .y = {.title = "bits"}}));
  ASSERT_TRUE(table);
  EXPECT_EQ(table->caption, "bits by length");
  EXPECT_THAT(titles(*table), ElementsAre("length", "a", "b"));
  ASSERT_EQ(table->rows.size(), 3u);
  EXPECT_THAT(row(*table, 0), ElementsAre("1", "0.1235 (0 to 1)", "-"));
  EXPECT_THAT(row(*table, 1), ElementsAre("2", "2 ± 1", "-"));
  EXPECT_THAT(row(*table, 2), ElementsAre("4", "-", "5"));
}

TEST(Numbers, ManySeriesAreRowsAndLongOnesAreSampled) {
  LineChart chart{.x = {.title = "step"}, .y = {.title = "loss"}};
  for (int s = 0; s < 9; ++s) {
    Series& series =
        chart.series.emplace_back(Series{.name = std::to_string(s), .x = {}, .y = {}});
    for (int i = 0; i < 99; ++i) series.x.push_back(i), series.y.push_back(100 * s + i);
  }
  const auto table = numbers(lines(chart));
  ASSERT_TRUE(table);
  EXPECT_EQ(table->caption, "loss by step (8 of 99 places)");
  EXPECT_THAT(titles(*table),
              ElementsAre("name", "0", "14", "28", "42", "56", "70", "84", "98"));
  ASSERT_EQ(table->rows.size(), 9u);
  EXPECT_THAT(row(*table, 3),
              ElementsAre("3", "300", "314", "328", "342", "356", "370", "384", "398"));
  chart.series.resize(1);
  const auto one = numbers(lines(chart));
  EXPECT_EQ(one->rows.size(), 24u);
  EXPECT_THAT(row(*one, 23), ElementsAre("98", "98"));
}

TEST(Numbers, CellsHaveTheirLabels) {
  const auto table = numbers(heatmap({.values = {2, 2, {1, 2, 3, nan}},
                                      .rows = {.title = "position", .first = 10, .step = 5},
                                      .columns = {.title = "word", .labels = {"cat", "dog"}},
                                      .title = "weight"}));
  ASSERT_TRUE(table);
  EXPECT_EQ(table->caption, "weight; columns: word");
  EXPECT_THAT(titles(*table), ElementsAre("position", "cat", "dog"));
  EXPECT_THAT(row(*table, 1), ElementsAre("15", "3", "-"));
  const auto large = numbers(table_picture(Matrix(48, 16, std::vector<double>(768, 1.0))));
  EXPECT_THAT(large->caption, HasSubstr("(24 of 48 rows; 8 of 16 columns)"));
  EXPECT_EQ(row(*large, 23).front(), "47");
}

TEST(Numbers, PanelsAreNamed) {
  const auto table = numbers(attention_picture(
      {.without = {1, 2, {1, 2}}, .with = {1, 2, {3, 4}}, .with_title = "T5"}));
  ASSERT_TRUE(table);
  EXPECT_THAT(row(*table, 0), ElementsAre("without position", "0", "1", "2"));
  EXPECT_THAT(row(*table, 1), ElementsAre("T5", "0", "3", "4"));
}

TEST(Numbers, RowsHaveTheFieldsOfTheTooltip) {
  const auto table =
      numbers(wavelength_picture({.specs = {{"base", {10, 200}}}, .context = 100}));
  ASSERT_TRUE(table);
  EXPECT_THAT(titles(*table), ElementsAre("encoding", "pair", "wavelength", "rotations"));
  EXPECT_THAT(row(*table, 1), ElementsAre("base", "1", "200", "0.5"));
  const auto some = numbers(bars({.bars = {{.name = "a", .value = 1}}, .title = "bytes"}));
  EXPECT_THAT(titles(*some), ElementsAre("name", "bytes"));
  EXPECT_THAT(row(*some, 0), ElementsAre("a", "1"));
}

TEST(Numbers, OtherSpecsHaveNone) {
  for (const char* other : {"[]", "{}", R"({"usermeta":3})", R"({"usermeta":{"gnomon":{}}})",
                            R"({"data":{"values":[{"x":1}]},"mark":"bar"})"})
    EXPECT_FALSE(numbers(other)) << other;
  EXPECT_THROW(numbers(""), std::invalid_argument);
}

TEST(Numbers, APageFoldsThem) {
  HtmlPage page("t");
  page.figure({.id = "a", .spec = bars({.bars = {{.name = "a<", .value = 7}}})});
  const std::string html = page.html();
  const std::size_t at = html.find("<summary>Numbers of this chart</summary>");
  ASSERT_NE(at, html.npos);
  EXPECT_THAT(html.substr(at, 400), HasSubstr("<td>a&lt;</td><td class=\"n\">7</td>"));
}

}  // namespace numbers_test
}  // namespace gnomon::plot
