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

int64_t network_size(int64_t hidden, int64_t heads) {
  return hidden * 2 * heads + heads * hidden + hidden + heads;
}

// to [columns][padded(rows)] = from [rows][columns], each row `stride` apart.
void transpose(const float* from, int64_t rows, std::ptrdiff_t stride, float* to) {
  const int64_t width = padded(rows);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < dape_chunk; ++j) to[j * width + r] = from[r * stride + j];
}

}  // namespace

DapeSums::DapeSums(const AttentionProblem& problem, const Dape& dape, int64_t bias_numbers,
                   bool of_network)
    : bias(to_size(checked_product(gradient_operation, "heads x values",
                                   {problem.heads, bias_numbers}))),
      network(to_size(of_network ? network_size(dape.hidden, problem.heads) : 0)),
      bias_size(bias_numbers),
      keys(checked_product(
          gradient_operation, "batch x key heads x keys x head_dim",
          {problem.batch, problem.key_heads, problem.keys, row_stride(problem.size)})) {}

// Replaces the gradient of the adapted scores by that of the scores before the network, without
// that of the scores themselves, and writes the gradient of the biases if it is required. Adds
// the gradient of the network to `network`, or null.
void DapeCall::backward_piece(const Piece& piece, const Scratch& at, bool of_bias,
                              double* network) const {
  const int64_t heads = problem_.heads, x_width = padded(inputs_), v_width = padded(hidden_);
  const std::ptrdiff_t head_stride = block_ * columns_;
  pack_columns(piece, at);
  for (int64_t row = 0; row < piece.count; row += dape_tile) {
    const int64_t rows = std::min(dape_tile, piece.count - row);
    const std::ptrdiff_t at_row = (piece.b * heads * block_ + row) * columns_ + piece.key;
    if (!make_inputs(piece, row, rows, at)) {
      for (int64_t r = 0; r < rows && of_bias; ++r)
        for (int64_t h = 0; h < heads; ++h)
          std::fill_n(bias_grad_.data() + at_row + h * head_stride + r * columns_, dape_chunk,
                      0.0F);
      continue;
    }
    std::fill_n(at.first, hidden_ * x_width, 0.0F);
    std::fill_n(at.second, heads * v_width, 0.0F);
    double* const first_bias =
        network ? network + hidden_ * inputs_ + heads * hidden_ : nullptr;
    for (int64_t r = 0; r < rows; ++r) {
      hidden_layer(r, at);
      float* grad = grad_.data() + at_row + r * columns_;
      std::fill_n(at.u_grad, hidden_ * dape_chunk, 0.0F);
      add_transposed_product({.rows = hidden_,
                              .depth = heads,
                              .columns = dape_chunk,
                              .a = second_.data(),
                              .a_stride = hidden_,
                              .b = grad,
                              .b_row = head_stride,
                              .c = at.u_grad,
                              .c_row = dape_chunk});
      for (int64_t n = 0; n < hidden_ * dape_chunk; ++n)
        at.u_grad[n] *= at.u[n] < 0 ? slope_ : 1.0F;
      std::fill_n(at.x_grad, inputs_ * dape_chunk, 0.0F);
      add_transposed_product({.rows = inputs_,
                              .depth = hidden_,
                              .columns = dape_chunk,
                              .a = first_.data(),
                              .a_stride = inputs_,
                              .b = at.u_grad,
                              .b_row = dape_chunk,
                              .c = at.x_grad,
                              .c_row = dape_chunk});
      if (network) {
        transpose(at.x + r * dape_chunk, inputs_, dape_tile * dape_chunk, at.x_rows);
        transpose(at.v, hidden_, dape_chunk, at.v_rows);
        add_product({.rows = hidden_,
                     .depth = dape_chunk,
                     .columns = x_width,
                     .a = at.u_grad,
                     .a_stride = dape_chunk,
                     .b = at.x_rows,
                     .b_row = x_width,
                     .c = at.first,
                     .c_row = x_width});
        add_product({.rows = heads,
                     .depth = dape_chunk,
                     .columns = v_width,
                     .a = grad,
                     .a_stride = head_stride,
                     .b = at.v_rows,
                     .b_row = v_width,
                     .c = at.second,
                     .c_row = v_width});
        for (int64_t m = 0; m < hidden_; ++m)
          for (int64_t j = 0; j < dape_chunk; ++j)
            first_bias[m] += double{at.u_grad[m * dape_chunk + j]};
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t j = 0; j < dape_chunk; ++j)
            first_bias[hidden_ + h] += double{grad[h * head_stride + j]};
      }
      for (int64_t h = 0; h < heads; ++h) {
        float* of_head = grad + h * head_stride;
        if (of_bias) {
          float* to = bias_grad_.data() + at_row + r * columns_ + h * head_stride;
          const float* through = at.x_grad + (heads + h) * dape_chunk;
          for (int64_t j = 0; j < dape_chunk; ++j) to[j] = of_head[j] + through[j];
        }
        std::copy_n(at.x_grad + h * dape_chunk, dape_chunk, of_head);
      }
    }
    if (!network) continue;
    for (int64_t m = 0; m < hidden_; ++m)
      for (int64_t n = 0; n < inputs_; ++n)
        network[m * inputs_ + n] += double{at.first[m * x_width + n]};
    double* const second = network + hidden_ * inputs_;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t m = 0; m < hidden_; ++m)
        second[h * hidden_ + m] += double{at.second[h * v_width + m]};
  }
}

void DapeCall::add_query_grad(int64_t query, int64_t count, int64_t keys,
                              View<float, 4> q_grad) const {
  const int64_t begin = visible_keys(problem_, query).begin;
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
                   .a = grad_.data() + n * block_ * columns_ + begin,
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
  const int64_t begin = visible_keys(problem_, query).begin, group = problem_.group();
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
             .a = grad_.data() + (b * problem_.heads + head) * block_ * columns_ + begin,
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
  const int64_t pieces = problem_.batch * ((keys + dape_chunk - 1) / dape_chunk);
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
          const KeyRange range = visible_keys(problem_, query + i);
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
