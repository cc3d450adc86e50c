// gnomon.Graph, and the encodings of its nodes.
#include "gnomon/position/graph.h"

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "bindings/python/released_gil.h"
#include "gnomon/bias/graphormer.h"
#include "gnomon/embedding/degree.h"
#include "gnomon/embedding/random_walk.h"
#include "gnomon/error.h"
#include "gnomon/graph/laplacian_vectors.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

using Access = Array::Access;

constexpr Choice<EdgeKind> edge_kinds[] = {{"undirected", EdgeKind::undirected},
                                           {"directed", EdgeKind::directed}};

Graph graph_of(std::int64_t nodes, nb::handle edges, const std::string& kind) {
  // A list of pairs is an array of NumPy.
  const nb::object rows = nb::hasattr(edges, "__dlpack__")
                              ? nb::borrow(edges)
                              : nb::module_::import_("numpy").attr("asarray")(edges);
  const Integers ends = integers("graph", "edges", rows);
  if (ends.shape.size() != 2 || ends.shape[1] != 2)
    refuse("graph", "edges must have the shape [E, 2]", shape_text(ends.shape));
  return Graph(nodes, View<const std::int64_t, 2>(ends.values.data(), {ends.shape[0], 2}),
               chosen("graph", "kind", kind, edge_kinds));
}

nb::object counts(std::vector<std::int64_t> values) {
  const std::size_t size = values.size();
  return numpy(std::move(values), {size});
}

nb::object distances_of(const Graph& graph, std::int64_t limit) {
  ShortestPaths paths;
  {
    const ReleasedGil released;
    paths = shortest_paths(graph, limit);
  }
  const auto nodes = static_cast<std::size_t>(paths.nodes);
  return numpy(std::move(paths.distances), {nodes, nodes});
}

nb::object laplacian_of(const Graph& graph, std::int64_t vectors, const std::string& kind,
                        const std::string& zeros, const std::string& signs,
                        std::uint64_t seed) {
  constexpr Choice<LaplacianKind> kinds[] = {{"combinatorial", LaplacianKind::combinatorial},
                                             {"symmetric", LaplacianKind::symmetric}};
  constexpr Choice<LaplacianZeros> zero_choices[] = {{"skip_one", LaplacianZeros::skip_one},
                                                     {"skip_all", LaplacianZeros::skip_all}};
  constexpr Choice<LaplacianSigns> sign_choices[] = {{"fixed", LaplacianSigns::fixed},
                                                     {"random", LaplacianSigns::random},
                                                     {"absolute", LaplacianSigns::absolute}};
  const Laplacian laplacian{.vectors = vectors,
                            .kind = chosen("laplacian", "kind", kind, kinds),
                            .zeros = chosen("laplacian", "zeros", zeros, zero_choices),
                            .signs = chosen("laplacian", "signs", signs, sign_choices)};
  LaplacianVectors found;
  {
    const ReleasedGil released;
    found = laplacian_vectors(laplacian, graph, seed);
  }
  const auto rows = static_cast<std::size_t>(found.nodes),
             columns = static_cast<std::size_t>(found.vectors);
  return nb::module_::import_("gnomon._typing")
      .attr("LaplacianVectors")(numpy(std::move(found.eigenvalues), {columns}),
                                numpy(std::move(found.values), {rows, columns}), found.found);
}

nb::object walk_of(const Graph& graph, std::int64_t steps) {
  ReturnProbabilities found;
  {
    const ReleasedGil released;
    found = return_probabilities({.steps = steps}, graph);
  }
  return numpy(std::move(found.values),
               {static_cast<std::size_t>(found.nodes), static_cast<std::size_t>(found.steps)});
}

nb::object degree_table_of(const Graph& graph, nb::handle in, nb::handle out,
                           const std::string& beyond) {
  constexpr Choice<DegreeBeyond> choices[] = {{"capped", DegreeBeyond::capped},
                                              {"refused", DegreeBeyond::refused}};
  const Array ins("degree", "in_table", in, Access::read),
      outs("degree", "out_table", out, Access::read);
  const auto a = internal::read<float, 2>({"degree", "in_table"}, ins.tensor());
  const auto b = internal::read<float, 2>({"degree", "out_table"}, outs.tensor());
  const Degree degree{.rows = a.extent(0),
                      .width = a.extent(1),
                      .beyond = chosen("degree", "beyond", beyond, choices)};
  EmbeddingTable table = lower(degree, degree_rows(degree, graph), a, b);
  return numpy(std::move(table.values),
               {static_cast<std::size_t>(table.tokens), static_cast<std::size_t>(table.width)});
}

