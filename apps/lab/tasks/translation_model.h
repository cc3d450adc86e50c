// The model of the task translation: an encoder and a decoder, pre-norm, GELU. The position
// encoding enters the encoder, whose attention is bidirectional, and the decoder, whose
// attention to its own tokens is causal. The attention of the decoder to the encoder has no
// positions.
//
// Letters: B sentences, S source tokens, T target tokens, C width, H heads, D head_dim.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <vector>

#include "apps/lab/data/settings.h"
#include "apps/lab/model/transformer.h"
#include "apps/lab/tasks/bidirectional.h"
#include "apps/lab/tasks/translation.h"
#include "gnomon/model/scheme.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab::translation_examples {

inline std::int64_t encoder_layers(const Settings& s) { return s.layers / 2; }
inline std::int64_t decoder_layers(const Settings& s) { return s.layers - s.layers / 2; }

struct Sizes {
  std::int64_t source = 0, target = 0;  // tokens of the vocabularies
  model::Scheme encoder, decoder;
};

// Cache of the decoder: keys and values of past tokens, and of the source in every layer.
struct DecoderCache {
  KeyValues past;
  std::vector<CrossBlock::Memory> source;
};

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
