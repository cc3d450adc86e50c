// The gradients of DAPE (src/attention/dape.h).
#include <algorithm>
#include <string_view>

#include "gnomon/parallel.h"
#include "src/attention/dape.h"
#include "src/attention/matrix_product.h"
#include "src/core/size.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr std::string_view gradient_operation = "dape_attention";

int64_t network_size(const Dape& dape, int64_t heads) {
  return 3 * heads * dape.hidden * dape.kernel + dape.hidden + heads;
}

// to [columns][padded(rows)] = from [rows][columns], each row `stride` apart.
void transpose(const float* from, int64_t rows, std::int64_t stride, float* to) {
  const int64_t width = padded(rows);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < dape_chunk; ++j) to[j * width + r] = from[r * stride + j];
}

}  // namespace

DapeSums::DapeSums(const AttentionProblem& problem, const Dape& dape, int64_t bias_numbers,
                   bool of_network)
    : bias(to_size(checked_product(gradient_operation, "heads x values",
                                   {problem.heads, bias_numbers}))),
      network(to_size(of_network ? network_size(dape, problem.heads) : 0)),
      bias_size(bias_numbers),
      keys(checked_product(
          gradient_operation, "batch x key heads x keys x head_dim",
          {problem.batch, problem.key_heads, problem.keys, row_stride(problem.size)})) {}

// Computes the gradient of the inputs of query row + r, x_grad [2 Hq][dape_chunk], from that of
// the adapted scores, grad [Hq][input_columns]; also that of u.
void DapeCall::input_gradient(const Piece& piece, int64_t row, int64_t r,
                              const Scratch& at) const {
  const int64_t wide = sizes_.input_columns(), middle = sizes_.hidden_columns();
  const int64_t kernel = sizes_.kernel, hidden = sizes_.hidden, heads = sizes_.heads;
  for (int64_t h = 0; h < heads; ++h) {
    const float* from = grad_.data() + ((piece.b * heads + h) * block_ + row + r) * columns_;
    for (int64_t j = 0; j < wide; ++j) {
      const int64_t key = piece.key - 2 * sizes_.half() + j;
      at.grad[h * wide + j] = key >= 0 && key < piece.keys ? from[key] : 0.0F;
    }
  }
  for (int64_t t = 0; t < kernel && kernel > 1; ++t)
    for (int64_t h = 0; h < heads; ++h)
      std::copy_n(at.grad + h * wide + kernel - 1 - t, middle,
                  at.grad_taps + (t * heads + h) * middle);
  store_product({.rows = hidden,
                 .depth = kernel * heads,
                 .columns = middle,
                 .a = second_back_.data(),
                 .a_stride = kernel * heads,
                 .b = kernel > 1 ? at.grad_taps : at.grad,
                 .b_row = middle,
                 .c = at.u_grad,
                 .c_row = middle});
  const int64_t before = columns_before(piece, row + r);
  leaky_backward(hidden * middle, at.u, slope_, at.u_grad);
  for (int64_t m = 0; m < hidden; ++m) std::fill_n(at.u_grad + m * middle, before, 0.0F);
  for (int64_t t = 0; t < kernel && kernel > 1; ++t)
    for (int64_t m = 0; m < hidden; ++m)
      std::copy_n(at.u_grad + m * middle + kernel - 1 - t, dape_chunk,
                  at.u_grad_taps + (t * hidden + m) * dape_chunk);
  store_product({.rows = sizes_.inputs,
                 .depth = kernel * hidden,
                 .columns = dape_chunk,
                 .a = first_back_.data(),
                 .a_stride = kernel * hidden,
                 .b = kernel > 1 ? at.u_grad_taps : at.u_grad,
                 .b_row = kernel > 1 ? dape_chunk : middle,
                 .c = at.x_grad,
                 .c_row = dape_chunk});
}

