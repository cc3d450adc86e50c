// Gnomon's encodings inside a LibTorch model.
//
//   using namespace gnomon::libtorch;
//   PositionEncoding position(
//       gnomon::Rotary{.dim = 64, .pairing = gnomon::Pairing::halves});
//   // Once, before the first layer. x: [B, T, C]
//   x = position->embed(token_embedding(ids));
//   // In every layer. q: [B, T, H, D]
//   y = position->attend(q, k, v,
//                        {.visibility = gnomon::Visibility::causal,
//                         .layout = Layout::tokens_heads});
//
// One module serves all layers, whatever the encoding or the mixture of encodings: a call in
// which the encoding has no part returns its input. The trained matrices of the encoding (a
// learned table, T5's buckets) are the module's parameters. A model whose layers differ, or
// whose layers own their parameters: PositionScheme in gnomon/torch/scheme.h.
//
// CPU tensors run on Gnomon's kernels; gradients are deterministic. Tensors on another device
// run on LibTorch's operators with Gnomon's tables; the bias is then a matrix [H, T, S].
//
// Threads: one thread at a time may use a module, as with LibTorch's own modules.
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

// The order of the axes of q, k, v and of the result.
enum class Layout {
  tokens_heads = 1,  // [B, T, H, D]: a projection [B, T, H D], viewed
  heads_tokens,      // [B, H, T, D]: PyTorch's scaled_dot_product_attention
};

struct AttendOptions {
  Visibility visibility = {};             // required
  std::optional<std::int64_t> left = {};  // sliding window: keys at most this many rows before
  // The scale of q . k, before a factor of the encoding (DeBERTa, YaRN). Default: 1 / sqrt(D).
  std::optional<double> softmax_scale = {};
  std::optional<std::int64_t> right = {};  // keys at most this many rows after
  Layout layout = {};                      // required, except by attend_packed
  // Positions and sequences (padding, packing) of the S keys, [B or 1, S]. Default: 0 to S - 1,
  // one sequence. Visibility, left and right count rows, not positions.
  std::optional<Positions> positions = {};
  // Positions and sequences of the T queries, [B or 1, T]; requires `positions`. T may exceed S
  // if visibility is bidirectional. Default: the last T of `positions`.
  std::optional<Positions> query_positions = {};
  // [B, T, C], the input of the layer: the gates of a gated bias (WavLM) depend on it. Any
  // device and any floating-point type. Other encodings ignore it.
  at::Tensor hidden = {};
};

// Positions from tensors of integers, on any device. ids: [T] or [B, T]. sequences: the same
// shape, Positions::padding (-1) for padding; undefined: each row is one sequence.
Positions positions_of(const at::Tensor& ids, const at::Tensor& sequences = {});
// Positions from a padding mask [B, T] of bools or integers, nonzero for a token and zero for
// padding: the tokens of a row count 0, 1, 2, ...
Positions positions_of_mask(const at::Tensor& mask);

struct AtWork;  // private: one part of the mixture and its parameters

class PositionEncodingImpl : public torch::nn::Cloneable<PositionEncodingImpl> {
 public:
  // Parameters are drawn from `generator` (default: LibTorch's), float32 on the CPU. Names are
  // those of model::parameters, with '_' for '.'. `to` moves and casts them; the kernels read
  // float32 copies of them on the CPU, and gradients have the parameters' type and device.
  // Throws std::invalid_argument if the mixture has an encoding twice.
  explicit PositionEncodingImpl(model::Mixture mixture,
                                std::optional<at::Generator> generator = std::nullopt);
  explicit PositionEncodingImpl(model::Encoding encoding,
                                std::optional<at::Generator> generator = std::nullopt);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  // The file holds the encodings as JSON ("specification") beside the parameters. `load` throws
  // std::invalid_argument, and changes nothing, if the file's encodings or the sizes of its
  // parameters are not those of this module.
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
  // Types: float32, float64, float16, bfloat16, the same for q, k and v; or q float32 with k
  // and v both float16 or both bfloat16. The result has the type of q. Any strides; copied if
  // the last axis is not contiguous.
  //
  // Second derivatives (create_graph) are computed with LibTorch's operators and materialize
  // [B, H, T, S]. They are refused for parameters on which an encoding depends in a non-linear
  // way, and for gates.
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttendOptions& options);

  // attend for one tensor of queries, keys and values, the output of one projection: qkv
  // [B, T, H + 2 Hk, D] are the heads of q, then of k, then of v. Returns [B, T, H, D]. Nothing
  // is copied, and the gradient is one tensor. The layout is fixed.
  at::Tensor attend_packed(const at::Tensor& qkv, std::int64_t key_heads,
                           const AttendOptions& options);

  const model::Mixture& mixture() const noexcept { return mixture_; }

 private:
  // The encodings that act in one place, and the indices of their parameters.
  struct Part {
    model::Mixture mixture;
    std::vector<std::size_t> parameters;
    // Plans without parameters, of the last few windows.
    std::vector<std::tuple<model::Window, AttentionMask, std::shared_ptr<const LayerPlan>>>
        kept;
  };
  AtWork at_work(Part& part, const model::Window& window, const AttentionMask& mask);
  at::Tensor embed_window(const at::Tensor& x, const model::Window& window);

  model::Mixture mixture_;
  std::optional<at::Generator> generator_;
  Part in_embeddings_, in_attention_;
};
TORCH_MODULE(PositionEncoding);

// attend written with LibTorch's operators: the path of tensors on other devices, and an
// independent check of the kernels. Materializes [B, H, T, S].
at::Tensor attend_composed(const model::Mixture& mixture,
                           const std::vector<at::Tensor>& parameters, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& v,
                           const AttendOptions& options);

}  // namespace gnomon::libtorch
