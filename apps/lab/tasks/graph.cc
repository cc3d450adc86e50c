#include "apps/lab/tasks/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/model/task_model.h"
#include "gnomon/error.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::lab::graph_examples {
namespace {

constexpr std::int64_t nodes_at_once = 1024;  // batch size of tests

// Right guesses and the targets of one question.
struct Count {
  std::int64_t right = 0, targets = 0;
  // Counts by number of nodes and class: the guess is the most frequent class of each number.
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> classes = {};

  void add(std::int64_t nodes, std::int64_t guess, std::int64_t target) {
    right += guess == target;
    ++targets;
    ++classes[nodes][target];
  }
  double per_target(double sum) const {
    return sum / static_cast<double>(std::max<std::int64_t>(1, targets));
  }
  double share() const { return per_target(static_cast<double>(right)); }
  double chance() const {
    std::int64_t most = 0;
    for (const auto& [nodes, counts] : classes)
      most += std::ranges::max(std::views::values(counts));
    return per_target(static_cast<double>(most));
  }
};

class GraphModel final : public TaskModel {
 public:
  GraphModel(const Settings& settings, const Corpus& corpus, const std::string& encoding,
             std::int64_t seed)
      : TaskModel(settings),
        data_(static_cast<const LabelledGraph*>(corpus.data.get())),
        mixture_(graph_mixture(encoding, settings)),
        model_(settings, mixture_, data_ ? std::ssize(data_->names) : communities,
               static_cast<std::uint64_t>(seed)) {
    model_->to(torch::Device(settings.device));
  }

  torch::nn::Module& module() override { return *model_; }

  Json specification() const override {
    Json all = Json::array();
    for (const model::Encoding& one : mixture_) {
      all.push_back(Json(model::internal::json_of(one)));
      all.back().erase("nodes");  // only a path of text has it
    }
    return all.size() == 1 ? all[0] : all;
  }

  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override {
    const std::int64_t nodes =
        least_nodes + Draws{seed, part, step}.below(settings_.train_length - least_nodes + 1);
    std::vector<GraphExample> examples;
    std::vector<std::uint64_t> sign_seeds;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::uint64_t number = step * static_cast<std::uint64_t>(2 * settings_.batch) +
                                   static_cast<std::uint64_t>(row);
      examples.push_back(graph_example(data_, part, nodes, seed, number));
      if (part == Part::train) sign_seeds.push_back(mixed(mixed(seed) + number));
    }
    const GraphBatch batch = batch_of(examples, mixture_, sign_seeds);
    return {sum_of_losses(model_->forward(batch), batch.targets.to(settings_.device)),
            batch.targets.ne(uncounted).sum().item<std::int64_t>()};
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override {
    const at::NoGradGuard no_grad;
    Evaluation all;
    for (Stretch& one : all.stretches = length_stretches(settings_)) {
      one.applicable = true;
      one.examples = 2 * settings_.eval_segments;
      Count distances, labels;
      double bits = 0;
      std::int64_t targets = 0;
      for (std::int64_t i = 0; i < one.examples;) {
        if (stop()) return {};
        // Pairs of examples, one for each question, with the same number of nodes.
        const auto nodes_of = [&](std::int64_t number) {
          return one.from + number / 2 * 2 * (one.to + 1 - one.from) / one.examples;
        };
        const std::int64_t nodes = nodes_of(i);
        std::vector<GraphExample> examples;
        for (; i < one.examples && nodes_of(i) == nodes &&
               std::ssize(examples) * nodes <= nodes_at_once;
             ++i)
          examples.push_back(graph_example(data_, Part::test, nodes, test_seed,
                                           static_cast<std::uint64_t>(i)));
        const GraphBatch batch = batch_of(examples, mixture_, {});
        const at::Tensor logits = model_->forward(batch);
        bits += sum_of_losses(logits, batch.targets.to(settings_.device)).item<double>() *
                bits_per_nat;
        const at::Tensor guesses = logits.argmax(2).to(at::kCPU).contiguous();
        const auto* guess = guesses.data_ptr<std::int64_t>();
        for (const GraphExample& example : examples) {
          Count own;  // each example has one of the two questions
          bool asks_distance = false;
          for (const std::int64_t target : example.targets) {
            const std::int64_t guessed = *guess++;
            if (target == uncounted) continue;
            ++targets;
            asks_distance = target < farthest;
            (asks_distance ? distances : labels).add(nodes, guessed, target);
            own.add(nodes, guessed, target);
          }
          (asks_distance ? one.scores : one.seconds).push_back(own.share());
        }
      }
      one.score = distances.share(), one.second = labels.share();
      one.chance_score = distances.chance(), one.chance_second = labels.chance();
      one.bits = bits / static_cast<double>(std::max<std::int64_t>(1, targets));
    }
    return all;
  }

