#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <queue>
#include <set>

#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/graph.h"
#include "apps/lab/tasks/make_model.h"
#include "gnomon/bias/graphormer.h"
#include "gnomon/embedding/random_walk.h"
#include "io/temporary.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace graph_test {

using namespace graph_examples;

Settings settings_of_graphs() {
  Settings settings = testing::tiny();
  settings.task = &find_task("graph");
  settings.encodings = {"none"};
  settings.train_length = 12;
  settings.eval_lengths = {12, 24};
  settings.batch = 6;
  return settings;
}

// Distances from a node, by breadth-first search.
std::vector<std::int64_t> distances(const Graph& graph, std::int64_t source) {
  std::vector<std::int64_t> found(static_cast<std::size_t>(graph.nodes()), -1);
  std::queue<std::int64_t> open({source});
  found[static_cast<std::size_t>(source)] = 0;
  for (; !open.empty(); open.pop())
    for (const std::int64_t next : graph.neighbours(open.front()))
      if (found[static_cast<std::size_t>(next)] < 0) {
        found[static_cast<std::size_t>(next)] =
            found[static_cast<std::size_t>(open.front())] + 1;
        open.push(next);
      }
  return found;
}

TEST(GraphExamples, TargetsAreTheDistancesFromTheMarkedNode) {
  for (std::uint64_t number = 0; number < 60; number += 2) {
    const GraphExample one = graph_example(nullptr, Part::train, 20, 1, number);
    const auto source = std::find(one.marks.begin(), one.marks.end(), 1) - one.marks.begin();
    ASSERT_LT(source, 20);
    const auto found = distances(one.graph, source);
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(one.marks[i], static_cast<std::ptrdiff_t>(i) == source);
      EXPECT_GE(found[i], 0) << "not connected";
      EXPECT_EQ(one.targets[i], found[i] == 0 ? uncounted : std::min(found[i], farthest) - 1);
    }
  }
}

TEST(GraphExamples, GeneratorsGiveTheNamedGraphs) {
  Draws draws{1};
  const Graph tree = generated(Shape::tree, 30, draws);
  EXPECT_EQ(tree.arcs(), 2 * 29);  // connected, so without a cycle
  const std::vector<std::int64_t> to = distances(tree, 0);
  EXPECT_EQ(std::count(to.begin(), to.end(), -1), 0);
  const Graph grid = generated(Shape::grid, 25, draws);
  EXPECT_EQ(grid.arcs(), 2 * 2 * 5 * 4);
  std::map<std::int64_t, int> degrees;
  for (std::int64_t i = 0; i < 25; ++i) ++degrees[std::ssize(grid.neighbours(i))];
  EXPECT_EQ(degrees, (std::map<std::int64_t, int>{{2, 4}, {3, 12}, {4, 9}}));
}

TEST(GraphExamples, CommunitiesAreEqualAndMostlyConnectedInside) {
  double inner = 0, outer = 0;
  for (std::uint64_t number = 1; number < 40; number += 2) {
    const GraphExample one = graph_example(nullptr, Part::test, 24, 3, number);
    std::vector<std::int64_t> community;
    std::map<std::int64_t, int> sizes, marked;
    for (std::size_t i = 0; i < 24; ++i) {
      const bool mark = one.targets[i] == uncounted;
      community.push_back(mark ? one.marks[i] - 2 : one.targets[i] - farthest);
      ++sizes[community[i]];
      if (mark) ++marked[community[i]];
      EXPECT_EQ(one.marks[i] >= 2, mark);
    }
    EXPECT_EQ(sizes, (std::map<std::int64_t, int>{{0, 8}, {1, 8}, {2, 8}}));
    EXPECT_EQ(marked, (std::map<std::int64_t, int>{{0, 1}, {1, 1}, {2, 1}}));
    for (std::size_t i = 0; i < 24; ++i)
      for (const auto other : one.graph.neighbours(static_cast<std::int64_t>(i)))
        (community[i] == community[static_cast<std::size_t>(other)] ? inner : outer) += 1;
  }
  // 20 graphs with 24 nodes have 5 and 1.5 arcs from each node on average.
  EXPECT_NEAR(inner / (20 * 24), 5, 0.4);
  EXPECT_NEAR(outer / (20 * 24), 1.5, 0.25);
}

