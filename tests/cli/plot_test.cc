// `gnomon plot`: its options, captions and files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gnomon/io/npy.h"
#include "program.h"

namespace gnomon::cli {
namespace plot_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

class Plot : public InFolder {
 protected:
  std::string content(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(file(name), std::ios::binary).rdbuf();
    return text.str();
  }
  // The caption of the page that the words draw.
  std::string caption(Words words) const {
    words.insert(words.begin(), "plot");
    words.insert(words.end(), {"-o", file("p.html")});
    done(words);
    const std::string page = content("p.html");
    const std::size_t begin = page.find("<figcaption>");
    return page.substr(begin, page.find("</figcaption>") - begin);
  }
  std::string refused_plot(Words words) const {
    words.insert(words.begin(), "plot");
    words.insert(words.end(), {"-o", file("q.html")});
    const std::string error = refused(words);
    EXPECT_FALSE(fs::exists(file("q.html")));
    return error;
  }
};

TEST_F(Plot, DisclosesParametersThatAreNotTrained) {
  for (const Words& words : std::vector<Words>{{"table", "learned"},
                                               {"similarity", "learned"},
                                               {"bias", "t5"},
                                               {"bias", "swin"},
                                               {"attention", "learned"},
                                               {"attention", "shaw"},
                                               {"attention", "t5"},
                                               {"shuffled", "t5"}})
    EXPECT_THAT(caption(words), HasSubstr("The parameters are random numbers"))
        << ::testing::PrintToString(words);
  for (const Words& words :
       std::vector<Words>{{"table"}, {"similarity"}, {"bias"}, {"attention"}, {"shuffled"}})
    EXPECT_THAT(caption(words), Not(HasSubstr("parameters"))) << words[0];
}

TEST_F(Plot, CaptionsFollowTheNumbers) {
  EXPECT_THAT(
      caption({"grid", "sinusoidal"}),
      HasSubstr("the nearer one is more similar in 79.9 % of the pairs, the farther one "
                "in 20.1 %."));
  EXPECT_THAT(caption({"similarity", "learned"}),
              HasSubstr("the shorter one has the higher mean similarity in "));
  EXPECT_THAT(caption({"bias", "swin"}), HasSubstr("by the offset of the cells in a window"));
  EXPECT_THAT(caption({"shuffled"}), HasSubstr("0 up to rounding without position and 0."));
  EXPECT_THAT(caption({"shuffled", "none"}),
              HasSubstr("0 up to rounding without position and 0 up to rounding with"));
  // mean of cos(d f) over 64 pairs at base 10000: 0.477 at d = 100
  EXPECT_THAT(caption({"decay"}),
              HasSubstr("All elements 1: 1 at distance 0, 0.477 at distance "
                        "100, 0.211 at distance 511"));
}

TEST_F(Plot, TheTrainedTableOfAVit) {
  EXPECT_THAT(caption({"grid", "vit"}), HasSubstr("the nearer one is more similar in "));
  EXPECT_THAT(caption({"similarity", "vit"}), HasSubstr("Trained to restore hidden patches"));
  EXPECT_THAT(refused_plot({"table", "vit", "--dim", "4"}),
              HasSubstr("--dim has no effect for vit"));
  EXPECT_THAT(refused_plot({"grid", "vit", "--grid", "4x4"}),
              HasSubstr("--grid has no effect"));
  EXPECT_THAT(refused_plot({"grid", "learned"}), HasSubstr("must be sinusoidal or vit"));
}

TEST_F(Plot, OptionsWithoutEffectAreRefused) {
  EXPECT_THAT(refused_plot({"rotary", "alibi"}), HasSubstr("KIND applies to table"));
  EXPECT_THAT(refused_plot({"wavelengths", "--heads", "3"}),
              HasSubstr("--heads applies to bias, got wavelengths"));
  EXPECT_THAT(refused_plot({"table", "--length", "0"}),
              HasSubstr("--length must be at least 1"));
  EXPECT_THAT(refused_plot({"bias", "--base", "5"}), HasSubstr("--base applies to rotary"));
  const auto table = testing::random_tensor<float, 2>({6, 4});
  io::write_npy(file("t.npy"), table.view());
  for (const Words& more : std::vector<Words>{{"--dim", "8"}, {"--length", "8"}, {"learned"}}) {
    Words words{"table", "--parameters", file("t.npy")};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(refused_plot(words),
                HasSubstr("has no effect if --parameters gives the table"));
  }
  EXPECT_THAT(
      refused_plot({"bias", "alibi", "--parameters", file("t.npy")}),
      HasSubstr("KIND with --parameters must have one matrix of parameters, got alibi"));
}

TEST_F(Plot, APageHasItsCommandAndItsNumbers) {
  done({"plot", "bias", "-o", file("a b.html")});
  const std::string page = content("a b.html");
  EXPECT_THAT(page,
              AllOf(HasSubstr("gnomon plot bias -o &#39;" + file("a b.html") + "&#39;"),
                    HasSubstr("Numbers of this chart"), HasSubstr("<th class=\"n\">head 7"),
                    HasSubstr("bias by distance (tokens)")));
}

TEST_F(Plot, FiguresAsJsonMakeAPage) {
  using Json = nlohmann::json;
  const Json bias = Json::parse(done({"plot", "bias", "--heads", "2", "--json"}));
  done({"plot", "bias", "--heads", "2", "-o", file("b.json")});
  EXPECT_EQ(bias.at("spec"), Json::parse(content("b.json")));
  EXPECT_EQ(bias.at("title"), "ALiBi: bias by distance and head");
  EXPECT_THAT(bias.at("caption").get<std::string>(), HasSubstr("in 2 of 2 heads"));
  EXPECT_EQ(bias.at("config").at("background"), "#ffffff");

  std::ofstream(file("f.json")) << Json{bias, {{"title", "Second"}, {"spec", bias["spec"]}}};
  done({"plot", "page", "--figures", file("f.json"), "--title", "Two", "-o", file("p.html")});
  EXPECT_THAT(content("p.html"), AllOf(HasSubstr("<h1>Two"), HasSubstr("figure-2"),
                                       HasSubstr("Second"), HasSubstr("in 2 of 2 heads")));

  std::ofstream(file("g.json")) << R"([{"title": "no spec"}])";
  EXPECT_THAT(refused_plot({"page", "--figures", file("g.json")}),
              HasSubstr("--figures must be a list of figures as --json prints them"));
  EXPECT_THAT(refused({"plot", "bias"}), HasSubstr("-o FILE or --json must be given"));
  EXPECT_THAT(refused({"plot", "page"}), HasSubstr("--figures"));
}

TEST_F(Plot, Images) {
  const auto png = run({"plot", "bias", "-o", file("p.png")});
  if (png.code == 2 && png.errors.find("requires vl-convert") != std::string::npos)
    GTEST_SKIP() << "vl-convert is not installed: " << png.errors;
  ASSERT_EQ(png.code, 0) << png.errors;
  EXPECT_THAT(content("p.png"), StartsWith("\x89PNG\r\n"));
  done({"plot", "shuffled", "-o", file("p $(touch x).svg")});
  EXPECT_THAT(content("p $(touch x).svg"), AllOf(StartsWith("<svg"), HasSubstr("bites")));
  EXPECT_EQ(names().size(), 2u) << "no temporary files";
}

}  // namespace plot_test
}  // namespace gnomon::cli
