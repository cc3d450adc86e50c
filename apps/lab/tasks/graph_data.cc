#include "apps/lab/tasks/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "gnomon/error.h"
#include "gnomon/io/file.h"

namespace gnomon::lab::graph_examples {
namespace {

constexpr double inner_degree = 5, outer_degree = 1.5;  // degrees of a node in a block model
constexpr std::int64_t most_graph_nodes = std::int64_t{1} << 20, most_labels = 1000;

std::size_t index(std::int64_t number) { return static_cast<std::size_t>(number); }

bool bernoulli(double probability, Draws& draws) {
  return static_cast<double>(draws.next() >> 11) * 0x1p-53 < probability;
}

// 0 to count - 1 in a random order.
std::vector<std::int64_t> random_order(std::int64_t count, Draws& draws) {
  std::vector<std::int64_t> order(index(count));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, order.size() - 1, draws);
  return order;
}

Graph undirected(std::int64_t nodes, const std::vector<std::int64_t>& ends) {
  return Graph(nodes, {ends.data(), {std::ssize(ends) / 2, 2}}, EdgeKind::undirected);
}

template <typename Probability>
std::vector<std::int64_t> random_edges(std::int64_t nodes, Draws& draws,
                                       Probability&& probability) {
  std::vector<std::int64_t> ends;
  for (std::int64_t a = 0; a < nodes; ++a)
    for (std::int64_t b = a + 1; b < nodes; ++b)
      if (bernoulli(probability(a, b), draws)) ends.insert(ends.end(), {a, b});
  return ends;
}

// Every node but the first is attached to a random earlier node.
std::vector<std::int64_t> tree_edges(std::int64_t nodes, Draws& draws) {
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 1; i < nodes; ++i) ends.insert(ends.end(), {draws.below(i), i});
  return ends;
}

// A grid as near to a square as possible; the last row may be shorter.
std::vector<std::int64_t> grid_edges(std::int64_t nodes) {
  const auto columns =
      static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(nodes))));
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 0; i < nodes; ++i) {
    if ((i + 1) % columns && i + 1 < nodes) ends.insert(ends.end(), {i, i + 1});
    if (i + columns < nodes) ends.insert(ends.end(), {i, i + columns});
  }
  return ends;
}

Graph renumbered(std::int64_t nodes, std::vector<std::int64_t> ends, Draws& draws) {
  const std::vector<std::int64_t> order = random_order(nodes, draws);
  for (std::int64_t& end : ends) end = order[index(end)];
  return undirected(nodes, ends);
}

GraphExample of_distances(Graph graph, Draws& draws) {
  const std::int64_t nodes = graph.nodes();
  GraphExample one{std::move(graph), Question::distance, {}, {}};
  const std::int64_t source = draws.below(nodes);
  const ShortestPaths paths = shortest_paths(one.graph, farthest);
  for (std::int64_t node = 0; node < nodes; ++node) {
    one.marks.push_back(node == source);
    one.targets.push_back(node == source ? uncounted : paths.distance(source, node) - 1);
  }
  return one;
}

GraphExample block_model(std::int64_t nodes, Draws& draws) {
  const std::vector<std::int64_t> order = random_order(nodes, draws);
  const double size = static_cast<double>(nodes) / communities;
  const double inner = std::min(0.9, inner_degree / (size - 1)),
               outer = std::min(0.9, outer_degree / (static_cast<double>(nodes) - size));
  const auto community = [&](std::int64_t node) { return order[index(node)] % communities; };
  const auto edges = random_edges(nodes, draws, [&](std::int64_t a, std::int64_t b) {
    return community(a) == community(b) ? inner : outer;
  });
  GraphExample one{undirected(nodes, edges), Question::community, {}, {}};
  for (std::int64_t node = 0; node < nodes; ++node) {
    const bool marked = order[index(node)] < communities;  // one of each
    one.marks.push_back(marked ? 2 + community(node) : 0);
    one.targets.push_back(marked ? uncounted : farthest + community(node));
  }
  return one;
}

// A connected set of nodes of the user's graph: from a random node, each next node is the end
// of a random edge that leaves the set. In the order of the draws.
std::vector<std::int64_t> connected_set(const LabelledGraph& data, std::int64_t nodes,
                                        Draws& draws) {
  std::vector<std::int64_t> set, open{draws.one_of(data.starts)};
  std::unordered_set<std::int64_t> known;
  while (std::ssize(set) < nodes) {
    std::swap(open[index(draws.below(std::ssize(open)))], open.back());
    const std::int64_t next = open.back();
    open.pop_back();
    if (!known.insert(next).second) continue;
    set.push_back(next);
    const auto near = data.graph.neighbours(next);
    open.insert(open.end(), near.begin(), near.end());
  }
  return set;
}

// The edges between the nodes of the set, which become nodes 0, 1, ...
Graph between(const Graph& graph, const std::vector<std::int64_t>& set) {
  std::vector<std::int64_t> ends;
  for (std::size_t a = 0; a < set.size(); ++a) {
    const auto near = graph.neighbours(set[a]);
    for (std::size_t b = a + 1; b < set.size(); ++b)
      if (std::binary_search(near.begin(), near.end(), set[b]))
        ends.insert(ends.end(), {static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)});
  }
  return undirected(std::ssize(set), ends);
}

