// Gnomon's encodings inside a LibTorch model.
//
//   auto position = gnomon::libtorch::PositionEncoding(gnomon::Rotary{.dim = 64, .pairing =
//   ...}); x = position->embed(token_embedding(ids));       // once, before the first layer y =
//   position->attend(q, k, v, {.visibility = gnomon::Visibility::causal});  // in every layer
//
// One module serves all layers, whatever the encoding: the calls that an encoding has no part
// in pass their input through. What it trains (a learned table, T5's buckets) are its
// parameters. Gradients are Gnomon's own and deterministic.
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
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/model/encoding.h"

namespace gnomon::libtorch {

struct AttendOptions {
  Visibility visibility = {};           // required
  std::optional<std::int64_t> before;   // sliding window: keys at most this far back
  std::optional<double> softmax_scale;  // 1 / sqrt(D) where nothing is said
};

class PositionEncodingImpl : public torch::nn::Cloneable<PositionEncodingImpl> {
 public:
  // Parameters are drawn from `generator`, or LibTorch's default one. float32 on the CPU; move
  // the module with to().
  explicit PositionEncodingImpl(model::Encoding encoding,
                                std::optional<at::Generator> generator = std::nullopt);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x: [B, T, C]; returns x plus the position table of rows first to first + T - 1, or x itself
  // where the encoding adds nothing there. Throws std::invalid_argument beyond the capacity.
  at::Tensor embed(const at::Tensor& x, std::int64_t first = 0);

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

  const model::Encoding& encoding() const noexcept { return encoding_; }

 private:
  // Plans without parameters are kept for the last few windows; they are cheap but not free.
  // Null for an encoding that trains: its plan changes with every step.
  std::shared_ptr<const model::Lowered> plan(const model::Window& window);

  // What of this encoding attention has to do with.
  struct InAttention {
    model::Encoding encoding;
    std::vector<at::Tensor> parameters;
    std::shared_ptr<const model::Lowered> plan;
  };
  InAttention in_attention(const model::Window& window);

  struct Kept {
    model::Window window;
    std::shared_ptr<const model::Lowered> lowered;
  };

  model::Encoding encoding_;
  std::optional<at::Generator> generator_;
  std::vector<Kept> kept_;
};
TORCH_MODULE(PositionEncoding);

// The same attention written with LibTorch's operators: what tensors on other devices use, and
// an independent check of the kernels. Materialises [B, H, T, S].
at::Tensor attend_composed(const model::Encoding& encoding,
                           const std::vector<at::Tensor>& parameters, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& v,
                           const AttendOptions& options);

}  // namespace gnomon::libtorch
