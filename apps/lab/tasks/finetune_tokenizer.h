// The tokenizers of released models, for --finetune.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gnomon/error.h"

namespace gnomon::lab::finetune {

// The tokenizers of --finetune, read from the folder of the model:
//
//   none                      a token is a byte, if the vocabulary has 256 to 272 entries
//   tokenizer.json            byte-level BPE (GPT-2, Llama 3, Qwen2), WordPiece (BERT)
//   vocab.json, merges.txt    byte-level BPE of GPT-2
//   vocab.txt                 WordPiece of BERT, lower case if tokenizer_config.json says so
//
// Special tokens are never read from the text, and none is added to it.

// A text as tokens, and the bytes of the text that each token stands for. The sum of `bytes` is
// the size of the text: a loss in bits per byte divides by them.
struct Tokens {
  std::vector<std::int64_t> ids, bytes;

  std::int64_t size() const { return std::ssize(ids); }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual Tokens encode(std::string_view text) const = 0;
  virtual bool of_bytes() const { return false; }

  // Tokens of a masked model: the one that replaces a masked token, and the first and the last
  // one of every window.
  std::optional<std::int64_t> mask = {}, first = {}, last = {};
};

// Throws std::invalid_argument, with the file and the reason, if the folder has no tokenizer of
// this list or if a token is not below `vocabulary`, vocab_size of the config.
std::unique_ptr<Tokenizer> read_tokenizer(const std::filesystem::path& folder,
                                          std::int64_t vocabulary);

using Vocabulary = std::unordered_map<std::string, std::int64_t>;

[[noreturn]] inline void refuse_file(const std::filesystem::path& path, const std::string& rule,
                                     const std::string& got) {
  refuse("finetune", path.string() + ": " + rule, got);
}

struct WordPieceOptions {
  bool lowercase = true, strip_accents = true;
  std::string prefix = "##", unknown = "[UNK]";
  std::int64_t longest = 100;  // characters of a word; a longer one is unknown
};
// BERT's tokenizer. Throws std::invalid_argument, with the path, if a special token is missing.
std::unique_ptr<Tokenizer> word_pieces(Vocabulary vocabulary, WordPieceOptions options,
                                       const std::filesystem::path& path);

}  // namespace gnomon::lab::finetune
