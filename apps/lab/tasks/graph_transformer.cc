#include "apps/lab/tasks/graph_transformer.h"

#include <cmath>

namespace gnomon::lab::graph_examples {

GraphBatch batch_of(const std::vector<GraphExample>& examples, const model::Mixture& mixture,
                    const std::vector<std::uint64_t>& sign_seeds) {
  std::vector<Graph> graphs;
  std::vector<at::Tensor> marks, targets;
  for (const GraphExample& one : examples) {
    graphs.push_back(one.graph);
    marks.push_back(at::tensor(one.marks, at::kLong));
    targets.push_back(at::tensor(one.targets, at::kLong));
  }
  return {features_of(mixture, graphs, sign_seeds), at::stack(marks), at::stack(targets)};
}

GraphTransformerImpl::GraphTransformerImpl(const Settings& settings,
                                           const model::Mixture& mixture, std::int64_t labels,
                                           std::uint64_t seed) {
  at::Generator shared = seeded_generator(2 * seed);
  marks_ =
      register_module("marks", drawn_embedding(2 + labels, settings.width,
                                               BidirectionalImpl::embedding_deviation, shared));
  layers_ = register_module("layers", Bidirectional(settings, shared));
  head_ = register_module("head", drawn_linear(settings.width, farthest + labels,
                                               BidirectionalImpl::weight_deviation, shared));
  position_ = register_module(
      "position", GraphEncoding(mixture, settings.width, seeded_generator(2 * seed + 1)));
}

// The bias is trained, so attention is composed of LibTorch's operators, for all encodings.
at::Tensor GraphTransformerImpl::forward(const GraphBatch& batch) {
  const at::Device device = head_->weight.device();
  GraphFeatures features = batch.features;
  for (at::Tensor* one :
       {&features.laplacian, &features.walk, &features.in, &features.out, &features.spatial})
    if (one->defined()) *one = one->to(device);
  const at::Tensor bias = position_->bias(features);
  const at::Tensor x =
      layers_(position_->embed(marks_(batch.marks.to(device)), features),
              [&](std::int64_t, const at::Tensor& qkv, const at::Tensor&) {
                const std::vector<at::Tensor> parts = qkv.transpose(1, 2).chunk(3, 1);
                const double scale = 1 / std::sqrt(static_cast<double>(qkv.size(3)));
                at::Tensor scores = at::matmul(parts[0] * scale, parts[1].transpose(-1, -2));
                if (bias.defined()) scores = scores + bias;
                return at::matmul(at::softmax(scores, -1), parts[2]).transpose(1, 2);
              });
  return head_(x);
}

}  // namespace gnomon::lab::graph_examples
