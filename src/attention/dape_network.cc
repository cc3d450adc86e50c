#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "gnomon/parallel.h"
#include "src/attention/dape.h"
#include "src/attention/matrix_product.h"
#include "src/core/size.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr std::string_view network_operation = "dape_attention";

std::vector<float> copy_of(View<const float, 2> matrix) {
  std::vector<float> values;
  for (std::ptrdiff_t i = 0; i < matrix.extent(0); ++i)
    for (std::ptrdiff_t j = 0; j < matrix.extent(1); ++j) values.push_back(matrix(i, j));
  return values;
}
std::vector<float> copy_of(View<const float, 1> vector) {
  std::vector<float> values;
  for (std::ptrdiff_t i = 0; i < vector.extent(0); ++i) values.push_back(vector(i));
  return values;
}

int64_t matrix_size(std::string_view what, std::initializer_list<int64_t> factors) {
  return checked_product(network_operation, what, factors);
}

}  // namespace

DapeCall::DapeCall(const AttentionProblem& problem, const Dape& dape,
                   const DapeNetwork<const float>& network, View<const float, 4> q,
                   View<const float, 4> k, DapePass pass)
    : problem_(problem),
      pass_(pass),
      hidden_(dape.hidden),
      inputs_(2 * problem.heads),
      slope_(static_cast<float>(dape.negative_slope)),
      bias_(problem),
      first_(copy_of(network.first)),
      first_bias_(copy_of(network.first_bias)),
      second_(copy_of(network.second)),
      second_bias_(copy_of(network.second_bias)),
      stride_(row_stride(problem.size)),
      columns_((problem.keys + dape_chunk - 1) / dape_chunk * dape_chunk),
      block_(std::min(block_queries, problem.queries)),
      q_(matrix_size("batch x heads x queries x head_dim",
                     {problem.batch, problem.heads, problem.queries, stride_})),
      k_(matrix_size("batch x key heads x keys x head_dim",
                     {problem.batch, problem.key_heads, problem.keys, stride_})),
      finite_(to_size(problem.batch * problem.key_heads), 1),
      adapted_(adapted_size()),
      grad_(pass == DapePass::forward ? 0 : adapted_size()),
      bias_grad_(pass == DapePass::backward_with_bias ? adapted_size() : 0) {
  const auto scale = static_cast<float>(problem.softmax.scale);
  for (int64_t b = 0; b < problem.batch; ++b)
    for (int64_t h = 0; h < problem.heads; ++h)
      for (int64_t i = 0; i < problem.queries; ++i) {
        float* to = q_.data() + ((b * problem.heads + h) * problem.queries + i) * stride_;
        for (int64_t d = 0; d < problem.size; ++d) {
          to[d] = scale * q(b, i, h, d);
          finite_queries_ = finite_queries_ && std::isfinite(to[d]);
        }
      }
  parallel_for(problem.batch * problem.key_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      for (int64_t j = 0; j < problem.keys; ++j) {
        float* to = k_.data() + (n * problem.keys + j) * stride_;
        for (int64_t d = 0; d < problem.size; ++d) {
          to[d] = k(n / problem.key_heads, j, n % problem.key_heads, d);
          if (!std::isfinite(to[d])) finite_[to_size(n)] = 0;
        }
      }
  });
}

bool DapeCall::meets(int64_t b, int64_t query, int64_t key) const {
  const std::int32_t* of_query = sequences(problem_.position.queries, b);
  if (!of_query) return true;
  return of_query[query] == sequences(problem_.position.keys, b)[key] &&
         of_query[query] != Positions::padding;
}

int64_t DapeCall::adapted_size() const {
  return matrix_size("batch x heads x queries of a block x keys",
                     {problem_.batch, problem_.heads, block_, columns_});
}

// The keys of a piece as columns [Hk, D, dape_chunk], with zeros past the last.
void DapeCall::pack_columns(const Piece& piece, const Scratch& at) const {
  for (int64_t g = 0; g < problem_.key_heads; ++g) {
    float* to = at.columns + g * problem_.size * dape_chunk;
    const float* from = k_.data() + key_at(piece.b, g, piece.key);
    for (int64_t d = 0; d < problem_.size; ++d) {
      for (int64_t j = 0; j < piece.keys; ++j) to[d * dape_chunk + j] = from[j * stride_ + d];
      std::fill(to + d * dape_chunk + piece.keys, to + (d + 1) * dape_chunk, 0.0F);
    }
  }
}

