// `gnomon` from the command line: outputs, files, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gnomon/io/npy.h"
#include "gnomon/io/safetensors.h"
#include "program.h"

namespace gnomon::cli {
namespace cli_program_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class Program : public InFolder {};

TEST_F(Program, VersionAndUnknownCommands) {
  EXPECT_THAT(run({"--version"}).output, StartsWith("gnomon "));
  EXPECT_EQ(run({}).code, 2);
  EXPECT_THAT(refused({"frobnicate"}),
              AllOf(HasSubstr("[gnomon] command must be one of lab, generate, evaluate, "
                              "compare, batches, inspect, table"),
                    HasSubstr("got frobnicate")));
}

TEST_F(Program, RotaryTableIsCosThenSin) {
  done({"table", "rotary", "--dim", "8", "--positions", "0,1,131071", "--pairing", "halves",
        "--base", "500000", "-o", file("t.npy")});
  const io::Array array = io::read_npy(file("t.npy"));
  ASSERT_EQ(array.shape(), (io::Array::Shape{2, 3, 4}));
  const auto view = array.view<float, 3>();
  for (int t = 0; t < 3; ++t)
    for (int i = 0; i < 4; ++i) {
      const long double angle = (t == 2 ? 131071 : t) * std::pow(500000.0L, -i / 4.0L);
      EXPECT_NEAR(view(0, t, i), static_cast<double>(std::cos(angle)), 0x1p-24);
      EXPECT_NEAR(view(1, t, i), static_cast<double>(std::sin(angle)), 0x1p-24);
    }
}

TEST_F(Program, SinusoidalInEveryFormat) {
  const std::vector<std::string> begin{"table", "sinusoidal", "--dim", "4", "--positions"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = begin;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  done(with({"0:3", "-o", file("t.json")}));
  const Json json = Json::parse(std::ifstream(file("t.json")));
  EXPECT_EQ(json["kind"], "sinusoidal");
  EXPECT_EQ(json["shape"], Json({3, 4}));
  EXPECT_NEAR(json["values"][1][0], std::sin(1.0), 1e-7);
  EXPECT_NEAR(json["values"][1][1], std::cos(1.0), 1e-7);
  EXPECT_NEAR(json["values"][2][2], std::sin(0.02), 1e-7);

  done(with({"0:3", "-o", file("t.csv")}));
  std::ifstream csv(file("t.csv"));
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line, "# shape [3, 4]");
  std::getline(csv, line);
  EXPECT_EQ(line, "0,1,0,1");

  const auto printed = run(with({"0:3", "--json"}));
  EXPECT_EQ(Json::parse(printed.output), json);

  const auto looked = run(with({"0:300"}));
  EXPECT_EQ(looked.code, 0);
  EXPECT_THAT(looked.output, HasSubstr("sinusoidal f32 [300, 4]"));

  done(with({"0.5,1.25", "--dtype", "f64", "-o", file("c.npy")}));
  EXPECT_NEAR((io::read_npy(file("c.npy")).view<double, 2>()(1, 0)), std::sin(1.25), 1e-15);
}

TEST_F(Program, PositionsFromRangesListsAndFiles) {
  const std::vector<std::int64_t> ids{7, 0, 3};
  io::write_npy(file("ids.npy"), View<const std::int64_t, 1>(ids.data(), {3}));
  const auto rows = [&](const std::string& positions) {
    done({"table", "sinusoidal", "--dim", "2", "--positions", positions, "-o", file("p.npy")});
    std::vector<double> sines;
    const io::Array array = io::read_npy(file("p.npy"));
    for (std::int64_t t = 0; t < array.shape()[0]; ++t)
      sines.push_back(std::round(std::asin(array.view<float, 2>()(t, 0)) * 1e4) / 1e4);
    return sines;
  };
  EXPECT_EQ(rows("0:2"), (std::vector<double>{0, 1}));
  EXPECT_EQ(rows("1:-2:-1"), (std::vector<double>{1, 0, -1}));
  EXPECT_EQ(rows("1,0,1"), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(rows(file("ids.npy")).size(), 3u);

  for (const char* bad : {"", "a", "1:", "0:5:0", "5:5", "1,,2", "0:99999999999", "1:2:3:4"})
    EXPECT_THAT(refused({"table", "sinusoidal", "--dim", "2", "--positions", bad}),
                HasSubstr(*bad ? "[positions]" : "--positions"));
  EXPECT_THAT(
      refused({"table", "rotary", "--dim", "2", "--pairing", "halves", "--positions", "0.5"}),
      HasSubstr("[positions] must be integers, got 0.5"));
}

TEST_F(Program, GridsByRecipe) {
  done({"table", "grid2d", "--dim", "8", "--grid", "2x3", "-o", file("g.npy")});
  const io::Array mae = io::read_npy(file("g.npy"));
  ASSERT_EQ(mae.shape(), (io::Array::Shape{6, 8}));
  EXPECT_NEAR((mae.view<float, 2>()(2, 0)), std::sin(2.0), 1e-7);  // x comes first
  EXPECT_NEAR((mae.view<float, 2>()(3, 4)), std::sin(1.0), 1e-7);
  done({"table", "grid2d", "--dim", "8", "--grid", "2x3", "--recipe", "detr", "-o",
        file("g.npy")});
  EXPECT_NEAR((io::read_npy(file("g.npy")).view<float, 2>()(0, 0)),
              std::sin(2 * M_PI / (2 + 1e-6)), 1e-6);  // y comes first, from 1, normalized
  EXPECT_THAT(refused({"table", "grid2d", "--dim", "6", "--grid", "2x3"}),
              HasSubstr("[grid] width must be a positive multiple of 4, got 6"));
  EXPECT_THAT(refused({"table", "grid2d", "--dim", "8", "--grid", "2x"}),
              HasSubstr("[grid] must be HxW"));
}

TEST_F(Program, PlotDrawsEveryPicture) {
  const std::vector<std::vector<std::string>> pictures{
      {"table"},     {"table", "learned"},   {"similarity"}, {"grid"},
      {"rotary"},    {"wavelengths"},        {"bias"},       {"bias", "t5"},
      {"attention"}, {"attention", "alibi"}, {"shuffled"},   {"grid", "vit"}};
  for (const auto& picture : pictures) {
    std::vector<std::string> arguments{"plot"};
    arguments.insert(arguments.end(), picture.begin(), picture.end());
    arguments.insert(arguments.end(), {"-o", file("p.json")});
    done(arguments);
    const Json spec = Json::parse(std::ifstream(file("p.json")));
    EXPECT_THAT(spec.at("$schema").get<std::string>(), HasSubstr("vega-lite")) << picture[0];
    arguments.back() = file("p.html");
    done(arguments);
    EXPECT_GT(fs::file_size(file("p.html")), 2000u) << picture[0];
  }
  const auto table = testing::random_tensor<float, 2>({6, 4});
  io::write_npy(file("t.npy"), table.view());
  done({"plot", "grid", "--grid", "2x3", "--cells", "0,0;1,2", "--parameters", file("t.npy"),
        "-o", file("p.html")});
  EXPECT_THAT(refused({"plot", "waves", "-o", file("q.html")}),
              HasSubstr("must be one of table, similarity"));
  EXPECT_THAT(refused({"plot", "table", "-o", file("q.pdf")}),
              HasSubstr("-o must end in .html, .png, .svg, .json"));
  EXPECT_THAT(refused({"plot", "grid", "--cells", "0,99", "-o", file("q.html")}),
              HasSubstr("--cells must be in the grid of 16x32"));
  EXPECT_THAT(refused({"plot", "bias", "rotary", "-o", file("q.html")}),
              HasSubstr("KIND must be an encoding that adds a bias to the scores"));
  EXPECT_FALSE(fs::exists(file("q.html")));
}

TEST_F(Program, BenchGivesTimeShareAndError) {
  const auto outcome = run({"bench", "table", "--tokens", "1", "--threads", "1", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  ASSERT_EQ(json["kernels"].size(), 3u);
  for (const Json& kernel : json["kernels"]) {
    EXPECT_GT(kernel["seconds"].get<double>(), 0);
    EXPECT_GT(kernel["share"].get<double>(), 0);
    const bool floats = kernel["detail"].get<std::string>().find("f32") != std::string::npos;
    EXPECT_LE(kernel["error"].get<double>(), floats ? 0x1p-24 : 0x1p-9);
  }
  const auto decoding = run({"bench", "attention decode", "--tokens", "300", "--json"});
  ASSERT_EQ(decoding.code, 0) << decoding.errors;
  const Json rows = Json::parse(decoding.output)["kernels"];
  ASSERT_EQ(rows.size(), 15u);
  for (const Json& kernel : rows) {
    EXPECT_EQ(kernel["roof"], "memory");
    EXPECT_LE(kernel["error"].get<double>(), 0x1p-8);
  }
  EXPECT_THAT(refused({"bench", "--device", "tpu"}),
              HasSubstr("--device must be cpu or cuda, got tpu"));
  EXPECT_THAT(refused({"bench", "nothing"}), HasSubstr("got nothing"));
  EXPECT_THAT(refused({"bench", "table", "--isa", "vax"}), HasSubstr("all, got vax"));
  EXPECT_THAT(refused({"bench", "table", "--tokens", "0"}), HasSubstr("at least 1, got 0"));
}

TEST_F(Program, BenchReadsAttentionAgainstSgemm) {
  const auto outcome = run({"bench", "attention t5", "--tokens", "67", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json rows = Json::parse(outcome.output)["kernels"];
  ASSERT_EQ(rows.size(), 4u);
  for (const Json& kernel : rows) {
    const bool rounded = kernel["detail"].get<std::string>().find("bf16") != std::string::npos;
    EXPECT_EQ(kernel["roof"], "arithmetic");
    EXPECT_THAT(kernel["roof_name"],
                ::testing::AnyOf(HasSubstr("sgemm"), HasSubstr("registers")));
    EXPECT_EQ(kernel["dense_bias_bytes"], 8 * 67 * 67 * 4.0);
    EXPECT_LE(kernel["error"].get<double>(), rounded ? 0x1p-7 : 0x1p-16);
  }
}

TEST_F(Program, BiasMatrices) {
  done({"bias", "alibi", "--heads", "8", "--queries", "3", "--keys", "5", "--offset", "2", "-o",
        file("a.npy")});
  const io::Array alibi = io::read_npy(file("a.npy"));
  ASSERT_EQ(alibi.shape(), (io::Array::Shape{8, 3, 5}));
  EXPECT_EQ((alibi.view<float, 3>()(0, 0, 0)), -1.0f);
  EXPECT_EQ((alibi.view<float, 3>()(1, 2, 1)), -0.75f);
  EXPECT_EQ((alibi.view<float, 3>()(0, 0, 4)), -1.0f);

  done({"bias", "t5", "--heads", "1", "--queries", "2", "--keys", "40", "--indices", "-o",
        file("i.npy")});
  const io::Array buckets = io::read_npy(file("i.npy"));
  ASSERT_EQ(buckets.shape(), (io::Array::Shape{2, 40}));
  EXPECT_EQ((buckets.view<std::int64_t, 2>()(1, 0)), 1);
  EXPECT_EQ((buckets.view<std::int64_t, 2>()(0, 16)), 16 + 10);

  const auto table = testing::random_tensor<float, 2>({2, 4});
  io::write_npy(file("table.npy"), table.view());
  done({"bias", "clipped", "--heads", "2", "--queries", "6", "--keys", "6", "--left", "3",
        "--parameters", file("table.npy"), "-o", file("c.npy")});
  EXPECT_EQ((io::read_npy(file("c.npy")).view<float, 3>()(1, 5, 0)), table.view()(1, 3));

  const auto offsets = testing::random_tensor<float, 2>({12, 2});  // BEiT's of 2 x 2 cells
  io::write_npy(file("offsets.npy"), offsets.view());
  const std::vector<std::string> beit{
      "bias",           "swin", "--heads",   "2", "--height", "2", "--width", "2",
      "--class-tokens", "1",    "--queries", "5", "--keys",   "5", "-o",      file("s.npy")};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), beit.begin(), beit.end());
    return more;
  };
  done(with({"--parameters", file("offsets.npy")}));
  EXPECT_EQ((io::read_npy(file("s.npy")).view<float, 3>()(1, 0, 3)), offsets.view()(9, 1));
  done(with({"--indices"}));
  EXPECT_EQ((io::read_npy(file("s.npy")).view<std::int64_t, 2>()(4, 1)), 8);
  EXPECT_THAT(refused(with({"--indices", "--offset", "1"})),
              HasSubstr("must be 0 to 4, got 5"));

  // One hidden unit, max(0, x), and then 2 x: proportional to the distance.
  const float ones[] = {1}, zeros[] = {0}, two[] = {2};
  const auto number = [](const float* of) {
    return io::Array::of(View<const float, 1>(of, {1}));
  };
  io::write_safetensors(file("fire.safetensors"),
                        std::vector<io::NamedArray>{{"mlp.0.weight", number(ones)},
                                                    {"mlp.0.bias", number(zeros)},
                                                    {"mlp.2.weight", number(two)},
                                                    {"mlp.2.bias", number(zeros)},
                                                    {"c", number(ones)},
                                                    {"L_multiplier", number(ones)}});
  done({"bias", "fire", "--heads", "1", "--queries", "4", "--keys", "4", "--threshold", "1",
        "--epsilon", "0", "--parameters", file("fire.safetensors"), "-o", file("f.npy")});
  const io::Array fire = io::read_npy(file("f.npy"));
  EXPECT_EQ((fire.view<float, 3>()(0, 3, 0)), 2.0f);
  EXPECT_EQ((fire.view<float, 3>()(0, 3, 2)), 1.0f);  // log 2 / log 4
  EXPECT_THAT(refused({"bias", "fire", "--heads", "1", "--queries", "4", "--keys", "4"}),
              HasSubstr("give --parameters F.safetensors"));

  EXPECT_THAT(refused({"bias", "t5", "--heads", "2", "--queries", "2", "--keys", "2"}),
              HasSubstr("give --parameters F.npy, or --indices"));
  EXPECT_THAT(refused({"bias", "t5", "--heads", "2", "--queries", "2", "--keys", "2",
                       "--parameters", file("table.npy")}),
              HasSubstr("[t5] buckets must be 32 x 2, got 2 x 4"));
  // Any encoding of the list. Its fields are options.
  const float quarter[] = {0.25f}, three[] = {3};
  io::write_safetensors(
      file("kerple.safetensors"),
      std::vector<io::NamedArray>{{"r1", number(quarter)}, {"r2", number(three)}});
  done({"bias", "kerple", "--heads", "1", "--queries", "4", "--keys", "4", "--parameters",
        file("kerple.safetensors"), "-o", file("k.npy")});
  EXPECT_NEAR((io::read_npy(file("k.npy")).view<float, 3>()(0, 3, 1)), -0.25 * std::log(7),
              1e-6);
  // The names of a state dict. LayoutLM's tables are transposed there.
  const float four_by_two[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float two_by_four[] = {1, 3, 5, 7, 2, 4, 6, 8};
  const io::Array own = io::Array::of(View<const float, 2>(four_by_two, {4, 2}));
  const io::Array stored = io::Array::of(View<const float, 2>(two_by_four, {2, 4}));
  const auto layout = [&](const std::vector<io::NamedArray>& tensors) {
    io::write_safetensors(file("layout.safetensors"), tensors);
    done({"bias",
          "layout",
          "--heads",
          "2",
          "--queries",
          "6",
          "--keys",
          "6",
          "--text-buckets",
          "4",
          "--text-distance",
          "8",
          "--page-buckets",
          "4",
          "--page-distance",
          "8",
          "--parameters",
          file("layout.safetensors"),
          "-o",
          file("layout.npy")});
    return io::read_npy(file("layout.npy")).to_doubles();
  };
  EXPECT_EQ(
      layout({{"rel_pos_bias.weight", stored}, {"rel_pos_x_bias.weight", stored}, {"y", own}}),
      layout({{"text", own}, {"x", own}, {"y", own}}));
  done({"bias", "deberta", "--heads", "1", "--queries", "9", "--keys", "9", "--span", "4",
        "--indices", "-o", file("d.npy")});
  const io::Array rows = io::read_npy(file("d.npy"));
  EXPECT_EQ((rows.view<std::int64_t, 2>()(8, 0)), 7);  // i - j + span, clipped
  EXPECT_EQ((rows.view<std::int64_t, 2>()(2, 3)), 3);
  done({"bias", "swin", "--heads", "1", "--window", "3x2", "--queries", "6", "--keys", "6",
        "--indices", "-o", file("w.npy")});
  EXPECT_EQ((io::read_npy(file("w.npy")).view<std::int64_t, 2>()(5, 0)), 14);
  EXPECT_THAT(
      refused({"bias", "deberta", "--heads", "1", "--queries", "9", "--keys", "9"}),
      HasSubstr("deberta adds products of queries and keys with vectors: give --indices"));
  EXPECT_THAT(refused({"bias", "alibi", "--heads", "1", "--queries", "9", "--keys", "9",
                       "--window-size", "3"}),
              HasSubstr("[bias] options must be those of the command, got --window-size"));

  EXPECT_THAT(refused({"bias", "alibi", "--heads", "0", "--queries", "2", "--keys", "2"}),
              HasSubstr("[bias] --heads must be at least 1, got 0"));
  EXPECT_THAT(refused({"bias", "alibi", "--heads", "2", "--queries", "0", "--keys", "2"}),
              HasSubstr("--queries must be at least 1, got 0"));
  EXPECT_THAT(
      refused({"bias", "alibi", "--heads", "2", "--queries", "99999999", "--keys", "99999999"}),
      HasSubstr("[array] the result must fit in memory, got [2, 99999999, 99999999]"));
  EXPECT_THAT(refused({"bias", "wave", "--heads", "2", "--queries", "2", "--keys", "2"}),
              HasSubstr("must be one of alibi, t5, clipped"));
}

TEST_F(Program, RotatesAndRotatesBack) {
  const auto x = testing::random_tensor<float, 3>({5, 2, 8});
  io::write_npy(file("x.npy"), x.view());
  done({"rotate", file("x.npy"), "--positions", "10:15", "--pairing", "adjacent", "-o",
        file("y.npy")});
  const io::Array y = io::read_npy(file("y.npy"));
  const double angle = 12;
  EXPECT_NEAR((y.view<float, 3>()(2, 1, 0)),
              x.view()(2, 1, 0) * std::cos(angle) - x.view()(2, 1, 1) * std::sin(angle), 1e-6);
  done({"rotate", file("y.npy"), "--positions", "10:15", "--pairing", "adjacent", "--backward",
        "-o", file("z.npy")});
  const io::Array z = io::read_npy(file("z.npy"));
  for (int t = 0; t < 5; ++t)
    for (int d = 0; d < 8; ++d)
      EXPECT_NEAR((z.view<float, 3>()(t, 0, d)), x.view()(t, 0, d), 1e-6);

  const testing::Tensor<std::uint16_t, 4> half({2, 5, 1, 4}, 0x3f80);
  io::write_npy(file("b.npy"), half.view());
  done({"rotate", file("b.npy"), "--positions", "0:5", "--pairing", "halves", "--dim", "2",
        "-o", file("c.npy")});
  EXPECT_EQ((io::read_npy(file("c.npy")).shape()), (io::Array::Shape{2, 5, 1, 4}));

  EXPECT_THAT(refused({"rotate", file("x.npy"), "--positions", "0:5", "-o", file("n.npy")}),
              HasSubstr("--pairing"));
  EXPECT_THAT(refused({"rotate", file("x.npy"), "--positions", "0:4", "--pairing", "halves",
                       "-o", file("n.npy")}),
              HasSubstr("[rotary]"));
  EXPECT_THAT(refused({"rotate", file("none.npy"), "--positions", "0:4", "--pairing", "halves",
                       "-o", file("n.npy")}),
              HasSubstr("none.npy"));
  EXPECT_THAT(refused({"rotate", file("x.npy"), "--positions", "0:5", "--pairing", "halves",
                       "-o", file("n.txt")}),
              HasSubstr("-o must end in .npy"));
  EXPECT_FALSE(fs::exists(file("n.npy")));
}

TEST_F(Program, FilesThatAreNotWhatTheySayAreRefusedWithTheOffset) {
  std::ofstream(file("bad.npy")) << "\x93NUMPY\x01";
  EXPECT_THAT(refused({"rotate", file("bad.npy"), "--positions", "0:4", "--pairing", "halves",
                       "-o", file("n.npy")}),
              AllOf(HasSubstr("bad.npy"), HasSubstr("at byte")));
}

TEST_F(Program, AnUnwritableOutputLeavesNothing) {
  EXPECT_THAT(refused({"table", "sinusoidal", "--dim", "2", "--positions", "0:2", "-o",
                       file("no/such/folder.npy")}),
              HasSubstr("folder.npy"));
}

TEST_F(Program, BadValuesNameTheirRule) {
  EXPECT_THAT(
      refused({"table", "rotary", "--dim", "7", "--positions", "0:2", "--pairing", "halves"}),
      HasSubstr("[rotary] rotary_dim must be even, got 7"));
  EXPECT_THAT(refused({"table", "rotary", "--dim", "8", "--positions", "0:2"}),
              HasSubstr("[table] --pairing is required, got none"));
  EXPECT_THAT(refused({"table", "rotary", "--dim", "x", "--positions", "0:2"}),
              HasSubstr("--dim"));
  EXPECT_THAT(refused({"table", "sinusoidal", "--dim", "8", "--positions", "0:2", "--frob"}),
              HasSubstr("--frob"));
}

}  // namespace cli_program_test
}  // namespace gnomon::cli
