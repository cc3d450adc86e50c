#include "gnomon/bias/graphormer.h"

#include <algorithm>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/bias/spread.h"
#include "src/core/size.h"

namespace gnomon {

using internal::to_size;
namespace {

using std::int32_t;
using std::int64_t;

constexpr int64_t piece_numbers = 1 << 14;  // matrix elements in a piece of work

void check(const Graphormer& spec) {
  if (spec.heads < 1) refuse("graphormer", "heads must be at least 1", spec.heads);
  if (spec.unreachable < 1 || spec.unreachable >= std::numeric_limits<int32_t>::max())
    refuse("graphormer", "unreachable must be 1 to 2147483646", spec.unreachable);
  if (spec.edge_rows < 0 || spec.edge_rows == 1)
    refuse("graphormer", "edge_rows must be 0, or at least 2", spec.edge_rows);
  if (spec.edge_rows ? spec.hops < 1 : spec.hops != 0)
    refuse("graphormer",
           spec.edge_rows ? "hops must be at least 1 with edge features"
                          : "hops must be 0 without edge features",
           spec.hops);
  if (spec.token != GraphToken::none && spec.token != GraphToken::first)
    refuse("graphormer", "token must be none or first", static_cast<int>(spec.token));
  if (spec.given != GivenBias::once && spec.given != GivenBias::twice)
    refuse("graphormer", "given must be once or twice", static_cast<int>(spec.given));
}

int64_t row_unchecked(const Graphormer& spec, int64_t distance) {
  return 1 +
         std::clamp(distance, -spec.unreachable, spec.unreachable) * (distance < 0 ? -1 : 1);
}

void check_spatial(const Graphormer& spec, const std::array<std::int64_t, 2>& extents) {
  internal::check_shape<2>("graphormer", "the spatial table", extents,
                           {spec.unreachable + 2, spec.heads});
}

template <typename T>
void check_tables(const Graphormer& spec, const GraphormerTables<T>& tables) {
  check_spatial(spec, tables.spatial.extents());
  if (spec.token == GraphToken::first)
    internal::check_shape<1>("graphormer", "the token's numbers", tables.token.extents(),
                             {spec.heads});
  if (spec.edge_rows) {
    internal::check_shape<2>("graphormer", "the table of edges", tables.edges.extents(),
                             {spec.edge_rows, spec.heads});
    internal::check_shape<3>("graphormer", "the weights of hops", tables.hops.extents(),
                             {spec.hops, spec.heads, spec.heads});
  }
}

int64_t lead(const Graphormer& spec) { return spec.token == GraphToken::first ? 1 : 0; }

// Checks everything except the tables.
void check_input(const Graphormer& spec, const GraphormerIndices& indices,
                 const GraphormerInput& input, const std::array<std::int64_t, 3>& matrix) {
  check(spec);
  const int64_t nodes = indices.nodes, tokens = nodes + lead(spec);
  if (nodes < 0 || indices.hops != spec.hops ||
      indices.spatial.size() != to_size(nodes) * to_size(nodes) ||
      indices.edges.size() != to_size(nodes) * to_size(nodes) * to_size(spec.hops))
    refuse("graphormer",
           "indices must be of this spec: [N, N] and [N, N, " + std::to_string(spec.hops) + "]",
           shape_text(std::array<std::int64_t, 3>{nodes, nodes, indices.hops}));
  for (const int32_t row : indices.spatial)
    if (row < 1 || row > spec.unreachable + 1)
      refuse("graphormer", "spatial rows must be 1 to " + std::to_string(spec.unreachable + 1),
             row);
  internal::check_shape<3>("graphormer", "the matrix", matrix, {spec.heads, tokens, tokens});
  if (input.given.size())
    internal::check_shape<2>("graphormer", "the given bias", input.given.extents(),
                             {tokens, tokens});
  if (!spec.edge_rows) return;
  const int64_t listed = input.features.extent(0);
  if (listed && input.features.extent(1) < 1)
    refuse("graphormer", "each edge must have at least 1 feature", input.features.extent(1));
  for (int64_t e = 0; e < listed; ++e)
    for (int64_t f = 0; f < input.features.extent(1); ++f)
      if (const int64_t row = input.features(e, f); row < 1 || row >= spec.edge_rows)
        refuse("graphormer",
               "features of edges must be rows 1 to " + std::to_string(spec.edge_rows - 1),
               row);
  for (const int32_t edge : indices.edges)
    if (edge < -1 || edge >= listed)
      refuse("graphormer",
             "features must have a row for each edge of the graph, " +
                 std::to_string(edge + int64_t{1}) + " at least",
             listed);
}

// Returns the mean of the table rows of each listed edge, [E, H].
std::vector<double> means(const Graphormer& spec, View<const float, 2> edges,
                          View<const int64_t, 2> features) {
  const int64_t listed = features.extent(0), count = features.extent(1);
  std::vector<double> mean(to_size(listed * spec.heads));
  for (int64_t e = 0; e < listed; ++e)
    for (int64_t h = 0; h < spec.heads; ++h) {
      double sum = 0;
      for (int64_t f = 0; f < count; ++f) sum += double{edges(features(e, f), h)};
      mean[to_size(e * spec.heads + h)] = sum / static_cast<double>(count);
    }
  return mean;
}

// Calls body(j, spatial row, edges, number of arcs that count) for each node j and query node
// i.
template <typename Body>
void for_pairs(const GraphormerIndices& indices, int64_t i, const Body& body) {
  for (int64_t j = 0; j < indices.nodes; ++j) {
    const int64_t pair = i * indices.nodes + j;
    const int32_t* const edges = indices.edges.data() + pair * indices.hops;
    int64_t arcs = 0;
    while (arcs < indices.hops && edges[arcs] >= 0) ++arcs;
    body(j, indices.spatial[to_size(pair)], edges, arcs);
  }
}

internal::Classes rows_of(const Graphormer& spec, int64_t min_distance, int64_t count) {
  if (spec.token != GraphToken::none)
    refuse("graphormer", "token must be none for a strip", static_cast<int>(spec.token));
  if (spec.edge_rows) refuse("graphormer", "edge_rows must be 0 for a strip", spec.edge_rows);
  return internal::classes_of("graphormer", min_distance, count, spec.unreachable,
                              [&](int64_t distance) { return row_unchecked(spec, distance); });
}

}  // namespace

Graphormer graphormer_released(int64_t heads) {
  const Graphormer spec{.heads = heads,
                        .unreachable = graphormer_unreachable,
                        .edge_rows = 3 * 512 + 1,
                        .hops = 5,
                        .token = GraphToken::first,
                        .given = GivenBias::twice};
  check(spec);
  return spec;
}

int64_t spatial_row(const Graphormer& graphormer, int64_t distance) {
  check(graphormer);
  if (distance < 0) refuse("graphormer", "distance must not be negative", distance);
  return row_unchecked(graphormer, distance);
}

GraphormerIndices graphormer_indices(const Graphormer& graphormer, const Graph& graph) {
  check(graphormer);
  const ShortestPaths paths = shortest_paths(graph, graphormer.unreachable);
  const int64_t nodes = paths.nodes, hops = graphormer.hops;
  GraphormerIndices indices{.nodes = nodes,
                            .hops = hops,
                            .spatial = paths.distances,
                            .edges = std::vector<int32_t>(to_size(nodes * nodes * hops), -1)};
  for (int32_t& row : indices.spatial) ++row;
  if (!hops) return indices;
  for (int64_t i = 0; i < nodes; ++i)
    for (int64_t j = 0; j < nodes; ++j) {
      const std::vector<int64_t> way = nodes_between(paths, i, j);
      int32_t* const edges = indices.edges.data() + (i * nodes + j) * hops;
      for (int64_t k = 0; k < hops && k + 1 < static_cast<int64_t>(way.size()); ++k) {
        const auto heads = graph.neighbours(way[to_size(k)]);
        const auto arc = std::lower_bound(heads.begin(), heads.end(), way[to_size(k + 1)]);
        const int64_t row = graph.listed(way[to_size(k)])[to_size(arc - heads.begin())];
        if (row > std::numeric_limits<int32_t>::max())
          refuse("graphormer", "edges must be fewer than 2^31", row);
        edges[k] = static_cast<int32_t>(row);
      }
    }
  return indices;
}

void fill(const Graphormer& graphormer, const GraphormerIndices& indices,
          const GraphormerTables<const float>& tables, const GraphormerInput& input,
          View<float, 3> out) {
  check_input(graphormer, indices, input, out.extents());
  check_tables(graphormer, tables);
  const int64_t heads = graphormer.heads, hops = graphormer.hops, first = lead(graphormer);
  const int64_t listed = hops ? input.features.extent(0) : 0, tokens = indices.nodes + first;
  // The contribution of each edge at each hop, [E, hops, H].
  std::vector<double> given_by(to_size(listed * hops * heads));
  if (listed) {
    const std::vector<double> mean = means(graphormer, tables.edges, input.features);
    parallel_for(listed, 64, [&](int64_t begin, int64_t end) {
      for (int64_t e = begin; e < end; ++e)
        for (int64_t k = 0; k < hops; ++k)
          for (int64_t g = 0; g < heads; ++g)
            for (int64_t h = 0; h < heads; ++h)
              given_by[to_size((e * hops + k) * heads + h)] +=
                  mean[to_size(e * heads + g)] * double{tables.hops(k, g, h)};
    });
  }
  const double times = graphormer.given == GivenBias::twice ? 2 : 1;
  const auto beside = [&](int64_t q, int64_t k) {
    return input.given.size() ? times * double{input.given(q, k)} : 0;
  };
  parallel_for(
      tokens, piece_numbers / (heads * tokens + 1) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t q = begin; q < end; ++q) {
          for (int64_t h = 0; h < heads; ++h)
            for (int64_t k = 0; k < (q < first ? tokens : first); ++k)
              out(h, q, k) = static_cast<float>(double{tables.token(h)} + beside(q, k));
          if (q < first) continue;
          for_pairs(indices, q - first,
                    [&](int64_t j, int64_t row, const int32_t* edges, int64_t arcs) {
                      for (int64_t h = 0; h < heads; ++h) {
                        double on_the_way = 0;
                        for (int64_t k = 0; k < arcs; ++k)
                          on_the_way += given_by[to_size((edges[k] * hops + k) * heads + h)];
                        if (arcs) on_the_way /= static_cast<double>(arcs);
                        out(h, q, first + j) = static_cast<float>(
                            double{tables.spatial(row, h)} + on_the_way + beside(q, first + j));
                      }
                    });
        }
      });
}

