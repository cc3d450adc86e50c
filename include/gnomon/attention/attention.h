// Softmax attention with positional encoding: rotary embeddings on queries and keys, a bias on
// the scores, and relative vectors.
//
//   score[h, i, j] = scale q'[i, h] . k'[j, g(h)] + gate[h, i] bias(h, i, j)   if i sees j
//   out[i, h]      = sum_j softmax_j(score[h, i, :]) v[j, g(h)]
//
// A RelativeForm adds further terms to both (gnomon/relative/form.h). StickBreaking replaces
// the softmax (gnomon/attention/stick_breaking.h). q' and k' are the rotated queries and keys.
// g(h) = h / (Hq / Hk) is the key head of query head h. Scores are computed block by block
// (online softmax: Milakov and Gimelshein 2018; Dao et al. 2022), so the memory beyond the
// arguments grows with T + S, not with T S.
//
// Letters: B batch, T query tokens, S key tokens, Hq query heads, Hk key heads (Hk divides Hq),
// D head dimension of q and k, Dv head dimension of v.
//
// Naive version: tests/naive/attention.h, `naive_attention`, `naive_attention_backward`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gnomon/attention/ragged.h"
#include "gnomon/attention/stick_breaking.h"
#include "gnomon/attention/token_terms.h"
#include "gnomon/bias/form.h"
#include "gnomon/position/positions.h"
#include "gnomon/relative/form.h"
#include "gnomon/rotary/pope.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/token_angles.h"
#include "gnomon/tensor.h"

namespace gnomon {

enum class Visibility {
  causal = 1,         // a query sees its own row and earlier rows
  bidirectional = 2,  // a query sees all rows
};

// The keys that a query sees. Rows are counted in memory order, not by position: query row i
// corresponds to key row i + offset. After a KV cache of n tokens, offset is n. A plain value.
struct AttentionMask {
  Visibility visibility = {};  // required
  // Not negative. nullopt: 0, accepted only if T = S, or nothing depends on it; otherwise the
  // offset is required, because a guess would hide keys. A ragged batch has its own offsets.
  std::optional<std::int64_t> offset = {};
  // Window limits: the largest number of rows to the left (right) of the row of the query,
  // without that row. `sliding_window` w of Mistral is left = w - 1. nullopt: no limit.
  std::optional<std::int64_t> left = {}, right = {};
  // Rows that a key stands for (gnomon/attention/compressed_keys.h). Query row i sees key row j
  // if all these rows are at or before its own: j < (i + offset + 1) / rate, rounded down. More
  // than 1: only causal, without limits of a window and without a bias or vectors by distance.
  std::int64_t rate = 1;

