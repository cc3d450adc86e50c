#include "apps/cli/graph_file.h"

#include "gnomon/error.h"
#include "gnomon/io/file.h"

namespace gnomon::cli {

Graph read_graph(const std::string& path, EdgeKind kind) {
  const io::MappedFile file(path);
  const EdgeList list = parse_edges(file.text(), file.name());
  if (list.nodes < 1) refuse("graph", "must have at least one edge", path);
  if (list.nodes > std::int64_t{1} << 20)
    refuse("graph", "must have at most 2^20 nodes", list.nodes);
  return Graph(list.nodes, list.edges(), kind);
}

}  // namespace gnomon::cli
