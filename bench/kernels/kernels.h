// The registry of kernels that are measured: `gnomon bench` times them, gnomon_instructions
// counts their instructions. Each has a roof: the least work for the same result.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/roofs.h"

namespace gnomon::bench {

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
  std::function<RoofRun()> make_roof;  // allocates its arrays
  // Returns the largest |result - oracle in double| of a sample. Empty: tests/ has the oracle.
  std::function<double()> error;
  double dense_bytes = 0;  // size of the matrix [H, T, T] that is not needed
  // Which kernels of the library are called, and why. Empty: there is no choice.
  std::function<std::string()> explain = {};
  // Waits for the runs, if `run` only starts them (on a GPU).
  std::function<void()> finish = {};
};

// Makes a kernel and its buffers, which the kernel owns. `name` is for the lookup and may have
// more words than the name of the kernel: "attention alibi".
struct KernelMaker {
  std::string name;
  std::function<Kernel()> make;
};

// A kernel at a small size, for counting. `elements` are written by one run.
struct CountedKernel {
  const char* name;  // in bench/instructions/avx2.tsv
  std::int64_t elements;
  std::function<Kernel()> make;
};

// Kernels whose KernelMaker::name begins with `name`. Without `tokens`: at lengths from one
// token to more than the last cache holds.
std::vector<KernelMaker> kernels(std::string_view name, std::optional<std::int64_t> tokens);
// The kernels of the GPU, and its name. Throws std::invalid_argument if there is no GPU, the
// build is without the component cuda, or no kernel has the name.
std::vector<KernelMaker> cuda_kernels(std::string_view name,
                                      std::optional<std::int64_t> tokens);
std::string cuda_device();
// The names of the kernels: "fill, table, ...".
std::string kernel_names();
std::vector<CountedKernel> counted_kernels();

// The kernels of one file. Without `tokens`: at lengths that the function chooses.
std::vector<KernelMaker> table_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> feature_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> rotary_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> token_angle_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> cached_key_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> paged_append_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> bias_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> attention_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> decoding_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> encoding_kernels(std::optional<std::int64_t> tokens);
std::vector<KernelMaker> beside_kernels(std::optional<std::int64_t> tokens);

std::vector<CountedKernel> counted_tables();
std::vector<CountedKernel> counted_rotary();
std::vector<CountedKernel> counted_cached_keys();
std::vector<CountedKernel> counted_biases();
std::vector<CountedKernel> counted_attention();
std::vector<CountedKernel> counted_decoding();

// Returns `only` if it is given. Otherwise returns 1, 512, 8192 and a length whose data has
// twice the size of the last cache. `bytes`: per token.
std::vector<std::int64_t> lengths(std::optional<std::int64_t> only, std::int64_t bytes);

}  // namespace gnomon::bench
