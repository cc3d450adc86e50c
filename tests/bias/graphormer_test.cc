#include "gnomon/bias/graphormer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gnomon/parallel.h"
#include "position/floyd_warshall.h"
#include "testing.h"

namespace gnomon {
namespace graphormer_test {

using testing::Edges;
using testing::graph_of;
using testing::message_of;
using testing::Tensor;

// A graph with features, and tables in double for finite differences.
struct Sample {
  Graphormer spec;
  std::int64_t nodes = 0;
  Edges ends;
  EdgeKind kind = EdgeKind::undirected;
  Tensor<std::int64_t, 2> features;
  Tensor<float, 2> given, spatial, edges;
  Tensor<float, 1> token;
  Tensor<float, 3> hops;

  Sample(Graphormer s, std::int64_t n, std::int64_t count, EdgeKind k, unsigned seed)
      : spec(s),
        nodes(n),
        ends(testing::random_edges(n, count, seed)),
        kind(k),
        features({count, 3}),
        given({tokens(), tokens()}),
        spatial(testing::random_tensor<float, 2>({s.unreachable + 2, s.heads}, seed + 1)),
        edges(testing::random_tensor<float, 2>({s.edge_rows, s.heads}, seed + 2)),
        token(testing::random_tensor<float, 1>({s.heads}, seed + 3)),
        hops(testing::random_tensor<float, 3>({s.hops, s.heads, s.heads}, seed + 4)) {
    std::mt19937_64 engine(seed);
    for (std::int64_t& row : features.values)
      row = s.edge_rows ? 1 + static_cast<std::int64_t>(
                                  engine() % static_cast<std::uint64_t>(s.edge_rows - 1))
                        : 0;
    given = testing::random_tensor<float, 2>({tokens(), tokens()}, seed + 5);
  }
  std::int64_t tokens() const { return nodes + (spec.token == GraphToken::first ? 1 : 0); }
  GraphormerTables<const float> tables() const {
    return {spatial.view(), token.view(), edges.view(), hops.view()};
  }
  GraphormerInput input() const { return {features.view(), given.view()}; }
  GraphormerIndices indices() const {
    return graphormer_indices(spec, graph_of(nodes, ends, kind));
  }
};

// The released model's forward pass of one graph, tensor by tensor: attn_bias, spatial_pos
// shifted by one, edge_input with zeros after the path, the matrices of the hops, "reset".
std::vector<long double> released(const Sample& sample) {
  const Graphormer& spec = sample.spec;
  const auto n = static_cast<std::size_t>(sample.nodes);
  const auto heads = static_cast<std::size_t>(spec.heads);
  const std::size_t first = spec.token == GraphToken::first ? 1 : 0, side = n + first;
  const int limit = static_cast<int>(spec.unreachable);
  const auto found = testing::floyd_warshall(sample.nodes, sample.ends, sample.kind, limit);
  std::vector<long double> bias(heads * side * side);
  const auto at = [&](std::size_t h, std::size_t i, std::size_t j) -> long double& {
    return bias[(h * side + i) * side + j];
  };
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < side; ++i)
      for (std::size_t j = 0; j < side; ++j)
        at(h, i, j) = static_cast<long double>(sample.given.values[i * side + j]);
  for (std::size_t h = 0; h < heads && first; ++h) {
    for (std::size_t i = 1; i < side; ++i)
      at(h, i, 0) += static_cast<long double>(sample.token.values[h]);
    for (std::size_t j = 0; j < side; ++j)
      at(h, 0, j) += static_cast<long double>(sample.token.values[h]);
  }
  // attn_edge_type: if an edge is listed several times, the last one counts.
  std::vector<std::vector<int>> listing(n, std::vector<int>(n, -1));
  for (std::size_t e = 0; e < sample.ends.size() / 2; ++e) {
    const auto u = static_cast<std::size_t>(sample.ends[2 * e]);
    const auto v = static_cast<std::size_t>(sample.ends[2 * e + 1]);
    listing[u][v] = static_cast<int>(e);
    if (sample.kind == EdgeKind::undirected) listing[v][u] = static_cast<int>(e);
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      const int spatial_pos = found.distance[i][j] + 1;
      for (std::size_t h = 0; h < heads; ++h)
        at(h, first + i, first + j) += static_cast<long double>(
            sample.spatial.values[static_cast<std::size_t>(spatial_pos) * heads + h]);
      if (!spec.hops || i == j || found.distance[i][j] == limit) continue;
      Edges way{static_cast<std::int64_t>(i)};
      for (const std::int64_t node : testing::released_nodes(
               found, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)))
        way.push_back(node);
      way.push_back(static_cast<std::int64_t>(j));
      int divisor = spatial_pos == 0 ? 1 : spatial_pos;
      if (divisor > 1) --divisor;
      divisor = std::min(divisor, static_cast<int>(spec.hops));
      for (std::size_t k = 0; k + 1 < way.size() && k < static_cast<std::size_t>(spec.hops);
           ++k) {
        const int edge =
            listing[static_cast<std::size_t>(way[k])][static_cast<std::size_t>(way[k + 1])];
        for (std::size_t g = 0; g < heads; ++g) {
          long double mean = 0;
          for (std::size_t f = 0; f < 3; ++f)
            mean +=
                static_cast<long double>(
                    sample.edges.values
                        [static_cast<std::size_t>(
                             sample.features.values[3 * static_cast<std::size_t>(edge) + f]) *
                             heads +
                         g]) /
                3;
          for (std::size_t h = 0; h < heads; ++h)
            at(h, first + i, first + j) +=
                mean *
                static_cast<long double>(sample.hops.values[(k * heads + g) * heads + h]) /
                divisor;
        }
      }
    }
  if (spec.given == GivenBias::twice)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < side; ++i)
        for (std::size_t j = 0; j < side; ++j)
          at(h, i, j) += static_cast<long double>(sample.given.values[i * side + j]);
  return bias;
}

