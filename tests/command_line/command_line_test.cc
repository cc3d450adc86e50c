// The parser of options: values, every class of errors with its whole message, and the rules
// for options that have an effect in some calls only.
#include "apps/command_line/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace gnomon {
namespace command_line_test {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

struct Example {
  std::string kind, out, mode;
  std::int64_t dim = 0;
  std::optional<int> threads;
  std::optional<double> shift;
  std::optional<std::string> note;
  Words rest;
  bool json = false, all = false;
  CommandLine line{"table"};

  Example() {
    line.required("KIND", &kind)
        .choices({"rotary", "t5", "transformer-xl"}, {"RoPE", "T5 bias", "Transformer-XL"})
        .selects();
    line.option("REST", &rest);
    line.required("--dim", &dim).at_least(1);
    line.option("--threads", &threads);
    line.option("--shift", &shift).only_for({"t5", "transformer-xl"});
    line.option("--note", &note).only_with({"--json", "--all"});
    line.option("--mode", &mode).choices({"half-split", "interleaved"}).unlisted();
    line.option("-o", &out).not_with({"--all"});
    line.flag("--json", &json);
    line.flag("--all", &all);
  }
  std::string refused(const Words& words) {
    try {
      line.parse(words);
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what(), end = "; see gnomon table --help";
      EXPECT_TRUE(text.ends_with(end)) << text;
      return text.substr(0, text.size() - end.size());
    }
    return "accepted";
  }
};

TEST(CommandLine, StoresValuesOfEachType) {
  Example e;
  e.line.parse(Words{"t5", "--dim", "8", "--threads=2", "--shift", "-1.5", "-oa b", "x",
                     "--json", "--note=a=b", "--", "--y"});
  EXPECT_EQ(e.kind, "t5");
  EXPECT_EQ(e.dim, 8);
  EXPECT_EQ(e.threads, 2);
  EXPECT_EQ(e.shift, -1.5);
  EXPECT_EQ(e.out, "a b");
  EXPECT_EQ(e.note, "a=b");
  EXPECT_TRUE(e.json);
  EXPECT_FALSE(e.all);
  EXPECT_THAT(e.rest, ElementsAre("x", "--y"));
  EXPECT_TRUE(e.line.given("--json"));
  EXPECT_FALSE(e.line.given("--all"));
  EXPECT_THAT(e.line.options(), ElementsAre("KIND", "REST", "--dim", "--threads", "--shift",
                                            "--note", "-o", "--json", "--all"));
}

TEST(CommandLine, ChoicesForgiveCaseSeparatorsAndTitles) {
  for (const char* kind : {"transformer-xl", "Transformer XL", "TRANSFORMER_XL"}) {
    Example e;
    e.line.parse(Words{kind, "--dim", "1", "--mode", "Half_Split"});
    EXPECT_EQ(e.kind, "transformer-xl");
    EXPECT_EQ(e.mode, "half-split");
  }
  Example e;
  e.line.parse(Words{"rope", "--dim", "1"});
  EXPECT_EQ(e.kind, "rotary");
}

TEST(CommandLine, RefusesEachClassOfErrorsInOneLine) {
  const auto refused = [](const Words& words) { return Example().refused(words); };
  EXPECT_EQ(refused({"t5", "--dimm", "8"}),
            "[table] options must be those of the command, got --dimm; nearest: --dim");
  EXPECT_EQ(refused({"t5", "--dimm=8"}),
            "[table] options must be those of the command, got --dimm; nearest: --dim");
  EXPECT_EQ(refused({"t5", "-x"}), "[table] options must be those of the command, got -x");
  EXPECT_EQ(refused({"t5", "--dim"}), "[table] --dim must have a value, got none");
  EXPECT_EQ(refused({"t5", "--dim", "--json"}), "[table] --dim must have a value, got none");
  EXPECT_EQ(refused({"t5", "--dim="}), "[table] --dim must not be empty, got \"\"");
  EXPECT_EQ(refused({"", "--dim", "8"}), "[table] KIND must not be empty, got \"\"");
  EXPECT_EQ(refused({"t5"}), "[table] --dim is required, got none");
  EXPECT_EQ(refused({"--dim", "8"}), "[table] KIND is required, got none");
  EXPECT_EQ(refused({"t5", "--dim", "x"}), "[table] --dim must be an integer, got x");
  EXPECT_EQ(refused({"t5", "--dim", "1.5"}), "[table] --dim must be an integer, got 1.5");
  EXPECT_EQ(refused({"t5", "--dim", "0x10"}), "[table] --dim must be an integer, got 0x10");
  EXPECT_EQ(refused({"t5", "--dim", "9223372036854775808"}),
            "[table] --dim must fit 64 bits, got 9223372036854775808");
  EXPECT_EQ(refused({"t5", "--dim", "8", "--threads", "2147483648"}),
            "[table] --threads must fit 32 bits, got 2147483648");
  EXPECT_EQ(refused({"t5", "--dim", "8", "--shift", "x"}),
            "[table] --shift must be a number, got x");
  EXPECT_EQ(refused({"t5", "--dim", "8", "--shift", "1e999"}),
            "[table] --shift must be finite, got 1e999");
  EXPECT_EQ(refused({"t5", "--dim", "8", "--shift", "nan"}),
            "[table] --shift must be finite, got nan");
  EXPECT_EQ(refused({"t5", "--dim", "0"}), "[table] --dim must be at least 1, got 0");
  EXPECT_EQ(refused({"t5", "--dim", "8", "--dim=9"}),
            "[table] --dim must be given once, got 8 and 9");
  EXPECT_EQ(refused({"t5", "--dim", "8", "--json", "--json"}),
            "[table] --json must be given once, got it twice");
  EXPECT_EQ(refused({"t5", "--dim", "8", "--json=1"}),
            "[table] --json must have no value, got 1");
  EXPECT_EQ(refused({"t6", "--dim", "8"}),
            "[table] KIND must be one of rotary, t5, transformer-xl, got t6; nearest: t5");
  EXPECT_EQ(refused({"?", "--dim", "8"}),
            "[table] KIND must be one of rotary, t5, transformer-xl, got ?");
  EXPECT_EQ(refused({"t5", "--dim", "\xff\n"}),
            "[table] --dim must be an integer, got \\xff\\x0a");

  std::string one;
  CommandLine short_line("show");
  short_line.option("ONE", &one);
  EXPECT_THROW(short_line.parse(Words{"a", "b"}), std::invalid_argument);
  try {
    short_line.parse(Words{"a", "b"});
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(),
                StartsWith("[show] arguments after ONE must be options, got b; see"));
  }
}