void fill_backward(const Graphormer& graphormer, const GraphormerIndices& indices,
                   const GraphormerTables<const float>& tables, const GraphormerInput& input,
                   View<const float, 3> grad, const GraphormerTables<float>& grads) {
  check_input(graphormer, indices, input, grad.extents());
  check_tables(graphormer, tables);
  check_tables(graphormer, grads);
  const int64_t heads = graphormer.heads, hops = graphormer.hops, first = lead(graphormer);
  const int64_t listed = hops ? input.features.extent(0) : 0, tokens = indices.nodes + first;
  const int64_t rows = graphormer.unreachable + 2;
  std::vector<double> of_rows(to_size(heads * rows)), of_token(to_size(heads));
  std::vector<double> of_arcs(to_size(heads * listed * hops));  // [H, E, hops]
  parallel_for(heads, piece_numbers / (tokens * tokens + 1) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t h = begin; h < end; ++h) {
                   double* const arcs_of_head = of_arcs.data() + h * listed * hops;
                   for (int64_t q = 0; q < tokens; ++q) {
                     for (int64_t k = 0; k < (q < first ? tokens : first); ++k)
                       of_token[to_size(h)] += double{grad(h, q, k)};
                     if (q < first) continue;
                     for_pairs(indices, q - first,
                               [&](int64_t j, int64_t row, const int32_t* edges, int64_t arcs) {
                                 const double value = double{grad(h, q, first + j)};
                                 of_rows[to_size(h * rows + row)] += value;
                                 for (int64_t k = 0; k < arcs; ++k)
                                   arcs_of_head[edges[k] * hops + k] +=
                                       value / static_cast<double>(arcs);
                               });
                   }
                 }
               });
  const auto add = [](float& to, double value) { to = static_cast<float>(double{to} + value); };
  for (int64_t row = 1; row < rows; ++row)
    for (int64_t h = 0; h < heads; ++h)
      add(grads.spatial(row, h), of_rows[to_size(h * rows + row)]);
  for (int64_t h = 0; first && h < heads; ++h) add(grads.token(h), of_token[to_size(h)]);
  if (!listed) return;

  const std::vector<double> mean = means(graphormer, tables.edges, input.features);
  std::vector<double> of_mean(mean.size());
  for (int64_t k = 0; k < hops; ++k)
    for (int64_t g = 0; g < heads; ++g)
      for (int64_t h = 0; h < heads; ++h) {
        double sum = 0;
        for (int64_t e = 0; e < listed; ++e) {
          const double of_arc = of_arcs[to_size((h * listed + e) * hops + k)];
          sum += mean[to_size(e * heads + g)] * of_arc;
          of_mean[to_size(e * heads + g)] += double{tables.hops(k, g, h)} * of_arc;
        }
        add(grads.hops(k, g, h), sum);
      }
  std::vector<double> of_edges(to_size(graphormer.edge_rows * heads));
  const int64_t features = input.features.extent(1);
  for (int64_t e = 0; e < listed; ++e)
    for (int64_t f = 0; f < features; ++f)
      for (int64_t g = 0; g < heads; ++g)
        of_edges[to_size(input.features(e, f) * heads + g)] +=
            of_mean[to_size(e * heads + g)] / static_cast<double>(features);
  for (int64_t row = 1; row < graphormer.edge_rows; ++row)
    for (int64_t g = 0; g < heads; ++g)
      add(grads.edges(row, g), of_edges[to_size(row * heads + g)]);
}

