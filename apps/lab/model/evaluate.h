// Tests of a trained model: the loss on the same test bytes at every context length, or the
// answers to examples of every length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/model/transformer.h"

namespace gnomon::lab {

// Tests at each length of settings.eval_lengths, or for a task with examples at every length up
// to the longest. A whole answer is right exactly if greedy decoding gives it. `stop` is called
// between segments. Empty if it returns true. `reading`: of windows of text.
std::optional<Evaluation> evaluate(Transformer& model, const Settings& settings,
                                   const Corpus& corpus, const Stop& stop,
                                   Reading reading = Reading::whole);

// LengthLoss::tail_by_segment at one length, for a task with text. Empty if `stop` returns
// true.
std::optional<std::vector<double>> tail_by_segment(Transformer& model, const Settings& settings,
                                                   const Corpus& corpus, std::int64_t length,
                                                   const Stop& stop);

// The loss of a causal model if the order of its context is destroyed (Haviv et al. 2022,
// arXiv:2203.16634, section 5): the mean loss of `targets` tokens, each predicted from the L
// tokens before it, at one length L, in bits per token, as they are in the text and with all
// but the last `kept` of them in random order. The permutations are the same for all models.
// margin: half of the width of the 95 % confidence interval of the difference, over the targets
// (Student's t).
struct ShuffledLoss {
  std::int64_t length = 0, kept = 0, targets = 0;
  double bits = 0, shuffled_bits = 0, margin = 0;
};

// Losses at each of settings.eval_lengths for which the model has positions, with 2 longest / L
// targets in each test segment. Lengths of at most `kept` tokens are left out.
std::vector<ShuffledLoss> shuffled_losses(Transformer& model, const Settings& settings,
                                          const Corpus& corpus, std::int64_t kept);

// The charts of a trained encoding, from its plan in the first layer. Empty without position.
Picture picture(Transformer& model, const Settings& settings);

// Sets initial_table and initial_bias of the picture of a trained model, from the same model
// before training.
void add_initial(Picture& picture, Transformer& untrained, const Settings& settings);

// Attention of a trained model on windows of the test texts; empty for a task with examples.
std::optional<TrainedAttention> trained_attention(Transformer& model, const Settings& settings,
                                                  const Corpus& corpus);

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