std::vector<Sample> samples() {
  std::vector<Sample> list;
  for (const GraphToken token : {GraphToken::none, GraphToken::first})
    for (const GivenBias given : {GivenBias::once, GivenBias::twice})
      for (const auto& [nodes, count] : {std::pair{1, 1}, {7, 6}, {13, 16}, {20, 60}})
        for (const auto& [rows, hops, limit] :
             {std::tuple{0, 0, 510}, {9, 5, 510}, {9, 2, 510}, {9, 8, 3}})
          list.emplace_back(Graphormer{.heads = 3,
                                       .unreachable = limit,
                                       .edge_rows = rows,
                                       .hops = hops,
                                       .token = token,
                                       .given = given},
                            nodes, count,
                            nodes == 13 ? EdgeKind::directed : EdgeKind::undirected,
                            static_cast<unsigned>(list.size() + 1));
  return list;
}

TEST(Graphormer, IsWhatTheReleasedModelComputes) {
  for (const Sample& sample : samples()) {
    const std::int64_t side = sample.tokens();
    const auto expected = released(sample);
    Tensor<float, 3> out({3, side, side});
    fill(sample.spec, sample.indices(), sample.tables(), sample.input(), out.view());
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(out.values[i], static_cast<double>(expected[i]),
                  0x1p-24 * std::fabs(static_cast<double>(expected[i])) + 0x1p-48)
          << "number " << i;
  }
}

