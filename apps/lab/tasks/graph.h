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
// Nodes are numbered in a random order.
//
// Letters: B graphs, N nodes, C width, H heads.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/tasks/bidirectional.h"
#include "gnomon/model/encoding.h"
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
  std::vector<Part> parts;           // by a hash of the node
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

// The encodings of the nodes of a graph, with trained projections and tables:
//
//   laplacian     eigenvectors of the symmetric Laplacian times the square root of the number
//                 of nodes, projected and added to the nodes; random signs in training
//                 (Dwivedi et al. 2020, arXiv:2003.00982)
//   random-walk   return probabilities, projected and added to the nodes
//   degree        vectors by degree, added to the nodes
//   graphormer    a bias by distance in the graph, added to the scores
constexpr std::int64_t laplacian_vectors_used = 16, walk_steps = 16;
constexpr std::int64_t degree_rows_used = 18;  // degrees up to 16; larger ones share the last
constexpr std::int64_t spatial_limit = 10;     // distances of at least this share one value

// The encodings of an entry of --encodings, such as "laplacian" or "degree+graphormer". Throws
// std::invalid_argument if one of them is not an encoding of graphs, or if layers differ.
model::Mixture graph_mixture(const std::string& scheme, const Settings& settings);

// find_candidate(name), with summaries of the encodings as this task uses them: those of the
// list describe the path graph of a text.
Candidate describe_entry(const std::string& name, const Settings& settings);

// Tensors that the encodings of a mixture read from a batch of graphs. Undefined: not required.
struct GraphFeatures {
  at::Tensor laplacian, walk;  // [B, N, K]
  at::Tensor in, out;          // [B, N], rows of the tables by degree
  at::Tensor spatial;          // [B, N, N], rows of the table by distance
};
// The graphs have the same number of nodes. sign_seeds: for random signs of eigenvectors, one
// for each graph; empty: fixed signs.
GraphFeatures features_of(const model::Mixture& mixture, const std::vector<Graph>& graphs,
                          const std::vector<std::uint64_t>& sign_seeds);

class GraphEncodingImpl : public torch::nn::Module {
 public:
  GraphEncodingImpl(const model::Mixture& mixture, std::int64_t width, at::Generator generator);

  at::Tensor embed(at::Tensor x, const GraphFeatures& features);  // x: [B, N, C]
  // The bias of the scores, [B, H, N, N]. Undefined if no encoding has one.
  at::Tensor bias(const GraphFeatures& features);

 private:
  torch::nn::Linear laplacian_{nullptr}, walk_{nullptr};
  torch::nn::Embedding in_{nullptr}, out_{nullptr}, spatial_{nullptr};
};
TORCH_MODULE(GraphEncoding);

// Examples with the same number of nodes.
struct GraphBatch {
  GraphFeatures features;
  at::Tensor marks, targets;  // [B, N]
};
// sign_seeds: as for features_of.
GraphBatch batch_of(const std::vector<GraphExample>& examples, const model::Mixture& mixture,
                    const std::vector<std::uint64_t>& sign_seeds);

// A bidirectional Transformer over the nodes of a graph. A node is embedded by its mark. Edges
// enter through the encoding only.
class GraphTransformerImpl : public torch::nn::Module {
 public:
  // Weights that all mixtures have in common depend on `seed` only.
  GraphTransformerImpl(const Settings& settings, const model::Mixture& mixture,
                       std::int64_t labels, std::uint64_t seed);

  // Returns logits [B, N, farthest + labels].
  at::Tensor forward(const GraphBatch& batch);

 private:
  torch::nn::Embedding marks_{nullptr};
  Bidirectional layers_{nullptr};
  torch::nn::Linear head_{nullptr};
  GraphEncoding position_{nullptr};
};
TORCH_MODULE(GraphTransformer);

}  // namespace gnomon::lab::graph_examples
