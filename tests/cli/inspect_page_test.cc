// `gnomon inspect` as people use it, and `gnomon rotate --config`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gnomon/io/npy.h"
#include "program.h"

namespace gnomon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr const char* llama = R"({"model_type": "llama", "hidden_size": 64,
  "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 4096,
  "rope_theta": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})";

class Inspect : public InFolder {
 protected:
  Inspect() { std::ofstream(file("config.json")) << llama; }
};

TEST_F(Inspect, SaysItInWords) {
  const auto outcome = run({"inspect", folder()});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("llama, 2 layers, trained for 4096 positions"),
                    HasSubstr("layers 0-1: rotary, halves, 16 of 16 elements, base 10000"),
                    HasSubstr("linear: factor 4"), HasSubstr("softmax       x 0.25")));
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(Inspect, JsonOfAFolderAFileAndALength) {
  for (const std::string& path : {folder(), file("config.json")}) {
    const auto outcome = run({"inspect", path, "--json", "--length", "9000"});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const Json json = Json::parse(outcome.output);
    EXPECT_EQ(json["length"], 9000);
    EXPECT_EQ(json["model_type"], "llama");
    const Json group = json["groups"][0];
    EXPECT_EQ(group["layers"], Json({0, 1}));
    EXPECT_EQ(group["kind"], "rotary");
    EXPECT_EQ(group["scaling"], Json({{"type", "linear"}, {"factor", 4.0}}));
    EXPECT_EQ(group["query_scale"], Json({{"type", "none"}}));
    EXPECT_TRUE(group["axes"].is_null());
    EXPECT_DOUBLE_EQ(group["inv_freq"][1].get<double>(), std::pow(10000, -0.125) / 4);
  }
}

TEST_F(Inspect, APageWithPictures) {
  const auto outcome = run({"inspect", folder(), "--html", file("page.html")});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  std::ostringstream page;
  page << std::ifstream(file("page.html")).rdbuf();
  EXPECT_THAT(page.str(),
              AllOf(StartsWith("<!doctype html>"), HasSubstr("layers 0-1"),
                    HasSubstr("wavelengths-0"), HasSubstr("decay-0"), HasSubstr("Unscaled, ")));
}

TEST_F(Inspect, OneLayer) {
  EXPECT_EQ(run({"inspect", folder(), "--layer", "1"}).code, 0);
  EXPECT_THAT(refused({"inspect", folder(), "--layer", "2"}),
              HasSubstr("--layer must be 0 to 1, got 2"));
}

TEST_F(Inspect, RefusesWithTheFileAndTheByte) {
  std::ofstream(file("bad.json")) << R"({"model_type": "llama", "hidden_size": "big"})";
  EXPECT_THAT(refused({"inspect", file("bad.json")}),
              AllOf(HasSubstr("bad.json]"), HasSubstr("hidden_size must be an integer"),
                    HasSubstr("at byte 39")));
  EXPECT_THAT(refused({"inspect", file("missing")}), HasSubstr("must be a readable file"));
  EXPECT_THAT(refused({"inspect"}), HasSubstr("needs a PATH"));
  EXPECT_THAT(refused({"inspect", folder(), "--length", "0"}),
              HasSubstr("--length must be at least 1, got 0"));
  EXPECT_THAT(refused({"inspect", folder(), "-o", file("page.txt")}), HasSubstr("page.txt"));
}

// The page shows what the program prints; after a change: the block of the page is replaced.
TEST_F(Inspect, TheTableOfFamiliesIsTheOneInTheDocs) {
  const auto outcome = run({"inspect", "--families"});
  ASSERT_EQ(outcome.code, 0);
  std::ostringstream page;
  page << std::ifstream(fs::path(GNOMON_SOURCE_DIR) / "docs/model/families.md").rdbuf();
  EXPECT_THAT(page.str(), HasSubstr("\n\n" + outcome.output));
}

TEST_F(Inspect, RotateTurnsAsTheModelDoes) {
  const auto x = testing::random_tensor<float, 3>({3, 2, 16});
  io::write_npy(file("q.npy"), io::Array::of(x.view()));
  const auto outcome = run({"rotate", file("q.npy"), "--positions", "5:8", "--config", folder(),
                            "--layer", "1", "-o", file("turned.npy")});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const io::Array turned = io::read_npy(file("turned.npy"));
  const auto y = turned.view<float, 3>();
  for (int t = 0; t < 3; ++t)
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 8; ++i) {
        const double angle = (5 + t) * std::pow(10000, -i / 8.0) / 4;
        const double a = x.view()(t, h, i), b = x.view()(t, h, i + 8);
        EXPECT_NEAR(y(t, h, i), a * std::cos(angle) - b * std::sin(angle), 1e-6);
        EXPECT_NEAR(y(t, h, i + 8), a * std::sin(angle) + b * std::cos(angle), 1e-6);
      }
  EXPECT_THAT(refused({"rotate", file("q.npy"), "--positions", "0:3", "--config", folder(),
                       "--base", "500", "-o", file("no.npy")}),
              HasSubstr("must not be given with --config"));
  EXPECT_THAT(refused({"rotate", file("q.npy"), "--positions", "0:3", "-o", file("no.npy")}),
              HasSubstr("needs either --config or --pairing"));
}

}  // namespace
}  // namespace gnomon::cli
