// Options that have no effect in a call, and values that the parser refuses, for each command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/io/npy.h"
#include "program.h"

namespace gnomon::cli {
namespace cli_options_test {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class CommandOptions : public InFolder {
 protected:
  void expect(Words words, const std::string& message) const {
    EXPECT_THAT(refused(words), HasSubstr("gnomon: [" + words[0] + "] " + message))
        << ::testing::PrintToString(words);
  }
};

TEST_F(CommandOptions, WithoutEffectAreRefused) {
  const Words table{"--dim", "8", "--positions", "0:2"};
  const auto expect_table = [&](Words words, const std::string& message) {
    words.insert(words.begin(), "table");
    words.insert(words.end(), table.begin(), table.end());
    expect(words, message);
  };
  expect_table({"sinusoidal", "--pairing", "halves"},
               "--pairing applies to rotary and xpos, got sinusoidal");
  expect_table({"rotary", "--pairing", "halves", "--shift", "3"},
               "--shift applies to timestep, got rotary");
  expect_table({"timestep", "--angles", "exact"},
               "--angles applies to rotary and xpos, got timestep");
  expect_table({"grid2d", "--grid", "2x2"},
               "--positions applies to sinusoidal, timestep, universal, rotary and xpos, "
               "got grid2d");

  const auto expect_bias = [&](Words words, const std::string& message) {
    words.insert(words.begin(), "bias");
    words.insert(words.end(), {"--heads", "2", "--queries", "4", "--keys", "4"});
    expect(words, message);
  };
  expect_bias({"alibi", "--parameters", "x.npy"}, "alibi has no parameters");
  expect_bias({"alibi", "--causal"}, "--causal applies to t5 and wavlm, got alibi");
  expect_bias({"t5", "--max-bias", "8"}, "--max-bias applies to alibi, got t5");
  expect_bias({"t5", "--indices", "--parameters", "x.npy"},
              "--parameters must not be given with --indices, got both");
  expect_bias({"swin", "--window", "2x2", "--height", "2"},
              "--height must not be given with --window, got both");
  expect_bias({"t5", "--causal", "--direction", "causal"},
              "--direction must not be given with --causal, got both");

  const auto expect_rotate = [&](Words words, const std::string& message) {
    words.insert(words.begin(), {"rotate", "x.npy", "--positions", "0:2", "-o", "y.npy"});
    expect(words, message);
  };
  for (const char* option : {"--base", "--dim", "--first"})
    expect_rotate({"--config", "x", option, "5"},
                  std::string(option) + " must not be given with --config, got both");
  expect_rotate({"--config", "x", "--pairing", "halves"},
                "--pairing must not be given with --config, got both");
  for (const char* option : {"--layer", "--length", "--part"})
    expect_rotate({"--pairing", "halves", option, "5"},
                  std::string(option) + " requires --config, got none");

  expect({"inspect", "--families", "--json"}, "--json requires PATH, got none");
  expect({"inspect", "x", "--families"}, "PATH must not be given with --families, got both");
  expect({"inspect", "x", "--html", "a.html", "-o", "b.html"},
         "--html must not be given with -o, got both");
  expect({"resize", "x.npy", "--preset", "vit", "--to", "2x2", "-o", "y.npy", "--kernel",
          "linear"},
         "--kernel must not be given with --preset, got both");
}

TEST_F(CommandOptions, ZeroIsNotAnAbsentOption) {
  expect({"table", "rotary", "--dim", "0", "--positions", "0:2", "--pairing", "halves"},
         "--dim must be at least 1, got 0");
  const Words rotate{"rotate", "x.npy", "--positions", "0:2", "-o", "y.npy"};
  for (const Words& more :
       {Words{"--pairing", "halves", "--dim", "0"}, Words{"--config", "x", "--length", "0"}}) {
    Words words = rotate;
    words.insert(words.end(), more.begin(), more.end());
    expect(words, more[2] + " must be at least 1, got 0");
  }
  for (const char* option : {"--heads", "--kv-heads", "--head-dim", "--rotary-dim"})
    expect({"convert", "x", "--to", "halves", "--dry-run", option, "0"},
           std::string(option) + " must be at least 1, got 0");
  expect({"inspect", "x", "--length", "0"}, "--length must be at least 1, got 0");
  expect({"bench", "--threads", "0"}, "--threads must be at least 1, got 0");
  expect({"bench", "--tokens", "0"}, "--tokens must be at least 1, got 0");
  expect({"resize", "x.npy", "--preset", "vit", "--to", "2x2", "-o", "y.npy", "--extra-rows",
          "-1"},
         "--extra-rows must be at least 0, got -1");
}

TEST_F(CommandOptions, NamesForgiveCaseAndSeparators) {
  const std::string plain = done(
      {"table", "sinusoidal", "--dim", "4", "--positions", "0:2", "--recipe", "half-split"});
  EXPECT_EQ(plain, done({"table", "Sinusoidal", "--dim", "4", "--positions", "0:2", "--recipe",
                         "HALF_SPLIT"}));
  const Words size{"--heads", "2", "--queries", "4", "--keys", "4"};
  const auto bias = [&](const char* kind) {
    Words words{"bias", kind, "--indices"};
    words.insert(words.end(), size.begin(), size.end());
    return done(words);
  };
  EXPECT_EQ(bias("t5"), bias("T5 bias"));
  EXPECT_EQ(bias("transformer-xl"), bias("Transformer XL"));
}

TEST_F(CommandOptions, TextHasNoNegativeZeros) {
  // The bias of a key at the position of its query is -slope x 0.
  const Words alibi{"bias", "alibi", "--heads", "1", "--queries", "2", "--keys", "2"};
  const auto with = [&](const Words& more) {
    Words words = alibi;
    words.insert(words.end(), more.begin(), more.end());
    return done(words);
  };
  EXPECT_THAT(with({}), HasSubstr("\n   0.00000  -0.00391\n"));
  EXPECT_THAT(with({"--json"}),
              HasSubstr("\"values\":[[[0.0,-0.00390625],[-0.00390625,0.0]]]"));
  with({"-o", file("a.csv")});
  EXPECT_EQ(testing::contents(file("a.csv")),
            "# shape [1, 2, 2]\n0,-0.00390625\n-0.00390625,0\n");
  with({"-o", file("a.npy")});
  EXPECT_TRUE(std::signbit(io::read_npy(file("a.npy")).view<float, 3>()(0, 0, 0)));
  // A small negative number is rounded to zero in the preview only.
  EXPECT_EQ(with({"--max-bias", "20"}).find("-0.00000"), std::string::npos);
  EXPECT_THAT(with({"--max-bias", "20", "--json"}), HasSubstr("-9.5367"));
}

TEST_F(CommandOptions, BiasNamesTheKindsWithAndWithoutIndices) {
  const std::string message =
      refused({"bias", "rotary", "--heads", "2", "--queries", "4", "--keys", "4"});
  const std::size_t second = message.find("; with --indices one of t5, clipped");
  ASSERT_NE(second, std::string::npos) << message;
  EXPECT_THAT(message.substr(0, second), HasSubstr("KIND must be one of alibi, t5, clipped"));
  EXPECT_EQ(message.substr(0, second).find("shaw"), std::string::npos);
  EXPECT_NE(message.find("shaw", second), std::string::npos);
  EXPECT_EQ(message.find("alibi", second), std::string::npos);
}

}  // namespace cli_options_test
}  // namespace gnomon::cli
