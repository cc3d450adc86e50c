#include "apps/lab/data/corpus.h"
#include "apps/lab/tasks/make_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gnomon::lab {
namespace lab_corpus_test {

namespace fs = std::filesystem;

class CorpusTest : public ::testing::Test {
 protected:
  CorpusTest() {
    fs::create_directories(folder_);
    settings_.train_length = 16;
    settings_.eval_lengths = {16, 32};
  }
  ~CorpusTest() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::string complaint(std::vector<std::string> texts) {
    settings_.texts = std::move(texts);
    try {
      load_corpus(settings_);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return {};
  }

  fs::path folder_ = fs::temp_directory_path() / ("gnomon-corpus-" + std::to_string(getpid()));
  Settings settings_;
};

TEST_F(CorpusTest, ShipsSixNovelsSplitByBook) {
  const Corpus corpus = load_corpus(settings_);
  EXPECT_EQ(corpus.train.size(), 4u);
  EXPECT_EQ(Corpus::bytes(corpus.train), 883028 + 883280 + 684768 + 673688);
  EXPECT_EQ(Corpus::bytes(corpus.validation), 466854);
  EXPECT_EQ(Corpus::bytes(corpus.test), 433411);
}

TEST_F(CorpusTest, SplitsThreeFilesByFileAndOneByPosition) {
  const std::string a = file("a", std::string(2000, 'a')), b = file("b", std::string(500, 'b')),
                    c = file("c", std::string(500, 'c'));
  settings_.texts = {a, b, c};
  Corpus corpus = load_corpus(settings_);
  EXPECT_EQ(corpus.train[0].name, "a");
  EXPECT_EQ(corpus.validation[0].name, "b");
  EXPECT_EQ(corpus.test[0].name, "c");
  settings_.texts = {a};
  corpus = load_corpus(settings_);
  EXPECT_EQ(corpus.train[0].bytes.size(), 1600u);
  EXPECT_EQ(corpus.validation[0].bytes.size(), 200u);
  EXPECT_EQ(corpus.test[0].bytes.size(), 200u);
  std::string counted;
  for (int number = 1000; number < 1500; ++number) counted += std::to_string(number);
  settings_.texts = {file("counted", counted)};
  corpus = load_corpus(settings_);
  EXPECT_EQ(corpus.train[0].bytes, counted.substr(0, 1600));
  EXPECT_EQ(corpus.validation[0].bytes, counted.substr(1600, 200));
  EXPECT_EQ(corpus.test[0].bytes, counted.substr(1800));
}

TEST_F(CorpusTest, NamesEveryBadFileInALineOfItsOwn) {
  const std::string empty = file("empty", ""), tiny = file("tiny", "abc"),
                    binary = file("binary", std::string("ab\0cd", 5) + std::string(99, 'x')),
                    control = file("control", std::string(90, '\x01')),
                    missing = folder_ / "missing";
  const std::string text =
      complaint({empty, tiny, binary, control, missing, folder_.string(), "/dev/null"});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6) << text;
  for (const std::string& part :
       {"must not be empty, got " + empty, tiny + ": 3 bytes", binary + ": a zero byte at 2",
        control + ": 90 control characters", missing + ": No such file",
        folder_.string() + ": a folder", std::string("/dev/null: a pipe or device")})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
}

TEST_F(CorpusTest, SaysWhenTheHeldOutPartIsTooShort) {
  const std::string text = complaint({file("short", std::string(300, 'x'))});
  EXPECT_NE(text.find("must have a window of 32 bytes"), std::string::npos) << text;
}

}  // namespace lab_corpus_test
}  // namespace gnomon::lab
