// The model of the task graph: a bidirectional Transformer over the nodes of a graph. A node is
// embedded by its mark. Edges enter through the encoding only.
//
// Letters: B graphs, N nodes.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <vector>

#include "apps/lab/tasks/bidirectional.h"
#include "apps/lab/tasks/graph_data.h"
#include "apps/lab/tasks/graph_encodings.h"

namespace gnomon::lab::graph_examples {

// Examples with the same number of nodes.
struct GraphBatch {
  GraphFeatures features;
  at::Tensor marks, targets;  // [B, N]
};
// sign_seeds: as for features_of.
GraphBatch batch_of(const std::vector<GraphExample>& examples, const model::Mixture& mixture,
                    const std::vector<std::uint64_t>& sign_seeds);

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
