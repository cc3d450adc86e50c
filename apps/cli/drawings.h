// The charts of `gnomon plot`, as figures.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gnomon/plot/page.h"

namespace gnomon::cli {

struct PlotOptions {
  std::string what, kind;
  std::int64_t dim = 0, length = 0, heads = 8;
  double base = 10'000;
  std::string grid, cells = "2,3;8,16;13,28", parameters;
};

struct Drawing {
  const char* what;  // the name in `gnomon plot WHAT`
  std::function<plot::Figure(const PlotOptions&)> draw;
};
const std::vector<Drawing>& drawings();

}  // namespace gnomon::cli
