// Graphs in text files: one edge a line, "u v", for the tables and biases of graphs.
#pragma once

#include <string>

#include "gnomon/position/graph.h"

namespace gnomon::cli {

// Reads the edges (parse_edges). The nodes are 0 to the highest number in the file. Throws
// std::invalid_argument if there are no edges or more than 2^20 nodes: one line of a file can
// name node 2^31 - 1.
Graph read_graph(const std::string& path, EdgeKind kind);

}  // namespace gnomon::cli