TEST(GraphExamples, DependOnTheirArgumentsOnly) {
  const auto same = [](const GraphExample& a, const GraphExample& b) {
    return a.graph == b.graph && a.marks == b.marks && a.targets == b.targets;
  };
  const GraphExample one = graph_example(nullptr, Part::train, 16, 1, 4);
  EXPECT_TRUE(same(one, graph_example(nullptr, Part::train, 16, 1, 4)));
  EXPECT_FALSE(same(one, graph_example(nullptr, Part::test, 16, 1, 4)));
  EXPECT_FALSE(same(one, graph_example(nullptr, Part::train, 16, 2, 4)));
  EXPECT_FALSE(same(one, graph_example(nullptr, Part::train, 16, 1, 10)));
}

std::unique_ptr<TaskModel> untrained(const Settings& settings, const std::string& encoding) {
  return make_model(settings, Corpus{}, encoding, 1);
}

TEST(GraphEncodings, TheBiasIsThatOfTheLibraryOnTheGraph) {
  const Settings settings = settings_of_graphs();
  const model::Mixture mixture = graph_mixture("graphormer", settings);
  const auto& spec = std::get<Graphormer>(mixture[0]);
  Draws draws{5};
  const std::vector<Graph> graphs{generated(Shape::tree, 15, draws),
                                  generated(Shape::grid, 15, draws)};
  GraphEncoding encoding(mixture, settings.width, at::Generator());
  const at::Tensor table = encoding->parameters().at(0).detach().contiguous();
  const at::Tensor bias = encoding->bias(features_of(mixture, graphs, {})).contiguous();
  ASSERT_EQ(bias.sizes(), (std::vector<std::int64_t>{2, settings.heads, 15, 15}));
  for (std::int64_t g = 0; g < 2; ++g) {
    std::vector<float> expected(static_cast<std::size_t>(settings.heads * 15 * 15));
    GraphormerTables<const float> tables;
    tables.spatial = {table.data_ptr<float>(), {table.size(0), table.size(1)}};
    fill(spec, graphormer_indices(spec, graphs[static_cast<std::size_t>(g)]), tables, {},
         {expected.data(), {settings.heads, 15, 15}});
    const float* found = bias[g].data_ptr<float>();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found)) << g;
  }
}

TEST(GraphEncodings, EigenvectorsAreThoseOfTheGraphWithRandomSignsInTraining) {
  const Settings settings = settings_of_graphs();
  const model::Mixture mixture = graph_mixture("laplacian", settings);
  Draws draws{6};
  const std::vector<Graph> graphs{generated(Shape::tree, 20, draws)};
  const at::Tensor fixed = features_of(mixture, graphs, {}).laplacian[0].to(at::kDouble);
  // L v = lambda v with L = I - D^-1/2 A D^-1/2, whose eigenvalues ascend.
  at::Tensor laplacian = at::eye(20, at::kDouble);
  for (std::int64_t i = 0; i < 20; ++i)
    for (const std::int64_t k : graphs[0].neighbours(i))
      laplacian[i][k] -= 1 / std::sqrt(static_cast<double>(graphs[0].neighbours(i).size() *
                                                           graphs[0].neighbours(k).size()));
  double before = 0;
  for (std::int64_t k = 0; k < laplacian_vectors_used; ++k) {
    const at::Tensor vector = fixed.select(1, k), image = laplacian.matmul(vector);
    EXPECT_NEAR(vector.norm().item<double>(), std::sqrt(20.0), 1e-5);
    const double value = image.dot(vector).item<double>() / 20;
    EXPECT_LT((image - value * vector).abs().max().item<double>(), 1e-5) << k;
    EXPECT_GE(value, before - 1e-6);
    before = value;
  }
  std::set<std::string> signs;
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    const at::Tensor random = features_of(mixture, graphs, {seed}).laplacian[0].to(at::kDouble);
    EXPECT_TRUE(at::allclose(random.abs(), fixed.abs(), 0, 1e-6));
    std::string text;
    for (std::int64_t k = 0; k < laplacian_vectors_used; ++k)
      text += (random.select(1, k) * fixed.select(1, k)).sum().item<double>() > 0 ? '+' : '-';
    signs.insert(text);
  }
  EXPECT_GT(signs.size(), 5u);
}

