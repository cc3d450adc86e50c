#include "apps/lab/tasks/graph.h"

#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "apps/lab/data/lists.h"
#include "gnomon/error.h"
#include "gnomon/graph/laplacian_vectors.h"
#include "gnomon/model/scheme.h"

namespace gnomon::lab::graph_examples {
namespace {

template <typename T>
const T* find(const model::Mixture& mixture) {
  for (const model::Encoding& one : mixture)
    if (const T* found = std::get_if<T>(&one)) return found;
  return nullptr;
}

struct Described {
  model::Encoding encoding;
  std::string summary;
};

// The settings of an encoding in this task. `nodes` is that of a path of text, unused here.
Described for_graphs(const model::Encoding& encoding, const std::string& name,
                     const Settings& s) {
  if (std::holds_alternative<model::NoPosition>(encoding))
    return {encoding, "no encoding: the edges of the graph are not seen"};
  if (std::holds_alternative<model::PathLaplacian>(encoding))
    return {
        model::PathLaplacian{.nodes = 0,
                             .width = s.width,
                             .laplacian = {.vectors = laplacian_vectors_used,
                                           .kind = LaplacianKind::symmetric,
                                           .zeros = LaplacianZeros::skip_one,
                                           .signs = LaplacianSigns::random}},
        fmt::format("the {} lowest eigenvectors of the symmetric Laplacian of the graph but "
                    "the first, with random signs in training, projected by a trained matrix",
                    laplacian_vectors_used)};
  if (std::holds_alternative<model::PathRandomWalk>(encoding))
    return {
        model::PathRandomWalk{.nodes = 0, .width = s.width, .walk = {.steps = walk_steps}},
        fmt::format("the probabilities that a random walk is back at its node after 1 to {} "
                    "steps, projected by a trained matrix",
                    walk_steps)};
  if (std::holds_alternative<model::PathDegree>(encoding))
    return {model::PathDegree{.nodes = 0,
                              .degree = {.rows = degree_rows_used,
                                         .width = s.width,
                                         .beyond = DegreeBeyond::capped}},
            fmt::format(
                "a trained vector for each degree of a node; degrees of {} and more share one",
                degree_rows_used - 2)};
  if (std::holds_alternative<Graphormer>(encoding))
    return {Graphormer{.heads = s.heads,
                       .unreachable = spatial_limit,
                       .token = GraphToken::none,
                       .given = GivenBias::once},
            fmt::format("a trained bias for each head and each distance in the graph; pairs of "
                        "nodes at distances of {} and more, or without a path, share one",
                        spatial_limit)};
  refuse("lab",
         "--task graph requires encodings of graphs: none, laplacian, random-walk, degree, "
         "graphormer, or several joined with +",
         name);
}

std::vector<Described> all_for_graphs(const std::string& scheme, const Settings& settings) {
  const model::Scheme layers = model::parse_scheme(
      scheme,
      {settings.width, settings.heads, settings.train_length, Visibility::bidirectional},
      settings.layers);
  const model::Mixture& first = layers.layers[0];
  if (layers != model::every_layer(first, settings.layers))
    refuse("lab", "--task graph requires the same encodings in every layer", scheme);
  std::vector<Described> all;
  for (const model::Encoding& one : first) all.push_back(for_graphs(one, scheme, settings));
  return all;
}

std::vector<double> eigenvectors(const Laplacian& training, const Graph& graph,
                                 std::optional<std::uint64_t> sign_seed) {
  Laplacian spec = training;
  if (!sign_seed) spec.signs = LaplacianSigns::fixed;
  std::vector<double> values = laplacian_vectors(spec, graph, sign_seed.value_or(0)).values;
  const double scale = std::sqrt(static_cast<double>(graph.nodes()));
  for (double& one : values) one *= scale;
  return values;
}

}  // namespace

model::Mixture graph_mixture(const std::string& scheme, const Settings& settings) {
  return mapped(all_for_graphs(scheme, settings), &Described::encoding);
}

Candidate describe_entry(const std::string& name, const Settings& settings) {
  Candidate candidate = find_candidate(name);
  candidate.summary.clear();
  for (const Described& one : all_for_graphs(name, settings))
    candidate.summary += (candidate.summary.empty() ? "" : "; ") + one.summary;
  return candidate;
}

GraphFeatures features_of(const model::Mixture& mixture, const std::vector<Graph>& graphs,
                          const std::vector<std::uint64_t>& sign_seeds) {
  GraphFeatures features;
  const std::int64_t nodes = graphs[0].nodes();
  // [B, ..] from the values of each graph.
  const auto stacked = [&](auto&& values) {
    return at::stack(
        mapped(graphs, [&](const Graph& graph) { return at::tensor(values(graph)); }));
  };
  if (const auto* one = find<model::PathLaplacian>(mixture)) {
    auto seed = sign_seeds.begin();
    features.laplacian =
        stacked([&](const Graph& graph) {
          return eigenvectors(one->laplacian, graph,
                              sign_seeds.empty() ? std::nullopt : std::optional(*seed++));
        })
            .unflatten(1, {nodes, -1})
            .to(at::kFloat);
  }
  if (const auto* one = find<model::PathRandomWalk>(mixture))
    features.walk = stacked([&](const Graph& graph) {
                      return return_probabilities(one->walk, graph).values;
                    })
                        .unflatten(1, {nodes, -1})
                        .to(at::kFloat);
  if (const auto* one = find<model::PathDegree>(mixture)) {
    features.in =
        stacked([&](const Graph& graph) { return degree_rows(one->degree, graph).in; });
    features.out =
        stacked([&](const Graph& graph) { return degree_rows(one->degree, graph).out; });
  }
  if (const auto* one = find<Graphormer>(mixture))
    features.spatial = stacked([&](const Graph& graph) {
                         const auto rows = graphormer_indices(*one, graph).spatial;
                         return std::vector<std::int64_t>(rows.begin(), rows.end());
                       }).view({-1, nodes, nodes});
  return features;
}

// Features and tables begin with the size of the embeddings of the nodes. The bias begins with
// the deviation 1, so that heads differ: in some hundred steps AdamW can move a bias of 0.02
// by less than 1, which hardly changes the weights of attention.
GraphEncodingImpl::GraphEncodingImpl(const model::Mixture& mixture, std::int64_t width,
                                     at::Generator generator) {
  constexpr double size = Block::embedding_deviation, bias_deviation = 1;
  const auto projection = [&](const char* name, std::int64_t count) {
    return register_module(
        name,
        drawn_linear(count, width, size / std::sqrt(static_cast<double>(count)), generator));
  };
  if (const auto* one = find<model::PathLaplacian>(mixture))
    laplacian_ = projection("laplacian", one->laplacian.vectors);
  if (const auto* one = find<model::PathRandomWalk>(mixture))
    walk_ = projection("walk", one->walk.steps);
  if (const auto* one = find<model::PathDegree>(mixture)) {
    in_ =
        register_module("degree_in", drawn_embedding(one->degree.rows, width, size, generator));
    out_ = register_module("degree_out",
                           drawn_embedding(one->degree.rows, width, size, generator));
  }
  if (const auto* one = find<Graphormer>(mixture))
    spatial_ = register_module("spatial", drawn_embedding(one->unreachable + 2, one->heads,
                                                          bias_deviation, generator));
}

at::Tensor GraphEncodingImpl::embed(at::Tensor x, const GraphFeatures& features) {
  if (laplacian_) x = x + laplacian_(features.laplacian);
  if (walk_) x = x + walk_(features.walk);
  if (in_) x = x + in_(features.in) + out_(features.out);
  return x;
}

at::Tensor GraphEncodingImpl::bias(const GraphFeatures& features) {
  if (!spatial_) return {};
  return spatial_(features.spatial).permute({0, 3, 1, 2});
}

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
  marks_ = register_module(
      "marks", drawn_embedding(2 + labels, settings.width, Block::embedding_deviation, shared));
  layers_ = register_module("layers", Bidirectional(settings, shared));
  head_ = register_module(
      "head", drawn_linear(settings.width, farthest + labels, Block::weight_deviation, shared));
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
