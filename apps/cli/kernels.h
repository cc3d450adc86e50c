// The kernels that `gnomon bench` times, each beside its roof: the least that the machine must
// do for the same work.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gnomon::cli {

enum class Roof {
  memory = 1,  // the same bytes touched in place, or written
  arithmetic,  // as many float multiply-adds, in registers
};

struct Kernel {
  std::string name;    // "rotate"
  std::string detail;  // "bf16 halves [512, 32 + 8, 128]"
  Roof roof = {};
  double work = 0;  // bytes moved, or floating-point operations
  std::function<void()> run;
  std::function<void()> run_roof;
  std::function<double()> error;  // worst |result - oracle in double|, of a sample
};

// Makes a kernel of that name and its buffers, which go with it.
struct KernelMaker {
  std::string name;
  std::function<Kernel()> make;
};

// Kernels whose name begins with `name`, at `tokens`, or at lengths from one token to more than
// the last cache holds.
std::vector<KernelMaker> kernels(const std::string& name, std::optional<std::int64_t> tokens);

// One room's, at lengths of its choice where there is none.
std::vector<KernelMaker> table_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> rotary_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> bias_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> attention_kernels(std::optional<std::int64_t> tokens);

}  // namespace gnomon::cli
