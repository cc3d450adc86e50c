// Reader: src/position/graph.cc
#include <string_view>

#include "fuzz/target.h"
#include "gnomon/position/graph.h"

namespace gnomon::fuzz {
namespace edges_fuzz {

bool read(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return taken(bytes.size(), [&] {
    const EdgeList list = parse_edges(text, "fuzz");
    require(2 * list.ends.size() <= bytes.size() + 1);
    if (list.nodes > 1 << 16) return;  // the graph of a line may be large
    const Graph graph(list.nodes, list.edges(), EdgeKind::undirected);
    require(graph.arcs() <= static_cast<std::int64_t>(list.ends.size()));
    require(components(graph).size() == static_cast<std::size_t>(list.nodes));
    std::int64_t arcs = 0;
    for (const std::int64_t degree : out_degrees(graph)) arcs += degree;
    for (const std::int64_t degree : in_degrees(graph)) arcs -= degree;
    require(arcs == 0);
    if (list.nodes < 2 || list.nodes > 64) return;
    answered([&] { Graph(list.nodes - 1, list.edges(), EdgeKind::directed); });
    answered([&] { require(path_graph(list.nodes).arcs() == 2 * (list.nodes - 1)); });
    answered([&] { require(ring_graph(list.nodes).nodes() == list.nodes); });
    const ShortestPaths paths = shortest_paths(graph);
    const auto between = nodes_between(paths, 0, list.nodes - 1);
    require(between.empty() || std::ssize(between) == paths.distance(0, list.nodes - 1) + 1);
  });
}

const Register registered("edges", read);

}  // namespace edges_fuzz
}  // namespace gnomon::fuzz
