// Vocabulary of a GGUF file, from the tokenizer.json of a Hugging Face checkpoint.
//
// llama.cpp knows a pre-tokenizer by a name, and has its regular expressions in its code. The
// vocabulary is read only if tokenizer.json describes a byte-level BPE whose pre-tokenizer is
// exactly one that llama.cpp has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gnomon/model/gguf_writer.h"

namespace gnomon::model {

struct GgufVocabulary {
  std::vector<std::pair<std::string, GgufValue>> metadata;  // empty: not read
  std::string reason;                                       // why it was not read
  std::vector<std::string> notes;                           // what llama.cpp does otherwise
};

// Files of a checkpoint. Empty: the checkpoint does not have the file.
struct TokenizerFiles {
  std::string_view tokenizer = {};         // tokenizer.json
  std::string_view tokenizer_config = {};  // tokenizer_config.json
  std::string_view chat_template = {};     // chat_template.jinja
};

// Reads the vocabulary. `tokens`: rows of the embeddings; ids without a token become unused
// tokens. `folder`: for error messages.
//
// Throws FormatError if a file is not JSON, or if ids are not unique or not below `tokens`.
GgufVocabulary read_vocabulary(const TokenizerFiles& files, std::int64_t tokens,
                               const std::string& folder = {});

}  // namespace gnomon::model