TEST(GraphEncodings, DegreesAndWalksAreThoseOfTheGraph) {
  const Settings settings = settings_of_graphs();
  Draws draws{7};
  const std::vector<Graph> graphs{generated(Shape::random, 14, draws)};
  const GraphFeatures found =
      features_of(graph_mixture("degree+graphormer", settings), graphs, {});
  const at::Tensor walk =
      features_of(graph_mixture("random-walk", settings), graphs, {}).walk[0];
  for (std::int64_t i = 0; i < 14; ++i) {
    const std::int64_t degree = std::ssize(graphs[0].neighbours(i));
    EXPECT_EQ(found.in[0][i].item<std::int64_t>(), degree + 1);
    EXPECT_EQ(walk[i][0].item<float>(), 0);
    double back = 0;  // probability of a return after two steps
    for (const std::int64_t next : graphs[0].neighbours(i))
      back += 1.0 / static_cast<double>(degree * std::ssize(graphs[0].neighbours(next)));
    EXPECT_NEAR(walk[i][1].item<float>(), back, 1e-6);
  }
}

// Two graphs with the same marks have the same logits without an encoding, and so have all
// nodes without a mark.
TEST(GraphModel, EdgesAreSeenThroughTheEncodingOnly) {
  const at::NoGradGuard no_grad;
  const Settings settings = settings_of_graphs();
  Draws draws{8};
  std::vector<std::int64_t> marks(15);
  marks[4] = 1;
  const std::vector<GraphExample> examples{
      {generated(Shape::tree, 15, draws), Question::distance, marks, marks},
      {generated(Shape::grid, 15, draws), Question::distance, marks, marks}};
  // Differences of the logits of the graphs, and of two grid nodes with other degrees.
  const auto difference = [&](const char* encoding) {
    const model::Mixture mixture = graph_mixture(encoding, settings);
    GraphTransformer model(settings, mixture, communities, 1);
    const at::Tensor logits = model->forward(batch_of(examples, mixture, {}));
    std::vector<std::int64_t> others(1, 0);
    for (std::int64_t i = 0; i < 15; ++i)
      if (i != 4 && std::ssize(examples[1].graph.neighbours(i)) == 4) others[0] = i;
    for (std::int64_t i = 0; i < 15; ++i)
      if (i != 4 && std::ssize(examples[1].graph.neighbours(i)) == 2) others.push_back(i);
    EXPECT_GT(others.size(), 1u);
    return std::pair((logits[0] - logits[1]).abs().max().item<double>(),
                     (logits[1][others[0]] - logits[1][others[1]]).abs().max().item<double>());
  };
  EXPECT_LT(difference("none").first, 1e-6);
  EXPECT_LT(difference("none").second, 1e-6);
  for (const char* encoding : {"degree", "random-walk", "laplacian", "graphormer"}) {
    EXPECT_GT(difference(encoding).first, 1e-5) << encoding;
    EXPECT_GT(difference(encoding).second, 1e-5) << encoding;
  }
}

TEST(GraphModel, TheLossOfRowsIsThatOfThePartsOfTheBatch) {
  const at::NoGradGuard no_grad;
  const Settings settings = settings_of_graphs();
  for (const char* encoding : {"none", "laplacian", "degree+graphormer"}) {
    const auto model = untrained(settings, encoding);
    const LossSum all = model->loss(Part::train, 1, 3, {0, 6}),
                  first = model->loss(Part::train, 1, 3, {0, 2}),
                  rest = model->loss(Part::train, 1, 3, {2, 6});
    EXPECT_EQ(all.targets, first.targets + rest.targets);
    EXPECT_NEAR(all.nats.item<double>(), (first.nats + rest.nats).item<double>(), 1e-3);
  }
}

TEST(GraphModel, TrainsOnGraphsOfAtMostTheTrainingLength) {
  const at::NoGradGuard no_grad;
  Settings settings = settings_of_graphs();
  settings.train_length = least_nodes + 1;
  const auto model = untrained(settings, "none");
  std::int64_t most = 0;  // of the nodes of 6 graphs, of which some are not counted
  for (std::uint64_t step = 0; step < 20; ++step)
    most = std::max(most, model->loss(Part::train, 1, step, {0, 6}).targets);
  EXPECT_GT(most, 0);
  EXPECT_LE(most, 6 * (least_nodes + 1));
}

