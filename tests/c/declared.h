// The functions that the C headers declare.
#pragma once

#include <fstream>
#include <set>
#include <string>

namespace gnomon::testing {

enum class Part { core = 1, model };  // of gnomon.h

// Returns the names of the functions of a header. A declaration begins in the first column. The
// sections "Model" of gnomon.h are of the component gnomon::model.
inline std::set<std::string> declared_functions(const std::string& header,
                                                Part part = Part::core) {
  std::ifstream file(std::string(GNOMON_SOURCE_DIR "/include/") + header);
  std::set<std::string> all;
  Part now = Part::core;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("/* --- Model")) now = Part::model;
    const std::size_t end = line.find('(');
    if (now != part || end == std::string::npos || line.empty() || line[0] < 'a' ||
        line[0] > 'z' || line.starts_with("typedef"))
      continue;
    const std::size_t begin = line.find_last_of(" *", end) + 1;
    if (line.compare(begin, 7, "gnomon_") == 0) all.insert(line.substr(begin, end - begin));
  }
  return all;
}

}  // namespace gnomon::testing
