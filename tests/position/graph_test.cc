#include "gnomon/position/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "position/floyd_warshall.h"
#include "testing.h"

namespace gnomon {
namespace graph_test {

using ::testing::ElementsAre;
using testing::floyd_warshall;
using testing::graph_of;
using ::testing::IsEmpty;
using testing::message_of;
using testing::random_edges;
using testing::Released;
using testing::released_nodes;
using Edges = std::vector<std::int64_t>;

TEST(Graph, ArcsAreSortedAndCountedOnce) {
  const Graph graph = graph_of(4, {2, 0, 0, 1, 1, 0, 2, 0, 3, 3});
  EXPECT_EQ(graph.nodes(), 4);
  EXPECT_EQ(graph.arcs(), 5);
  EXPECT_THAT(graph.neighbours(0), ElementsAre(1, 2));
  EXPECT_THAT(graph.neighbours(1), ElementsAre(0));
  EXPECT_THAT(graph.neighbours(2), ElementsAre(0));
  EXPECT_THAT(graph.neighbours(3), ElementsAre(3));
  // Edges 1 and 2 of the list are equal, and so are 0 and 3. The last row is kept.
  EXPECT_THAT(graph.listed(0), ElementsAre(2, 3));
  EXPECT_THAT(graph.listed(1), ElementsAre(2));
  EXPECT_THAT(graph.listed(3), ElementsAre(4));
  EXPECT_THAT(out_degrees(graph), ElementsAre(2, 1, 1, 1));
  EXPECT_EQ(in_degrees(graph), out_degrees(graph));
}

TEST(Graph, DirectedArcsGoOneWay) {
  const Graph graph = graph_of(3, {0, 2, 1, 2, 2, 2, 1, 2}, EdgeKind::directed);
  EXPECT_EQ(graph.arcs(), 3);
  EXPECT_THAT(out_degrees(graph), ElementsAre(1, 1, 1));
  EXPECT_THAT(in_degrees(graph), ElementsAre(0, 0, 3));
  const ShortestPaths paths = shortest_paths(graph);
  EXPECT_THAT(paths.distances, ElementsAre(0, 510, 1, 510, 0, 1, 510, 510, 0));
  EXPECT_THAT(components(graph), ElementsAre(0, 0, 0));
}

TEST(Graph, PathsAndRings) {
  const Graph path = path_graph(6), ring = ring_graph(7);
  EXPECT_THAT(out_degrees(path), ElementsAre(1, 2, 2, 2, 2, 1));
  EXPECT_THAT(out_degrees(ring), ElementsAre(2, 2, 2, 2, 2, 2, 2));
  const ShortestPaths along = shortest_paths(path), around = shortest_paths(ring);
  for (std::int64_t i = 0; i < 7; ++i)
    for (std::int64_t j = 0; j < 7; ++j) {
      const std::int64_t apart = std::abs(i - j);
      if (std::max(i, j) < 6) {
        EXPECT_EQ(along.distance(i, j), apart);
      }
      EXPECT_EQ(around.distance(i, j), std::min(apart, 7 - apart));
    }
  EXPECT_THAT(nodes_between(along, 4, 1), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(nodes_between(around, 6, 1), ElementsAre(6, 0, 1));
  EXPECT_THAT(nodes_between(around, 3, 3), ElementsAre(3));
  EXPECT_EQ(path_graph(1), graph_of(1, {}));
  EXPECT_EQ(path_graph(0).nodes(), 0);
  EXPECT_THAT(shortest_paths(path_graph(0)).distances, IsEmpty());
}

TEST(Graph, ComponentsAreNumberedByTheirLowestNodes) {
  EXPECT_THAT(components(graph_of(7, {6, 1, 4, 2, 1, 3})), ElementsAre(0, 1, 2, 1, 2, 3, 1));
  EXPECT_THAT(components(Graph()), IsEmpty());
}

TEST(Graph, DistancesAndWaysAreThoseOfFloydAndWarshall) {
  for (const EdgeKind kind : {EdgeKind::undirected, EdgeKind::directed})
    for (const auto& [nodes, edges] :
         {std::pair{1, 1}, {2, 1}, {9, 8}, {20, 22}, {30, 60}, {40, 42}, {33, 400}})
      for (const int limit : {510, 4, 1})
        for (unsigned seed = 1; seed < 6; ++seed) {
          const Edges ends = random_edges(nodes, edges, seed);
          const Graph graph = graph_of(nodes, ends, kind);
          const ShortestPaths paths = shortest_paths(graph, limit);
          const Released released = floyd_warshall(nodes, ends, kind, limit);
          for (std::int64_t i = 0; i < nodes; ++i)
            for (std::int64_t j = 0; j < nodes; ++j) {
              const int far =
                  released.distance[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
              ASSERT_EQ(paths.distance(i, j), far) << i << " to " << j;
              if (far == limit) {
                ASSERT_THAT(nodes_between(paths, i, j), IsEmpty());
                continue;
              }
              Edges expected{i};
              for (const std::int64_t node : released_nodes(released, i, j))
                expected.push_back(node);
              if (i != j) expected.push_back(j);
              ASSERT_EQ(nodes_between(paths, i, j), expected) << i << " to " << j;
            }
        }
}

TEST(Graph, DistancesAreTheSameForAnyNumberOfThreads) {
  const int before = threads();
  const Graph graph = graph_of(300, random_edges(300, 500, 7));
  set_threads(1);
  const ShortestPaths expected = shortest_paths(graph);
  for (const int count : {2, 7}) {
    set_threads(count);
    EXPECT_EQ(shortest_paths(graph), expected);
  }
  set_threads(before);
}

TEST(Graph, ALongPathReachesTheLimit) {
  const ShortestPaths paths = shortest_paths(path_graph(600));
  EXPECT_EQ(paths.distance(0, 509), 509);
  EXPECT_EQ(paths.distance(0, 510), 510);
  EXPECT_EQ(paths.distance(599, 0), 510);
  EXPECT_EQ(nodes_between(paths, 0, 509).size(), 510u);
  EXPECT_EQ(shortest_paths(path_graph(600), 600).distance(599, 0), 599);
}

TEST(Graph, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { graph_of(-1, {}); }),
            "[graph] nodes must be 0 to 2147483648, got -1");
  EXPECT_EQ(message_of([] { graph_of((std::int64_t{1} << 31) + 1, {}); }),
            "[graph] nodes must be 0 to 2147483648, got 2147483649");
  EXPECT_EQ(message_of([] { graph_of(3, {}, EdgeKind{}); }),
            "[graph] kind must be undirected or directed, got 0");
  EXPECT_EQ(message_of([] { graph_of(3, {0, 1, 2, 3}); }),
            "[graph] the nodes of edge 1 must be 0 to 2, got 3");
  EXPECT_EQ(message_of([] { graph_of(3, {-1, 1}); }),
            "[graph] the nodes of edge 0 must be 0 to 2, got -1");
  const Edges ends(6);
  EXPECT_EQ(message_of([&] { Graph(3, {ends.data(), {2, 3}}, EdgeKind::directed); }),
            "[graph] edges must be [E, 2], got [2, 3]");
  EXPECT_EQ(message_of([] { path_graph(-2); }),
            "[graph] nodes of a path must not be negative, got -2");
  EXPECT_EQ(message_of([] { ring_graph(2); }),
            "[graph] nodes of a ring must be at least 3, got 2");
  EXPECT_EQ(message_of([] { shortest_paths(path_graph(3), 0); }),
            "[graph] the distance limit must be 1 to 2147483647, got 0");
  EXPECT_EQ(message_of([] { shortest_paths(path_graph(65537)); }),
            "[graph] nodes of a matrix of distances must be at most 65536, got 65537");
  EXPECT_EQ(message_of([] { nodes_between(shortest_paths(path_graph(3)), 0, 3); }),
            "[graph] nodes must be 0 to 2, got 3");
}

TEST(ParseEdges, ReadsPairsAndPassesOverTheRest) {
  const EdgeList list = parse_edges("# a square\n0 1\n\n  1\t2 # right\r\n2 3\n3 0");
  EXPECT_EQ(list.nodes, 4);
  EXPECT_THAT(list.ends, ElementsAre(0, 1, 1, 2, 2, 3, 3, 0));
  EXPECT_EQ(Graph(list.nodes, list.edges(), EdgeKind::undirected), ring_graph(4));
  EXPECT_EQ(parse_edges("").nodes, 0);
  EXPECT_EQ(parse_edges("#\n \n").edges().extent(0), 0);
  EXPECT_EQ(parse_edges("2147483647 0\n").nodes, std::int64_t{1} << 31);
}

TEST(ParseEdges, NamesTheLineOfWhatItRefuses) {
  EXPECT_EQ(message_of([] { parse_edges("0 1\n2\n"); }),
            "[edges] line 2: must be two node numbers, got one, at byte 5");
  EXPECT_EQ(message_of([] { parse_edges("0 1\n1 2 0.5\n", "cora.txt"); }),
            "[cora.txt] line 2: must be two node numbers, got 0.5 after them, at byte 8");
  for (const char* const word : {"-1", "2147483648", "99999999999999999999", "1e3", "+1", "x"})
    EXPECT_EQ(
        message_of([&] { parse_edges(std::string("7 ") + word); }),
        std::string("[edges] line 1: a node must be a number from 0 to 2147483647, got ") +
            word + ", at byte 2");
  EXPECT_THROW(parse_edges("0 \xff\x01"), FormatError);
}

}  // namespace graph_test
}  // namespace gnomon