TEST(GraphModel, SharedWeightsAreTheSameForEveryEncoding) {
  const Settings settings = settings_of_graphs();
  const auto none = untrained(settings, "none"), other = untrained(settings, "laplacian");
  const auto all = other->module().named_parameters();
  for (const auto& item : none->module().named_parameters())
    EXPECT_TRUE(item.value().equal(all[item.key()])) << item.key();
  EXPECT_EQ(parameter_count(other->module(), "position"),
            laplacian_vectors_used * settings.width);
  EXPECT_EQ(parameter_count(none->module(), "position"), 0);
}

TEST(GraphModel, LearnsDistancesWithGraphormerAndNotWithout) {
  Settings settings = settings_of_graphs();
  settings.steps = 60;
  settings.batch = 8;
  settings.learning_rate = 1e-2;
  const auto trained = [&](const char* encoding) {
    TrainingRun run(settings, Corpus{}, encoding, 1);
    while (!run.trained()) run.train_step();
    return run.model().evaluate([] { return false; })->stretches.front();
  };
  const Stretch none = trained("none"), graphormer = trained("graphormer");
  EXPECT_LE(none.score, none.chance_score + 1e-9);
  EXPECT_GT(graphormer.score, graphormer.chance_score + 0.05);
}

// The guess of the most frequent class among the targets of the same number of nodes.
TEST(GraphModel, ChanceIsTheMostFrequentClass) {
  Settings settings = settings_of_graphs();
  settings.eval_lengths = {12};
  settings.eval_segments = 5;
  const auto found = untrained(settings, "none")->evaluate([] { return false; });
  for (const Stretch& stretch : found->stretches) {
    std::map<std::int64_t, std::map<std::int64_t, int>> distance, label;
    int distances = 0, labels = 0;
    for (std::int64_t i = 0; i < 10; ++i) {
      const std::int64_t nodes =
          stretch.from + i / 2 * 2 * (stretch.to + 1 - stretch.from) / 10;
      const GraphExample one =
          graph_example(nullptr, Part::test, nodes, 0x74657374, static_cast<std::uint64_t>(i));
      for (const std::int64_t target : one.targets) {
        if (target == uncounted) continue;
        ++(target < farthest ? distance : label)[nodes][target];
        ++(target < farthest ? distances : labels);
      }
    }
    const auto most = [](const auto& counts) {
      int sum = 0;
      for (const auto& [nodes, of] : counts) {
        int here = 0;
        for (const auto& [target, count] : of) here = std::max(here, count);
        sum += here;
      }
      return static_cast<double>(sum);
    };
    EXPECT_NEAR(stretch.chance_score, most(distance) / distances, 1e-12);
    EXPECT_NEAR(stretch.chance_second, most(label) / labels, 1e-12);
  }
  EXPECT_EQ(found->stretches.front().from, least_nodes);
}

TEST(GraphModel, LeavesOutEncodingsThatAreNotOfGraphs) {
  const Settings settings = settings_of_graphs();
  for (const char* name : {"rotary", "sinusoidal", "none/graphormer"})
    EXPECT_TRUE(unusable(name, settings, Corpus{})) << name;
  EXPECT_FALSE(unusable("laplacian+graphormer", settings, Corpus{}));
}

// The library's summaries are about the path graph of a text.
TEST(GraphEncodings, AreDescribedAsThoseOfTheGraph) {
  const Settings settings = settings_of_graphs();
  for (const char* name : {"none", "laplacian", "random-walk", "degree", "graphormer"}) {
    const Candidate here = describe_entry(name, settings), usual = find_candidate(name);
    EXPECT_EQ(here.title, usual.title);
    EXPECT_NE(here.summary, usual.summary);
    EXPECT_EQ(here.summary.find("text"), std::string::npos) << here.summary;
    EXPECT_EQ(here.summary.find("token"), std::string::npos) << here.summary;
  }
  EXPECT_EQ(describe_entry("degree+graphormer", settings).summary,
            describe_entry("degree", settings).summary + "; " +
                describe_entry("graphormer", settings).summary);
}

