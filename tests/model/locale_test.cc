// The locale of the caller has no effect on numbers in JSON, in messages and in reports. The
// locale of the test has a decimal comma, and points between thousands.
#include <gtest/gtest.h>

#include <string>

#include "gnomon/error.h"
#include "gnomon/model/config.h"
#include "gnomon/model/encoding.h"
#include "gnomon/plot/captions.h"
#include "gnomon/plot/chart.h"
#include "gnomon/plot/pictures.h"
#include "gnomon/verdicts/verdicts.h"
#include "io/temporary.h"
#include "src/core/text.h"
#include "testing.h"

#ifdef __GLIBC__
#include <locale.h>

#include <clocale>
#include <cstdlib>
#include <locale>

// Defined in programs under the address sanitizer.
extern "C" {
[[gnu::weak]] void __lsan_disable();
[[gnu::weak]] void __lsan_enable();
}

namespace gnomon::model {
namespace locale_test {

// Numbers with a comma: C++ streams of the process, and the C functions of the thread.
class DecimalComma {
 public:
  DecimalComma() {
    const std::string source = folder_ / "comma.src", to = folder_ / "comma";
    testing::put(source,
                 "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\n"
                 "grouping 3;3\nEND LC_NUMERIC\n");
    // It warns, and returns 1, since the other categories are missing.
    const std::string command = "localedef -c -i " + source + " " + to + " 2>/dev/null";
    EXPECT_NE(std::system(command.c_str()), -1);
    if (__lsan_disable) __lsan_disable();  // the C library keeps the list of folders
    setenv("LOCPATH", folder_.path().c_str(), 1);
    mine_ = newlocale(LC_NUMERIC_MASK, "comma", nullptr);
    unsetenv("LOCPATH");
    if (__lsan_enable) __lsan_enable();
    if (mine_) before_ = uselocale(mine_);
    streams_ = std::locale::global(std::locale(std::locale(), new Comma));
  }
  ~DecimalComma() {
    std::locale::global(streams_);
    if (!mine_) return;
    uselocale(before_);
    freelocale(mine_);
  }
  bool is_set() const { return mine_ != nullptr; }

 private:
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  testing::TemporaryFolder folder_;
  locale_t mine_ = nullptr, before_ = nullptr;
  std::locale streams_;
};

std::string all_texts() {
  std::string all;
  for (const EncodingInfo& one : encodings()) {
    const std::string json = to_json(one.usual({.width = 32, .heads = 4, .length = 1234567}));
    all += json + "\n" + to_json(encoding_from_json(json)) + "\n";
  }
  all +=
      to_json(encoding_from_json(
          R"({"kind": "rotary", "rotary_dim": 4, "pairing": "halves", "base": 12345.678})")) +
      "\n";
  all += to_json(read_config(
             R"({"model_type": "llama", "num_attention_heads": 2, "hidden_size": 8,
                 "num_hidden_layers": 2, "max_position_embeddings": 123456,
                 "rope_scaling": {"rope_type": "yarn", "factor": 2.5,
                                  "original_max_position_embeddings": 1024}})")) +
         "\n";
  all +=
      verdicts::to_json("alibi", {.width = 16, .heads = 2, .trained = 16, .length = 32}) + "\n";
  all += testing::message_of([] { refuse("test", "rule", 0.1); }) + "\n";
  all += testing::message_of([] { refuse("test", "rule", 1234567.0000001); }) + "\n";
  const std::vector<double> x{1.5, 2, 3333.25}, y{0.123456, 1e-9, -2.5e7};
  all += plot::lines({.series = {{.name = "one", .x = x, .y = y}}}) + "\n";
  const plot::AttentionPicture picture{.without = {2, 2, {1, 0, 0.25, 0.75}},
                                       .with = {2, 2, {1, 0, 0.123456, 0.876544}}};
  all += plot::attention_caption(picture) + "\n";
  return all;
}

TEST(Locale, OfTheCallerHasNoEffectOnNumbersInText) {
  const std::string expected = all_texts();
  const DecimalComma comma;
  ASSERT_TRUE(comma.is_set());
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", 1.5);
  ASSERT_STREQ(text, "1,50");  // the locale has an effect on others
  const std::string got = all_texts();
  EXPECT_EQ(got, expected);
}

TEST(Locale, HasNoEffectOnPrintedNumbers) {
  const DecimalComma comma;
  ASSERT_TRUE(comma.is_set());
  EXPECT_EQ(internal::printed("%.3g", 0.5), "0.5");
  EXPECT_EQ(internal::printed("%.0f", 50), "50");
  EXPECT_EQ(internal::printed("%.2e", -1234.5), "-1.23e+03");
  EXPECT_EQ(internal::printed("%.3f", 1e300).size(), 305u);
  EXPECT_EQ(internal::printed("%.3g", -HUGE_VAL), "-inf");
}

}  // namespace locale_test
}  // namespace gnomon::model
#endif
