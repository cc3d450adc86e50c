#include "apps/lab/tasks/translation.h"
#include "apps/lab/data/task.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "lab/tiny.h"

namespace gnomon::lab {
namespace translation_test {

namespace fs = std::filesystem;
using namespace translation_examples;

// A translator written from the grammar in docs/lab/translation.md.
class Oracle {
 public:
  explicit Oracle(const std::string& sentence) {
    std::istringstream stream(sentence);
    for (std::string word; stream >> word;) words_.push_back(word);
  }
  std::string translate() {
    std::string all = clause();
    while (at_ < words_.size()) {
      EXPECT_EQ(words_[at_++], "and");
      all += " u " + clause();
    }
    return all;
  }

 private:
  struct Noun {
    std::string words, number;  // "it" or "ur"
  };
  static const std::map<std::string, std::string>& lexicon() {
    static const std::map<std::string, std::string> all = [] {
      std::istringstream stream(
          "dog kela cat miro bird tava horse zano tiger hura farmer goro teacher dila king "
          "rupo nurse vesha sailor boko baker fasa friend lemo stranger pida doctor jato robot "
          "numa lion shobo small pik big gan old ver young nol red rash blue sin happy lud "
          "tired mok clever tesh quiet hol saw vid chased kach helped yel followed sut called "
          "zor met mab feared gip liked ral found tun watched bel slept sol ran dar sang kant "
          "waited pov laughed hah fell zum");
      std::map<std::string, std::string> found;
      for (std::string source, target; stream >> source >> target;) found[source] = target;
      return found;
    }();
    return all;
  }
  bool is(const char* list) const {
    return at_ < words_.size() &&
           (' ' + std::string(list) + ' ').find(' ' + words_[at_] + ' ') != std::string::npos;
  }
  std::string clause() {
    const Noun subject = phrase();
    return subject.words + ' ' + predicate(subject.number);
  }
  std::string predicate(const std::string& number) {
    const bool alone = is("slept ran sang waited laughed fell");
    const std::string verb = lexicon().at(words_.at(at_++)) + number;
    return alone ? verb : phrase().words + " ta " + verb;
  }
  Noun phrase() {
    std::vector<std::string> adjectives;
    while (is("small big old young red blue happy tired clever quiet"))
      adjectives.push_back(lexicon().at(words_[at_++]));
    std::string noun = words_.at(at_++), plural;
    if (noun.back() == 's') noun.pop_back(), plural = "n";
    const std::string base = lexicon().at(noun);
    std::string text = base + plural;
    for (const std::string& one : adjectives) text += ' ' + one + base.back() + plural;
    const std::string number = plural.empty() ? "it" : "ur";
    if (!is("that")) return {text, number};
    ++at_;
    return {predicate(number) + " ke " + text, number};
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

TEST(TranslationOracle, KnowsAnExample) {
  EXPECT_EQ(Oracle("happy quiet birds that found big sailors laughed and dog ran").translate(),
            "bokon ganon ta tunur ke tavan ludan holan hahur u kela darit");
}

TEST(SyntheticPair, IsASentenceAndItsTranslation) {
  std::set<std::string> with_relative, with_object, with_two_clauses;
  for (const std::int64_t words : {2, 3, 4, 5, 8, 9, 12, 30})
    for (std::uint64_t i = 0; i < 200; ++i) {
      Draws draws{i, static_cast<std::uint64_t>(words)};
      const SentencePair one = synthetic_pair(words, draws);
      ASSERT_EQ(std::ssize(words_of(one.source)), words) << one.source;
      ASSERT_EQ(Oracle(one.source).translate(), one.target) << one.source;
      ASSERT_LE(std::ssize(words_of(one.target)), most_target(words));
      // No clause is longer than 8 words.
      std::int64_t clause = 0;
      for (const std::string& word : words_of(one.source)) {
        clause = word == "and" ? 0 : clause + 1;
        ASSERT_LE(clause, 8) << one.source;
      }
      if (one.target.find(" ke ") != std::string::npos) with_relative.insert(one.source);
      if (one.target.find(" ta ") != std::string::npos) with_object.insert(one.source);
      if (one.target.find(" u ") != std::string::npos) with_two_clauses.insert(one.source);
    }
  for (const auto* some : {&with_relative, &with_object, &with_two_clauses})
    EXPECT_GT(some->size(), 400u);
}

TEST(Chrf, OfHandCountedSentences) {
  EXPECT_DOUBLE_EQ(chrf("abc", "abc"), 1);
  EXPECT_DOUBLE_EQ(chrf("xyz", "abc"), 0);
  EXPECT_DOUBLE_EQ(chrf("", "abc"), 0);
  EXPECT_DOUBLE_EQ(chrf("abc", ""), 0);
  EXPECT_DOUBLE_EQ(chrf(" a\tb\n", "ab"), 1);
  // 1-grams: 2 of 2 and of 3; 2-grams: 1 of 1 and of 2. P = 1, R = (2/3 + 1/2) / 2 = 7/12.
  EXPECT_DOUBLE_EQ(chrf("ab", "abc"), 5 * (7.0 / 12) / (4 + 7.0 / 12));
  // A repeated n-gram counts as often as in the other sentence: 2 of 3 and 2; 1 of 2 and 1.
  EXPECT_DOUBLE_EQ(chrf("aaa", "aa"), 5 * (7.0 / 12) / (4 * (7.0 / 12) + 1));
}

// pip install sacrebleu==2.6.0
// python: `from sacrebleu.metrics import CHRF; print(CHRF().sentence_score(hyp, [ref]).score)`
TEST(Chrf, IsThatOfSacrebleu) {
  const struct {
    const char *hypothesis, *reference;
    double score;
  } table[] = {{"the cat sat", "the cat sat on the mat", 49.59348409966008},
               {"kelan miron vidur", "miron kelan vidur", 62.41286491286492},
               {"abcdef", "abcdeg", 59.166666666666664},
               {"Grüße aus Köln", "Gruesse aus Köln", 52.08503903673235},
               {"the the the", "the cat", 19.689903800721968},
               {"猫が好き", "犬が好き", 47.91666666666667},
               {"ab ab", "abab", 100},
               {"nimo", "kela hur lalit u pido", 3.4722222222222223}};
  for (const auto& [hypothesis, reference, score] : table)
    EXPECT_NEAR(100 * chrf(hypothesis, reference), score, 1e-10) << hypothesis;
}

TEST(WordsOf, SplitsAtSpacesAndPunctuation) {
  EXPECT_EQ(words_of("  It's 12\tGrüße,\r"),
            (std::vector<std::string>{"It", "'", "s", "12", "Grüße", ","}));
  EXPECT_TRUE(words_of(" \t").empty());
}

TEST(Vocabulary, HasFrequentWordsAndSpellsTheOthers) {
  std::vector<std::string_view> sentences(4, "dog ran");
  sentences.push_back("dog saß .");
  const Vocabulary all(sentences);
  // "ran" and the others have fewer than 5 occurrences.
  EXPECT_EQ(all.tokens()[2], "dog");
  const auto has = [&](const char* token) {
    return std::count(all.tokens().begin(), all.tokens().end(), token) == 1;
  };
  EXPECT_FALSE(has("ran"));
  for (const char* piece : {"r@@", "a@@", "n", "s@@", "ß", "."})
    EXPECT_TRUE(has(piece)) << piece;
  EXPECT_EQ(all.size(), 9);
  EXPECT_EQ(all.ids("dog").size(), 1u);
  EXPECT_EQ(all.ids("ran").size(), 3u);
  for (const char* text : {"dog", "ran dog", "dog saß .", "ran ran saß", "sß dog"})
    EXPECT_EQ(all.text(all.ids(text)), text);
  EXPECT_EQ(all.ids("x"), Ids{Vocabulary::unknown});
  EXPECT_EQ(all.text({2, Vocabulary::end, 2}), "dog");
  EXPECT_EQ(all.text(all.ids("rax")), "ra\xef\xbf\xbd");
}

Settings settings_of(std::int64_t trained = 8, std::vector<std::int64_t> lengths = {8, 16}) {
  Settings settings = testing::tiny();
  settings.task = &find_task("translation");
  settings.train_length = trained;
  settings.eval_lengths = std::move(lengths);
  return settings;
}

const Data& synthetic() {
  static const Corpus corpus = load(settings_of());
  return dynamic_cast<const Data&>(*corpus.data);
}

std::set<std::string> sources_of(const Data::ByLength& part) {
  std::set<std::string> all;
  for (std::size_t length = 0; length < part.size(); ++length)
    for (const EncodedPair& one : part[length]) {
      EXPECT_EQ(one.source.size(), length);
      all.insert(one.pair.source);
    }
  return all;
}

TEST(Load, SplitsTheSyntheticPairs) {
  const Data& all = synthetic();
  const auto train = sources_of(all.train), validation = sources_of(all.validation),
             test = sources_of(all.test);
  EXPECT_GT(train.size(), 10000u);
  for (const std::string& one : test)
    ASSERT_FALSE(train.contains(one) || validation.contains(one));
  for (const std::string& one : validation) ASSERT_FALSE(train.contains(one));
  for (std::size_t length = 0; length <= 16; ++length) {
    const auto sizes = {all.train[length].size(), all.validation[length].size()};
    if (length < 2) {
      EXPECT_TRUE(all.test[length].empty());
    } else if (length <= 8) {
      EXPECT_NEAR(static_cast<double>(all.train[length].size()) /
                      static_cast<double>(all.train[length].size() + all.test[length].size() +
                                          all.validation[length].size()),
                  14.0 / 16, 0.07);
      EXPECT_FALSE(all.test[length].empty());
    } else {
      EXPECT_EQ(std::max(sizes), 0u) << "a length beyond training";
      EXPECT_GT(all.test[length].size(), 400u);
    }
  }
  // Each word is a token: 32 forms of nouns, 26 other words, "that", "and", and two marks.
  EXPECT_EQ(all.source.size(), 32 + 26 + 2 + 2);
  EXPECT_EQ(all.dropped, 0);
}

TEST(BatchOf, HasOneLengthAndEveryExampleEquallyOften) {
  const Data& all = synthetic();
  EXPECT_EQ(batch_of(all, Part::train, 5, 1, 2), batch_of(all, Part::train, 5, 1, 2));
  EXPECT_NE(batch_of(all, Part::train, 5, 1, 2), batch_of(all, Part::train, 5, 1, 3));
  EXPECT_NE(batch_of(all, Part::train, 5, 1, 2), batch_of(all, Part::train, 5, 2, 2));
  double examples = 0;
  for (const auto& length : all.validation) examples += static_cast<double>(length.size());
  std::map<std::size_t, double> batches;
  constexpr int steps = 2000;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto batch = batch_of(all, Part::validation, 4, 1, step);
    const std::size_t length = batch[0]->source.size();
    for (const EncodedPair* one : batch) {
      ASSERT_EQ(one->source.size(), length);
      const auto& part = all.validation[length];
      ASSERT_TRUE(one >= part.data() && one < part.data() + part.size());
    }
    ++batches[length];
  }
  for (const auto& [length, count] : batches) {
    const double share = static_cast<double>(all.validation[length].size()) / examples;
    EXPECT_NEAR(count / steps, share, 4 * std::sqrt(share / steps)) << length;
  }
}

TEST(TestsOf, AreSpreadOverTheLengthsOfAStretch) {
  Settings settings = settings_of();
  settings.eval_segments = 4;
  const auto found = tests_of(synthetic(), settings, {.from = 9, .to = 10, .up_to = 16});
  ASSERT_EQ(found.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(found[i]->source.size(), i < 4 ? 9u : 10u);
}

// The exact expectation over all training sentences of the length of each example.
TEST(ChanceOf, IsThatOfAnotherSentenceOfTheSameLength) {
  const Data& all = synthetic();
  std::vector<const EncodedPair*> examples;
  double sum = 0, pairs = 0;
  for (const EncodedPair& one : all.test[2]) {
    examples.insert(examples.end(), 20, &one);
    for (const EncodedPair& other : all.train[2]) {
      sum += chrf(other.pair.target, one.pair.target);
      ++pairs;
    }
  }
  EXPECT_NEAR(chance_of(all, examples).chrf, sum / pairs, 0.015);
  EXPECT_EQ(chance_of(all, examples).whole, 0) << "no test sentence is in training";
}

class Files : public ::testing::Test {
 protected:
  ~Files() override { fs::remove_all(folder_); }
  Settings files(const std::string& source, const std::string& target,
                 Settings settings = settings_of()) {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "s", std::ios::binary) << source;
    std::ofstream(folder_ / "t", std::ios::binary) << target;
    settings.texts = {folder_ / "s", folder_ / "t"};
    return settings;
  }
  static std::string error(const Settings& settings) {
    try {
      load(settings);
    } catch (const std::invalid_argument& thrown) {
      return thrown.what();
    }
    return "none";
  }

  fs::path folder_ =
      fs::temp_directory_path() / ("gnomon-translation-" + std::to_string(getpid()));
};

TEST_F(Files, ArePairsLineByLine) {
  std::string source = "\xef\xbb\xbf", target;
  for (int i = 0; i < 600; ++i) {
    const std::string number = std::to_string(i);
    for (int w = 0; w < (i % 3 == 0 ? 12 : 3); ++w)
      source += "Word" + std::string(w > 0, 's') + " ";
    source += "x" + std::to_string(i % 20) + " y" + std::to_string(i / 20) + "\r\n";
    target += "Ein Wort, " + number + (i < 599 ? "\n" : "");
  }
  source += "\nlong\n";  // an empty line, and a target that is too long
  target += "\nnothing\n";
  for (int w = 0; w < 40; ++w) target += "a ";
  const Corpus corpus = load(files(source, target));
  const Data& all = dynamic_cast<const Data&>(*corpus.data);
  EXPECT_EQ(all.dropped, 2);
  EXPECT_NE(corpus.split.find("without 2 pairs"), std::string::npos);
  EXPECT_EQ(all.test[14].size(), 200u);
  EXPECT_EQ(all.test[14][0].pair.target, "Ein Wort , 0");
  // Sources that are equal are in one part.
  const auto train = sources_of(all.train), test = sources_of(all.test);
  for (const std::string& one : test) EXPECT_FALSE(train.contains(one));
  // A stretch without sentences is tested on the nearest one that leads to the same length.
  const auto found = tests_of(all, settings_of(), {.from = 15, .to = 16, .up_to = 16});
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[0]->source.size(), 14u);
  // Other bytes: another digest.
  EXPECT_NE(load(files(source + "x\n", target + "\nx\n")).digest, corpus.digest);
}

TEST_F(Files, ThatAreNotTwoTextsAreRefused) {
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "a b c d e " + std::to_string(i) + "\n";
  EXPECT_EQ(error(files(lines, lines + "more\n")),
            "[lab] SOURCE and TARGET must have the same number of lines, got 300 and 301");
  EXPECT_NE(error(files("", lines)).find("a text must not be empty"), std::string::npos);
  EXPECT_NE(error(files(lines, std::string("a\0b", 3))).find("must not be binary"),
            std::string::npos);
  EXPECT_EQ(error(files(lines, lines + "\xff")),
            "[lab] a text of --task translation must be UTF-8, got t: other bytes in line 301");
  // All sentences have 6 words or 6 and the digits of a rare number; none has 17.
  EXPECT_NE(error(files(lines, lines, settings_of(16, {16, 32})))
                .find("the texts must have test sentences of 17 to 32 tokens"),
            std::string::npos);
  EXPECT_NE(error(files("\n\n", "\n\n")).find("in the part train, got 2 lines"),
            std::string::npos);
  Settings missing = files(lines, lines);
  missing.texts[1] += "x";
  EXPECT_NE(error(missing).find("must be readable"), std::string::npos);
}

}  // namespace translation_test
}  // namespace gnomon::lab
