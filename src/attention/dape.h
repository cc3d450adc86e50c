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

// Buffers of one piece of work.
struct DapeScratch {
  Carve<float> carve;
  float *columns, *x, *u, *v, *y, *u_grad, *x_grad, *x_rows, *v_rows, *first, *second;
  bool* seen;  // [dape_tile][dape_chunk]

  DapeScratch(const AttentionProblem& problem, std::int64_t hidden, bool backward, float* block)
      : carve(block) {
    const std::int64_t inputs = 2 * problem.heads;
    columns = carve.take(problem.key_heads * problem.size * dape_chunk);
    x = carve.take(inputs * dape_tile * dape_chunk);
    u = carve.take(hidden * dape_chunk), v = carve.take(hidden * dape_chunk);
    y = carve.take(problem.heads * dape_chunk);
    u_grad = carve.take(backward ? hidden * dape_chunk : 0);
    x_grad = carve.take(backward ? inputs * dape_chunk : 0);
    x_rows = carve.take(backward ? dape_chunk * padded(inputs) : 0);
    v_rows = carve.take(backward ? dape_chunk * padded(hidden) : 0);
    first = carve.take(backward ? hidden * padded(inputs) : 0);
    second = carve.take(backward ? problem.heads * padded(hidden) : 0);
    seen = reinterpret_cast<bool*>(carve.take(dape_tile * dape_chunk / 4));
    if (!block || !backward) return;
    std::fill_n(x_rows, dape_chunk * padded(inputs), 0.0F);
    std::fill_n(v_rows, dape_chunk * padded(hidden), 0.0F);
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
  struct Piece {
    std::int64_t b, query, count, key, keys;
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
  // Whether a query and a key are in one sequence.
  bool meets(std::int64_t b, std::int64_t query, std::int64_t key) const;
  // Calls body(piece, scratch, n) for chunks of keys.
  template <typename Body>
  void for_pieces(std::int64_t query, std::int64_t count, std::int64_t keys,
                  const Body& body) const {
    const std::int64_t chunks = (keys + dape_chunk - 1) / dape_chunk,
                       pieces = problem_.batch * chunks;
    if (!pieces) return;
    const bool backward = pass_ != DapePass::forward;
    ScratchPool<float> pool(at_once(pieces, 1),
                            Scratch(problem_, hidden_, backward, nullptr).carve.used());
    parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      float* block = pool.take();
      const Scratch at(problem_, hidden_, backward, block);
      for (std::int64_t n = begin; n < end; ++n) {
        const std::int64_t key = n % chunks * dape_chunk;
        body(Piece{n / chunks, query, count, key, std::min(dape_chunk, keys - key)}, at, n);
      }
      pool.give(block);
    });
  }
  void pack_columns(const Piece& piece, const Scratch& at) const;
  bool make_inputs(const Piece& piece, std::int64_t row, std::int64_t rows,
                   const Scratch& at) const;
  void hidden_layer(std::int64_t row, const Scratch& at) const;
  void backward_piece(const Piece& piece, const Scratch& at, bool of_bias,
                      double* network) const;
  void add_query_grad(std::int64_t query, std::int64_t count, std::int64_t keys,
                      View<float, 4> q_grad) const;
  void add_key_sums(std::int64_t query, std::int64_t count, std::int64_t keys,
                    DapeSums& sums) const;

  const AttentionProblem& problem_;
  DapePass pass_;
  std::int64_t hidden_, inputs_;  // M, 2 Hq
  float slope_;
  BiasRows bias_;
  std::vector<float> first_, first_bias_, second_, second_bias_;
  std::int64_t stride_, columns_, block_;
  Numbers<float> q_, k_;      // [B, Hq, T, stride], [B, Hk, S, stride]
  std::vector<char> finite_;  // [B, Hk], of packed keys
  bool finite_queries_ = true;
  Numbers<float> adapted_, grad_, bias_grad_;  // [B, Hq, block, columns]
};

}  // namespace gnomon::internal
