// Examples of the task graph: a graph, marks on some of its nodes, and a class for each other
// node. The model sees the edges through its encoding only.
//
//   distance    One node is marked as the source. The class of a node is its distance from the
//               source: 1, 2, .. 5, or 6 and more. Graphs: trees, grids, connected Erdos-Renyi
//               graphs in turn, or connected parts of a user's graph.
//   community   A stochastic block model of three equal communities: 5 edges of a node lead to
//               its own community and 1.5 to the others, on average. One node of each community
//               is marked with its class. Of a user's graph: nodes of the training part are
//               marked with their labels, and the others have the label as class.
//
// Nodes are numbered in a random order. Letters: N nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/task.h"
#include "gnomon/position/graph.h"

namespace gnomon::lab::graph_examples {

constexpr std::int64_t farthest = 6, communities = 3;
constexpr std::int64_t least_nodes = 8, most_nodes = 1024;  // limits of an example

enum class Question { distance = 1, community };
enum class Shape { tree = 1, grid, random };  // kinds of graphs with distances

struct GraphExample {
  Graph graph;
  Question question;
  std::vector<std::int64_t> marks;    // [N]: 0 none, 1 source, 2 + label
  std::vector<std::int64_t> targets;  // [N]: distance - 1, or farthest + label, or uncounted
};

// A user's graph with labels of some nodes.
struct LabelledGraph : TaskData {
  Graph graph;
  std::vector<std::string> names;    // label names, in the order of their first node
  std::vector<std::int64_t> labels;  // [nodes], -1: none
  // A hash of the node chooses its part: of five nodes three train, one validates, one tests.
  std::vector<Part> parts;
  std::vector<std::int64_t> starts;  // the nodes of the largest component
  std::string digest;                // hash of the files
};

// Reads a list of edges (parse_edges) and a list of labels: lines "node label", '#' starts a
// comment. Throws std::invalid_argument or FormatError if a file is malformed, has more than
// 2^20 nodes or 1000 labels, has no label in one of the parts, or if its largest connected
// component has less than `nodes` nodes.
LabelledGraph read_labelled_graph(const std::string& edges, const std::string& labels,
                                  std::int64_t nodes);

Graph generated(Shape shape, std::int64_t nodes, Draws& draws);

// The example with this number, a pure function of the arguments. Even numbers are about
// distances. data: null for generated graphs.
GraphExample graph_example(const LabelledGraph* data, Part part, std::int64_t nodes,
                           std::uint64_t seed, std::uint64_t number);

std::int64_t label_count(const LabelledGraph* data);

}  // namespace gnomon::lab::graph_examples
