// The kernels that `gnomon bench` measures. Each has a roof: the least work of the machine for
// the same result.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gnomon::cli {

enum class Roof {
  memory = 1,  // the same bytes touched in place, written, or read
  arithmetic,  // float multiply-adds: sgemm, or in registers
};

struct Kernel {
  std::string name;    // "rotate"
  std::string detail;  // "bf16 halves [512, 32 + 8, 128]"
  Roof roof = {};
  double work = 0;  // bytes moved, or floating-point operations
  std::function<void()> run;
  std::function<void()> run_roof;
  std::function<double()> error;  // largest |result - oracle in double| of a sample
  double roof_work = 0;           // of one run_roof; 0: equal to `work`
  std::string roof_name = {};     // if `roof` does not determine it
  double dense_bytes = 0;         // of the matrix [H, T, T] that is not needed
};

// Makes a kernel and its buffers, which the kernel owns. `name` is for the lookup and may have
// more words than the name of the kernel: "attention alibi".
struct KernelMaker {
  std::string name;
  std::function<Kernel()> make;
};

// Kernels whose KernelMaker::name begins with `name`. Without `tokens`: at lengths from one
// token to more than the last cache holds.
std::vector<KernelMaker> kernels(const std::string& name, std::optional<std::int64_t> tokens);

// The kernels of one module. Without `tokens`: at lengths that the function chooses.
std::vector<KernelMaker> table_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> rotary_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> bias_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> attention_kernels(std::optional<std::int64_t> tokens);
// A training step with each encoding of the list.
std::vector<KernelMaker> encoding_kernels(std::optional<std::int64_t> tokens);

}  // namespace gnomon::cli