// Adds the gradients of the weights of row r to those of the tile, and those of the constants
// c1 and c2 to `constants`: of the hidden units and results of the chunk.
void DapeCall::add_weight_gradient(int64_t r, const Scratch& at, double* constants) const {
  const int64_t wide = sizes_.input_columns(), middle = sizes_.hidden_columns();
  const int64_t kernel = sizes_.kernel, half = sizes_.half();
  const int64_t inputs = kernel * sizes_.inputs, hidden = kernel * sizes_.hidden;
  const float* own = at.u_grad + half;
  const Taps of_inputs =
      kernel == 1 ? Taps{at.x + r * wide, dape_tile * wide} : Taps{at.x_taps + half, middle};
  transpose(of_inputs.rows, inputs, of_inputs.stride, at.x_rows);
  const Taps of_hidden = hidden_taps(at);
  transpose(of_hidden.rows, hidden, of_hidden.stride, at.v_rows);
  add_product({.rows = sizes_.hidden,
               .depth = dape_chunk,
               .columns = padded(inputs),
               .a = own,
               .a_stride = middle,
               .b = at.x_rows,
               .b_row = padded(inputs),
               .c = at.first,
               .c_row = padded(inputs)});
  add_product({.rows = sizes_.heads,
               .depth = dape_chunk,
               .columns = padded(hidden),
               .a = at.grad + 2 * half,
               .a_stride = wide,
               .b = at.v_rows,
               .b_row = padded(hidden),
               .c = at.second,
               .c_row = padded(hidden)});
  for (int64_t m = 0; m < sizes_.hidden; ++m)
    for (int64_t j = 0; j < dape_chunk; ++j) constants[m] += double{own[m * middle + j]};
  for (int64_t h = 0; h < sizes_.heads; ++h)
    for (int64_t j = 0; j < dape_chunk; ++j)
      constants[sizes_.hidden + h] += double{at.grad[h * wide + 2 * half + j]};
}

// Replaces the adapted bias by the gradient of the scores through the network, and writes the
// gradient of the biases if it is required. Adds the gradient of the network to `network`, or
// null.
void DapeCall::backward_piece(const Piece& piece, const Scratch& at, bool of_bias,
                              double* network) const {
  const int64_t heads = sizes_.heads, kernel = sizes_.kernel, wide = sizes_.input_columns();
  const int64_t x_width = padded(kernel * sizes_.inputs);
  const int64_t v_width = padded(kernel * sizes_.hidden);
  const std::int64_t head_stride = block_ * columns_;
  pack_columns(piece, at);
  for (int64_t row = 0; row < piece.count; row += dape_tile) {
    const int64_t rows = std::min(dape_tile, piece.count - row);
    const bool any = make_inputs(piece, row, rows, at);
    std::fill_n(at.first, sizes_.hidden * x_width, 0.0F);
    std::fill_n(at.second, heads * v_width, 0.0F);
    for (int64_t r = 0; r < rows; ++r) {
      if (any) {
        hidden_layer(piece, row, r, at);
        input_gradient(piece, row, r, at);
        if (network) add_weight_gradient(r, at, network + 3 * heads * sizes_.hidden * kernel);
      }
      const bool* seen = at.seen + r * wide + 2 * sizes_.half();
      for (int64_t h = 0; h < heads; ++h) {
        const std::int64_t to =
            (piece.b * heads + h) * head_stride + (row + r) * columns_ + piece.key;
        const float* of_scores = at.x_grad + h * dape_chunk;
        const float* of_biases = at.x_grad + (heads + h) * dape_chunk;
        const float* direct = at.grad + h * wide + 2 * sizes_.half();
        for (int64_t j = 0; j < dape_chunk; ++j) {
          adapted_.data()[to + j] = any && seen[j] ? of_scores[j] : 0.0F;
          if (of_bias)
            bias_grad_.data()[to + j] = any && seen[j] ? direct[j] + of_biases[j] : 0.0F;
        }
      }
    }
    if (!any || !network) continue;
    for (int64_t m = 0; m < sizes_.hidden; ++m)
      for (int64_t n = 0; n < sizes_.inputs; ++n)
        for (int64_t t = 0; t < kernel; ++t)
          network[(m * sizes_.inputs + n) * kernel + t] +=
              double{at.first[m * x_width + t * sizes_.inputs + n]};
    double* const second = network + sizes_.hidden * sizes_.inputs * kernel;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t m = 0; m < sizes_.hidden; ++m)
        for (int64_t t = 0; t < kernel; ++t)
          second[(h * sizes_.hidden + m) * kernel + t] +=
              double{at.second[h * v_width + t * sizes_.hidden + m]};
  }
}

