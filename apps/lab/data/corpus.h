// The texts: reading, checks, and the split into training, validation and test.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"
#include "apps/lab/data/tokenizer.h"

namespace gnomon::lab {

struct Text {
  std::string name;  // file name without its folder
  std::string bytes;
  std::vector<std::int32_t> tokens = {};  // --tokens bpe; otherwise each byte is a token

  std::int64_t size() const {  // in tokens
    return tokens.empty() ? std::ssize(bytes) : std::ssize(tokens);
  }
  std::int64_t token(std::int64_t at) const {
    const auto i = static_cast<std::size_t>(at);
    return tokens.empty() ? static_cast<unsigned char>(bytes[i]) : tokens[i];
  }
};

// Statistics of tokens that can have several bytes, on the test texts: their mean number of
// bytes, and the loss of the token frequencies of the training texts in bits per byte.
struct TokenStatistics {
  double bytes_per_token = 0, frequency_bits = 0;
};

// Data of a task that is not a text. Each task with a loader has its own type.
struct TaskData {
  virtual ~TaskData() = default;
};

struct Corpus {
  std::vector<Text> train, validation, test;
  std::shared_ptr<const Tokenizer> tokenizer = {};  // null: bytes
  std::string split;                                // the split, as text for the report
  std::string source;                               // the source, as text for the report
  std::optional<TokenStatistics> tokens = {};       // empty: a token is a byte
  std::shared_ptr<const TaskData> data = {};
  std::string digest = {};  // hash of `data`, for the check of --resume

  static std::int64_t bytes(const std::vector<Text>& texts);
  // The number of bytes of a token.
  std::int64_t bytes_of(std::int64_t token) const {
    return tokenizer ? std::ssize(tokenizer->bytes(token)) : 1;
  }
  // The bytes of `count` tokens of a text.
  std::string text_of(const Text& text, std::int64_t begin, std::int64_t count) const;
};

// Reads settings.texts, or the shipped novels. With --tokens bpe: with this tokenizer, or one
// that is trained on the texts. With --finetune, the texts have no tokens yet.
// Throws std::invalid_argument with one line for every file that is empty, binary, too small or
// unreadable, or if the held-out parts are shorter than the longest window.
Corpus load_texts(const Settings& settings, std::shared_ptr<const Tokenizer> tokenizer = {});

// A hash of the names and bytes of all texts, of their tokens and of `data`: two processes with
// equal hashes train on the same examples.
std::string fingerprint(const Corpus& corpus);

// Reads text files of at least `least` bytes. Throws like load_texts.
std::vector<Text> read_texts(const std::vector<std::string>& paths, std::int64_t least);

// Arguments: the counts of each token in the training and the test texts; the bytes of the test
// texts.
TokenStatistics token_statistics(const std::vector<double>& train,
                                 const std::vector<double>& test, double test_bytes);

// Sets `tokens` of each text.
void encode(std::vector<Text>& texts, const Tokenizer& tokenizer);

// Tokens of text for one test segment: its targets, the context of the first target, and one
// token before the context.
std::int64_t segment_tokens(const Settings& settings);

}  // namespace gnomon::lab
