// The network of DAPE over blocks of queries (gnomon/attention/dape.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gnomon/attention/dape.h"
#include "gnomon/parallel.h"
#include "gnomon/view.h"
#include "src/attention/bias_rows.h"
#include "src/attention/problem.h"
#include "src/attention/scratch.h"

namespace gnomon::internal {

// Sums of gradients over the blocks of a backward pass, initially zero.
struct DapeSums {
  std::vector<double> bias;     // [Hq, N]
  std::vector<double> network;  // W1, W2, c1, c2; empty if not required
  std::int64_t bias_size = 0;   // N
  Numbers<float> keys;          // of packed keys [B, Hk, S, row_stride(D)]

  DapeSums(const AttentionProblem& problem, const Dape& dape, std::int64_t bias_numbers,
           bool of_network);
};

constexpr std::int64_t dape_tile = 16, dape_chunk = 128;  // queries, keys

enum class DapePass { forward = 1, backward, backward_with_bias };

// Sizes of the network and of a chunk of keys. The first convolution reads `half` columns on
// both sides of a hidden unit, and the second the hidden units on both sides of a result.
struct DapeSizes {
  std::int64_t heads, inputs, hidden, kernel;  // Hq, 2 Hq, M, K

  std::int64_t half() const { return kernel / 2; }
  // Columns of hidden units: from `half` before the chunk.
  std::int64_t hidden_columns() const { return padded(dape_chunk + 2 * half()); }
  // Columns of inputs: from 2 `half` before the chunk.
  std::int64_t input_columns() const { return padded(hidden_columns() + 2 * half()); }
};

// Buffers of one piece of work. `taps`: copies for each of the K columns that are read, one
// after another; null if K is 1.
struct DapeScratch {
  Carve<float> carve;
  float *columns, *x, *x_taps, *u, *v, *v_taps, *y;
  float *grad, *grad_taps, *u_grad, *u_grad_taps, *x_grad, *x_rows, *v_rows, *first, *second;
  bool* seen;  // [dape_tile][input_columns]

  DapeScratch(const AttentionProblem& problem, const DapeSizes& of, bool backward, float* block)
      : carve(block) {
    const std::int64_t taps = of.kernel > 1 ? of.kernel : 0, taken = backward ? 1 : 0;
    const std::int64_t wide = of.input_columns(), middle = of.hidden_columns();
    columns = carve.take(problem.key_heads * problem.size * wide);
    x = carve.take(of.inputs * dape_tile * wide);
    x_taps = carve.take(taps * of.inputs * middle);
    u = carve.take(of.hidden * middle), v = carve.take(of.hidden * middle);
    v_taps = carve.take(taps * of.hidden * dape_chunk);
    y = carve.take(of.heads * dape_chunk);
    seen = reinterpret_cast<bool*>(carve.take(dape_tile * wide / 4));
    grad = carve.take(taken * of.heads * wide);
    grad_taps = carve.take(taken * taps * of.heads * middle);
    u_grad = carve.take(taken * of.hidden * middle);
    u_grad_taps = carve.take(taken * taps * of.hidden * dape_chunk);
    x_grad = carve.take(taken * of.inputs * dape_chunk);
    const std::int64_t x_width = padded(of.kernel * of.inputs);
    const std::int64_t v_width = padded(of.kernel * of.hidden);
    x_rows = carve.take(taken * dape_chunk * x_width);
    v_rows = carve.take(taken * dape_chunk * v_width);
    first = carve.take(taken * of.hidden * x_width);
    second = carve.take(taken * of.heads * v_width);
    if (!block || !backward) return;
    std::fill_n(x_rows, dape_chunk * x_width, 0.0F);
    std::fill_n(v_rows, dape_chunk * v_width, 0.0F);
  }
};

class DapeCall {
 public:
  static constexpr std::int64_t block_queries = 64;  // of which the scores are stored

  // Packs the queries, times the softmax scale, and the keys. Refers to the arguments.
  DapeCall(const AttentionProblem& problem, const Dape& dape,
           const DapeNetwork<const float>& network, View<const float, 4> q,
           View<const float, 4> k, DapePass pass);

  // Computes the bias of `count` queries and the first `keys` keys: b + y, or 0 for hidden
  // pairs.
  void adapt(std::int64_t query, std::int64_t count, std::int64_t keys);
  View<const float, 4> adapted(std::int64_t count, std::int64_t keys) const {
    return matrix(adapted_, count, keys);
  }
  // The gradient of the adapted scores, which the caller writes before `backward`.
  View<float, 4> score_grad(std::int64_t count, std::int64_t keys) const {
    return matrix(grad_, count, keys);
  }
  // Adds the gradients through the network to those of the queries, [B, count, Hq, D], and to
  // the sums.
  void backward(std::int64_t query, std::int64_t count, std::int64_t keys,
                View<float, 4> q_grad, DapeSums& sums);
  // Adds the sums of the keys to their gradient.
  void add_key_grad(const DapeSums& sums, View<float, 4> k_grad) const;

