// The model of the task translation: an encoder and a decoder, pre-norm, GELU. The position
// encoding enters the encoder, whose attention is bidirectional, and the decoder, whose attention
// to its own tokens is causal. The attention of the decoder to the encoder has no positions.
//
// Letters: B sentences, S source tokens, T target tokens, C width, H heads, D head_dim.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <vector>

#include "apps/lab/options.h"
#include "apps/lab/tasks/translation.h"
#include "apps/lab/transformer.h"
#include "gnomon/model/scheme.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab::translation_task {

inline std::int64_t encoder_layers(const Settings& s) { return s.layers / 2; }
inline std::int64_t decoder_layers(const Settings& s) { return s.layers - s.layers / 2; }

struct Sizes {
  std::int64_t source = 0, target = 0;  // tokens of the vocabularies
  model::Scheme encoder, decoder;
};

// Of the decoder: keys and values of past tokens, and those of the source in every layer,
// [B, S, H, D] each.
struct DecoderCache {
  KeyValues past, source;
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
  // The parts of a layer that the encoder and the decoder have.
  struct Block : torch::nn::Module {
    Block(std::int64_t width, std::int64_t heads);
    at::Tensor feed(const at::Tensor& x);

    std::int64_t heads;
    torch::nn::LayerNorm attention_norm, feed_norm;
    torch::nn::Linear qkv, attention_out, feed_in, feed_out;
  };
  struct DecoderBlock : Block {
    DecoderBlock(std::int64_t width, std::int64_t heads);
    torch::nn::LayerNorm source_norm;
    torch::nn::Linear source_q, source_kv, source_out;
  };

  at::Tensor attend_source(std::int64_t layer, const at::Tensor& x, const at::Tensor& memory,
                           DecoderCache* cache);

  torch::nn::Embedding source_embedding_, target_embedding_;
  std::vector<std::shared_ptr<Block>> encoder_;
  std::vector<std::shared_ptr<DecoderBlock>> decoder_;
  torch::nn::LayerNorm encoder_norm_, decoder_norm_;
  torch::nn::Linear head_;
  libtorch::PositionEncoding no_position_{model::Encoding(model::NoPosition{})};
  libtorch::PositionScheme encoder_position_{nullptr}, decoder_position_{nullptr};
};
TORCH_MODULE(Translator);

}  // namespace gnomon::lab::translation_task