TEST(CommandLine, RefusesOptionsWithoutEffect) {
  const auto refused = [](Words words) {
    words.insert(words.end(), {"--dim", "8"});
    return Example().refused(words);
  };
  EXPECT_EQ(refused({"rotary", "--shift", "3"}),
            "[table] --shift applies to t5 and transformer-xl, got rotary");
  EXPECT_EQ(refused({"Transformer-XL", "--shift", "3"}), "accepted");
  EXPECT_EQ(refused({"t5", "--note", "a"}),
            "[table] --note requires --json or --all, got none");
  EXPECT_EQ(refused({"t5", "--note", "a", "--all"}), "accepted");
  EXPECT_EQ(refused({"t5", "-o", "a", "--all"}),
            "[table] -o must not be given with --all, got both");
}

TEST(CommandLine, RequiresOptionsOfAKind) {
  std::string kind, grid;
  CommandLine line("table");
  line.required("KIND", &kind).choices({"grid", "t5"}).selects();
  line.option("--grid", &grid).required_for({"grid"});
  line.parse(Words{"t5"});
  line.parse(Words{"grid", "--grid", "2"});
  EXPECT_EQ(grid, "2");
  const auto message = [&](const Words& words) -> std::string {
    try {
      line.parse(words);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message({"grid"}), StartsWith("[table] --grid is required, got none"));
  EXPECT_THAT(message({"t5", "--grid", "2"}),
              StartsWith("[table] --grid applies to grid, got t5"));
}

TEST(CommandLine, ARuleOfItsOwnReplacesTheListOfChoices) {
  std::string kind;
  CommandLine line("bias");
  line.option("KIND", &kind).choices({"alibi"}, {}, [] { return std::string("must be good"); });
  try {
    line.parse(Words{"rotary"});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), StartsWith("[bias] KIND must be good, got rotary; see"));
  }
}

}  // namespace command_line_test
}  // namespace gnomon