std::vector<float> graphormer_mask(const Graphormer& graphormer,
                                   const GraphormerIndices& indices, int64_t spatial_pos_max) {
  check(graphormer);
  if (spatial_pos_max < 1)
    refuse("graphormer", "spatial_pos_max must be at least 1", spatial_pos_max);
  const int64_t first = lead(graphormer), nodes = indices.nodes, tokens = nodes + first;
  if (!internal::holds(indices.spatial.size(), nodes, nodes))
    refuse("graphormer", "indices must have a spatial row for each pair of nodes",
           static_cast<int64_t>(indices.spatial.size()));
  std::vector<float> mask(to_size(tokens * tokens));
  for (int64_t i = 0; i < nodes; ++i)
    for (int64_t j = 0; j < nodes; ++j)
      if (indices.spatial[to_size(i * nodes + j)] >= spatial_pos_max)
        mask[to_size((first + i) * tokens + first + j)] =
            -std::numeric_limits<float>::infinity();
  return mask;
}

StripBias lower(const Graphormer& graphormer, View<const float, 2> spatial,
                int64_t min_distance, int64_t count) {
  check(graphormer);
  check_spatial(graphormer, spatial.extents());
  return internal::spread(spatial, min_distance, rows_of(graphormer, min_distance, count));
}

void lower_backward(const Graphormer& graphormer, std::span<const double> strip_grad,
                    int64_t min_distance, int64_t count, View<float, 2> spatial_grad) {
  check(graphormer);
  check_spatial(graphormer, spatial_grad.extents());
  internal::gather_gradient("graphormer", strip_grad, rows_of(graphormer, min_distance, count),
                            spatial_grad);
}

}  // namespace gnomon
