// Continuation of a text with a trained model, and samples for the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/model/segment_reader.h"
#include "apps/lab/model/transformer.h"

namespace gnomon::lab {

struct GenerateOptions {
  std::int64_t bytes = 256;  // length of the continuation; the last token may exceed it
  // The tokens that the model sees at most. If the KV cache has this many, it starts again with
  // the second half of them, at positions from 0: the context is context / 2 to context tokens.
  std::int64_t context = 0;  // at least 2
  double temperature = 0.8;  // softmax temperature; 0: the most likely token
  std::uint64_t seed = 1;
  const Tokenizer* tokenizer = nullptr;  // null: bytes
};

// Returns the continuation of `text`, which has at least one byte. Cost: one forward pass of
// one token for each token, and one of context / 2 tokens whenever the cache is full.
std::string generate(Transformer& model, std::string_view text, const GenerateOptions& options);

// Continuations of a part of the test text, filled-in masked bytes, or answers to examples.
// Continuations of a model that does not read whole texts have the context of the training
// length only.
std::vector<Sample> samples(Transformer& model, const Settings& settings, const Corpus& corpus,
                            Reading reading = Reading::whole);

}  // namespace gnomon::lab
