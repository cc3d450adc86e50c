// Models of several sizes in one session: entries with sizes, and results by size.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/lab/data/model_size.h"
#include "apps/lab/report/report.h"
#include "apps/lab/report/report_tables.h"
#include "apps/lab/statistics/results_by_size.h"
#include "lab/invented.h"
#include "lab/processes.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace processes {

TEST(ModelSizes, AreTheEndOfAnEntry) {
  EXPECT_EQ(split_size("rotary@8x256").name, "rotary");
  EXPECT_EQ(split_size("rotary@8x256").size, (ModelSize{8, 256}));
  EXPECT_EQ(split_size("rotary*3/none@random@8x256").name, "rotary*3/none@random");
  for (const char* plain : {"rotary", "rotary@random", "t5@8x", "t5@x8", "t5@8x2y", "t5@08x256",
                            "t5@99999999999999999999x8", "@", ""}) {
    EXPECT_EQ(split_size(plain).name, plain);
    EXPECT_FALSE(split_size(plain).size) << plain;
  }
}

TEST(ModelSizes, HaveTheSameHeadDimension) {
  Settings settings;  // 4 heads of 32
  settings.encodings = {"rotary@2x64", "rotary@8x256", "alibi@2x64"};
  EXPECT_EQ(sizes_of(settings), (std::vector<ModelSize>{{2, 64}, {8, 256}}));
  const Settings small = sized(settings, "rotary@2x64"),
                 large = sized(settings, "rotary@8x256");
  EXPECT_EQ(small.layers, 2);
  EXPECT_EQ(small.width, 64);
  EXPECT_EQ(small.heads, 2);
  EXPECT_EQ(large.heads, 8);
  EXPECT_EQ(sized(small, "rotary@2x64"), small);
  EXPECT_EQ(sized(settings, "rotary"), settings);
}

TEST(ModelSizes, ComeFromTheCommandLine) {
  const Settings two =
      parsed({"--encodings", "none,rotary@random", "--sizes", "2x64,8x256,2x64"}).settings;
  EXPECT_EQ(two.encodings, (std::vector<std::string>{"none@2x64", "rotary@random@2x64",
                                                     "none@8x256", "rotary@random@8x256"}));
  EXPECT_EQ(two.layers, 2);
  EXPECT_EQ(two.heads, 4);
  // One size is that of --layers and --width.
  const Settings one = parsed({"--encodings", "none,t5", "--sizes", "2x64"}).settings;
  EXPECT_EQ(one.encodings, (std::vector<std::string>{"none", "t5"}));
  EXPECT_EQ(one.width, 64);
  // An entry without a size has that of the session.
  EXPECT_EQ(parsed({"--encodings", "t5,t5@8x256"}).settings.encodings,
            (std::vector<std::string>{"t5@2x64", "t5@8x256"}));
}

