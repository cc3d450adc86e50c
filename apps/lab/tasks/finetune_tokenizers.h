// Parts of finetune_tokens.cc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>

#include "apps/lab/tasks/finetune_tokens.h"
#include "gnomon/error.h"

namespace gnomon::lab::finetune {

using Vocabulary = std::unordered_map<std::string, std::int64_t>;

[[noreturn]] inline void refuse_file(const std::filesystem::path& path, const std::string& rule,
                                     const std::string& got) {
  refuse("finetune", path.string() + ": " + rule, got);
}

// The UTF-8 bytes of a code point.
std::string utf8_of(char32_t point);

struct WordPieceOptions {
  bool lowercase = true, strip_accents = true;
  std::string prefix = "##", unknown = "[UNK]";
  std::int64_t longest = 100;  // characters of a word; a longer one is unknown
};
// BERT's tokenizer. Throws std::invalid_argument, with the path, if a special token is missing.
std::unique_ptr<Tokenizer> word_pieces(Vocabulary vocabulary, WordPieceOptions options,
                                       const std::filesystem::path& path);

}  // namespace gnomon::lab::finetune