nb::object graphormer_of(const Graph& graph, nb::handle encoding, nb::handle spatial,
                         nb::handle token, nb::handle edges, nb::handle hops,
                         nb::handle features, nb::handle given) {
  const model::Encoding any = encoding_of(encoding);
  const auto* spec = std::get_if<Graphormer>(&any);
  if (!spec)
    refuse("graphormer", "encoding must be a gnomon.Graphormer", model::info(any).name);
  const char* const operation = "graphormer";
  const Array spatial_array(operation, "spatial", spatial, Access::read),
      token_array(operation, "token", token, Access::read),
      edges_array(operation, "edges", edges, Access::read),
      hops_array(operation, "hops", hops, Access::read),
      given_array(operation, "given", given, Access::read);
  const GraphormerTables<const float> tables{
      .spatial = internal::read<float, 2>({operation, "spatial"}, spatial_array.tensor()),
      .token = internal::read_if<float, 1>({operation, "token"}, token_array.tensor()),
      .edges = internal::read_if<float, 2>({operation, "edges"}, edges_array.tensor()),
      .hops = internal::read_if<float, 3>({operation, "hops"}, hops_array.tensor())};
  Integers rows;
  GraphormerInput input{
      .features = {},
      .given = internal::read_if<float, 2>({operation, "given"}, given_array.tensor())};
  if (!features.is_none()) {
    rows = integers(operation, "features", features);
    if (rows.shape.size() != 2)
      refuse(operation, "features must have the shape [E, F]", shape_text(rows.shape));
    input.features = {rows.values.data(), {rows.shape[0], rows.shape[1]}};
  }
  const std::int64_t tokens = graph.nodes() + (spec->token == GraphToken::first ? 1 : 0);
  std::vector<float> values(internal::checked_size(operation, "heads x tokens x tokens",
                                                   {spec->heads, tokens, tokens}));
  {
    const ReleasedGil released;
    fill(*spec, graphormer_indices(*spec, graph), tables, input,
         View<float, 3>(values.data(), {spec->heads, tokens, tokens}));
  }
  const auto count = static_cast<std::size_t>(tokens);
  return numpy(std::move(values), {static_cast<std::size_t>(spec->heads), count, count});
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<Graph>(module, "Graph",
                    R"(A graph of N nodes, numbered from 0. Immutable.

edges: integers [E, 2], each row two nodes. kind: 'undirected' (an edge gives two arcs) or
    'directed'. An edge that is listed more than once counts once.
Cost: O(N + E log E) time.)")
      .def(
          "__init__",
          [](Graph* self, std::int64_t nodes, nb::handle edges, const std::string& kind) {
            new (self) Graph(graph_of(nodes, edges, kind));
          },
          nb::arg("nodes"), nb::arg("edges"), nb::arg("kind"),
          nb::sig("def __init__(self, nodes: int, edges: Array, kind: EdgeKind) -> None"))
      .def_static("path", &path_graph, nb::arg("nodes"),
                  nb::sig("def path(nodes: int) -> Graph"),
                  "Returns the path 0 - 1 - ... - (nodes - 1), the graph of a text.")
      .def_static("ring", &ring_graph, nb::arg("nodes"),
                  nb::sig("def ring(nodes: int) -> Graph"),
                  "Returns the path closed to a ring.")
      .def_prop_ro("nodes", &Graph::nodes, "N.")
      .def_prop_ro("arcs", &Graph::arcs, "Arcs: two for each undirected edge.")
      .def_prop_ro(
          "kind",
          [](const Graph& g) {
            return g.kind() == EdgeKind::directed ? "directed" : "undirected";
          },
          nb::sig("def kind(self) -> EdgeKind"))
      .def(
          "out_degrees", [](const Graph& g) { return counts(out_degrees(g)); },
          nb::sig("def out_degrees(self) -> numpy.typing.NDArray[numpy.int64]"),
          "Returns the number of arcs from each node, [N].")
      .def(
          "in_degrees", [](const Graph& g) { return counts(in_degrees(g)); },
          nb::sig("def in_degrees(self) -> numpy.typing.NDArray[numpy.int64]"),
          "Returns the number of arcs to each node, [N].")
      .def(
          "components", [](const Graph& g) { return counts(components(g)); },
          nb::sig("def components(self) -> numpy.typing.NDArray[numpy.int64]"),
          "Returns the connected component of each node, [N], ignoring directions.")
      .def("distances", &distances_of, nb::arg("limit") = graphormer_unreachable,
           nb::sig("def distances(self, limit: int = 510) -> "
                   "numpy.typing.NDArray[numpy.int32]"),
           R"(Returns the arcs of the shortest path between every two nodes, [N, N]; `limit` if
there are at least that many, or no path. Cost: O(N (N + arcs)).)")
      .def("laplacian_vectors", &laplacian_of, nb::arg("vectors"), nb::kw_only(),
           nb::arg("kind"), nb::arg("zeros"), nb::arg("signs"), nb::arg("seed") = 0,
           nb::sig("def laplacian_vectors(self, vectors: int, *, kind: LaplacianKind, zeros: "
                   "LaplacianZeros, signs: LaplacianSigns, seed: int = 0) -> LaplacianVectors"),
           R"(Returns the K eigenvectors of the least eigenvalues of the Laplacian: eigenvalues
[K], ascending; vectors [N, K], columns of norm 1; found, the number of columns that are not
padding.

kind: 'combinatorial', D - A, or 'symmetric', I - D^-1/2 A D^-1/2.
zeros: 'skip_one' leaves out the first eigenvector of eigenvalue 0, 'skip_all' all of them.
signs: 'fixed', 'random' (by the seed, for training) or 'absolute'.
Residual: at most 2^-32 max L(i, i). Components of up to 256 nodes: O(n^3). Source: Dwivedi et
al. 2020, arXiv:2003.00982.)")
      .def("return_probabilities", &walk_of, nb::arg("steps"),
           nb::sig("def return_probabilities(self, steps: int) -> "
                   "numpy.typing.NDArray[numpy.float64]"),
           R"(Returns the probabilities [N, K] that a random walk is at its first node again
after 1 to K steps. Cost: at most O(N K arcs). Source: Dwivedi et al. 2021, arXiv:2110.07875.)")
      .def(
          "degree_table", &degree_table_of, nb::arg("in_table"), nb::arg("out_table"),
          nb::kw_only(), nb::arg("beyond"),
          nb::sig("def degree_table(self, in_table: Array, out_table: Array, *, beyond: "
                  "DegreeBeyond) -> numpy.typing.NDArray[numpy.float32]"),
          R"(Returns the table [N, C] of the sums of the rows degree + 1 of both tables, float32
[rows, C]. beyond: degrees without a row are 'capped' or 'refused'. Source: Ying et al. 2021,
arXiv:2106.05234, section 3.1.1.)")
      .def("graphormer_bias", &graphormer_of, nb::arg("encoding"), nb::arg("spatial"),
           nb::kw_only(), nb::arg("token") = nb::none(), nb::arg("edges") = nb::none(),
           nb::arg("hops") = nb::none(), nb::arg("features") = nb::none(),
           nb::arg("given") = nb::none(),
           nb::sig("def graphormer_bias(self, encoding: Encoding, spatial: Array, *, token: "
                   "Array | None = None, edges: Array | None = None, hops: Array | None = "
                   "None, features: IntegerArray | None = None, given: Array | None = None) -> "
                   "numpy.typing.NDArray[numpy.float32]"),
           R"(Returns the bias [H, T, T] of a gnomon.Graphormer; T is N, or N + 1 with a token.

spatial: float32 [unreachable + 2, H]; row 0 is not used, row d + 1 is that of distance d.
token: [H]. edges: [edge_rows, H]. hops: [hops, H, H]. features: rows of `edges` of each listed
    edge, integers [E, F]. given: a matrix [T, T] that is added (0 and -infinity).
Sums in double, rounded once. Source: Ying et al. 2021, arXiv:2106.05234, section 3.1.)")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__repr__", [](const Graph& g) {
        return "Graph(" + std::to_string(g.nodes()) + " nodes, " + std::to_string(g.arcs()) +
               " arcs)";
      });
}

}  // namespace gnomon::python