// Files of a user.
class GraphFiles : public ::testing::Test {
 protected:
  std::string file(const char* name, const std::string& text) {
    return testing::put(folder_ / name, text);
  }
  std::string ring(int nodes) {
    std::string text = "# a ring\n";
    for (int i = 0; i < nodes; ++i)
      text += std::to_string(i) + " " + std::to_string((i + 1) % nodes) + "\n";
    return text;
  }
  std::string labels(int nodes) {
    std::string text;
    for (int i = 0; i < nodes; ++i)
      text += std::to_string(i) + (i % 2 ? "\tred" : "\tblue # dry") + "\n";
    return text;
  }
  std::string message(const std::string& edges, const std::string& text) {
    try {
      read_labelled_graph(edges, text, 8);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(GraphFiles, LabelsOfTestNodesAreNeverShown) {
  const LabelledGraph data =
      read_labelled_graph(file("e", ring(40)), file("l", labels(40)), 24);
  EXPECT_EQ(data.names, (std::vector<std::string>{"blue", "red"}));
  int targets = 0;
  for (const Part part : {Part::train, Part::validation, Part::test})
    for (std::uint64_t number = 1; number < 80; number += 2) {
      const GraphExample one = graph_example(&data, part, 12, 1, number);
      EXPECT_EQ(one.graph.nodes(), 12);
      const std::vector<std::int64_t> to = distances(one.graph, 0);
      EXPECT_EQ(std::count(to.begin(), to.end(), -1), 0) << "not connected";
      for (std::size_t i = 0; i < 12; ++i) {
        EXPECT_TRUE(one.marks[i] == 0 || one.targets[i] == uncounted);
        targets += one.targets[i] != uncounted;
      }
    }
  EXPECT_GT(targets, 100);
  // No node of the test part is ever marked, in any part: the marked nodes of all examples
  // together are the training nodes.
  const auto of_part = [&](Part part) {
    return std::count(data.parts.begin(), data.parts.end(), part);
  };
  std::int64_t most_marked = 0;
  for (std::uint64_t number = 1; number < 40; number += 2) {
    const GraphExample one = graph_example(&data, Part::test, 24, 1, number);
    std::int64_t marked = 0, tested = 0;
    for (std::size_t i = 0; i < 24; ++i)
      marked += one.marks[i] > 0, tested += one.targets[i] != uncounted;
    EXPECT_LE(tested, of_part(Part::test));
    EXPECT_LE(marked, of_part(Part::train));
    most_marked = std::max(most_marked, marked);
  }
  EXPECT_GT(most_marked, 8);
}

TEST_F(GraphFiles, AreRefusedWithTheReason) {
  const std::string edges = file("e", ring(40)), good = file("l", labels(40));
  EXPECT_EQ(message(edges, good), "");
  EXPECT_NE(message(file("e2", "0 x\n"), good), "");
  EXPECT_NE(message(edges + "-missing", good), "");
  const auto with = [&](const std::string& line) {
    return message(edges, file("l2", labels(40) + line));
  };
  EXPECT_NE(with("3 red\n").find("one label"), std::string::npos);
  EXPECT_NE(with("40 red\n").find("0 to 39"), std::string::npos);
  EXPECT_NE(with("99999999999999999999 red\n").find("0 to 39"), std::string::npos);
  EXPECT_NE(with("7\n").find("a node and its label"), std::string::npos);
  EXPECT_NE(message(edges, file("l3", "1 red\n2 red\n")).find("two different"),
            std::string::npos);
  EXPECT_NE(message(edges, file("l4", "1 red\n2 blue\n")).find("each part must have labels"),
            std::string::npos);
  std::string pairs;
  for (int i = 0; i < 40; i += 2)
    pairs += std::to_string(i) + " " + std::to_string(i + 1) + "\n";
  EXPECT_NE(message(file("e3", pairs), good).find("largest connected"), std::string::npos);
  EXPECT_NE(message(file("e4", "0 2147483647\n"), good).find("2^20"), std::string::npos);
}

}  // namespace graph_test
}  // namespace gnomon::lab
