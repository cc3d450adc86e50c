// Gnomon's encodings inside a LibTorch model.
//
//   auto position = gnomon::libtorch::PositionEncoding(gnomon::Rotary{.dim = 64, .pairing =
//   ...}); x = position->embed(token_embedding(ids));  // once, before the first layer y =
//   position->attend(q, k, v, {.visibility = gnomon::Visibility::causal});  // in every layer
//
// One module serves all layers, whatever the encoding or the mixture of them: the calls that it
// has no part in pass their input through. What it trains (a learned table, T5's buckets) are
// its parameters. Gradients are Gnomon's own and deterministic.
//
// A module is used by one thread at a time, as LibTorch's own are.
//
// CPU tensors run on Gnomon's kernels. Tensors on another device run on LibTorch's operators
// with Gnomon's tables; there the bias exists as a matrix [H, T, S].
//
// Letters: B batch, T query tokens, S key tokens, H query heads, Hk key heads, D head size, Dv
// value head size, C channels.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/model/encoding.h"

namespace gnomon::libtorch {

struct AttendOptions {
  Visibility visibility = {};               // required
  std::optional<std::int64_t> before = {};  // sliding window: keys at most this far back
  // Before an encoding's own factor (DeBERTa, YaRN); 1 / sqrt(D) where nothing is said.
  std::optional<double> softmax_scale = {};
  std::optional<std::int64_t> after = {};  // keys at most this far ahead
  // The positions of the S keys, the queries' the last T of them; empty: 0 to S - 1. What a
  // query sees goes by rows all the same.
  std::vector<std::int64_t> ids = {};
  // [B, T, C], what enters the layer, from which a gated encoding (WavLM) computes its gates;
  // others do not look at it.
  at::Tensor hidden = {};
};

struct AtWork;  // private: one part of the mixture with what it has learned

class PositionEncodingImpl : public torch::nn::Cloneable<PositionEncodingImpl> {
 public:
  // Parameters are drawn from `generator`, or LibTorch's default one. float32 on the CPU; move
  // the module with to(). Names are those of model::parameters, with '_' for '.'. Throws where
  // an encoding is twice in the mixture.
  explicit PositionEncodingImpl(model::Mixture mixture,
                                std::optional<at::Generator> generator = std::nullopt);
  explicit PositionEncodingImpl(model::Encoding encoding,
                                std::optional<at::Generator> generator = std::nullopt);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x: [B, T, C]; returns x plus the position table of rows first to first + T - 1, or of
  // `ids`, where there are T of them; or x itself where nothing is added there. Throws
  // std::invalid_argument beyond the capacity.
  at::Tensor embed(const at::Tensor& x, std::int64_t first = 0,
                   const std::vector<std::int64_t>& ids = {});

  // q: [B, T, H, D], k: [B, S, Hk, D], v: [B, S, Hk, Dv]; returns [B, T, H, Dv]. The queries
  // are the last T of the S positions 0 to S - 1, so a KV cache is simply S > T with unturned
  // keys. float32, float64, float16, bfloat16; the last axis contiguous (else it is copied).
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttendOptions& options);

  // The same for queries, keys and values beside each other, as one product of x makes them:
  // qkv [B, T, H + 2 Hk, D] are the heads of q, then of k, then of v; returns [B, T, H, D].
  // Nothing is copied, and the gradient is written as one tensor, too.
  at::Tensor attend_packed(const at::Tensor& qkv, std::int64_t key_heads,
                           const AttendOptions& options);

  const model::Mixture& mixture() const noexcept { return mixture_; }

 private:
  // What of the mixture acts at one place, and which of the parameters are its own.
  struct Part {
    model::Mixture mixture;
    std::vector<std::size_t> parameters;
    // Plans without parameters are kept for the last few windows; they are cheap but not free.
    std::vector<std::pair<model::Window, std::shared_ptr<const LayerPlan>>> kept;
  };
  AtWork at_work(Part& part, const model::Window& window);

  model::Mixture mixture_;
  std::optional<at::Generator> generator_;
  Part in_embeddings_, in_attention_;
};
TORCH_MODULE(PositionEncoding);

// The same attention written with LibTorch's operators: what tensors on other devices use, and
// an independent check of the kernels. Materialises [B, H, T, S].
at::Tensor attend_composed(const model::Mixture& mixture,
                           const std::vector<at::Tensor>& parameters, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& v,
                           const AttendOptions& options);

}  // namespace gnomon::libtorch