  // A tree with its edges, and the distances of its nodes.
  void describe(RunResult& result) override {
    const at::NoGradGuard no_grad;
    const std::int64_t nodes = std::min<std::int64_t>(settings_.train_length, 16);
    const GraphExample one = graph_example(data_, Part::test, nodes, sample_seed, 0);
    const at::Tensor guesses =
        model_->forward(batch_of({one}, mixture_, {})).argmax(2).view(-1);
    Sample sample{.context = nodes};
    sample.prompt = "edges";
    std::int64_t source = 0;
    for (std::int64_t node = 0; node < nodes; ++node) {
      for (const std::int32_t other : one.graph.neighbours(node))
        if (other > node) sample.prompt += fmt::format(" {}-{}", node, other);
      const std::int64_t target = one.targets[static_cast<std::size_t>(node)];
      if (target == uncounted) source = node;
      const auto text = [&](std::int64_t guess) {
        return fmt::format("{}{}", node ? " " : "",
                           target == uncounted ? "-"
                           : guess < farthest  ? std::to_string(guess + 1)
                                               : "?");
      };
      sample.text += text(guesses[node].item<std::int64_t>());
      sample.expected += text(target);
    }
    sample.prompt +=
        fmt::format("; distances of nodes 0 to {} from node {}", nodes - 1, source);
    result.samples = {sample};
  }

 private:
  const LabelledGraph* data_;
  model::Mixture mixture_;
  GraphTransformer model_;
};

TaskDefaults defaults() {
  return {24, 16, 2, {2, 4}, "none,degree,random-walk,laplacian,graphormer"};
}

void check(const Settings& s) {
  if (s.longest() > most_nodes)
    refuse("lab", "lengths of --task graph must be at most 1024 nodes", s.longest());
  if (!s.texts.empty() && s.texts.size() != 2)
    refuse("lab", "--task graph must have two files, EDGES and LABELS, or none",
           std::ssize(s.texts));
}

Corpus load(const Settings& s) {
  Corpus corpus;
  if (s.texts.empty()) {
    corpus.source =
        "generated graphs: trees, grids and Erdos-Renyi graphs for distances, stochastic block "
        "models for classes";
    corpus.split = "each part from a random generator of its own";
    return corpus;
  }
  try {
    auto data = std::make_shared<LabelledGraph>(
        read_labelled_graph(s.texts[0], s.texts[1], s.longest()));
    corpus.source = fmt::format("connected parts of {}: {} nodes, {} labels", s.texts[0],
                                data->graph.nodes(), data->names.size());
    corpus.split =
        "labels by a hash of the node: of five nodes three train, one validates, one tests";
    corpus.digest = data->digest;
    corpus.data = std::move(data);
  } catch (const FormatError& error) {
    throw std::invalid_argument(error.what());
  }
  return corpus;
}

}  // namespace
}  // namespace gnomon::lab::graph_examples

namespace gnomon::lab {

const Task graph_task{
    .name = "graph",
    .title = "Graphs",
    .summary =
        "distances from a marked node, and classes of nodes from a few marked ones; the "
        "edges are seen through the encoding only",
    .unit = "nodes",
    .score = "right distances",
    .second = "right classes",
    .what =
        "the share of nodes of unseen graphs whose distance from the marked node is right "
        "(1 to 5, or 6 and more); also the share of nodes whose class is right",
    .chance =
        "the most frequent distance or class of the test graphs "
        "with the same number of nodes",
    .reports_second = true,
    .loss = "bits per node",
    .model_name = "bidirectional Transformer over nodes",
    .trained_on = "graphs of 8 to ",
    .samples =
        "The distances that each model gives in the same unseen graph. A question mark is a "
        "class instead of a distance.",
    .suffixes = "",
    .defaults = graph_examples::defaults,
    .model = made<graph_examples::GraphModel>,
    .describe_entry = graph_examples::describe_entry,
    .load = graph_examples::load,
    .check = graph_examples::check,
    .shortest = graph_examples::least_nodes};

}  // namespace gnomon::lab
