// The kernels that `gnomon bench` times, each beside its roof: the least that the machine must
// do for the same work.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gnomon::cli {

enum class Roof {
  memory = 1,  // the same bytes touched in place, or written
  arithmetic,  // as many float multiply-adds, in registers
};

struct Kernel {
  std::string name;    // "rotate"
  std::string detail;  // "bf16 halves [512, 32, 128]"
  Roof roof = {};
  double work = 0;  // bytes moved, or floating-point operations
  std::function<void()> run;
  std::function<void()> run_roof;
  std::function<double()> error;  // worst |result - oracle in double|, of a sample
};

// All of them, of those whose name begins with `name`. Buffers are made when a kernel is first
// run and dropped with the list's entry.
std::vector<std::function<Kernel()>> kernels(const std::string& name);

}  // namespace gnomon::cli