  bool operator==(const AttentionMask&) const = default;
};

// Returns 1 / sqrt(D), the usual softmax scale. (T5 uses 1.)
double softmax_scale(std::int64_t head_dim);

// Softmax options.
struct Softmax {
  // The scale of q . k, with all factors included. nullopt: factor / sqrt(D).
  std::optional<double> scale = {};
  // A factor of the encoding on the usual scale: that of YaRN in DeepSeek, 1 / sqrt(1 + terms)
  // in DeBERTa. Ignored if `scale` is given.
  double factor = 1;
  // Soft cap of the scores (Gemma 2): a product s becomes cap tanh(s / cap), before the bias is
  // added. Must be positive.
  std::optional<double> cap = {};
  // Attention sinks (gpt-oss): one additional score for each head, which takes part in the
  // softmax and has a value of zero. [Hq] or empty: none, or those of TokenTerms::sinks.
  std::vector<double> sinks = {};
  // If q, k and v are bfloat16: whether weights may be rounded to bfloat16 before they are
  // multiplied by values, and in the backward pass also the gradients of scores before they are
  // multiplied by queries and keys. Processors that multiply bfloat16 then do so, which takes
  // half to two thirds of the time. false: both stay in float, with a smaller error (below).
  bool rounds_weights = true;
};

// How the product of a query and a key is formed.
enum class PairProduct {
  dot = 1,        // q . k
  channel_gates,  // sum over n of q_n k_n exp(c_in - c_jn): TokenTerms::channel_gates (Wall)
  householder,    // k . H_(j+1) ... H_i q: TokenTerms::householder and betas (PaTH)
};

// The plan of attention: the mask, the softmax options, and all places in which position
// enters. Calls borrow the plan and copy nothing of it.
struct AttentionPlan {
  AttentionMask mask = {};
  Softmax softmax = {};
  PairProduct product = PairProduct::dot;
  // Queries and keys in polar form (PoPE). The rotary tables are then those of `frequencies`,
  // with 2 D elements, for all keys: a cache keeps keys as they were projected.
  std::optional<PolarForm> polar = {};
  std::optional<RotaryTable> query_rotary = {};  // T tokens
  std::optional<RotaryTable> key_rotary = {};    // S tokens; nullopt if keys are rotated
  // Rotates queries and keys by TokenTerms::angles, or by their sums over the tokens of each
  // sequence (AngleTerm), before the tables above. The term is that of all keys; row i of the
  // queries is row i + offset of the keys. O(T + S) memory: copies of q and k, of their types.
  std::optional<TokenRotation> token_rotation = {};
  BiasForm bias = {};  // Hq heads
  // Relative vectors. Their dot products with rotated queries and keys are added to the scores,
  // their sums with the weights to the output.
  RelativeForm relative = {};
  std::optional<CumulativeBias> cumulative = {};
  std::optional<EdgeBias> edges = {};
  // Rotates TokenTerms::edge_keys back, by minus its angles; S tokens, all P elements. nullopt:
  // they are not rotated.
  std::optional<RotaryTable> edge_rotary = {};
  // Positions (used by the bias) and sequences (packing, padding) of the rows; their batch is B
  // or 1. Null: key row j is at position j, query row i is at position i + offset, and all rows
  // are in one sequence. Give both or none.
  std::shared_ptr<const Positions> queries = {};  // T tokens
  std::shared_ptr<const Positions> keys = {};     // S tokens
  // True if the bias requires gates, which depend on the tokens (WavLM): TokenTerms::gates.
  bool gated = false;
  // True if each key has a slope of its own for the bias by distance (GRAPE-A):
  //
  //   score[h, i, j] -= slope[h, j] |position(i) - position(j)|   slope: TokenTerms::key_slopes
  bool key_slopes = false;
  // If set, weights are made by stick-breaking instead of a softmax.
  std::optional<StickBreaking> stick_breaking = {};
  // Sequences of different lengths, and paged caches: gnomon/attention/ragged.h. Requires an
  // offset of 0 in the mask. Valid with windows, a bias by distance (SlopeBias, StripBias,
  // PiecewiseLogBias), a cap, sinks and query_rotary, whose table is indexed as q: [1, rows],
  // or [1 or N, T]. Other parts of the plan, and gradients, are refused.
  RaggedBatch ragged = {};
};

// Returns whether the plan is defined for causal visibility only: a cumulative bias, gates of
// channels, contextual positions, sums of edges, stick-breaking.
inline bool causal_only(const AttentionPlan& plan) noexcept {
  return plan.cumulative || plan.product != PairProduct::dot || plan.relative.contextual ||
         plan.edges || plan.stick_breaking;
}

// Returns a shared pointer to positions without ownership: the caller keeps them alive.
inline std::shared_ptr<const Positions> borrowed(const Positions& positions) {
  return {std::shared_ptr<const Positions>(), &positions};
}

// The input tensors of attention. Element types of q: float, Half, BFloat16 (sums in float),
// double (sums in double). Element types of k and v: that of q; also Half or BFloat16 if q is
// float; also int8 with scales if q is not double (see rotate_append and copy_append of
// gnomon/rotary/int8_keys.h); also E4M3 (DLPack's float8_e4m3fn, or u8) with scales, forward
// only, if q is not double. A value is scale x element; an E4M3 NaN stays NaN.
//
// Shapes with AttentionPlan::ragged: gnomon/attention/ragged.h.
struct AttentionInput {
  ConstTensor q;  // [B, T, Hq, D], any strides, the last axis contiguous
  ConstTensor k;  // [B, S, Hk, D], same requirements
  ConstTensor v;  // [B, S, Hk, Dv], same requirements
  // float [B, S, Hk], any strides, for int8 keys; [1] or [Hk] for E4M3 keys
  ConstTensor k_scales = {};
  ConstTensor v_scales = {};  // the same, for values
  TokenTerms terms = {};      // inputs that depend on the tokens
};

// Computes attention.
//
// Shapes: out is [B, T, Hq, Dv] of the type of q, with any strides and the last axis
// contiguous. out must not overlap the inputs. If lse has data, it receives the log-sum-exp of
// the scores of each row, which the backward pass requires: [B, Hq, T], float (double if q is
// double). B and T are those of q, also with query_starts.
//
// A query that sees no key gives zeros, and -infinity in lse (if the head has a sink: the
// sink). Scores up to 1e4 do not overflow. Weights below 2^-100 of the greatest weight of the
// row (double: 2^-960) are 0.
//
// A key or value row that a query does not see (by mask, sequence, padding, or a bias of
// -infinity) never reaches the results of the query: NaN and infinity in it give the same bits
// as finite numbers. With a SlopeBias: up to the 2^-90 below.
//
// Error bound for float: |out - exact| <= 2^-17 max |v| and |lse - exact| <= 2^-18 max(1,
// |lse|), if scale sum_d |q'_d k'_d| + |bias| is at most 30 and D <= 256. For double: 2^-46 in
// place of both factors. For half and bfloat16: as for float, and out is rounded once more.
// For bfloat16 with Softmax::rounds_weights: 2^-8 max |v| more, as much as that rounding, and
// only on processors that multiply bfloat16.
// With gates of channels or Householder factors: 2^-15 in place of 2^-17, and 2^-16 in place of
// 2^-18, for factors as of PaTH (|w| = 1, betas 0 to 2).
// Relative vectors count as part of the vectors that they are added to: max |v| is then that of
// the values plus the greatest length of each table added to values. With a SlopeBias, keys so
// far away that their weights are 0 are skipped; exact sums differ by less than S 2^-90 max
// |v|.
//
// Deterministic: the same bits for any number of threads. The row of a query has the same bits
// for any other queries in the call (with a SlopeBias: up to those 2^-90), so a prompt
// processed in parts gives the bits of the full pass. Exceptions: calls without key_rotary and
// with few rows for each key head read the cache in another order: T Hq / Hk up to 8, and 9 to
// 48 over more than 64 keys (96 over at least 1024). Such calls agree with the full pass within
// the error bound. Within each of both ranges the row of a query has the same bits for any
// other queries. In a ragged batch this holds for each sequence: its rows have the bits of a
// call with this sequence alone, in a paged cache or not.
//
// Cost: D + Dv multiply-adds for each visible score. A table of relative vectors adds 1.2 D if
// it is multiplied by queries, 2.3 D if by keys (less if distances share vectors), and Dv if by
// weights. A projected table adds 1.2 K where it has distances. Memory beyond the arguments:
//
//   about 3 MB for each thread (float, D and Dv up to 256)
//   Dv sums for each row and each 2048 keys, if there are fewer pieces of work than threads
//   (decoding)
//   O(T + S) for a GridBias, AxesBias or PiecewiseLogBias
//   twice the elements of the relative vectors
//   D / 256 doubles for each key and query head, with gates of channels
//   four rows [D] for each key and key head, with Householder factors
//   a row [P] for each key and query head, with edges
//
// Throws std::invalid_argument if element types, devices or shapes do not match, the mask is
// invalid, or a strip bias does not contain a distance that occurs.
void attention(const AttentionInput& input, const AttentionPlan& plan, const Tensor& out,
               const Tensor& lse = {});

// Returns in one line which kernels a call of `attention` takes on this machine and why, for
// measurements. The arrays are not read. Throws as `attention`.
//
//   direct: 4 rows of a key head (at most 8) read keys and values where they are; float ...
std::string explain_attention(const AttentionInput& input, const AttentionPlan& plan);

// The outputs of the backward pass. q, k and v are required: they have the shapes and types of
// the inputs, and are gradients with respect to the unrotated q and k. A tensor without data or
// a null pointer means that the gradient is not computed. All outputs are overwritten.
struct AttentionGradient {
  Tensor q = {}, k = {}, v = {};
  BiasGradient* bias = nullptr;
  RelativeGradient* relative = nullptr;
  TokenTermGradients terms = {};
  std::span<double> sinks = {};   // [Hq]
  std::span<double> phases = {};  // [Hq, D], of AttentionPlan::polar
};

// Computes the gradients of `attention`. out and lse are the results of `attention`; out_grad
// [B, T, Hq, Dv] is the gradient of out. q, k, v and their gradients have one element type.
//
// Error bounds, with e = 2^-18 for float, 2^-46 for double, 2^-18 + 2 half ulps for half and
// bfloat16 (whose `out` is rounded); G = |out_grad| |v|, the greatest lengths of head vectors;
// w = the sum of the softmax weights of a key over all queries, at least 1; scores bounded as
// above:
//
//   q_grad: e scale G |k|
//   k_grad: e scale G |q| w
//   v_grad: e |out_grad| w
//   bias:   e G times the sum of the softmax weights (slope: weight x distance) of the entry
//   sinks:  e G times the sum of the sink's weights over queries
//   gates:  e G times the greatest |bias| of the row
//   slopes of keys: e G times the sum of the softmax weight x distance of the key
//   relative vectors: of keys e scale G |q|, of queries e scale G |k|, of values e |out_grad|,
//           projected e G |r|, times the sum of the softmax weights at the distances of the
//           vector
//   edges:  of queries e slope G times the sum of |b| over the keys that the query sees; of
//           keys likewise with |a| over the queries
//   relative queries r: e G times the greatest length of the vectors of each projected table
//   shift:  the sum of the errors of q_grad
//
// For bfloat16 with Softmax::rounds_weights, e is larger by 2^-8 for q_grad and v_grad and by
// 2^-7 for k_grad, as much as that rounding, and only on processors that multiply bfloat16. The
// gradients of biases, sinks and slopes are computed before the rounding.
//
// |q|, |k|, |v| are the lengths of queries (with the shift), keys and values, each plus the
// greatest length of the relative vectors that are added to them. A cap cannot be combined with
// relative vectors, nor rotated queries with a shift.
//
// Rows that do not see each other never reach each other, as in `attention`: a hidden key or
// value does not reach q_grad, and a query or row of out_grad does not reach k_grad and v_grad
// of keys that it does not see. Gradients of parameters are sums over all visible pairs.
//
// Deterministic, including the gradient of the bias. Threads divide the B Hk key heads. If
// these are fewer than 16, the queries of each are divided into up to 16 / (B Hk) parts, whose
// sums are added in order.
//
// Cost: 3 D + 2 Dv multiply-adds for each visible score. Memory beyond the arguments: S (D +
// Dv) sums for each thread, or for each part if queries are divided (then at most 32 MB); about
// 2 MB for each thread; and N doubles of a bias, or the elements of the relative vectors, for
// each part of the B Hq heads.
void attention_backward(const AttentionInput& input, const AttentionPlan& plan,
                        const ConstTensor& out, const ConstTensor& lse,
                        const ConstTensor& out_grad, const AttentionGradient& gradient);

}  // namespace gnomon
