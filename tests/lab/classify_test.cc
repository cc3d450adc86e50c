#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/lab/data/csv.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/classify_data.h"
#include "apps/lab/tasks/make_model.h"
#include "io/temporary.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace classify_test {

using namespace classify_examples;

Settings settings_of_texts() {
  Settings settings = testing::tiny();
  settings.task = &find_task("classify");
  settings.encodings = {"none"};
  settings.train_length = 24;
  settings.eval_lengths = {24, 48};
  return settings;
}

std::multiset<std::string> words_of(std::string text) {
  text = text.substr(0, text.find('.'));
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The animals in a text, in their order.
std::vector<std::string> animals_of(const std::string& text, bool hunters) {
  const std::set<std::string> wanted = hunters
                                           ? std::set<std::string>{"dog", "fox", "owl", "cat"}
                                           : std::set<std::string>{"hen", "rat", "ant", "bee"};
  std::vector<std::string> found;
  std::istringstream stream(text.substr(0, text.find('.')));
  for (std::string word; stream >> word;)
    if (wanted.contains(word)) found.push_back(word);
  return found;
}

TEST(Sentences, ExchangedAnimalsChangeTheLabelAndNotTheWords) {
  for (std::int64_t length = shortest_sentence; length < 90; length += 3)
    for (std::uint64_t number = 0; number < 12; number += 2) {
      const LabelledText a = sentence(length, Part::test, 1, number),
                         b = sentence(length, Part::test, 1, number + 1);
      EXPECT_EQ(std::ssize(a.text), length) << a.text;
      // Words of four characters fill it, then points.
      EXPECT_LE(a.text.size() - a.text.find_last_not_of('.'), 5u) << a.text;
      EXPECT_EQ(words_of(a.text), words_of(b.text));
      EXPECT_NE(a.text, b.text);
      EXPECT_EQ(a.label, 0);
      EXPECT_EQ(b.label, 1);
      for (const LabelledText& one : {a, b}) {
        const auto hunter = animals_of(one.text, true), prey = animals_of(one.text, false);
        ASSERT_EQ(hunter.size(), 1u) << one.text;
        ASSERT_EQ(prey.size(), 1u) << one.text;
        EXPECT_EQ(one.text.find(hunter[0]) < one.text.find(prey[0]), one.label == 0);
      }
    }
}

TEST(Sentences, BelongToOnePart) {
  std::set<std::set<std::string>> seen[3];
  for (std::uint64_t number = 0; number < 400; number += 2)
    for (const Part part : {Part::train, Part::validation, Part::test})
      seen[static_cast<int>(part) - 1].insert(
          {sentence(shortest_sentence, part, 1, number).text,
           sentence(shortest_sentence, part, 1, number + 1).text});
  EXPECT_GT(seen[0].size(), 40u);
  for (const auto& test : seen[2])
    EXPECT_FALSE(seen[0].contains(test) || seen[1].contains(test));
}

TEST(Csv, FollowsRfc4180) {
  using TextTable = std::vector<std::vector<std::string>>;
  EXPECT_EQ(parse_csv("a,b\r\n\"x, \"\"y\"\"\nz\",\r\n\n\"\",1", "f"),
            (TextTable{{"a", "b"}, {"x, \"y\"\nz", ""}, {"", "1"}}));
  EXPECT_EQ(parse_csv("\xef\xbb\xbfo\rp,q\n", "f"), (TextTable{{"o\rp", "q"}}));
  EXPECT_EQ(parse_csv("", "f"), TextTable{});
  EXPECT_EQ(parse_csv("\"\"\n", "f"), (TextTable{{""}}));
  const auto message = [](const char* csv) {
    try {
      parse_csv(csv, "f");
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("a,b\n\"c\nd").find("closed, got f, line 2"), std::string::npos);
  EXPECT_NE(message("a,b\nc\"d,e\n").find("quoted, got f, line 2"), std::string::npos);
  EXPECT_NE(message("a,b\n\"c\"d,e\n").find("closing quote"), std::string::npos);
  EXPECT_NE(message("a,b\nc\n").find("as many fields"), std::string::npos);
}

class TextFiles : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    return testing::put(folder_ / "texts.csv", text);
  }
  std::string message(const std::string& text, std::int64_t reached = 4) {
    try {
      read_labelled_texts(file(text), reached);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }
  std::string rows(int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += (i % 2 ? "yes," : "no,") + std::to_string(i) + ",\"text " + std::to_string(i) +
              "\"\n";
    return text;
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(TextFiles, ColumnsAreFoundByTheHeader) {
  const LabelledTexts data = read_labelled_texts(file("label,id,text\n" + rows(200)), 5);
  EXPECT_EQ(data.names, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(data.train.size() + data.validation.size() + data.test.size(), 200u);
  EXPECT_NEAR(static_cast<double>(data.test.size()), 20, 12);
  for (const auto* part : {&data.train, &data.validation, &data.test})
    for (const LabelledText& one : *part) {
      ASSERT_EQ(one.text.substr(0, 5), "text ");
      EXPECT_EQ(one.label, std::stoi(one.text.substr(5)) % 2);
    }
  std::string csv;
  for (int i = 0; i < 200; ++i)
    csv += "one " + std::to_string(i) + ",c" + std::to_string(i % 7) + "\n";
  const LabelledTexts without = read_labelled_texts(file(csv), 1);  // the first two columns
  EXPECT_EQ(without.names.size(), 7u);
  EXPECT_EQ(without.train.size() + without.validation.size() + without.test.size(), 200u);
}

TEST_F(TextFiles, AreRefusedWithTheReason) {
  EXPECT_EQ(message("label,id,text\n" + rows(200)), "");
  EXPECT_EQ(message("Label,id,TEXT\r\n" + rows(200)), "");
  EXPECT_NE(message("").find("must have rows"), std::string::npos);
  for (const std::string& csv : {std::string("text\na\n"), "text,b,c\n" + rows(200),
                                 "a,label,c\n" + rows(200), rows(200)})
    EXPECT_NE(message(csv).find("columns text and label"), std::string::npos) << csv;
  EXPECT_NE(message(std::string("t\0,l\0\n", 7)).find("zero bytes"), std::string::npos);
  EXPECT_NE(message("text,label\na,\n").find("a text and a label"), std::string::npos);
  EXPECT_NE(message("text,label\na,b\nc,b\n").find("two different labels"), std::string::npos);
  EXPECT_NE(message("text,label\na,b\na,c\n").find("each part"), std::string::npos);
  EXPECT_NE(message("label,id,text\n" + rows(200), 100).find("at least 100 bytes"),
            std::string::npos);
  std::string labels;
  for (int i = 0; i < 1001; ++i)
    labels += "text " + std::to_string(i) + ",label " + std::to_string(i) + "\n";
  EXPECT_NE(message(labels).find("at most 1000 different"), std::string::npos);
}

std::unique_ptr<TaskModel> untrained(const Settings& settings, const std::string& encoding) {
  return make_model(settings, Corpus{}, encoding, 1);
}

// Padding is masked: a short text has the same loss beside longer ones.
TEST(ClassifyModel, TheLossOfRowsIsThatOfThePartsOfTheBatch) {
  const at::NoGradGuard no_grad;
  const Settings settings = settings_of_texts();
  for (const char* encoding : {"none", "sinusoidal", "learned", "rotary", "alibi", "t5"}) {
    const auto model = untrained(settings, encoding);
    for (at::Tensor& weight : model->module().parameters()) weight.mul_(3);
    const double all = model->loss(Part::train, 1, 3, {0, 4}).nats.item<double>();
    double sum = 0;
    for (std::int64_t row = 0; row < 4; ++row)
      sum += model->loss(Part::train, 1, 3, {row, row + 1}).nats.item<double>();
    EXPECT_NEAR(all, sum, 1e-3) << encoding;
  }
}

// Without position, the model gives the same answer to a sentence and the exchanged one.
TEST(ClassifyModel, WithoutPositionExactlyHalfIsRight) {
  Settings settings = settings_of_texts();
  settings.eval_segments = 8;
  settings.steps = 6;
  for (const bool position : {false, true}) {
    TrainingRun run(settings, Corpus{}, position ? "learned" : "none", 1);
    while (!run.trained()) run.train_step();
    const Evaluation found = *run.model().evaluate([] { return false; });
    ASSERT_EQ(found.stretches.size(), 5u);
    for (const Stretch& one : found.stretches) {
      EXPECT_EQ(one.applicable, !position || one.to <= settings.train_length);
      if (!one.applicable) continue;
      EXPECT_EQ(one.examples, 16);
      EXPECT_EQ(one.chance_score, 0.5);
      if (!position) {
        EXPECT_NEAR(one.score, 0.5, 1e-9);
      }
    }
  }
}

TEST(ClassifyModel, LearnsTheOrderOfWords) {
  Settings settings = settings_of_texts();
  settings.steps = 250;
  settings.batch = 16;
  settings.train_length = 20;
  settings.eval_lengths = {20};
  settings.learning_rate = 1e-2;
  TrainingRun run(settings, Corpus{}, "learned", 1);
  while (!run.trained()) run.train_step();
  EXPECT_GT(run.model().evaluate([] { return false; })->stretches.front().score, 0.9);
}

TEST_F(TextFiles, AreTrainedAndTestedByLength) {
  std::string csv = "text,label\n";
  for (int i = 0; i < 300; ++i)
    csv += std::string(static_cast<std::size_t>(10 + i % 60), static_cast<char>('a' + i % 3)) +
           std::to_string(i) + "," + (i % 3 == 0 ? "first" : "other") + "\n";
  Settings settings = settings_of_texts();
  settings.texts = {file(csv)};
  settings.steps = 40;
  settings.batch = 8;
  settings.learning_rate = 1e-2;
  const Corpus corpus = load_corpus(settings);
  EXPECT_FALSE(corpus.digest.empty());
  TrainingRun run(settings, corpus, "none", 1);
  while (!run.trained()) run.train_step();
  const Evaluation found = *run.model().evaluate([] { return false; });
  const auto& data = static_cast<const LabelledTexts&>(*corpus.data);
  for (const Stretch& one : found.stretches) {
    std::int64_t count = 0, others = 0;
    for (const LabelledText& text : data.test)
      if (std::ssize(text.text) >= (one.from == 20 ? 0 : one.from)) {
        ++count;
        others += data.names[static_cast<std::size_t>(text.label)] == "other";
      }
    EXPECT_EQ(one.examples, std::min(count, 8 * settings.eval_segments));
    if (one.examples < count) continue;
    EXPECT_DOUBLE_EQ(one.chance_score, static_cast<double>(std::max(others, count - others)) /
                                           static_cast<double>(count));
  }
  EXPECT_GT(found.stretches.front().score, 0.9);
}

}  // namespace classify_test
}  // namespace gnomon::lab