TEST(ModelSizes, AreRefusedIfTheyCannotBeBuilt) {
  for (const auto& [words, message] : std::map<Words, std::string>{
           {{"--sizes", "big"}, "--sizes must be LAYERSxWIDTH, as 2x64,4x128, got big"},
           {{"--sizes", ","}, "--sizes must be LAYERSxWIDTH, as 2x64,4x128, got none"},
           {{"--sizes", ""}, "--sizes must not be empty"},
           {{"--sizes", "2x72"}, "must be a multiple of the head dimension 16, got"},
           {{"--sizes", "2x64,100x64"}, "--layers must be 1 to 64, got 100"},
           {{"--sizes", "2x64,2x8192"}, "--width must be 8 to 4096, got 8192"},
           {{"--sizes", "2x64,0x0"}, "--layers must be 1 to 64, got 0"},
           {{"--sizes", "2x64", "--width", "64"}, "--sizes"},
           {{"--sizes", "2x64", "--finetune", "."}, "--finetune must be without --sizes"},
           {{"--encodings", "t5@2x64", "--sizes", "2x64"},
            "--sizes requires --encodings without sizes, got t5@2x64"},
           {{"--encodings", "t5@2x64", "--heads", "0"}, "--heads must be 1 to 128, got 0"},
           {{"--encodings", "t5@2y64"}, "the suffix after @ in --encodings must be one of"}}) {
    try {
      parsed(words);
      ADD_FAILURE() << message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

class SizesOfALab : public OfFolders {
 protected:
  // Runs the lab to its end.
  void run(const std::string& name, const Words& more) {
    Watched lab(
        joined({"--encodings", "none,rotary", "--batch", "4", "--seeds", "2", "--train-length",
                "16", "--eval-lengths", "32", "--steps", "20", "--no-cost", "--out", out(name)},
               more));
    EXPECT_EQ(lab.end(), 0) << lab.output();
  }
};

// The results and the models of a size are those of a session with this size only.
TEST_F(SizesOfALab, AreThoseOfSessionsWithOneSize) {
  run("both", {"--sizes", "1x32,2x64"});
  run("small", {"--layers", "1", "--width", "32", "--heads", "2"});
  run("large", {"--layers", "2", "--width", "64", "--heads", "4"});
  for (const auto& [size, name] :
       {std::pair<std::string, std::string>{"1x32", "small"}, {"2x64", "large"}}) {
    Json part = timeless(json(out("both") + "/" + size + "/results.json"));
    Json whole = timeless(json(out(name) + "/results.json"));
    EXPECT_EQ(part.at("size"), size);
    part.erase("size");
    for (Json* one : {&part, &whole}) one->erase("answer");  // has --steps or --minutes
    for (const auto& [key, value] : whole.items())
      EXPECT_EQ(part.at(key), value) << size << " " << key;
    EXPECT_EQ(bytes(out("both") + "/" + size + "/results.csv"),
              bytes(out(name) + "/results.csv"));
    for (const char* file : {"/config.json", "/model.safetensors"})
      EXPECT_EQ(bytes(out("both") + "/models/rotary@" + size + "-seed2" + file),
                bytes(out(name) + "/models/rotary-seed2" + file));
  }
  const Json all = json(out("both") + "/results.json");
  EXPECT_EQ(all.at("runs_asked"), 8);
  ASSERT_EQ(all.at("sizes").size(), 2u);
  EXPECT_EQ(all.at("sizes")[1].at("name"), "2x64");
  EXPECT_EQ(all.at("sizes")[1].at("heads"), 4);
  EXPECT_EQ(all.at("answer")[0].get<std::string>().rfind("1 layer of width 32, 0.0", 0), 0u);
  const Outcome same = testing::run(GNOMON_LAB_PROGRAM, {"compare", out("both"), out("both")},
                                    testing::Streams::joined);
  EXPECT_NE(same.output.find("Recommendations: compare the folders of one size, DIR/SIZE"),
            std::string::npos)
      << same.output;
  const std::string page = bytes(out("both") + "/index.html");
  EXPECT_NE(page.find("href=\"2x64/index.html\""), std::string::npos);
}

// Results of two sizes with 128 bytes in training.
Results compared(const std::vector<testing::Found>& found) {
  Results results = testing::results_of(found);
  results.encodings.clear();
  for (RunResult& run : results.runs)
    run.parameters = run.encoding.ends_with("@2x64") ? 110'000 : 850'000;
  compare_encodings(results);
  return results;
}
Results invented(double rotary_small, double alibi_small, double rotary_large,
                 double alibi_large) {
  return compared({{"rotary@2x64", "", rotary_small, 4, 4},
                   {"alibi@2x64", "", alibi_small, 2.5, 2.5},
                   {"rotary@4x128", "", rotary_large, 4, 4},
                   {"alibi@4x128", "", alibi_large, 2.2, 2.2}});
}

TEST(ResultsBySize, SayWhatHoldsAtEverySize) {
  const Results same = invented(2.4, 2.6, 2.1, 2.3);
  EXPECT_EQ(same.answer, (std::vector<std::string>{
                             "2 layers of width 64, 0.11 million parameters: with the whole "
                             "context, the best are Rotary (RoPE) at "
                             "128 bytes (2.400 bits) and ALiBi at 1024 bytes (2.500 bits).",
                             "4 layers of width 128, 0.85 million parameters: with the whole "
                             "context, the best are Rotary (RoPE) at "
                             "128 bytes (2.100 bits) and ALiBi at 1024 bytes (2.200 bits).",
                             "With the whole context of 128 bytes, Rotary (RoPE) may be "
                             "the best at every size.",
                             "With the whole context of 1024 bytes, ALiBi may be the best at "
                             "every size."}));
  EXPECT_TRUE(same.recommendations.empty());
  // The opposite.
  const Results other = invented(2.4, 2.6, 2.3, 2.1);
  EXPECT_EQ(other.answer[2],
            "With the whole context of 128 bytes, no encoding may be the best at every "
            "size.");
  // A tie at one size.
  const Results tied = invented(2.4, 2.402, 2.3, 2.1);
  EXPECT_NE(
      tied.answer[0].find("Rotary (RoPE) or ALiBi at 128 bytes (2.400 bits, not decided)"),
      std::string::npos)
      << tied.answer[0];
  EXPECT_EQ(tied.answer[2],
            "With the whole context of 128 bytes, "
            "ALiBi may be the best at every size.");
}

TEST(ResultsBySize, HaveTheirOwnRecommendations) {
  const Results all = invented(2.4, 2.6, 2.3, 2.1);
  const std::vector<Results> sizes = results_by_size(all);
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[1].settings.width, 128);
  EXPECT_EQ(sizes[0].recommendations[0].choices[0].title, "Rotary (RoPE)");
  EXPECT_EQ(sizes[1].recommendations[0].choices[0].title, "ALiBi");
  const plot::Table table = size_table(all, sizes);
  EXPECT_EQ(table.columns[2].title, "4x128, 128 bytes");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0][1].emphasis, plot::Emphasis::best);
  EXPECT_EQ(table.rows[0][2].emphasis, plot::Emphasis::plain);
  EXPECT_EQ(size_recommendations(sizes).rows[0][0].text, "2x64");
}

