// The tokens of llama.cpp are compared with those of tokenizers in
// tests/python/gguf/test_vocabulary.py.
#include "gnomon/model/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "testing.h"

namespace gnomon::model {
namespace gguf_vocabulary_test {

using namespace gnomon::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Replaces the first occurrence.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

const std::string gpt2 = R"({
  "added_tokens": [{"id": 4, "content": "<|end|>", "special": true},
                   {"id": 3, "content": "<x>", "special": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "post_processor": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

const GgufValue* find(const GgufVocabulary& vocabulary, const std::string& key) {
  const auto& all = vocabulary.metadata;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& entry) {
    return entry.first == "tokenizer." + key;
  });
  return found == all.end() ? nullptr : &found->second;
}
template <typename T>
T value(const GgufVocabulary& vocabulary, const std::string& key) {
  const GgufValue* const found = find(vocabulary, key);
  return found ? std::get<T>(*found) : T();
}

TEST(GgufVocabulary, AByteLevelBpeIsRead) {
  const auto read = read_vocabulary(
      {.tokenizer = gpt2,
       .tokenizer_config =
           R"({"eos_token": {"content": "<|end|>"}, "chat_template": "{{x}}"})"},
      6);
  EXPECT_EQ(value<std::string>(read, "ggml.model"), "gpt2");
  EXPECT_EQ(value<std::string>(read, "ggml.pre"), "gpt-2");
  EXPECT_THAT(value<std::vector<std::string>>(read, "ggml.tokens"),
              ElementsAre("a", "b", "ab", "<x>", "<|end|>", "[PAD5]"));
  EXPECT_THAT(value<std::vector<std::int32_t>>(read, "ggml.token_type"),
              ElementsAre(1, 1, 1, 4, 3, 5));
  EXPECT_THAT(value<std::vector<std::string>>(read, "ggml.merges"), ElementsAre("a b"));
  EXPECT_EQ(value<std::uint32_t>(read, "ggml.eos_token_id"), 4u);
  EXPECT_FALSE(find(read, "ggml.bos_token_id"));
  EXPECT_FALSE(value<bool>(read, "ggml.add_bos_token"));
  EXPECT_EQ(value<std::string>(read, "chat_template"), "{{x}}");
  EXPECT_TRUE(read.notes.empty());
}

TEST(GgufVocabulary, TheTemplateTellsWhichTokensAreAdded) {
  const std::string text =
      replaced(gpt2, R"({"type": "ByteLevel"},
  "model")",
               R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>"}},
          {"Sequence": {"id": "A"}}]}]},
  "model")");
  const auto read = read_vocabulary({.tokenizer = text}, 5);
  EXPECT_EQ(value<std::uint32_t>(read, "ggml.bos_token_id"), 4u);
  EXPECT_TRUE(value<bool>(read, "ggml.add_bos_token"));
  EXPECT_FALSE(value<bool>(read, "ggml.add_eos_token"));
}

TEST(GgufVocabulary, WhatIsNotCertainIsNotRead) {
  EXPECT_THAT(read_vocabulary({}, 5).reason, HasSubstr("no tokenizer.json"));
  const std::string pre = R"({"type": "ByteLevel", "add_prefix_space": false})";
  for (const auto& [from, to, reason] : std::vector<std::array<std::string, 3>>{
           {"BPE", "Unigram", "must be BPE"},
           {"\"merges\"", "\"ignore_merges\": true, \"merges\"", "pre-tokenizer"},
           {"\"merges\"", "\"byte_fallback\": true, \"merges\"", "byte_fallback"},
           {"\"merges\"", "\"end_of_word_suffix\": \"_\", \"merges\"", "end_of_word_suffix"},
           {"\"normalizer\": null", R"("normalizer": {"type": "Lowercase"})", "normalizer"},
           {pre, R"({"type": "ByteLevel", "add_prefix_space": true})", "pre-tokenizer"},
           {pre, R"({"type": "Whitespace"})", "pre-tokenizer"},
           {pre, R"({"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "x"}})",
            "pre-tokenizer"},
           {"{\"type\": \"ByteLevel\"}", R"({"type": "BertProcessing"})", "post-processor"}}) {
    const auto read = read_vocabulary({.tokenizer = replaced(gpt2, from, to)}, 5);
    EXPECT_TRUE(read.metadata.empty()) << to;
    EXPECT_THAT(read.reason, HasSubstr(reason));
  }
  const auto nfc = read_vocabulary(
      {.tokenizer = replaced(gpt2, "\"normalizer\": null", R"("normalizer": {"type": "NFC"})")},
      5);
  EXPECT_THAT(nfc.notes, ElementsAre(HasSubstr("does not normalise text to NFC")));
}

TEST(GgufVocabulary, BadIdsAreErrorsOfTheFile) {
  const auto error = [](const std::string& from, const std::string& to) {
    return message_of(
        [&] { read_vocabulary({.tokenizer = replaced(gpt2, from, to)}, 5, "model/"); });
  };
  EXPECT_THAT(error("\"ab\": 2", "\"ab\": 5"),
              HasSubstr("model/tokenizer.json] ids of tokens must be 0 to 4, got 5"));
  EXPECT_THAT(error("\"ab\": 2", "\"ab\": -1"), HasSubstr("0 to 4, got -1"));
  EXPECT_THAT(error("\"ab\": 2", "\"ab\": 1"), HasSubstr("must be unique, got 1"));
  EXPECT_THAT(error("\"ab\": 2", "\"\": 2"), HasSubstr("must not be empty"));
  EXPECT_THAT(error("\"content\": \"<x>\"", "\"content\": \"ab\""),
              HasSubstr("must be unique"));
  EXPECT_THAT(error("[\"a b\"]", "[[\"a\", \"b\", \"c\"]]"), HasSubstr("must be two tokens"));
  EXPECT_THAT(error("{", ""), HasSubstr("at byte"));
}

}  // namespace gguf_vocabulary_test
}  // namespace gnomon::model
