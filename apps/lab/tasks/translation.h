// Data, metric and model of the task translation: a synthetic language pair or two aligned
// files, a vocabulary for each language, and chrF. docs/lab/translation.md describes them.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/draws.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/transformer.h"
#include "apps/lab/tasks/bidirectional.h"
#include "gnomon/model/scheme.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab::translation_examples {

using Ids = std::vector<std::int64_t>;

// A sentence and its translation: tokens with a space between them.
struct SentencePair {
  std::string source, target;
};

// A random sentence of the synthetic language with `words` words, at least `least_words`, and
// its translation. The translation is a function of the sentence.
constexpr std::int64_t least_words = 2;
SentencePair synthetic_pair(std::int64_t words, Draws& draws);

// The F-score of the character n-grams of one sentence, 0 to 1 (Popović 2015, with beta = 2).
// Characters are code points without white space. P and R are the means of the precision and
// the recall over the n from 1 to 6 for which both sentences have n-grams, and the score is
// 5 P R / (4 P + R), or 0 if no n-gram is common. Both texts: UTF-8.
double chrf(std::string_view hypothesis, std::string_view reference);

// The words of a text: runs of ASCII letters, digits and characters that are not ASCII; every
// other character but white space is a word of its own.
std::vector<std::string> words_of(std::string_view text);

// The tokens of one language. Words with at least `least_count` occurrences in training are
// tokens. Other words are spelled with their characters: "h@@ u@@ n", as in subword-nmt.
class Vocabulary {
 public:
  // Ends a sentence, and is the first input of the decoder; a character without a token.
  static constexpr std::int64_t end = 0, unknown = 1;
  static constexpr std::int64_t least_count = 5;
  static constexpr std::size_t most_words = 8000, most_characters = 4000;

  Vocabulary() = default;
  explicit Vocabulary(const std::vector<std::string_view>& sentences);

  std::int64_t size() const { return std::ssize(tokens_); }
  const std::vector<std::string>& tokens() const { return tokens_; }
  Ids ids(std::string_view sentence) const;  // without `end`
  std::string text(const Ids& ids) const;    // up to the first `end`

 private:
  void add(const std::string& token);

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

struct EncodedPair {
  SentencePair pair;
  Ids source, target;  // token ids without `end`
};

// The examples of each part by the number of source tokens. Sentences of more than the training
// length are tests. Shorter ones: the hash of the source sentence decides, 1/16 each for tests
// and validation.
struct Data final : TaskData {
  Vocabulary source, target;
  using ByLength = std::vector<std::vector<EncodedPair>>;
  ByLength train, validation, test;
  std::int64_t dropped = 0;  // pairs with an empty side, or too long or too unequal for a test

  ByLength& part(Part part) {
    return part == Part::train ? train : part == Part::validation ? validation : test;
  }
};

// The largest number of target tokens, in the data and of a translation by a model.
constexpr std::int64_t most_target(std::int64_t source_tokens) { return 2 * source_tokens + 8; }

// Throws std::invalid_argument if a part, or one of settings.eval_lengths, has no pair.
Data split(const std::vector<SentencePair>& pairs, const Settings& settings);

// The synthetic pairs, or those of the two files of settings.texts. Throws
// std::invalid_argument if their numbers of lines differ, or they are not UTF-8.
Corpus load(const Settings& settings);

// `batch` examples with the same number of source tokens. A number is drawn in proportion to
// its examples, so every example is equally likely. A pure function of the arguments.
std::vector<const EncodedPair*> batch_of(const Data& data, Part part, std::int64_t batch,
                                         std::uint64_t seed, std::uint64_t step);

// About 2 settings.eval_segments test examples of a stretch, ascending by length, equally many
// of each length if there are enough. If there is none: those of the nearest length that has
// some and leads to the same eval length.
std::vector<const EncodedPair*> tests_of(const Data& data, const Settings& settings,
                                         const Stretch& stretch);

// The mean chrF, and the share of right sentences, of the translations of random training
// sentences of the same or the nearest number of tokens as hypotheses for these examples.
struct ByChance {
  double chrf = 0, whole = 0;
};
ByChance chance_of(const Data& data, const std::vector<const EncodedPair*>& examples);

struct Sizes {
  std::int64_t source = 0, target = 0;  // tokens of the vocabularies
  model::Scheme encoder, decoder;
};

// Cache of the decoder: keys and values of past tokens, and of the source in every layer.
struct DecoderCache {
  KeyValues past;
  std::vector<CrossBlock::Memory> source;
};

// The model: an encoder and a decoder, pre-norm, GELU. The position encoding enters the
// encoder, whose attention is bidirectional, and the decoder, whose attention to its own tokens
// is causal. The attention of the decoder to the encoder has no positions.
//
// Letters: B sentences, S source tokens, T target tokens, C width, H heads, D head_dim.
class TranslatorImpl : public torch::nn::Module {
 public:
  // Weights that all encodings have in common depend on `seed` only.
  TranslatorImpl(const Settings& settings, Sizes sizes, std::uint64_t seed);

  // source: [B, S] int64. ids: positions of the S tokens; empty: 0 to S - 1. Returns [B, S, C].
  // Throws std::invalid_argument for positions beyond the encoding's capacity.
  at::Tensor encode(const at::Tensor& source, const std::vector<std::int64_t>& ids = {});

  // memory: [B, S, C], the result of `encode`. inputs: [B, T] int64, the tokens before the
  // predicted tokens. ids: as for `encode`. With a cache, the inputs follow the tokens of the
  // cache, without ids. Returns the logits [B, T, V].
  at::Tensor decode(const at::Tensor& memory, const at::Tensor& inputs,
                    const std::vector<std::int64_t>& ids = {}, DecoderCache* cache = nullptr);

  // The most likely tokens one after another, up to Vocabulary::end or `most` tokens. source:
  // [B, S] int64. Returns B translations without the end.
  std::vector<Ids> translate(const at::Tensor& source, std::int64_t most);

 private:
  torch::nn::Embedding source_embedding_{nullptr}, target_embedding_{nullptr};
  Bidirectional encoder_{nullptr};
  std::vector<std::shared_ptr<CrossBlock>> decoder_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
  libtorch::PositionScheme encoder_position_{nullptr}, decoder_position_{nullptr};
};
TORCH_MODULE(Translator);

}  // namespace gnomon::lab::translation_examples