// Pairs: two distant nodes, two nodes that are not connected, a node and itself.
TEST(Graphormer, RowsOfTheSpatialTableByHand) {
  const Graphormer spec{
      .heads = 1, .unreachable = 4, .token = GraphToken::none, .given = GivenBias::once};
  const GraphormerIndices indices =
      graphormer_indices(spec, graph_of(7, {0, 1, 1, 2, 2, 3, 3, 4, 4, 5}));
  const std::vector<std::int32_t> row0(indices.spatial.begin(), indices.spatial.begin() + 7);
  EXPECT_EQ(row0, (std::vector<std::int32_t>{1, 2, 3, 4, 5, 5, 5}));
  for (std::int64_t d = 0; d < 7; ++d)
    EXPECT_EQ(spatial_row(spec, d), 1 + std::min<std::int64_t>(d, 4));
  const Graphormer as_released = graphormer_released(32);
  EXPECT_EQ(spatial_row(as_released, 0), 1);
  EXPECT_EQ(spatial_row(as_released, 509), 510);
  EXPECT_EQ(spatial_row(as_released, graphormer_unreachable), 511);
  const std::vector<float> mask = graphormer_mask(spec, indices, 3);
  EXPECT_EQ(mask[0], 0);
  EXPECT_EQ(mask[1], 0);
  EXPECT_EQ(mask[2], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(mask[6], -std::numeric_limits<float>::infinity());
}

TEST(Graphormer, HidesWhatTheCollatorHides) {
  const Graphormer spec = graphormer_released(2);
  const GraphormerIndices indices = graphormer_indices(spec, path_graph(30));
  const std::vector<float> mask = graphormer_mask(spec, indices);
  for (std::size_t i = 0; i < 31; ++i)
    for (std::size_t j = 0; j < 31; ++j) {
      const bool far = i && j && (i > j ? i - j : j - i) >= 19;
      EXPECT_EQ(mask[i * 31 + j], far ? -std::numeric_limits<float>::infinity() : 0.0f);
    }
}

// The objective sum(weights * bias) is a polynomial in the tables, so finite differences of the
// oracle in long double equal the gradient except for the rounding of the float steps.
TEST(Graphormer, GradientIsThatOfFiniteDifferences) {
  for (Sample& sample : samples()) {
    if (sample.nodes > 13) continue;
    const std::int64_t side = sample.tokens();
    const auto weights = testing::random_tensor<float, 3>({3, side, side}, 99);
    Tensor<float, 2> spatial(sample.spatial.extents, 1.0f), edges(sample.edges.extents, 1.0f);
    Tensor<float, 1> token(sample.token.extents, 1.0f);
    Tensor<float, 3> hops(sample.hops.extents, 1.0f);
    fill_backward(sample.spec, sample.indices(), sample.tables(), sample.input(),
                  weights.view(), {spatial.view(), token.view(), edges.view(), hops.view()});
    const auto objective = [&] {
      const auto bias = released(sample);
      long double sum = 0;
      for (std::size_t i = 0; i < bias.size(); ++i)
        sum += bias[i] * static_cast<long double>(weights.values[i]);
      return sum;
    };
    const auto compare = [&](std::vector<float>& numbers, const std::vector<float>& grads,
                             std::size_t from, std::size_t stride, const char* what) {
      for (std::size_t i = 0; i < from; ++i) EXPECT_EQ(grads[i], 1.0f) << what << " row 0";
      for (std::size_t i = from; i < numbers.size(); i += stride) {
        const float kept = numbers[i];
        const float up = kept + 0.25f, down = kept - 0.25f;
        numbers[i] = up;
        const long double above = objective();
        numbers[i] = down;
        const long double below = objective();
        numbers[i] = kept;
        const auto slope =
            (above - below) / (static_cast<long double>(up) - static_cast<long double>(down));
        EXPECT_NEAR(grads[i] - 1.0f, static_cast<double>(slope), 2e-5) << what << " " << i;
      }
    };
    const std::size_t rows = sample.spatial.values.size() / 7 + 1;
    compare(sample.spatial.values, spatial.values, 3, std::min<std::size_t>(rows, 29),
            "spatial");
    compare(sample.token.values, token.values, 0,
            sample.spec.token == GraphToken::first ? 1 : 100, "token");
    compare(sample.edges.values, edges.values, sample.spec.edge_rows ? 3 : 0, 5, "edges");
    compare(sample.hops.values, hops.values, 0, 7, "hops");
  }
}

TEST(Graphormer, IsTheSameForAnyNumberOfThreads) {
  const int before = threads();
  const Sample sample(graphormer_released(4), 60, 90, EdgeKind::undirected, 3);
  const GraphormerIndices indices = sample.indices();
  std::vector<std::vector<float>> results;
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    Tensor<float, 3> out({4, 61, 61});
    fill(sample.spec, indices, sample.tables(), sample.input(), out.view());
    Tensor<float, 2> spatial(sample.spatial.extents), edges(sample.edges.extents);
    Tensor<float, 1> token(sample.token.extents);
    Tensor<float, 3> hops(sample.hops.extents);
    fill_backward(sample.spec, indices, sample.tables(), sample.input(), out.view(),
                  {spatial.view(), token.view(), edges.view(), hops.view()});
    std::vector<float> all = out.values;
    for (const auto* part : {&spatial.values, &edges.values, &token.values, &hops.values})
      all.insert(all.end(), part->begin(), part->end());
    results.push_back(all);
  }
  set_threads(before);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Graphormer, AStripIsTheMatrixOfAPathGraph) {
  for (const std::int64_t limit : {3, 510}) {
    const Graphormer spec{
        .heads = 2, .unreachable = limit, .token = GraphToken::none, .given = GivenBias::once};
    const auto table = testing::random_tensor<float, 2>({limit + 2, 2});
    Tensor<float, 3> from_graph({2, 12, 12}), from_strip({2, 12, 12});
    const GraphormerIndices indices = graphormer_indices(spec, path_graph(12));
    fill(spec, indices, {table.view(), {}, {}, {}}, {}, from_graph.view());
    const StripBias form = lower(spec, table.view(), -15, 40);
    dense(BiasForm(form), 0, from_strip.view());
    EXPECT_EQ(from_graph.values, from_strip.values);

    const auto grad = testing::random_tensor<float, 3>({2, 12, 12}, 4);
    Tensor<float, 2> by_graph(table.extents, 1.0f), by_strip(table.extents, 1.0f);
    fill_backward(spec, indices, {table.view(), {}, {}, {}}, {}, grad.view(),
                  {by_graph.view(), {}, {}, {}});
    lower_backward(spec, add_bias_backward(grad.view(), BiasForm(form), 0).values, -15, 40,
                   by_strip.view());
    for (std::size_t i = 0; i < by_graph.values.size(); ++i)
      EXPECT_NEAR(by_graph.values[i], by_strip.values[i], 1e-5) << i;
    EXPECT_EQ(by_strip.view()(0, 0), 1.0f);
  }
}

