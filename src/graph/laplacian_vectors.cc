#include "gnomon/graph/laplacian_vectors.h"

#include <algorithm>
#include <cmath>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/embedding/laplacian.h"
#include "src/graph/eigenpairs.h"

namespace gnomon {

using internal::to_size;
namespace {

using std::int64_t;

// An eigenpair of one component.
struct Eigenpair {
  double value = 0;
  bool null = false;  // the pair of eigenvalue 0
  int64_t component = 0;
  std::vector<double> entries;  // values at the nodes of the component, in their order
};

// Returns the matrix of a component of several nodes. place[node]: row of the node.
internal::SparseMatrix matrix_of(const Laplacian& spec, const Graph& graph,
                                 const std::vector<int64_t>& nodes,
                                 const std::vector<int64_t>& degrees,
                                 const std::vector<int64_t>& place) {
  internal::SparseMatrix matrix{.size = static_cast<int64_t>(nodes.size()), .entries = {}};
  const bool symmetric = spec.kind == LaplacianKind::symmetric;
  for (const int64_t node : nodes) {
    const auto degree = static_cast<double>(degrees[to_size(node)]);
    double diagonal = symmetric ? 1 : degree;
    for (const int64_t other : graph.neighbours(node)) {
      const double arc =
          symmetric ? 1 / std::sqrt(degree * static_cast<double>(degrees[to_size(other)])) : 1;
      if (other == node)
        diagonal -= arc;
      else
        matrix.entries.push_back({place[to_size(node)], place[to_size(other)], -arc});
    }
    matrix.entries.push_back({place[to_size(node)], place[to_size(node)], diagonal});
  }
  return matrix;
}

// Returns the lowest pairs of one component, at most `most`.
void add_pairs(const Laplacian& spec, const Graph& graph, const std::vector<int64_t>& nodes,
               const std::vector<int64_t>& degrees, const std::vector<int64_t>& place,
               int64_t component, int64_t most, std::vector<Eigenpair>& pairs) {
  const bool symmetric = spec.kind == LaplacianKind::symmetric;
  const bool alone = degrees[to_size(nodes.front())] == 0;
  std::vector<double> null;
  double squares = 0;
  for (const int64_t node : nodes) {
    const double square = symmetric && !alone ? static_cast<double>(degrees[to_size(node)]) : 1;
    null.push_back(std::sqrt(square));
    squares += square;
  }
  for (double& entry : null) entry /= std::sqrt(squares);
  const auto size = static_cast<int64_t>(nodes.size());
  const int64_t count = std::min(most - 1, size - 1);
  internal::Eigenpairs found;
  if (count > 0)
    found =
        internal::lowest_eigenpairs(matrix_of(spec, graph, nodes, degrees, place), null, count);
  const bool one = symmetric && alone;
  pairs.push_back({one ? 1.0 : 0.0, !one, component, std::move(null)});
  for (int64_t i = 0; i < count; ++i) {
    const auto entries = found.vectors.begin() + i * size;
    pairs.push_back({found.values[to_size(i)], false, component, {entries, entries + size}});
  }
}

}  // namespace

LaplacianVectors laplacian_vectors(const Laplacian& laplacian, const Graph& graph,
                                   std::uint64_t seed) {
  internal::check(laplacian);
  if (graph.kind() != EdgeKind::undirected)
    refuse("laplacian", "the graph must be undirected", "directed");
  const std::vector<int64_t> numbers = components(graph);
  const std::vector<int64_t> degrees = out_degrees(graph);
  std::vector<std::vector<int64_t>> nodes;
  std::vector<int64_t> place(to_size(graph.nodes()));
  for (int64_t node = 0; node < graph.nodes(); ++node) {
    const int64_t number = numbers[to_size(node)];
    if (number == static_cast<int64_t>(nodes.size())) nodes.emplace_back();
    place[to_size(node)] = static_cast<int64_t>(nodes[to_size(number)].size());
    nodes[to_size(number)].push_back(node);
  }
  std::vector<Eigenpair> pairs;
  for (int64_t c = 0; c < static_cast<int64_t>(nodes.size()); ++c)
    add_pairs(laplacian, graph, nodes[to_size(c)], degrees, place, c, laplacian.vectors + 1,
              pairs);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Eigenpair& a, const Eigenpair& b) { return a.value < b.value; });
  const auto zeros = std::count_if(pairs.begin(), pairs.end(),
                                   [](const Eigenpair& pair) { return pair.null; });
  const int64_t all = static_cast<int64_t>(pairs.size());
  const int64_t skipped =
      laplacian.zeros == LaplacianZeros::skip_all ? int64_t{zeros} : std::min<int64_t>(1, all);

  LaplacianVectors vectors = internal::zero_vectors(laplacian, graph.nodes());
  vectors.found = std::min(laplacian.vectors, all - skipped);
  for (int64_t k = 0; k < vectors.found; ++k) {
    const Eigenpair& pair = pairs[to_size(skipped + k)];
    vectors.eigenvalues[to_size(k)] = pair.value;
    const std::vector<int64_t>& own = nodes[to_size(pair.component)];
    for (std::size_t i = 0; i < own.size(); ++i)
      vectors.values[to_size(own[i] * vectors.vectors + k)] = pair.entries[i];
  }
  return with_signs(laplacian, std::move(vectors), seed);
}

}  // namespace gnomon
