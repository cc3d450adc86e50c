// Graphs: positions of tokens given by edges between them instead of an order.
//
// A graph is built once from a list of edges (u, v) and does not change. An edge of an
// undirected graph gives two arcs, u -> v and v -> u; an edge of a directed graph gives one. An
// arc that is listed more than once counts once. A self loop (u, u) is one arc. It adds one to
// the in-degree and one to the out-degree of its node and is part of no shortest path.
//
// Letters: N nodes, numbered from 0; E edges of the list; A arcs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gnomon/view.h"

namespace gnomon {

enum class EdgeKind { undirected = 1, directed };

class Graph {
 public:
  static constexpr std::int64_t most_nodes = std::int64_t{1} << 31;

  Graph() = default;  // no nodes
  // edges: [E, 2]. Throws std::invalid_argument if `nodes` is not 0 to 2^31, a node of an edge
  // is not 0 to nodes - 1, `edges` is not [E, 2], or the kind is not set. Cost: O(N + E log E)
  // time; the graph stores 8 N + 12 A bytes.
  Graph(std::int64_t nodes, View<const std::int64_t, 2> edges, EdgeKind kind);

  std::int64_t nodes() const noexcept { return nodes_; }
  EdgeKind kind() const noexcept { return kind_; }
  std::int64_t arcs() const noexcept { return static_cast<std::int64_t>(heads_.size()); }
  // neighbours: the end nodes of the arcs that start at `node`, in increasing order. listed:
  // for each of these arcs its row in the list of edges, the last one if it is listed more than
  // once. `node` must be in range.
  std::span<const std::int32_t> neighbours(std::int64_t node) const noexcept;
  std::span<const std::int64_t> listed(std::int64_t node) const noexcept;

  bool operator==(const Graph&) const = default;

 private:
  std::int64_t nodes_ = 0;
  EdgeKind kind_ = EdgeKind::undirected;
  std::vector<std::int64_t> starts_ = {0};  // [N + 1]
  std::vector<std::int32_t> heads_;         // [A]
  std::vector<std::int64_t> rows_;          // [A]
};

// Returns the undirected path 0 - 1 - 2 - ... - (nodes - 1), the graph of a text. Throws
// std::invalid_argument if nodes is negative.
Graph path_graph(std::int64_t nodes);
// Returns the path closed to a ring. Throws std::invalid_argument if nodes < 3.
Graph ring_graph(std::int64_t nodes);

// Return the number of arcs from (out) or to (in) each node, [N].
std::vector<std::int64_t> out_degrees(const Graph& graph);
std::vector<std::int64_t> in_degrees(const Graph& graph);

// Returns the connected component of each node, ignoring the direction of arcs, [N].
// Components are numbered in the order of their lowest nodes.
std::vector<std::int64_t> components(const Graph& graph);

// Length of the shortest path between every two nodes, in arcs, and one such path.
//
// Among several shortest paths, the path of Graphormer's released code is stored: its
// Floyd-Warshall takes the nodes in increasing order and replaces a path only by a shorter one.
// This is the path whose highest intermediate node is lowest; the same rule holds recursively
// for the two parts of the path on either side of that node.
struct ShortestPaths {
  std::int64_t nodes = 0;               // N
  std::int32_t limit = 0;               // distances >= limit and unreachable pairs are `limit`
  std::vector<std::int32_t> distances;  // [N, N], from row to column; 0 to limit
  std::vector<std::int32_t> between;    // [N, N], highest intermediate node; -1 if there is
                                        // none or the distance is `limit`

  std::int32_t distance(std::int64_t from, std::int64_t to) const noexcept {
    return distances[static_cast<std::size_t>(from * nodes + to)];
  }
  bool operator==(const ShortestPaths&) const = default;
};

// Distance that stands for "not connected" in Graphormer's released code.
inline constexpr std::int64_t graphormer_unreachable = 510;
// Returns the shortest paths between all pairs of nodes, by a breadth-first search from each
// node. Cost: O(N (N + A)) time, 8 N^2 bytes. Throws std::invalid_argument if limit is not 1 to
// 2^31 - 1, or there are more than 2^16 nodes.
ShortestPaths shortest_paths(const Graph& graph, std::int64_t limit = graphormer_unreachable);

// Returns the nodes of the stored path, including `from` and `to`: distance + 1 nodes, or none
// if the distance is `limit`. Throws std::invalid_argument if a node is not in the graph.
std::vector<std::int64_t> nodes_between(const ShortestPaths& paths, std::int64_t from,
                                        std::int64_t to);

// Edges read from text.
struct EdgeList {
  std::int64_t nodes = 0;  // highest node number + 1, the least number of nodes of a Graph
  std::vector<std::int64_t> ends;  // [E, 2]

  View<const std::int64_t, 2> edges() const noexcept {
    return {ends.data(), {static_cast<std::int64_t>(ends.size() / 2), 2}};
  }
  bool operator==(const EdgeList&) const = default;
};

// Parses a list of edges. Each line has two node numbers, separated by blanks or tabs. Empty
// lines are skipped; '#' starts a comment. Lines end in "\n" or "\r\n". `name` is the name of
// the text in error messages.
//
// Throws FormatError with the line number and the byte offset if a line has another format, or
// a number is not 0 to 2^31 - 1. Cost: O(length of the text) time and memory. A Graph of the
// list can be much larger, since one line may contain node 2^31 - 1.
EdgeList parse_edges(std::string_view text, std::string_view name = "edges");

}  // namespace gnomon
