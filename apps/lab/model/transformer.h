// The Transformer of the lab: bytes or byte-pair tokens as input, logits of the next token (or
// of a masked byte) as output, pre-norm, GELU. Its encodings are a
// gnomon::libtorch::PositionScheme.
//
// Settings::model "universal": the Universal Transformer, one block that runs up to
// settings.layers times, with adaptive halting (halting.h). Before each step n, the tables of
// the encodings and the sinusoid of n are added to the state. Caches and memories have an entry
// for each step instead of for each layer.
//
// Letters: B windows, T tokens in a window, V different tokens, C width, H heads.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"
#include "apps/lab/model/halting.h"
#include "apps/lab/model/layers.h"
#include "gnomon/attention/segment_memory.h"
#include "gnomon/model/scheme.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab {

// The KV cache: keys and values of past tokens in every layer, [B, S, H, D] each. Keys are not
// rotated, so the same cache serves every encoding.
struct KeyValues {
  std::vector<at::Tensor> keys, values;  // by layer; empty: no past tokens
  // The inputs of the layers, [B, S, C], from which some encodings compute terms of the keys:
  // forget gates.
  std::vector<at::Tensor> hidden;

  std::int64_t tokens() const { return keys.empty() ? 0 : keys[0].size(1); }  // S
  // Appends the keys and values of T tokens, [B, T, H, D] each, to those of a layer with these
  // encodings. new_hidden: the input of the layer, [B, T, C]. Returns AttendOptions::hidden for
  // the T queries and all keys.
  at::Tensor append(std::int64_t layer, const at::Tensor& new_keys,
                    const at::Tensor& new_values, const at::Tensor& new_hidden,
                    const model::Mixture& encodings);
};

struct ForwardOptions {
  Visibility visibility = Visibility::causal;
  // Positions and sequences of the T tokens, [B or 1, T]. Default: 0 to T - 1, one sequence.
  std::optional<Positions> positions = {};
  // If given, the T tokens follow the S tokens of the cache at positions S to S + T - 1,
  // without `positions`, and are appended to it.
  KeyValues* cache = nullptr;
  // If given, the T tokens are the next segment after the tokens of the memories, one for each
  // layer. Every query attends to as many tokens before it as a memory holds. No gradient
  // passes into the memories. Without `positions`, `cache` and `weights`.
  std::vector<SegmentMemory<float>>* memory = nullptr;
  // If given (not with `cache`), the weights of every layer are appended, [B, T, H, T].
  std::vector<at::Tensor>* weights = nullptr;
  // If given, the steps of each token of a Universal Transformer.
  Ponder* ponder = nullptr;
};

class TransformerImpl : public torch::nn::Module {
 public:
  // Weights that all schemes have in common depend on `seed` only. The parameters of encodings
  // have separate generators.
  TransformerImpl(const Settings& settings, model::Scheme scheme, std::uint64_t seed);
  // The same encoding in every layer.
  TransformerImpl(const Settings& settings, const model::Encoding& encoding,
                  std::uint64_t seed);

  // tokens: [B, T] int64. Returns [B, T, V]. Throws std::invalid_argument for positions beyond
  // the encodings' capacity.
  at::Tensor forward(const at::Tensor& tokens, const ForwardOptions& options = {});

  const model::Scheme& scheme() const { return positions()->scheme(); }
  // The encodings before the layers, and the encodings of one layer.
  const libtorch::PositionEncoding& table() const { return positions()->table(); }
  const libtorch::PositionEncoding& position(std::int64_t layer) const {
    return positions()->layer(layer);
  }
  bool is_universal() const { return !halting_.is_empty(); }

  // From now on the model has no position (DroPE). Its encodings have no parameters.
  void drop_positions();

 private:
  const libtorch::PositionScheme& positions() const {
    return without_.is_empty() ? position_ : without_;
  }
  libtorch::PositionScheme positions() { return without_.is_empty() ? position_ : without_; }
  // The layer of the scheme.
  std::int64_t place(std::int64_t layer) const { return is_universal() ? 0 : layer; }
  at::Tensor add_tables(const at::Tensor& x, const ForwardOptions& options,
                        std::int64_t offset);
  // A layer, or a step of the Universal Transformer.
  at::Tensor run(std::int64_t layer, const at::Tensor& x, const ForwardOptions& options,
                 libtorch::AttendOptions attend);
  at::Tensor run_until_halted(at::Tensor x, const ForwardOptions& options,
                              const libtorch::AttendOptions& attend, std::int64_t offset);

  torch::nn::Embedding embedding_{nullptr};
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
  at::Tensor weights(std::int64_t layer, const at::Tensor& qkv,
                     libtorch::AttendOptions options);
  // attend_packed with the keys and values of the cache before those of qkv.
  at::Tensor attend_cached(std::int64_t layer, const at::Tensor& qkv, KeyValues& cache,
                           libtorch::AttendOptions options);

  // attend_packed with the keys and values of the memory before those of qkv.
  at::Tensor attend_remembered(std::int64_t layer, const at::Tensor& qkv,
                               SegmentMemory<float>& memory, libtorch::AttendOptions options);

  libtorch::PositionScheme position_{nullptr};
  libtorch::PositionScheme without_{nullptr};  // not empty: positions were dropped
  // The Universal Transformer only: the layer of p, and the signals of the steps, [N, C].
  torch::nn::Linear halting_{nullptr};
  at::Tensor step_signals_;
};
TORCH_MODULE(Transformer);

// How a model with text reads a test window: its suffix.
enum class Reading {
  whole = 1,  // all tokens of the window
  memory,     // in segments of the training length, with a memory of one segment
  window,     // the window is cut to the training length
};
Reading reading_of(const std::string& suffix);

class SegmentReader {
 public:
  // segment: the tokens of a segment. memory: how many tokens before it a query sees at most.
  SegmentReader(const Settings& settings, std::int64_t segment, std::int64_t memory);
  // Both of the training length, for a task with text.
  explicit SegmentReader(const Settings& settings)
      : SegmentReader(settings, settings.train_length, settings.train_length) {}

  // Returns the logits [B, T, V] of the tokens [B, T]. The memory is empty before them.
  at::Tensor read(Transformer& model, const at::Tensor& tokens);
  // The same for tokens that follow those of the last call, in the same rows. No gradient
  // passes into the tokens of earlier segments.
  at::Tensor read_next(Transformer& model, const at::Tensor& tokens);

 private:
  SegmentMemoryShape shape_;
  std::size_t layers_;
  std::vector<SegmentMemory<float>> memories_;  // by layer
};

}  // namespace gnomon::lab