 private:
  using Scratch = DapeScratch;
  // `count` queries and a chunk from `key` on, of `keys` keys.
  struct Piece {
    std::int64_t b, query, count, key, keys;
  };
  // Rows of floats, `stride` apart.
  struct Taps {
    const float* rows;
    std::int64_t stride;
  };

  View<float, 4> matrix(const Numbers<float>& numbers, std::int64_t count,
                        std::int64_t keys) const {
    return {numbers.data(),
            {problem_.batch, problem_.heads, count, keys},
            {problem_.heads * block_ * columns_, block_ * columns_, columns_, 1}};
  }
  const float* query_row(std::int64_t b, std::int64_t head, std::int64_t query) const {
    return q_.data() + ((b * problem_.heads + head) * problem_.queries + query) * stride_;
  }
  std::int64_t key_at(std::int64_t b, std::int64_t head, std::int64_t key) const {
    return ((b * problem_.key_heads + head) * problem_.keys + key) * stride_;
  }
  bool finite_keys(std::int64_t b, std::int64_t head) const {
    return finite_[static_cast<std::size_t>(b * problem_.key_heads + head)] != 0;
  }
  std::int64_t adapted_size() const;
  // Chunks of the keys, and of the hidden units after the last key.
  std::int64_t chunks_of(std::int64_t keys) const {
    return keys ? (keys + sizes_.half() + dape_chunk - 1) / dape_chunk : 0;
  }
  // Whether a query and a key are in one sequence.
  bool meets(std::int64_t b, std::int64_t query, std::int64_t key) const;
  // Calls body(piece, scratch, n) for chunks of keys.
  template <typename Body>
  void for_pieces(std::int64_t query, std::int64_t count, std::int64_t keys,
                  const Body& body) const {
    const std::int64_t chunks = chunks_of(keys), pieces = problem_.batch * chunks;
    if (!pieces) return;
    const bool backward = pass_ != DapePass::forward;
    ScratchPool<float> pool(at_once(pieces, 1),
                            Scratch(problem_, sizes_, backward, nullptr).carve.used());
    parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      float* block = pool.take();
      const Scratch at(problem_, sizes_, backward, block);
      for (std::int64_t n = begin; n < end; ++n) {
        body(Piece{n / chunks, query, count, n % chunks * dape_chunk, keys}, at, n);
      }
      pool.give(block);
    });
  }
  void pack_columns(const Piece& piece, const Scratch& at) const;
  bool make_inputs(const Piece& piece, std::int64_t row, std::int64_t rows,
                   const Scratch& at) const;
  Taps input_taps(std::int64_t row, const Scratch& at) const;
  Taps hidden_taps(const Scratch& at) const;
  std::int64_t columns_before(const Piece& piece, std::int64_t row) const;
  void hidden_layer(const Piece& piece, std::int64_t row, std::int64_t r,
                    const Scratch& at) const;
  void input_gradient(const Piece& piece, std::int64_t row, std::int64_t r,
                      const Scratch& at) const;
  void add_weight_gradient(std::int64_t r, const Scratch& at, double* constants) const;
  void backward_piece(const Piece& piece, const Scratch& at, bool of_bias,
                      double* network) const;
  void add_query_grad(std::int64_t query, std::int64_t count, std::int64_t keys,
                      View<float, 4> q_grad) const;
  void add_key_sums(std::int64_t query, std::int64_t count, std::int64_t keys,
                    DapeSums& sums) const;

  const AttentionProblem& problem_;
  DapePass pass_;
  DapeSizes sizes_;
  float slope_;
  BiasRows bias_;
  // W1 [M, K, 2 Hq] and [2 Hq, K, M], W2 [Hq, K, M] and [M, K, Hq].
  std::vector<float> first_, first_back_, second_, second_back_;
  std::vector<float> first_bias_, second_bias_;
  std::vector<std::int64_t> begins_;  // [B, T]: the first key of the sequence; empty: 0
  std::int64_t stride_, columns_, block_;
  Numbers<float> q_, k_;      // [B, Hq, T, stride], [B, Hk, S, stride]
  std::vector<char> finite_;  // [B, Hk], of packed keys
  bool finite_queries_ = true;
  Numbers<float> adapted_, grad_, bias_grad_;  // [B, Hq, block, columns]
};

}  // namespace gnomon::internal
