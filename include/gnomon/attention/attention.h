// Softmax attention with position inside: rotary on queries and keys, a bias on the scores,
// vectors by distance.
//
//   score[h, i, j] = scale q'[i, h] . k'[j, g(h)] + gate[h, i] bias(h, i, j)   where i sees j
//   out[i, h]      = sum_j softmax_j(score[h, i, :]) v[j, g(h)]
//
// and what a RelativeForm adds to both. q' and k' are the rotated vectors, g(h) = h / (Hq / Hk)
// the key head that query head h shares. The scores exist only block by block (online softmax:
// Milakov and Gimelshein 2018; Dao et al. 2022), so memory beyond the arguments grows with
// T + S, not with T S.
//
// Letters: B batch, T query tokens, S key tokens, Hq query heads, Hk key heads (Hk divides Hq),
// D head size of q and k, Dv of v.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/position/positions.h"
#include "gnomon/relative/form.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon {

enum class Visibility {
  causal = 1,         // a query sees its own row and the rows before it
  bidirectional = 2,  // a query sees every row
};

// Which keys a query sees. Rows are counted as they lie in memory: query row i stands at key
// row i + offset, so after a KV cache of n tokens offset is n. A plain value.
struct AttentionMask {
  Visibility visibility = {};  // required
  std::int64_t offset = 0;     // not negative
  // At most this many rows before (after) its own, itself not counted: Mistral's
  // `sliding_window` w is before = w - 1. Nothing: no limit.
  std::optional<std::int64_t> before = {}, after = {};

  bool operator==(const AttentionMask&) const = default;
};

// 1 / sqrt(D), the usual softmax scale. (T5 uses 1.)
double softmax_scale(std::int64_t head_size);

// Softmax options.
struct Softmax {
  // Of q . k, with every factor. Nothing: factor / sqrt(D).
  std::optional<double> scale = {};
  // The factor of an encoding (YaRN's in DeepSeek, DeBERTa's 1 / sqrt(1 + terms)) on the usual
  // scale; read only if `scale` is not given.
  double factor = 1;
  // Gemma 2: a product s becomes cap tanh(s / cap), before the bias; positive.
  std::optional<double> cap = {};
  // gpt-oss: one more score for each head, that takes its share of the weight and gives
  // nothing. [Hq] or none.
  std::vector<double> sinks = {};
};

// Everything that attention needs to know beside its tensors: the mask, the softmax, and how
// position enters. Calls borrow the plan and copy nothing of it.
struct AttentionPlan {
  AttentionMask mask = {};
  Softmax softmax = {};
  std::optional<RotaryTable> query_rotary = {};  // tokens T
  std::optional<RotaryTable> key_rotary = {};    // tokens S; none if cached keys are rotated
  BiasForm bias = {};                            // by Hq heads
  // Vectors by distance, met by rotated queries and keys and by the weights.
  RelativeForm relative = {};
  // Positions (for the bias) and sequences (packing, padding) of the rows; batch B or 1. Null:
  // key row j is at position j, query row i at position i + offset, all in one sequence.
  std::shared_ptr<const Positions> queries = {};  // tokens T
  std::shared_ptr<const Positions> keys = {};     // tokens S; given together with `queries`
  // Whether the bias needs gates, which depend on the tokens (WavLM): AttentionInput::gates.
  bool gated = false;
};

// A shared pointer to positions that the caller keeps alive.
inline std::shared_ptr<const Positions> borrowed(const Positions& positions) {
  return {std::shared_ptr<const Positions>(), &positions};
}

// What attention reads. Element types of q: float, Half, BFloat16 (sums in float), double (in
// double). Of k and v: that of q; for float also Half or BFloat16, as a cache has them; int8
// with scales (rotate_append and copy_append of gnomon/rotary/int8_keys.h) for all but double.
struct AttentionInput {
  ConstTensor q;              // [B, T, Hq, D], any strides, the last axis contiguous
  ConstTensor k;              // [B, S, Hk, D], likewise
  ConstTensor v;              // [B, S, Hk, Dv], likewise
  ConstTensor k_scales = {};  // float [B, S, Hk], any strides; of int8 keys only
  ConstTensor v_scales = {};  // of int8 values
  // A factor on the whole bias of a query, which may depend on the token (WavLM): float
  // [B or 1, Hq, T], any strides. Without data: 1.
  ConstTensor gates = {};
};

