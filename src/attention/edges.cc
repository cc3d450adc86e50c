#include "src/attention/edges.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/attention/key_terms.h"
#include "src/attention/problem.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr const char* edge_operation = "attention";

View<const float, 4> term_of(const AttentionPlan& plan, std::string_view name,
                             const ConstTensor& term) {
  if (term.has_data() && !plan.edges)
    refuse(edge_operation,
           std::string(name) + " must not be given, because the plan has no edges", "a tensor");
  return read_if<float, 4>({edge_operation, name}, term);
}

int64_t edge_sums(const AttentionProblem& problem, int64_t parts) {
  return checked_product(
      edge_operation, "batch x heads x parts x keys x size",
      {problem.batch, problem.heads, parts, problem.keys, row_stride(problem.edges.size())});
}

}  // namespace

void take_edges(const AttentionPlan& plan, const TokenTerms& terms, AttentionProblem& problem) {
  EdgeTerms& edges = problem.edges;
  edges.queries = term_of(plan, "edge_queries", terms.edge_queries);
  edges.keys = term_of(plan, "edge_keys", terms.edge_keys);
  if (!plan.edges) return;
  edges.bias = &*plan.edges;
  const int64_t size = edges.size();
  if ((problem.keys && !edges.keys.data()) || (problem.queries && !edges.queries.data()))
    refuse(edge_operation,
           "edge_queries and edge_keys must be given, because the plan has edges", "none");
  if (problem.keys)
    check_shape<4>(edge_operation, "edge_keys", edges.keys.extents(),
                   {problem.batch, problem.keys, problem.heads, size});
  if (problem.queries)
    check_shape<4>(edge_operation, "edge_queries", edges.queries.extents(),
                   {problem.batch, problem.queries, problem.heads, size});
  if (std::ssize(edges.bias->slopes) != problem.heads)
    refuse(edge_operation, "edges must have " + std::to_string(problem.heads) + " slopes",
           std::ssize(edges.bias->slopes));
  for (const double slope : edges.bias->slopes)
    if (!(slope >= 0 && std::isfinite(slope)))
      refuse(edge_operation, "slopes of edges must be finite and not negative", slope);
  if (!plan.edge_rotary) return;
  edges.rotary = &*plan.edge_rotary;
  const RotaryFrequencies& frequencies = edges.rotary->frequencies();
  if (edges.rotary->tokens() != problem.keys ||
      (edges.rotary->batch() != 1 && edges.rotary->batch() != problem.batch))
    refuse(edge_operation,
           "the rotary table of edges must have 1 row or B, and a token for each key, " +
               std::to_string(problem.keys),
           edges.rotary->tokens());
  if (frequencies.head_offset || frequencies.rotary_dim() != size)
    refuse(edge_operation,
           "the rotary table of edges must rotate all elements of edge_keys, " +
               std::to_string(size),
           frequencies.rotary_dim());
}

template <typename A>
EdgeRows<A>::EdgeRows(const AttentionProblem& problem)
    : heads_(problem.heads),
      keys_(problem.keys),
      stride_(row_stride(problem.edges.size())),
      // A tile of keys is read to the end of a whole vector.
      rows_((checked_product(edge_operation, "batch x heads x keys",
                             {problem.batch, problem.heads, problem.keys}) +
             padded(1)) *
            stride_) {
  parallel_for(problem.batch * keys_, 64, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t b = n / keys_, j = n % keys_;
      const std::int32_t* sequence = sequences(problem.position.keys, b);
      if (sequence && sequence[j] == Positions::padding) continue;
      for (int64_t h = 0; h < heads_; ++h) {
        A* row = rows_.data() + ((b * heads_ + h) * keys_ + j) * stride_;
        for (int64_t p = 0; p < problem.edges.size(); ++p)
          row[p] = static_cast<A>(problem.edges.keys(b, j, h, p));
        rotate(problem, b, j, Direction::inverse, row);
      }
    }
  });
}

template <typename A>
void EdgeRows<A>::rotate(const AttentionProblem& problem, int64_t b, int64_t key,
                         Direction direction, A* row) {
  const RotaryTable* table = problem.edges.rotary;
  if (!table) return;
  const bool halves = table->frequencies().pairing == Pairing::halves;
  const int64_t pairs = problem.edges.size() / 2, of = table->batch() == 1 ? 0 : b;
  for (int64_t n = 0; n < pairs; ++n) {
    A& one = row[halves ? n : 2 * n];
    A& two = row[halves ? n + pairs : 2 * n + 1];
    const A cos = table->cos()(of, key, n), sin = table->sin()(of, key, n);
    const A turn = direction == Direction::forward ? sin : -sin, first = one;
    one = first * cos - two * turn, two = first * turn + two * cos;
  }
}

template <typename A>
EdgeGradients<A>::EdgeGradients(const TokenTermGradients& gradients,
                                BackwardProblem<A>& problem)
    : problem_(problem),
      keys_(term_gradient("edge_keys", gradients.edge_keys, problem.edges.keys)),
      sums_(keys_.data() ? edge_sums(problem, problem.parts) : 0) {
  problem.edge_query_grad =
      term_gradient("edge_queries", gradients.edge_queries, problem.edges.queries);
  if (keys_.data()) problem.edge_key_sums = sums_.data();
}

template <typename A>
void EdgeGradients<A>::finish() const {
  if (!keys_.data()) return;
  const int64_t parts = problem_.parts, keys = problem_.keys, heads = problem_.heads;
  const int64_t stride = row_stride(problem_.edges.size());
  parallel_for(problem_.batch * heads * keys, 64, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t row = n / keys, j = n % keys, b = row / heads;
      A* sum = sums_.data() + (row * parts * keys + j) * stride;
      for (int64_t part = 1; part < parts; ++part)
        for (int64_t p = 0; p < problem_.edges.size(); ++p)
          sum[p] += sum[part * keys * stride + p];
      EdgeRows<A>::rotate(problem_, b, j, Direction::forward, sum);
      for (int64_t p = 0; p < problem_.edges.size(); ++p)
        keys_(b, j, row % heads, p) = static_cast<float>(sum[p]);
    }
  });
}

template class EdgeRows<float>;
template class EdgeRows<double>;
template class EdgeGradients<float>;
template class EdgeGradients<double>;

}  // namespace gnomon::internal