void DapeCall::add_query_grad(int64_t query, int64_t count, int64_t keys,
                              View<float, 4> q_grad) const {
  const int64_t begin = visible_keys(problem_, 0, query).begin;
  const int64_t pairs = problem_.batch * problem_.heads, width = padded(problem_.size);
  if (begin >= keys) return;
  ScratchPool<float> pool(at_once(pairs, 1), count * stride_);
  const auto scale = static_cast<float>(problem_.softmax.scale);
  parallel_for(pairs, 1, [&](int64_t first, int64_t last) {
    float* sums = pool.take();
    for (int64_t n = first; n < last; ++n) {
      const int64_t b = n / problem_.heads, h = n % problem_.heads;
      const int64_t g = h / problem_.group();
      std::fill_n(sums, count * stride_, 0.0F);
      add_product({.rows = count,
                   .depth = keys - begin,
                   .columns = width,
                   .a = adapted_.data() + n * block_ * columns_ + begin,
                   .a_stride = columns_,
                   .b = k_.data() + key_at(b, g, begin),
                   .b_row = stride_,
                   .c = sums,
                   .c_row = stride_,
                   .finite = finite_keys(b, g)});
      for (int64_t i = 0; i < count; ++i)
        for (int64_t d = 0; d < problem_.size; ++d)
          q_grad(b, i, h, d) += scale * sums[i * stride_ + d];
    }
    pool.give(sums);
  });
}

void DapeCall::add_key_sums(int64_t query, int64_t count, int64_t keys, DapeSums& sums) const {
  const int64_t begin = visible_keys(problem_, 0, query).begin, group = problem_.group();
  if (begin >= keys) return;
  const int64_t pairs = problem_.batch * problem_.key_heads;
  parallel_for(pairs, 1, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n)
      for (int64_t h = 0; h < group; ++h) {
        const int64_t b = n / problem_.key_heads, head = n % problem_.key_heads * group + h;
        add_transposed_product(
            {.rows = keys - begin,
             .depth = count,
             .columns = padded(problem_.size),
             .a = adapted_.data() + (b * problem_.heads + head) * block_ * columns_ + begin,
             .a_stride = columns_,
             .b = query_row(b, head, query),
             .b_row = stride_,
             .c = sums.keys.data() + (n * problem_.keys + begin) * stride_,
             .c_row = stride_,
             .finite = finite_queries_});
      }
  });
}

void DapeCall::backward(int64_t query, int64_t count, int64_t keys, View<float, 4> q_grad,
                        DapeSums& sums) {
  const bool of_bias = pass_ == DapePass::backward_with_bias;
  const int64_t numbers = static_cast<int64_t>(sums.network.size());
  const int64_t pieces = problem_.batch * chunks_of(keys);
  std::vector<double> of_pieces(to_size(pieces * numbers));
  for_pieces(query, count, keys, [&](const Piece& piece, const Scratch& at, int64_t n) {
    backward_piece(piece, at, of_bias, numbers ? of_pieces.data() + n * numbers : nullptr);
  });
  for (int64_t n = 0; n < pieces * numbers; ++n)
    sums.network[to_size(n % numbers)] += of_pieces[to_size(n)];
  add_query_grad(query, count, keys, q_grad);
  add_key_sums(query, count, keys, sums);
  if (!of_bias) return;
  parallel_for(problem_.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h)
      for (int64_t b = 0; b < problem_.batch; ++b)
        for (int64_t i = 0; i < count; ++i) {
          const KeyRange range = visible_keys(problem_, b, query + i);
          const float* grad =
              bias_grad_.data() + ((b * problem_.heads + h) * block_ + i) * columns_;
          const int64_t last = std::min(range.end, keys);
          for (int64_t j = range.begin; j < last;) {  // runs of keys that the query sees
            const bool meeting = meets(b, query + i, j);
            int64_t run = j + 1;
            while (run < last && meets(b, query + i, run) == meeting) ++run;
            if (meeting)
              bias_.add_gradient(b, h, query + i, j, run - j, grad + j,
                                 sums.bias.data() + h * sums.bias_size);
            j = run;
          }
        }
  });
}

void DapeCall::add_key_grad(const DapeSums& sums, View<float, 4> k_grad) const {
  for (int64_t b = 0; b < problem_.batch; ++b)
    for (int64_t g = 0; g < problem_.key_heads; ++g)
      for (int64_t j = 0; j < problem_.keys; ++j)
        for (int64_t d = 0; d < problem_.size; ++d)
          k_grad(b, j, g, d) += sums.keys.data()[key_at(b, g, j) + d];
}

}  // namespace gnomon::internal
