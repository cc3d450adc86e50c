#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "gnomon/parallel.h"
#include "src/attention/dape.h"
#include "src/attention/matrix_product.h"
#include "src/core/size.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr std::string_view network_operation = "dape_attention";

// [rows, K, columns] of a matrix [rows, columns K].
std::vector<float> by_tap(View<const float, 2> matrix, int64_t kernel) {
  std::vector<float> values;
  const int64_t columns = matrix.extent(1) / kernel;
  for (std::ptrdiff_t i = 0; i < matrix.extent(0); ++i)
    for (int64_t t = 0; t < kernel; ++t)
      for (int64_t j = 0; j < columns; ++j) values.push_back(matrix(i, j * kernel + t));
  return values;
}
// [columns, K, rows].
std::vector<float> by_tap_back(View<const float, 2> matrix, int64_t kernel) {
  std::vector<float> values;
  const int64_t columns = matrix.extent(1) / kernel;
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t t = 0; t < kernel; ++t)
      for (std::ptrdiff_t i = 0; i < matrix.extent(0); ++i)
        values.push_back(matrix(i, j * kernel + t));
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
      sizes_{problem.heads, 2 * problem.heads, dape.hidden, dape.kernel},
      slope_(static_cast<float>(dape.negative_slope)),
      bias_(problem),
      first_(by_tap(network.first, dape.kernel)),
      first_back_(by_tap_back(network.first, dape.kernel)),
      second_(by_tap(network.second, dape.kernel)),
      second_back_(by_tap_back(network.second, dape.kernel)),
      first_bias_(copy_of(network.first_bias)),
      second_bias_(copy_of(network.second_bias)),
      stride_(row_stride(problem.size)),
      columns_(chunks_of(problem.keys) * dape_chunk),
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
  if (!problem.position.keys || sizes_.half() == 0) return;
  for (int64_t b = 0; b < problem.batch; ++b) {
    std::unordered_map<std::int32_t, int64_t> first;
    for (int64_t j = 0; j < problem.keys; ++j)
      first.emplace(sequences(problem.position.keys, b)[j], j);
    for (int64_t i = 0; i < problem.queries; ++i) {
      const auto found = first.find(sequences(problem.position.queries, b)[i]);
      begins_.push_back(found == first.end() ? 0 : found->second);
    }
  }
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

// The keys of a piece as columns [Hk, D, input_columns], with zeros where there is no key.
void DapeCall::pack_columns(const Piece& piece, const Scratch& at) const {
  const int64_t wide = sizes_.input_columns(), first = piece.key - 2 * sizes_.half();
  const int64_t begin = std::clamp<int64_t>(-first, 0, wide);
  const int64_t end = std::clamp(piece.keys - first, begin, wide);
  for (int64_t g = 0; g < problem_.key_heads; ++g)
    for (int64_t d = 0; d < problem_.size; ++d) {
      float* to = at.columns + (g * problem_.size + d) * wide;
      const float* from = k_.data() + key_at(piece.b, g, 0) + d;
      std::fill(to, to + begin, 0.0F);
      for (int64_t j = begin; j < end; ++j) to[j] = from[(first + j) * stride_];
      std::fill(to + end, to + wide, 0.0F);
    }
}

// Computes x [2 Hq][dape_tile][input_columns] of rows of a piece: scores and biases, or 0 for
// hidden pairs. Returns whether a pair is seen.
bool DapeCall::make_inputs(const Piece& piece, int64_t row, int64_t rows,
                           const Scratch& at) const {
  const int64_t wide = sizes_.input_columns(), first = piece.key - 2 * sizes_.half();
  bool any = false;
  for (int64_t r = 0; r < rows; ++r) {
    const KeyRange range = visible_keys(problem_, piece.b, piece.query + row + r);
    const int64_t end = std::min(range.end, piece.keys);
    for (int64_t j = 0; j < wide; ++j) {
      const int64_t key = first + j;
      const bool sees =
          key >= range.begin && key < end && meets(piece.b, piece.query + row + r, key);
      at.seen[r * wide + j] = sees;
      any = any || sees;
    }
  }
  if (!any) return false;
  for (int64_t h = 0; h < problem_.heads; ++h) {
    float* scores = at.x + h * dape_tile * wide;
    store_product({.rows = rows,
                   .depth = problem_.size,
                   .columns = wide,
                   .a = query_row(piece.b, h, piece.query + row),
                   .a_stride = stride_,
                   .b = at.columns + h / problem_.group() * problem_.size * wide,
                   .b_row = wide,
                   .c = scores,
                   .c_row = wide});
    float* biases = at.x + (problem_.heads + h) * dape_tile * wide;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < wide;) {
        const bool* seen = at.seen + r * wide;
        int64_t end = j + 1;
        while (end < wide && seen[end] == seen[j]) ++end;
        if (seen[j]) {
          bias_.fill(piece.b, h, piece.query + row + r, first + j, end - j,
                     biases + r * wide + j);
        } else {
          std::fill(scores + r * wide + j, scores + r * wide + end, 0.0F);
          std::fill(biases + r * wide + j, biases + r * wide + end, 0.0F);
        }
        j = end;
      }
  }
  return true;
}