// A table that is best and ends at the training length.
TEST(ResultsBySize, SayWhereNoEncodingHasPositions) {
  const Results all =
      compared({{"learned@2x64", "", 2.4, NAN, NAN}, {"learned@4x128", "", 2.2, NAN, NAN}});
  EXPECT_EQ(
      all.answer[0],
      "2 layers of width 64, 0.11 million parameters: with the whole context, the best is "
      "Learned table at 128 bytes (2.400 bits); no encoding has positions for 1024 bytes.");
  ASSERT_EQ(all.answer.size(), 3u);
  EXPECT_EQ(size_table(all, results_by_size(all)).rows[0][3].text, "n/a");
  EXPECT_FALSE(size_curves(all, results_by_size(all), 2).empty());
}

// A model that is not trained enough gives no advice.
TEST(ResultsBySize, RequireEnoughTraining) {
  const Results all = invented(4.4, 4.3, 2.3, 2.1);
  ASSERT_EQ(all.answer.size(), 2u);
  EXPECT_EQ(all.answer[0].rfind("2 layers of width 64, 0.11 million parameters. No advice: "
                                "no encoding is trained enough.",
                                0),
            0u)
      << all.answer[0];
  EXPECT_NE(all.answer[0].find("Train longer: --steps 1200."), std::string::npos)
      << all.answer[0];
}

// Sizes of which no run is finished are not compared.
TEST(ResultsBySize, OfAPartAreIncomplete) {
  Results part = invented(2.4, 2.6, 2.3, 2.1);
  std::erase_if(part.runs, [](const RunResult& run) { return run.encoding.ends_with("128"); });
  part.encodings.clear(), part.sizes.clear();
  compare_encodings(part);
  EXPECT_EQ(part.answer[0],
            "Stopped early: 10 of 20 runs are done, and only they are compared.");
  EXPECT_EQ(part.answer.size(), 2u);
  EXPECT_EQ(part.sizes[1].parameters, 0);
}

}  // namespace processes
}  // namespace gnomon::lab
