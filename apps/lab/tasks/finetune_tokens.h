// The tokenizers of --finetune, read from the folder of the model. Implemented are the ones of
// the released models of these layouts:
//
//   none                      a token is a byte, if the vocabulary has 256 to 272 entries
//   tokenizer.json            byte-level BPE (GPT-2, Llama 3, Qwen2), WordPiece (BERT)
//   vocab.json, merges.txt    byte-level BPE of GPT-2
//   vocab.txt                 WordPiece of BERT, lower case if tokenizer_config.json says so
//
// Special tokens are never read from the text, and none is added to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnomon::lab::finetune {

// A text as tokens, and the bytes of the text that each token stands for. The sum of `bytes` is
// the size of the text: a loss in bits per byte divides by them.
struct Tokens {
  std::vector<std::int64_t> ids, bytes;
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

// `vocabulary`: vocab_size of the config. Throws std::invalid_argument, with the file and the
// reason, if the folder has no tokenizer of this list or if a token is not below `vocabulary`.
std::unique_ptr<Tokenizer> read_tokenizer(const std::filesystem::path& folder,
                                          std::int64_t vocabulary);

}  // namespace gnomon::lab::finetune
