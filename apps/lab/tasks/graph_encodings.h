// Encodings of the nodes of given graphs: the features of gnomon::graph and gnomon::core, with
// trained projections and tables.
//
//   laplacian     eigenvectors of the symmetric Laplacian times the square root of the number
//                 of nodes, projected and added to the nodes; random signs in training
//                 (Dwivedi et al. 2020, arXiv:2003.00982)
//   random-walk   return probabilities, projected and added to the nodes
//   degree        vectors by degree, added to the nodes
//   graphormer    a bias by distance in the graph, added to the scores
//
// Letters: B graphs, N nodes, C width, H heads.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"
#include "apps/lab/model/candidate.h"
#include "gnomon/model/encoding.h"
#include "gnomon/position/graph.h"

namespace gnomon::lab::graph_examples {

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
  at::Tensor laplacian;  // [B, N, K]
  at::Tensor walk;       // [B, N, K]
  at::Tensor in, out;    // [B, N], rows of the tables by degree
  at::Tensor spatial;    // [B, N, N], rows of the table by distance
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

}  // namespace gnomon::lab::graph_examples
