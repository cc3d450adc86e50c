// `gnomon check`, `list` and `explain`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gnomon/model/encoding.h"
#include "program.h"

namespace gnomon::cli {
namespace check_test {

using Json = nlohmann::ordered_json;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Check = InFolder;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

// Characters on the terminal: UTF-8 without its continuation bytes.
std::ptrdiff_t columns(const std::string& line) {
  return std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

std::vector<std::string> encoding_names() {
  std::vector<std::string> all;
  for (const auto& one : model::encodings()) all.emplace_back(one.name);
  return all;
}

std::vector<std::string> kinds(const Json& json) {
  std::vector<std::string> all;
  for (const Json& one : json["encodings"]) all.push_back(one["kind"]);
  return all;
}

TEST_F(Check, MeasuresEveryEncodingAndKeepsItsPromises) {
  const Json json = Json::parse(done({"check", "--all", "--json"}));
  EXPECT_EQ(json["kept"], true);
  EXPECT_EQ(kinds(json), encoding_names());
  for (const Json& one : json["encodings"]) {
    const std::string kind = one["kind"];
    EXPECT_FALSE(one["promises"].empty()) << kind;
    EXPECT_EQ(one["order"].get<double>() > 1e-3, kind != "none");
    EXPECT_LE(one["cache"].get<double>(), 0x1p-16) << kind;
    for (const char* number : {"left", "shift"}) EXPECT_TRUE(one[number].is_number()) << number;
    EXPECT_EQ(one["verdicts"].size(), 7u) << kind;
    // Buckets and clipped tables give several distances one value, whatever training does.
    static const std::set<std::string> clipped{"t5",      "clipped",    "wavlm",
                                               "layout",  "shaw",       "wav2vec2-bert",
                                               "deberta", "deberta-v3", "graphormer"};
    const Json& distances = one["distances"];
    const bool equal = !distances.is_null() && distances["distance"] == 0;
    EXPECT_EQ(equal, clipped.contains(kind)) << kind;
    if (equal) {
      EXPECT_EQ(one["verdicts"]["unique"]["word"], "no") << kind;
    }
    // What parameters decide is no property of the encoding.
    if (one["random_table"].get<bool>() && !kind.starts_with("kerple"))
      EXPECT_EQ(one["verdicts"]["nearer"]["word"], "trained") << kind;
    else
      EXPECT_NE(one["verdicts"]["nearer"]["word"], "trained") << kind;
  }
}

TEST_F(Check, ADefaultFitsOneScreen) {
  const std::string text = done({"check"});
  const auto all = lines(text);
  EXPECT_LE(all.size(), 40u);
  for (const std::string& line : all) EXPECT_LE(columns(line), 80) << line;
  EXPECT_THAT(text, HasSubstr("\nalibi "));
  EXPECT_THAT(text, ContainsRegex("\nlearned +yes +no +ends 128 +trained +yes +yes +yes\n"));
  for (const std::string& line : lines(done({"check", "all"}))) EXPECT_LE(columns(line), 80);
}

TEST_F(Check, BothEndsOfAPathAreAlike) {
  const Json json =
      Json::parse(done({"check", "degree", "random-walk", "laplacian", "--json"}));
  for (const Json& one : json["encodings"])
    EXPECT_EQ(one["verdicts"]["sides"]["word"], one["kind"] == "laplacian" ? "yes" : "no")
        << one["kind"];
}

// The order of the losses of the lab beyond the training length, docs/analysis/properties.md.
TEST_F(Check, TheShareBeyondTheTrainingLengthHasTheOrderOfTheLab) {
  const Json json =
      Json::parse(done({"check", "alibi", "none", "rotary", "sinusoidal", "t5", "--json"}));
  double before = 0;
  for (int i = 0; i < 4; ++i) {
    const Json& one = json["encodings"][static_cast<std::size_t>(i)];
    const double share = one["beyond"]["share"];
    EXPECT_GT(share, before + 0.01) << one["kind"];
    EXPECT_DOUBLE_EQ(
        share,
        (one["beyond"]["far"].get<double>() + one["beyond"]["unseen"].get<double>()) / 2);
    before = share;
  }
  EXPECT_EQ(json["encodings"][4]["beyond"]["unseen"], 0);
  EXPECT_EQ(json["encodings"][4]["verdicts"]["beyond"]["word"], "trained");
}

// The table of all encodings of the lab on that page: the verdict separates those whose loss
// increases.
TEST_F(Check, TheVerdictBeyondTheTrainingLengthAgreesWithTheLab) {
  const std::string page = testing::contents(GNOMON_SOURCE_DIR "/docs/analysis/properties.md");
  const std::size_t begin = page.find("```csv\n");
  ASSERT_NE(begin, page.npos);
  std::istringstream lines(page.substr(begin, page.find("```\n", begin + 7) - begin));
  const Json json = Json::parse(done(
      {"check", "--all", "--width", "64", "--trained", "64", "--length", "512", "--json"}));
  int agreeing = 0;
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream fields(line);
    for (std::string cell; std::getline(fields, cell, ',');) cells.push_back(cell);
    if (cells.size() < 10 || cells[4] != "none" || cells[9].empty()) continue;
    const double increase = std::stod(cells[9]);
    for (const Json& one : json["encodings"])
      if (one["kind"] == cells[0]) {
        const bool is_none = one["kind"] == "none";
        EXPECT_EQ(one["verdicts"]["beyond"]["word"], is_none          ? "-"
                                                     : increase < 0.1 ? "yes"
                                                                      : "no")
            << line;
        agreeing += !is_none;
      }
  }
  EXPECT_EQ(agreeing, 8);
}

TEST_F(Check, EqualDistancesAreNotUnique) {
  EXPECT_THAT(done({"check", "clipped"}),
              ContainsRegex("unique +no +Keys at the distances [0-9]+ and [0-9]+"));
  EXPECT_THAT(done({"check", "none"}),
              ContainsRegex("beyond +- +No position has values, so none are new"));
}

// The columns of the chart are means of two distances, and its text says so.
TEST_F(Check, ThePictureOfExplainNamesItsEnds) {
  const auto all = lines(done({"explain", "alibi"}));
  const auto picture = std::ranges::find_if(
      all, [](const std::string& line) { return line.starts_with("Picture "); });
  ASSERT_LE(picture + 9, all.end());
  EXPECT_THAT(picture[0] + picture[1].substr(9),
              HasSubstr("a column is the mean of 2 distances"));
  const std::size_t high = picture[1].find("█") == picture[1].npos ? 2 : 1;
  // The mean slope of 4 heads is (1/4 + 1/16 + 1/64 + 1/256) / 4.
  const double slope = (0.25 + 0.0625 + 0.015625 + 0.00390625) / 4;
  EXPECT_NEAR(std::stod(picture[static_cast<std::ptrdiff_t>(high)]), -0.5 * slope, 1e-4);
  EXPECT_NEAR(std::stod(picture[static_cast<std::ptrdiff_t>(high) + 5]), -126.5 * slope, 1e-2);
  EXPECT_THAT(picture[static_cast<std::ptrdiff_t>(high) + 6], ContainsRegex(" 0-1 +126-127$"));
}

TEST_F(Check, OneEncodingHasASentenceForEachProperty) {
  const std::string text = done({"check", "RoPE"});
  EXPECT_THAT(text, StartsWith("Rotary (RoPE) (rotary)\n"));
  for (const char* property :
       {"unique", "distance", "beyond", "nearer", "order", "sides", "cache"})
    EXPECT_THAT(text, HasSubstr(std::string("\n") + property)) << property;
  EXPECT_THAT(text, HasSubstr("distance  yes      Scores depend on the distance alone"));
  EXPECT_THAT(text, Not(HasSubstr("ok ")));
  EXPECT_THAT(done({"check", "rotary", "--verbose"}),
              HasSubstr("ok     Rotary (RoPE): scores depend on the distance only"));
  EXPECT_THAT(done({"check", "t5"}), HasSubstr("depends on training"));
}

TEST_F(Check, TakesSeveralKindsOnceAndRefusesMistakes) {
  const Json json = Json::parse(done({"check", "rotary", "ALiBi", "RoPE", "--json"}));
  EXPECT_THAT(kinds(json), ElementsAre("rotary", "alibi"));
  EXPECT_THAT(refused({"check", "rotray"}), HasSubstr("got rotray; nearest: rotary"));
  EXPECT_THAT(refused({"check", "--width", "12", "--heads", "4"}), HasSubstr("got 12"));
  EXPECT_THAT(refused({"check", "rotary", "--all"}),
              HasSubstr("[check] KIND and --all must not both be given, got rotary"));
  EXPECT_THAT(refused({"check", "--verbose", "--json"}),
              HasSubstr("[check] --json and --verbose must not both be given"));
}

TEST_F(Check, ListHasALineForEachEncoding) {
  const auto all = lines(done({"list"}));
  ASSERT_EQ(all.size(), encoding_names().size() + 1);
  for (std::size_t i = 0; i < encoding_names().size(); ++i) {
    EXPECT_THAT(all[i + 1], StartsWith(encoding_names()[i] + " "));
    EXPECT_LE(columns(all[i + 1]), 80);
  }
  const Json json = Json::parse(done({"list", "--json"}));
  ASSERT_EQ(json["encodings"].size(), encoding_names().size());
  EXPECT_EQ(json["encodings"][0]["page"], "docs/model/none.md");
}

TEST_F(Check, ExplainsEveryEncodingOnAScreen) {
  for (const std::string& name : encoding_names()) {
    const std::string text = done({"explain", name});
    EXPECT_LE(lines(text).size(), 32u) << name;
    for (const std::string& line : lines(text)) EXPECT_LE(columns(line), 80) << line;
    for (const char* part : {"\nFormula ", "\nPosition ", "\nSource ", "\nUsed by ", "\nCost ",
                             "\nPicture ", "\nDraw ", "\nPage "})
      EXPECT_THAT(text, HasSubstr(part)) << name;
    EXPECT_EQ(text.find("time: none") != text.npos, name == "none") << text;
    // "gnomon plot bias alibi -o alibi.html" works.
    const std::size_t draw = text.find("\nDraw ") + 6;
    std::istringstream command(text.substr(draw, text.find('\n', draw) - draw));
    std::vector<std::string> arguments{std::istream_iterator<std::string>(command), {}};
    ASSERT_EQ(arguments.size(), 6u) << name;
    arguments.erase(arguments.begin());
    arguments.back() = file(arguments.back());
    done(arguments);
  }
  const Json json = Json::parse(done({"explain", "t5", "--json"}));
  EXPECT_EQ(json["name"], "t5");
  EXPECT_EQ(json["parameters"], "128 parameters for all layers (buckets 32 x 4)");
  EXPECT_THAT(refused({"explain", "albi"}), HasSubstr("nearest: alibi"));
}

}  // namespace check_test
}  // namespace gnomon::cli
