#include "apps/lab/tasks/finetune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lab/finetune_models.h"

namespace gnomon::lab {
namespace finetune_tokens_test {

namespace fs = std::filesystem;
using finetune::read_tokenizer;
using finetune::Tokens;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReleasedFolder;

class FinetuneTokens : public ::testing::Test {
 protected:
  Tokens encode(const std::string& text, std::int64_t vocabulary = 400) const {
    const Tokens tokens = read_tokenizer(folder_.path(), vocabulary)->encode(text);
    EXPECT_EQ(std::accumulate(tokens.bytes.begin(), tokens.bytes.end(), std::int64_t{0}),
              std::ssize(text));
    return tokens;
  }
  std::string error(std::int64_t vocabulary = 400) const {
    try {
      read_tokenizer(folder_.path(), vocabulary);
    } catch (const std::invalid_argument& problem) {
      return problem.what();
    }
    return "no error";
  }
  const ReleasedFolder folder_{"llama"};
};

// The 256 characters of GPT-2's bytes in the order of the bytes, as ids 0 to 255.
Json byte_vocabulary() {
  Json vocabulary;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool shown =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int point = shown ? byte : next++;
    std::string text;
    if (point < 128) {
      text = static_cast<char>(point);
    } else {
      text += static_cast<char>(0xc0 | point >> 6);
      text += static_cast<char>(0x80 | (point & 63));
    }
    vocabulary[text] = byte;
  }
  return vocabulary;
}

TEST_F(FinetuneTokens, BytesAreTokensWithoutATokenizer) {
  EXPECT_THAT(encode("a\xff", 256).ids, ElementsAre(97, 255));
  EXPECT_THAT(error(255), HasSubstr("must have a tokenizer"));
  EXPECT_EQ(error(272), "no error");
  EXPECT_THAT(error(273), HasSubstr("vocab_size 273"));
  folder_.write_text("tokenizer.model", "x");
  EXPECT_THAT(error(256), HasSubstr("tokenizer.model"));
}

// Ids as tokenizers 0.22 gives them for these merges: a b -> 256, ab c -> 257, Ġ t -> 258,
// Ġt h -> 259.
TEST_F(FinetuneTokens, BytePairsMergeTheLowestRankFirst) {
  Json vocabulary = byte_vocabulary();
  int id = 256;
  for (const char* token : {"ab", "abc", "\xc4\xa0t", "\xc4\xa0th"}) vocabulary[token] = id++;
  folder_.write_text("vocab.json", vocabulary.dump());
  folder_.write_text("merges.txt", "#version: 0.2\na b\nab c\n\xc4\xa0 t\n\xc4\xa0t h\n");
  EXPECT_THAT(encode("abcab th").ids, ElementsAre(257, 256, 259));
  EXPECT_THAT(encode("abcab th").bytes, ElementsAre(3, 2, 3));
  // The space before the last one is a piece of its own.
  EXPECT_THAT(encode("a  th").ids, ElementsAre(97, 32, 259));
  EXPECT_THAT(encode("\xc3\xa9").ids, ElementsAre(0xc3, 0xa9));
  folder_.write_text("merges.txt", "a z\n");
  EXPECT_THAT(error(), HasSubstr("got a z"));
  for (const char* one : {"a\n", " a\n", "a \n"}) {
    folder_.write_text("merges.txt", one);
    EXPECT_THAT(error(), HasSubstr("must be two tokens")) << one;
  }
  EXPECT_THAT(error(200), HasSubstr("ids must be 0 to 199"));
}

TEST_F(FinetuneTokens, TokenizerJsonSplitsByItsPattern) {
  Json vocabulary = byte_vocabulary();
  vocabulary["12"] = 256;
  vocabulary["123"] = 257;
  Json json = {
      {"model",
       {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"1 2", Json::array({"12", "3"})}}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"},
           {"pattern", {{"Regex", "\\p{N}{1,3}|\\s+|[^\\s\\p{N}]+"}}},
           {"behavior", "Isolated"},
           {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}}};
  folder_.write_text("tokenizer.json", json.dump());
  // Three digits a piece: 1231 | 23 is 123 | 123.
  EXPECT_THAT(encode("123123").ids, ElementsAre(257, 257));
  EXPECT_THAT(encode("x12 3").ids, ElementsAre('x', 256, ' ', '3'));
  json["pre_tokenizer"] = {{"type", "Metaspace"}};
  folder_.write_text("tokenizer.json", json.dump());
  EXPECT_THAT(error(), ::testing::AllOf(HasSubstr("tokenizer.json"), HasSubstr("Metaspace")));
  json["model"]["type"] = "Unigram";
  folder_.write_text("tokenizer.json", json.dump());
  EXPECT_THAT(error(), HasSubstr("got Unigram"));
  folder_.write_text("tokenizer.json", "{");
  EXPECT_THAT(error(), HasSubstr("must be JSON"));
  folder_.write_text("tokenizer.json", "[]");
  EXPECT_THAT(error(), HasSubstr("vocabulary"));
}

TEST_F(FinetuneTokens, WordPiecesAreTheLongestFromTheLeft) {
  folder_.write_text("vocab.txt",
                     "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nunaff\n,\n"
                     "cafe\n\xe4\xb8\xad\n");
  EXPECT_THAT(encode("Unaffable, CAF\xc3\x89").ids, ElementsAre(8, 7, 9, 10));
  EXPECT_THAT(encode("un xx").ids, ElementsAre(5, 1));
  EXPECT_THAT(encode("\xe4\xb8\xad\xe4\xb8\xad").ids, ElementsAre(11, 11));
  EXPECT_THAT(encode("unaffable , ").bytes, ElementsAre(5, 4, 3));
  // Punctuation is a word: the first and the last character of each range of ASCII.
  EXPECT_THAT(encode("un!un/un:un@un[un`un{un~un").ids,
              ElementsAre(5, 1, 5, 1, 5, 1, 5, 1, 5, 1, 5, 1, 5, 1, 5, 1, 5));
  const auto tokenizer = read_tokenizer(folder_.path(), 400);
  EXPECT_EQ(tokenizer->mask, 4);
  EXPECT_EQ(tokenizer->first, 2);
  EXPECT_EQ(tokenizer->last, 3);
  folder_.write_text("tokenizer_config.json", "{\"do_lower_case\": false}");
  EXPECT_THAT(encode("Un un").ids, ElementsAre(1, 5));
  folder_.write_text("vocab.txt", "[UNK]\n");
  EXPECT_THAT(error(), HasSubstr("must have [MASK]"));
}

}  // namespace finetune_tokens_test
}  // namespace gnomon::lab
