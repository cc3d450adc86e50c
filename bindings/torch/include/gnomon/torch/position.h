// Gnomon's encodings as a module for LibTorch models.
//
//   using namespace gnomon;
//   libtorch::PositionEncoding position(Rotary{.rotary_dim = 64, .pairing = Pairing::halves});
//
//   // Once, before the first layer. x: [B, T, C]
//   at::Tensor x = position->embed(token_embedding(ids));
//
//   // In every layer. q: [B, T, H, 64]; k, v: [B, T, Hk, 64]; y: [B, T, H, 64]
//   at::Tensor y = position->attend(q, k, v,
//                                   {.visibility = Visibility::causal,
//                                    .layout = libtorch::Layout::tokens_heads});
//
// One module serves all layers, with any encoding or mixture of encodings. If the encoding has
// no table, `embed` returns its input. If the encoding acts on the embeddings only, `attend` is
// attention without position. The trained matrices of the encoding (a learned table, T5's
// buckets) are the module's parameters. If layers differ, or if each layer has its own
// parameters, use PositionScheme of gnomon/torch/scheme.h.
//
// CPU tensors run on Gnomon's kernels, and their gradients are deterministic. Tensors on
// another device run on LibTorch's operators with Gnomon's tables, and the bias is then a
// matrix [H, T, S].
//
// Thread-safe: no. One thread at a time may use a module, as with LibTorch's own modules.
//
// Errors: every function throws std::invalid_argument if a tensor is undefined, is not strided,
// or has a type, device or shape other than the documented one. The message says which.
//
// Letters: B batch, T query tokens, S key tokens, H query heads, Hk key heads, D head_dim, Dv
// head_dim of the values, C width.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/model/encoding.h"
#include "gnomon/position/positions.h"

namespace gnomon::libtorch {

// Order of the axes of q, k, v and of the result.
enum class Layout {
  tokens_heads = 1,  // [B, T, H, D]: a projection [B, T, H D], viewed
  heads_tokens,      // [B, H, T, D]: PyTorch's scaled_dot_product_attention
};

struct AttendOptions {
  Visibility visibility = {};             // required
  std::optional<std::int64_t> left = {};  // sliding window: keys at most this many rows before
  // Scale of q . k, before a factor of the encoding (DeBERTa, YaRN). Default: 1 / sqrt(D).
  std::optional<double> softmax_scale = {};
  std::optional<std::int64_t> right = {};  // keys at most this many rows after
  Layout layout = {};                      // required, except by attend_packed
  // Positions and sequences (padding, packing) of the S keys, [B or 1, S]. Default: 0 to S - 1,
  // one sequence. Visibility, left and right count rows, not positions.
  std::optional<Positions> positions = {};
  // Positions and sequences of the T queries, [B or 1, T]; requires `positions`. T may exceed S
  // if visibility is bidirectional. Default: the last T of `positions`.
  std::optional<Positions> query_positions = {};
  // The input of the layer, for encodings with token terms: [B, T, C] for the gates of WavLM,
  // [B, S, C], with a row for each key, for forget gates (FoX). Any device and any
  // floating-point type. Other encodings ignore it.
  at::Tensor hidden = {};
};

// Returns positions from integer tensors on any device. ids: [T] or [B, T]. sequences: the same
// shape, Positions::padding (-1) for padding. If it is undefined, each row is one sequence.
Positions positions_of(const at::Tensor& ids, const at::Tensor& sequences = {});
// Returns positions from a padding mask [B, T] of bools or integers, nonzero for a token and
// zero for padding. The tokens of each row have positions 0, 1, 2, ...
Positions positions_of_mask(const at::Tensor& mask);

struct PreparedCall;  // private: the encodings of one place and their parameters

class PositionEncodingImpl : public torch::nn::Cloneable<PositionEncodingImpl> {
 public:
  // Parameters are drawn from `generator` (default: LibTorch's), float32 on the CPU. Their
  // names are those of model::parameters, with '_' instead of '.'. `to` moves and casts them.
  // The kernels read float32 copies of them on the CPU, and gradients have the type and the
  // device of the parameters. Throws std::invalid_argument if the mixture has an encoding
  // twice.
  explicit PositionEncodingImpl(model::Mixture mixture,
                                std::optional<at::Generator> generator = std::nullopt);
  explicit PositionEncodingImpl(model::Encoding encoding,
                                std::optional<at::Generator> generator = std::nullopt);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  // Throw std::invalid_argument: use save_state and load_state of gnomon/torch/state.h, since
  // archives of LibTorch can contain code.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  // x: [B, T, C], float32, float64, float16 or bfloat16. Returns x plus the rows of the
  // position table for positions offset to offset + T - 1, or for `positions`, [B or 1, T].
  // Returns x if the encoding has no table. Throws std::invalid_argument for a position beyond
  // the table.
  at::Tensor embed(const at::Tensor& x, std::int64_t offset = 0);
  at::Tensor embed(const at::Tensor& x, const Positions& positions);

  // Layout::tokens_heads: q [B, T, H, D], k [B, S, Hk, D], v [B, S, Hk, Dv]; returns
  // [B, T, H, Dv]. Layout::heads_tokens: q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, Dv];
  // returns [B, H, T, Dv]. Hk divides H. By default the queries are the last T of the S tokens,
  // so a KV cache is S > T with unrotated keys.
  //
  // Types: float32, float64, float16 or bfloat16, the same for q, k and v; or q float32 with k
  // and v both float16 or both bfloat16. The result has the type of q. Strides: any. A tensor
  // is copied if its last axis is not contiguous.
  //
  // Second derivatives (create_graph) are computed with LibTorch's operators and materialize
  // [B, H, T, S]. For token terms, and for parameters that enter an encoding non-linearly, the
  // second backward pass throws std::invalid_argument.
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttendOptions& options);

  // Like attend, for one tensor of queries, keys and values: the output of a projection. qkv:
  // [B, T, H + 2 Hk, D], the heads of q, then of k, then of v. Returns [B, T, H, D]. Nothing is
  // copied, and the gradient is one tensor. options.layout: left out, or tokens_heads.
  at::Tensor attend_packed(const at::Tensor& qkv, std::int64_t key_heads,
                           const AttendOptions& options);

  const model::Mixture& mixture() const noexcept { return mixture_; }

 private:
  // The encodings of one place, and the indices of their parameters.
  struct Part {
    model::Mixture mixture;
    std::vector<std::size_t> parameters;
    // Plans without parameters, for the last few windows.
    std::vector<std::tuple<model::Window, AttentionMask, std::shared_ptr<const LayerPlan>>>
        kept;
  };
  PreparedCall prepare_call(Part& part, const model::Window& window, const AttentionMask& mask);
  at::Tensor embed_window(const at::Tensor& x, const model::Window& window);

  model::Mixture mixture_;
  std::optional<at::Generator> generator_;
  Part in_embeddings_, in_attention_;
};
TORCH_MODULE(PositionEncoding);

// attend with LibTorch's operators: used for tensors on other devices than the CPU, and an
// independent check of the kernels. Materializes [B, H, T, S].
at::Tensor attend_composed(const model::Mixture& mixture,
                           const std::vector<at::Tensor>& parameters, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& v,
                           const AttendOptions& options);

}  // namespace gnomon::libtorch
