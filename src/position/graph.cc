#include "gnomon/position/graph.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/size.h"
#include "src/core/text.h"

namespace gnomon {

using internal::to_size;
namespace {

using std::int32_t;
using std::int64_t;

struct Arc {
  int64_t from, to, row;
};

Graph chain(int64_t nodes, int64_t edges) {
  std::vector<int64_t> ends;
  ends.reserve(to_size(2 * edges));
  for (int64_t i = 0; i < edges; ++i) {
    ends.push_back(i);
    ends.push_back((i + 1) % nodes);
  }
  return Graph(nodes, {ends.data(), {edges, 2}}, EdgeKind::undirected);
}

// Breadth-first search from one node: distances and highest intermediate nodes. `queue` must
// have space for all nodes.
void search(const Graph& graph, int64_t from, int32_t limit, int32_t* distance,
            int32_t* between, int32_t* queue) {
  std::fill_n(distance, graph.nodes(), limit);
  std::fill_n(between, graph.nodes(), -1);
  distance[from] = 0;
  queue[0] = static_cast<int32_t>(from);
  int64_t filled = 1;
  for (int64_t next = 0; next < filled; ++next) {
    const int32_t node = queue[next];
    const int32_t further = distance[node] + 1;
    if (further >= limit) break;
    // All nodes of the previous level have been processed, so between[node] is final.
    const int32_t highest = node == from ? -1 : std::max(between[node], node);
    for (const int32_t to : graph.neighbours(node)) {
      if (distance[to] == limit) {
        distance[to] = further;
        between[to] = highest;
        queue[filled++] = to;
      } else if (distance[to] == further) {
        between[to] = std::min(between[to], highest);
      }
    }
  }
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

Graph::Graph(int64_t nodes, View<const int64_t, 2> edges, EdgeKind kind)
    : nodes_(nodes), kind_(kind) {
  if (nodes < 0 || nodes > most_nodes)
    refuse("graph", "nodes must be 0 to " + std::to_string(most_nodes), nodes);
  if (kind != EdgeKind::undirected && kind != EdgeKind::directed)
    refuse("graph", "kind must be undirected or directed", static_cast<int>(kind));
  if (edges.extent(1) != 2 && edges.size())
    refuse("graph", "edges must be [E, 2]", shape_text(edges.extents()));
  const int64_t count = edges.size() / 2;
  for (int64_t e = 0; e < count; ++e)
    for (const int64_t node : {edges(e, 0), edges(e, 1)})
      if (node < 0 || node >= nodes)
        refuse("graph",
               "the nodes of edge " + std::to_string(e) + " must be 0 to " +
                   std::to_string(nodes - 1),
               node);
  std::vector<Arc> arcs;
  arcs.reserve(to_size(kind == EdgeKind::undirected ? 2 * count : count));
  for (int64_t e = 0; e < count; ++e) {
    const int64_t u = edges(e, 0), v = edges(e, 1);
    arcs.push_back({u, v, e});
    if (kind == EdgeKind::undirected && u != v) arcs.push_back({v, u, e});
  }
  std::sort(arcs.begin(), arcs.end(), [](const Arc& a, const Arc& b) {
    if (a.from != b.from) return a.from < b.from;
    return a.to != b.to ? a.to < b.to : a.row < b.row;
  });
  starts_.assign(to_size(nodes + 1), 0);
  for (std::size_t i = 0; i < arcs.size(); ++i) {
    const Arc& arc = arcs[i];
    if (i + 1 < arcs.size() && arcs[i + 1].from == arc.from && arcs[i + 1].to == arc.to)
      continue;
    ++starts_[to_size(arc.from + 1)];
    heads_.push_back(static_cast<int32_t>(arc.to));
    rows_.push_back(arc.row);
  }
  for (int64_t node = 0; node < nodes; ++node)
    starts_[to_size(node + 1)] += starts_[to_size(node)];
}

std::span<const int32_t> Graph::neighbours(int64_t node) const noexcept {
  return {heads_.data() + starts_[to_size(node)], heads_.data() + starts_[to_size(node + 1)]};
}

std::span<const int64_t> Graph::listed(int64_t node) const noexcept {
  return {rows_.data() + starts_[to_size(node)], rows_.data() + starts_[to_size(node + 1)]};
}

Graph path_graph(int64_t nodes) {
  if (nodes < 0) refuse("graph", "nodes of a path must not be negative", nodes);
  return chain(nodes, std::max<int64_t>(nodes - 1, 0));
}

Graph ring_graph(int64_t nodes) {
  if (nodes < 3) refuse("graph", "nodes of a ring must be at least 3", nodes);
  return chain(nodes, nodes);
}

std::vector<int64_t> out_degrees(const Graph& graph) {
  std::vector<int64_t> degrees(to_size(graph.nodes()));
  for (int64_t node = 0; node < graph.nodes(); ++node)
    degrees[to_size(node)] = static_cast<int64_t>(graph.neighbours(node).size());
  return degrees;
}

std::vector<int64_t> in_degrees(const Graph& graph) {
  std::vector<int64_t> degrees(to_size(graph.nodes()));
  for (int64_t node = 0; node < graph.nodes(); ++node)
    for (const int32_t to : graph.neighbours(node)) ++degrees[to_size(to)];
  return degrees;
}

std::vector<int64_t> components(const Graph& graph) {
  // Disjoint-set forest; the root of a tree is the lowest node of its component.
  std::vector<int64_t> parent(to_size(graph.nodes()));
  for (int64_t node = 0; node < graph.nodes(); ++node) parent[to_size(node)] = node;
  const auto root = [&](int64_t node) {
    while (parent[to_size(node)] != node)
      node = parent[to_size(node)] = parent[to_size(parent[to_size(node)])];
    return node;
  };
  for (int64_t node = 0; node < graph.nodes(); ++node)
    for (const int32_t to : graph.neighbours(node)) {
      const int64_t a = root(node), b = root(to);
      parent[to_size(std::max(a, b))] = std::min(a, b);
    }
  std::vector<int64_t> numbers(to_size(graph.nodes()));
  int64_t count = 0;
  for (int64_t node = 0; node < graph.nodes(); ++node) {
    const int64_t lowest = root(node);
    numbers[to_size(node)] = lowest == node ? count++ : numbers[to_size(lowest)];
  }
  return numbers;
}

ShortestPaths shortest_paths(const Graph& graph, int64_t limit) {
  constexpr int64_t most = int64_t{1} << 16, pieces = 64, piece_pairs = 1 << 14;
  if (limit < 1 || limit >= Graph::most_nodes)
    refuse("graph", "the distance limit must be 1 to 2147483647", limit);
  const int64_t nodes = graph.nodes();
  if (nodes > most)
    refuse("graph", "nodes of a matrix of distances must be at most 65536", nodes);
  ShortestPaths paths{.nodes = nodes,
                      .limit = static_cast<int32_t>(limit),
                      .distances = std::vector<int32_t>(to_size(nodes * nodes)),
                      .between = std::vector<int32_t>(to_size(nodes * nodes))};
  // There are at most 64 pieces, each with its own queue and large enough for a thread.
  const int64_t grain = std::max((nodes + pieces - 1) / pieces, piece_pairs / (nodes + 1) + 1);
  std::vector<int32_t> queues(to_size((nodes + grain - 1) / grain * nodes));
  parallel_for(nodes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t from = begin; from < end; ++from)
      search(graph, from, paths.limit, paths.distances.data() + from * nodes,
             paths.between.data() + from * nodes, queues.data() + begin / grain * nodes);
  });
  return paths;
}

std::vector<int64_t> nodes_between(const ShortestPaths& paths, int64_t from, int64_t to) {
  for (const int64_t node : {from, to})
    if (node < 0 || node >= paths.nodes)
      refuse("graph", "nodes must be 0 to " + std::to_string(paths.nodes - 1), node);
  if (paths.distance(from, to) == paths.limit) return {};
  std::vector<int64_t> nodes{from};
  std::vector<int64_t> ahead;  // nodes not yet reached, the next one last
  if (to != from) ahead.push_back(to);
  while (!ahead.empty()) {
    const int64_t next = ahead.back();
    const int32_t middle = paths.between[to_size(nodes.back() * paths.nodes + next)];
    if (middle >= 0) {
      ahead.push_back(middle);
    } else {
      nodes.push_back(next);
      ahead.pop_back();
    }
  }
  return nodes;
}

EdgeList parse_edges(std::string_view text, std::string_view name) {
  EdgeList list;
  int64_t line = 0;
  const char* const first = text.data();
  for (std::size_t begin = 0; begin < text.size();) {
    ++line;
    std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t next = end + 1;
    end = begin + std::min(text.substr(begin, end - begin).find('#'), end - begin);
    const auto fail = [&](std::size_t byte, const std::string& what) {
      throw FormatError(std::string(name), byte, "line " + std::to_string(line) + ": " + what);
    };
    int64_t ends[2];
    int count = 0;
    for (std::size_t i = begin; i < end;) {
      if (is_blank(text[i])) {
        ++i;
        continue;
      }
      std::size_t stop = i;
      while (stop < end && !is_blank(text[stop])) ++stop;
      const std::string_view word = text.substr(i, stop - i);
      if (count == 2)
        fail(i,
             "must be two node numbers, got " + internal::printable(word, 32) + " after them");
      const auto read = std::from_chars(first + i, first + stop, ends[count]);
      if (read.ec != std::errc() || read.ptr != first + stop || ends[count] < 0 ||
          ends[count] >= Graph::most_nodes)
        fail(i, "a node must be a number from 0 to 2147483647, got " +
                    internal::printable(word, 32));
      ++count;
      i = stop;
    }
    if (count == 1) fail(end, "must be two node numbers, got one");
    for (int i = 0; i < count; ++i) {
      list.ends.push_back(ends[i]);
      list.nodes = std::max(list.nodes, ends[i] + 1);
    }
    begin = next;
  }
  return list;
}

}  // namespace gnomon
