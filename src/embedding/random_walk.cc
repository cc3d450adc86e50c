#include "gnomon/embedding/random_walk.h"

#include <algorithm>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/size.h"

namespace gnomon {

using internal::to_size;
namespace {

using std::int32_t;
using std::int64_t;

// Probability distribution of the position of a walk. All zero between uses.
struct Walker {
  std::vector<double> now, next;
  std::vector<int32_t> here, there;  // nodes with nonzero probability, in the order of
                                     // discovery
  std::vector<char> met;

  explicit Walker(int64_t nodes)
      : now(to_size(nodes)), next(to_size(nodes)), met(to_size(nodes)) {
    here.reserve(to_size(nodes));
    there.reserve(to_size(nodes));
  }

  void walk(const Graph& graph, int64_t from, int64_t steps, double* returned) {
    here.assign(1, static_cast<int32_t>(from));
    now[to_size(from)] = 1;
    for (int64_t k = 0; k < steps; ++k) {
      there.clear();
      for (const int32_t node : here) {
        const auto arcs = graph.neighbours(node);
        const double share = now[to_size(node)] / static_cast<double>(arcs.size());
        now[to_size(node)] = 0;
        for (const int32_t to : arcs) {
          if (!met[to_size(to)]) {
            met[to_size(to)] = 1;
            there.push_back(to);
          }
          next[to_size(to)] += share;
        }
      }
      for (const int32_t node : there) met[to_size(node)] = 0;
      here.swap(there);
      now.swap(next);
      returned[k] = now[to_size(from)];
    }
    for (const int32_t node : here) now[to_size(node)] = 0;
  }
};

}  // namespace

ReturnProbabilities return_probabilities(const RandomWalk& walk, const Graph& graph) {
  if (walk.steps < 1) refuse("random_walk", "steps must be at least 1", walk.steps);
  const int64_t nodes = graph.nodes();
  ReturnProbabilities result{.nodes = nodes,
                             .steps = walk.steps,
                             .values = std::vector<double>(internal::checked_size(
                                 "random_walk", "nodes x steps", {nodes, walk.steps}))};
  if (!nodes) return result;
  // One walker per piece. All walkers together have about 2^22 nodes at most.
  const int64_t pieces = std::clamp<int64_t>((int64_t{1} << 22) / nodes, 1, 64);
  const int64_t grain = std::max<int64_t>((nodes - 1) / pieces + 1, 256);
  std::vector<Walker> walkers(to_size((nodes - 1) / grain + 1), Walker(nodes));
  // Copies of a walker have no capacity, and a piece must not throw.
  for (Walker& walker : walkers) {
    walker.here.reserve(to_size(nodes));
    walker.there.reserve(to_size(nodes));
  }
  parallel_for(nodes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t node = begin; node < end; ++node)
      walkers[to_size(begin / grain)].walk(graph, node, walk.steps,
                                           result.values.data() + node * walk.steps);
  });
  return result;
}

}  // namespace gnomon