// The inputs of each hidden unit of row r: [K, 2 Hq] rows of hidden_columns.
DapeCall::Taps DapeCall::input_taps(int64_t r, const Scratch& at) const {
  const int64_t wide = sizes_.input_columns(), middle = sizes_.hidden_columns();
  const float* x = at.x + r * wide;
  if (sizes_.kernel == 1) return {x, dape_tile * wide};
  for (int64_t t = 0; t < sizes_.kernel; ++t)
    for (int64_t n = 0; n < sizes_.inputs; ++n)
      std::copy_n(x + n * dape_tile * wide + t, middle,
                  at.x_taps + (t * sizes_.inputs + n) * middle);
  return {at.x_taps, middle};
}

// The hidden units of each result: [K, M] rows of dape_chunk columns.
DapeCall::Taps DapeCall::hidden_taps(const Scratch& at) const {
  const int64_t middle = sizes_.hidden_columns();
  if (sizes_.kernel == 1) return {at.v, middle};
  for (int64_t t = 0; t < sizes_.kernel; ++t)
    for (int64_t m = 0; m < sizes_.hidden; ++m)
      std::copy_n(at.v + m * middle + t, dape_chunk,
                  at.v_taps + (t * sizes_.hidden + m) * dape_chunk);
  return {at.v_taps, dape_chunk};
}

// Returns the number of hidden columns before the first key of the sequence of a query.
int64_t DapeCall::columns_before(const Piece& piece, int64_t row) const {
  const int64_t begin =
      begins_.empty() ? 0 : begins_[to_size(piece.b * problem_.queries + piece.query + row)];
  return std::clamp<int64_t>(begin - (piece.key - sizes_.half()), 0, sizes_.hidden_columns());
}

// Computes u = W1 x + c1 and v = leaky(u) of query row + r, whose inputs are row r of x. v is 0
// before the first key of the sequence.
void DapeCall::hidden_layer(const Piece& piece, int64_t row, int64_t r,
                            const Scratch& at) const {
  const int64_t middle = sizes_.hidden_columns();
  const Taps taps = input_taps(r, at);
  store_product({.rows = sizes_.hidden,
                 .depth = sizes_.kernel * sizes_.inputs,
                 .columns = middle,
                 .a = first_.data(),
                 .a_stride = sizes_.kernel * sizes_.inputs,
                 .b = taps.rows,
                 .b_row = taps.stride,
                 .c = at.u,
                 .c_row = middle});
  const int64_t before = columns_before(piece, row + r);
  add_leaky(sizes_.hidden, middle, first_bias_.data(), slope_, at.u, at.v);
  for (int64_t m = 0; m < sizes_.hidden; ++m) std::fill_n(at.v + m * middle, before, 0.0F);
}

void DapeCall::adapt(int64_t query, int64_t count, int64_t keys) {
  const int64_t wide = sizes_.input_columns();
  for_pieces(query, count, keys, [&](const Piece& piece, const Scratch& at, int64_t) {
    pack_columns(piece, at);
    for (int64_t row = 0; row < count; row += dape_tile) {
      const int64_t rows = std::min(dape_tile, count - row);
      const bool any = make_inputs(piece, row, rows, at);
      for (int64_t r = 0; r < rows; ++r) {
        if (any) {
          hidden_layer(piece, row, r, at);
          const Taps taps = hidden_taps(at);
          store_product({.rows = sizes_.heads,
                         .depth = sizes_.kernel * sizes_.hidden,
                         .columns = dape_chunk,
                         .a = second_.data(),
                         .a_stride = sizes_.kernel * sizes_.hidden,
                         .b = taps.rows,
                         .b_row = taps.stride,
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
          const float* bias =
              at.x + ((problem_.heads + h) * dape_tile + r) * wide + 2 * sizes_.half();
          const float* y = at.y + h * dape_chunk;
          const float constant = second_bias_[to_size(h)];
          for (int64_t j = 0; j < dape_chunk; ++j) to[j] = bias[j] + (y[j] + constant);
        }
      }
    }
  });
}

}  // namespace gnomon::internal
