// tests/bias/released.json: values computed by released implementations.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace gnomon::testing {

inline nlohmann::json released_biases() {
  std::ifstream file(std::string(GNOMON_SOURCE_DIR) + "/tests/bias/released.json");
  return nlohmann::json::parse(file);
}

}  // namespace gnomon::testing