TEST(Graphormer, TheDenseFormIsWhatAttentionAdds) {
  const Sample sample(graphormer_released(2), 5, 6, EdgeKind::undirected, 8);
  Tensor<float, 3> out({2, 6, 6}), again({2, 6, 6});
  fill(sample.spec, sample.indices(), sample.tables(), sample.input(), out.view());
  dense(BiasForm(DenseBias{{out.values.data(), {1, 2, 6, 6}}}), 0, again.view());
  EXPECT_EQ(out.values, again.values);
}

TEST(Graphormer, RefusesWhatBreaksItsBounds) {
  const Graphormer good{.heads = 2,
                        .unreachable = 5,
                        .edge_rows = 4,
                        .hops = 2,
                        .token = GraphToken::first,
                        .given = GivenBias::once};
  const auto changed = [&](auto change) {
    Graphormer spec = good;
    change(spec);
    return message_of([&] { spatial_row(spec, 0); });
  };
  EXPECT_EQ(changed([](Graphormer& s) { s.heads = 0; }),
            "[graphormer] heads must be at least 1, got 0");
  EXPECT_EQ(changed([](Graphormer& s) { s.unreachable = 0; }),
            "[graphormer] unreachable must be 1 to 2147483646, got 0");
  EXPECT_EQ(changed([](Graphormer& s) { s.edge_rows = 1; }),
            "[graphormer] edge_rows must be 0, or at least 2, got 1");
  EXPECT_EQ(changed([](Graphormer& s) { s.hops = 0; }),
            "[graphormer] hops must be at least 1 with edge features, got 0");
  EXPECT_EQ(changed([](Graphormer& s) { s.edge_rows = 0; }),
            "[graphormer] hops must be 0 without edge features, got 2");
  EXPECT_EQ(changed([](Graphormer& s) { s.token = {}; }),
            "[graphormer] token must be none or first, got 0");
  EXPECT_EQ(changed([](Graphormer& s) { s.given = {}; }),
            "[graphormer] given must be once or twice, got 0");
  EXPECT_EQ(message_of([&] { spatial_row(good, -1); }),
            "[graphormer] distance must not be negative, got -1");

  Sample sample(good, 3, 2, EdgeKind::undirected, 1);
  sample.ends = {0, 1, 1, 2};
  const GraphormerIndices indices = sample.indices();
  Tensor<float, 3> out({2, 4, 4}), small({2, 3, 3});
  const auto filled = [&](GraphormerTables<const float> tables, GraphormerInput input,
                          View<float, 3> to) {
    return message_of([&] { fill(good, indices, tables, input, to); });
  };
  EXPECT_EQ(filled(sample.tables(), sample.input(), out.view()), "");
  EXPECT_EQ(filled(sample.tables(), sample.input(), small.view()),
            "[graphormer] the matrix must be [2, 4, 4], got [2, 3, 3]");
  GraphormerTables<const float> tables = sample.tables();
  tables.spatial = tables.spatial.slice(0, 0, 6);
  EXPECT_EQ(filled(tables, sample.input(), out.view()),
            "[graphormer] the spatial table must be [7, 2], got [6, 2]");
  tables = sample.tables();
  tables.hops = tables.hops.slice(0, 0, 1);
  EXPECT_EQ(filled(tables, sample.input(), out.view()),
            "[graphormer] the weights of hops must be [2, 2, 2], got [1, 2, 2]");
  GraphormerInput input = sample.input();
  input.given = input.given.slice(0, 0, 3);
  EXPECT_EQ(filled(sample.tables(), input, out.view()),
            "[graphormer] the given bias must be [4, 4], got [3, 4]");
  input = sample.input();
  input.features = input.features.slice(0, 0, 1);
  EXPECT_EQ(filled(sample.tables(), input, out.view()),
            "[graphormer] features must have a row for each edge of the graph, 2 at "
            "least, got 1");
  sample.features.view()(1, 2) = 4;
  EXPECT_EQ(filled(sample.tables(), sample.input(), out.view()),
            "[graphormer] features of edges must be rows 1 to 3, got 4");
  GraphormerIndices broken = indices;
  broken.spatial[2] = 7;
  EXPECT_EQ(
      message_of([&] { fill(good, broken, sample.tables(), sample.input(), out.view()); }),
      "[graphormer] spatial rows must be 1 to 6, got 7");
  EXPECT_EQ(message_of([&] { graphormer_mask(good, indices, 0); }),
            "[graphormer] spatial_pos_max must be at least 1, got 0");
  GraphormerIndices short_of_rows = indices;
  short_of_rows.spatial.resize(1);
  EXPECT_EQ(message_of([&] { graphormer_mask(good, short_of_rows, 1); }),
            "[graphormer] indices must have a spatial row for each pair of nodes, got 1");
  EXPECT_EQ(message_of([&] { lower(good, sample.spatial.view(), 0, 1); }),
            "[graphormer] token must be none for a strip, got 2");
}

}  // namespace graphormer_test
}  // namespace gnomon