// out: [B, T, Hq, Dv] of the type of q, any strides, the last axis contiguous; out must not
// overlap the inputs. If lse has data, it gets the logarithm of each row's sum of exp(score),
// which the backward pass needs: [B, Hq, T], float (double: double).
//
// A query that sees no key gives zeros, and -infinity in lse (its sink, where it has one).
// Scores up to 1e4 do not overflow. Padding rows are not read: what lies there, a NaN say,
// reaches nothing. Weights below 2^-100 of a row's greatest (double: 2^-960) are 0.
//
// Error for float: |out - exact| <= 2^-17 max |v| and |lse - exact| <= 2^-18 max(1, |lse|),
// where scale sum_d |q'_d k'_d| + |bias| is at most 30 and D <= 256; for double 2^-46 in place
// of both. Vectors by distance count as what they are added to: max |v| is then that of values
// plus the greatest length of each table met by weights. For half and bfloat16 as for float,
// and out rounded once more. A SlopeBias skips keys so far away that their weights are 0 in any
// case; exact sums differ by less than S 2^-90 max |v|. Deterministic: the same bits for any
// number of threads; and a query's row has the same bits whatever other queries are in the call
// (with a SlopeBias: up to those 2^-90), so a prompt in pieces repeats the full pass. A call
// with at most 8 rows for a key head, T Hq / Hk, whose keys are not turned here, reads a cache
// as it lies and adds in another order: decoding repeats the full pass within the error above,
// and itself to the bit.
//
// Cost: D + Dv multiply-adds for each score that is seen; 1.2 D more for a table met by
// queries, 2.3 D met by keys (fewer where distances share vectors), Dv by weights. Memory
// beyond the arguments: some 3 MB for each thread (float, D and Dv up to 256); where a call has
// fewer pieces of work than threads (decoding), Dv numbers more for each row and 2048 keys; for
// a GridBias, AxesBias or ProgressiveBias what grows with T + S, for relative vectors twice
// their numbers.
//
// Throws std::invalid_argument when element types, devices or shapes do not fit each other, the
// mask breaks its rules, or a strip bias does not reach a distance that occurs.
void attention(const AttentionInput& input, const AttentionPlan& plan, const Tensor& out,
               const Tensor& lse = {});

// What the backward pass writes; tensors without data and null pointers are not wanted. q, k
// and v are required: shaped as the inputs, of their types; they are with respect to the
// unrotated q and k. All are overwritten.
struct AttentionGradient {
  Tensor q = {}, k = {}, v = {};
  BiasGradient* bias = nullptr;
  RelativeGradient* relative = nullptr;
  Tensor gates = {};             // float [B, Hq, T]
  std::span<double> sinks = {};  // [Hq]
};

// Gradients of `attention`. out and lse are its results, out_grad [B, T, Hq, Dv] the gradient
// of out. All of q, k, v and their gradients have one element type.
//
// Error, with e = 2^-18 for float, 2^-46 for double, 2^-18 + 2 half ulps for half and bfloat16
// (whose `out` is rounded), G = |out_grad| |v| the greatest lengths of head vectors, and w the
// softmax weight that a key gets from all queries, at least 1; scores as above:
//
//   q_grad: e scale G |k|
//   k_grad: e scale G |q| w
//   v_grad: e |out_grad| w
//   bias:   e G times the softmax weight (for a slope: weight x distance) summed into it
//   sinks:  e G times the sink's weight summed over queries
//   gates:  e G times the greatest |bias| of the row
//   relative vectors: of keys e scale G |q|, of queries e scale G |k|, of values e |out_grad|,
//           times the softmax weight that met the vector
//   shift:  the sum of q_grad, so of its errors
//
// with |q|, |k|, |v| the lengths of queries (shifted), keys, values, each plus the greatest
// length of the vectors that are added to them. A cap excludes relative vectors, turned queries
// a shift.
//
// Deterministic, the bias's gradient too. Threads share out the B Hk key heads; where these are
// fewer than 16, also up to 16 / (B Hk) parts of the queries, whose sums are added in order.
// Cost: 3 D + 2 Dv multiply-adds for each score that is seen. Memory beyond the arguments:
// S (D + Dv) numbers for each thread, or for every part where there are any (then at most 32
// MB), some 2 MB for each thread, and N doubles of a bias, or the numbers of relative
// vectors, for each part of B Hq heads.
void attention_backward(const AttentionInput& input, const AttentionPlan& plan,
                        const ConstTensor& out, const ConstTensor& lse,
                        const ConstTensor& out_grad, const AttentionGradient& gradient);

}  // namespace gnomon