// In training, half of the nodes of the training part are marked and the others have the class.
// Otherwise all of them are marked, and the nodes of the part have the class.
GraphExample of_labels(const LabelledGraph& data, Part part,
                       const std::vector<std::int64_t>& set, Draws& draws) {
  GraphExample one{between(data.graph, set), Question::community, {}, {}};
  for (const std::int64_t node : set) {
    const std::int64_t label = data.labels[index(node)];
    const Part own = data.parts[index(node)];
    const bool known =
        label >= 0 && own == Part::train && (part != Part::train || bernoulli(0.5, draws));
    one.marks.push_back(known ? 2 + label : 0);
    one.targets.push_back(label >= 0 && !known && own == part ? farthest + label : uncounted);
  }
  return one;
}

}  // namespace

Graph generated(Shape shape, std::int64_t nodes, Draws& draws) {
  if (shape == Shape::tree) return renumbered(nodes, tree_edges(nodes, draws), draws);
  if (shape == Shape::grid) return renumbered(nodes, grid_edges(nodes), draws);
  const auto n = static_cast<double>(nodes);
  const double probability = std::min(1.0, 1.5 * std::log(n) / n);  // mostly connected
  for (;;) {
    Graph graph =
        undirected(nodes, random_edges(nodes, draws, [&](auto, auto) { return probability; }));
    if (std::ranges::max(components(graph)) == 0) return graph;
  }
}

GraphExample graph_example(const LabelledGraph* data, Part part, std::int64_t nodes,
                           std::uint64_t seed, std::uint64_t number) {
  Draws draws{seed, part, nodes, number};
  const bool distance = number % 2 == 0;
  if (data) {
    const std::vector<std::int64_t> set = connected_set(*data, nodes, draws);
    return distance ? of_distances(between(data->graph, set), draws)
                    : of_labels(*data, part, set, draws);
  }
  if (!distance) return block_model(nodes, draws);
  constexpr Shape shapes[] = {Shape::tree, Shape::grid, Shape::random};
  return of_distances(generated(shapes[number / 2 % 3], nodes, draws), draws);
}

LabelledGraph read_labelled_graph(const std::string& edges_path, const std::string& labels_path,
                                  std::int64_t nodes) {
  LabelledGraph data;
  const io::MappedFile edges(edges_path), labels(labels_path);
  data.digest =
      std::to_string(hash_of(edges.text())) + " " + std::to_string(hash_of(labels.text()));
  const EdgeList list = parse_edges(edges.text(), edges.name());
  if (list.nodes < 1) refuse("lab", "EDGES must have at least one edge", edges_path);
  if (list.nodes > most_graph_nodes)
    refuse("lab", "the nodes of EDGES must be less than 2^20", list.nodes - 1);
  data.graph = Graph(list.nodes, list.edges(), EdgeKind::undirected);
  data.labels.assign(index(list.nodes), -1);

  std::unordered_map<std::string, std::int64_t> known;
  std::istringstream lines{std::string(labels.text())};
  std::int64_t line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++line_number;
    std::istringstream fields(line.substr(0, line.find('#')));
    const std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
    if (words.empty()) continue;
    const auto malformed = [&](const std::string& rule) {
      refuse("lab", rule, fmt::format("{}, line {}", labels_path, line_number));
    };
    if (words.size() != 2) malformed("a line of LABELS must be a node and its label");
    std::int64_t node = -1;
    const char* const last = words[0].data() + words[0].size();
    const auto [rest, error] = std::from_chars(words[0].data(), last, node);
    if (error != std::errc() || rest != last || node < 0 || node >= list.nodes)
      malformed(fmt::format("a node of LABELS must be 0 to {}, as in EDGES", list.nodes - 1));
    if (data.labels[index(node)] >= 0) malformed("a node must have one label");
    const auto [at, fresh] = known.emplace(words[1], std::ssize(data.names));
    if (fresh) data.names.push_back(words[1]);
    if (std::ssize(data.names) > most_labels)
      malformed("there must be at most 1000 different labels");
    data.labels[index(node)] = at->second;
  }
  if (data.names.size() < 2)
    refuse("lab", "LABELS must have at least two different labels", labels_path);

  const std::vector<std::int64_t> numbers = components(data.graph);
  std::vector<std::int64_t> sizes(numbers.size());
  for (const std::int64_t number : numbers) ++sizes[index(number)];
  const auto largest = std::max_element(sizes.begin(), sizes.end());
  if (*largest < nodes)
    refuse("lab",
           fmt::format("the largest connected component must have the {} nodes of the longest "
                       "of --eval-lengths",
                       nodes),
           *largest);

  std::set<Part> with_labels;
  for (std::int64_t node = 0; node < list.nodes; ++node) {
    const std::uint64_t fifth = mixed(static_cast<std::uint64_t>(node)) % 5;
    data.parts.push_back(fifth == 0 ? Part::test : fifth == 1 ? Part::validation : Part::train);
    if (numbers[index(node)] != largest - sizes.begin()) continue;
    data.starts.push_back(node);
    if (data.labels[index(node)] >= 0) with_labels.insert(data.parts.back());
  }
  if (with_labels.size() < 3)
    refuse("lab",
           "each part must have labels in the largest connected component: of five nodes "
           "three train, one validates, one tests",
           labels_path);
  return data;
}

}  // namespace gnomon::lab::graph_examples