// Computes x [2 Hq][dape_tile][dape_chunk] of rows of a piece: scores and biases, or 0 for hidden pairs.
// Returns whether a pair is seen.
bool DapeCall::make_inputs(const Piece& piece, int64_t row, int64_t rows,
                           const Scratch& at) const {
  bool any = false;
  for (int64_t r = 0; r < rows; ++r) {
    const KeyRange range = visible_keys(problem_, piece.query + row + r);
    for (int64_t j = 0; j < dape_chunk; ++j) {
      const int64_t key = piece.key + j;
      const bool sees = j < piece.keys && key >= range.begin && key < range.end &&
                        meets(piece.b, piece.query + row + r, key);
      at.seen[r * dape_chunk + j] = sees;
      any = any || sees;
    }
  }
  if (!any) return false;
  for (int64_t h = 0; h < problem_.heads; ++h) {
    float* scores = at.x + h * dape_tile * dape_chunk;
    store_product({.rows = rows,
                   .depth = problem_.size,
                   .columns = dape_chunk,
                   .a = query_row(piece.b, h, piece.query + row),
                   .a_stride = stride_,
                   .b = at.columns + h / problem_.group() * problem_.size * dape_chunk,
                   .b_row = dape_chunk,
                   .c = scores,
                   .c_row = dape_chunk});
    float* biases = at.x + (problem_.heads + h) * dape_tile * dape_chunk;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < dape_chunk;) {
        const bool* seen = at.seen + r * dape_chunk;
        int64_t end = j + 1;
        while (end < dape_chunk && seen[end] == seen[j]) ++end;
        if (seen[j]) {
          bias_.fill(piece.b, h, piece.query + row + r, piece.key + j, end - j,
                     biases + r * dape_chunk + j);
        } else {
          std::fill(scores + r * dape_chunk + j, scores + r * dape_chunk + end, 0.0F);
          std::fill(biases + r * dape_chunk + j, biases + r * dape_chunk + end, 0.0F);
        }
        j = end;
      }
  }
  return true;
}

// Computes u = W1 x + c1 and v = leaky(u) of row `row` of the inputs.
void DapeCall::hidden_layer(int64_t row, const Scratch& at) const {
  store_product({.rows = hidden_,
                 .depth = inputs_,
                 .columns = dape_chunk,
                 .a = first_.data(),
                 .a_stride = inputs_,
                 .b = at.x + row * dape_chunk,
                 .b_row = dape_tile * dape_chunk,
                 .c = at.u,
                 .c_row = dape_chunk});
  for (int64_t m = 0; m < hidden_; ++m) {
    float* u = at.u + m * dape_chunk;
    float* v = at.v + m * dape_chunk;
    const float bias = first_bias_[to_size(m)];
    for (int64_t j = 0; j < dape_chunk; ++j) {
      u[j] += bias;
      v[j] = u[j] < 0 ? slope_ * u[j] : u[j];
    }
  }
}

void DapeCall::adapt(int64_t query, int64_t count, int64_t keys) {
  for_pieces(query, count, keys, [&](const Piece& piece, const Scratch& at, int64_t) {
    pack_columns(piece, at);
    for (int64_t row = 0; row < count; row += dape_tile) {
      const int64_t rows = std::min(dape_tile, count - row);
      const bool any = make_inputs(piece, row, rows, at);
      for (int64_t r = 0; r < rows; ++r) {
        if (any) {
          hidden_layer(r, at);
          store_product({.rows = problem_.heads,
                         .depth = hidden_,
                         .columns = dape_chunk,
                         .a = second_.data(),
                         .a_stride = hidden_,
                         .b = at.v,
                         .b_row = dape_chunk,
                         .c = at.y,
                         .c_row = dape_chunk});
        }
        for (int64_t h = 0; h < problem_.heads; ++h) {
          float* to = adapted_.data() +
                      ((piece.b * problem_.heads + h) * block_ + row + r) * columns_ +
                      piece.key;
          if (!any) {
            std::fill_n(to, dape_chunk, 0.0F);
            continue;
          }
          const float* bias = at.x + ((problem_.heads + h) * dape_tile + r) * dape_chunk;
          const float* y = at.y + h * dape_chunk;
          const float constant = second_bias_[to_size(h)];
          for (int64_t j = 0; j < dape_chunk; ++j) to[j] = bias[j] + (y[j] + constant);
        }
      }
    }
  });
}

}  // namespace gnomon::internal
