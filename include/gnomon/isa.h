// The instruction set of the kernels. The first call of a kernel chooses the best one of the
// machine. The environment variable GNOMON_ISA (one of the names below) forces another one, to
// compare kernels or to report a bug in one. An unknown or unavailable name is an error.
#pragma once

#include <string_view>
#include <vector>

namespace gnomon {

enum class Isa {
  portable = 1,  // plain C++, compiled without explicit SIMD
  sse4,
  avx2,    // with FMA and F16C
  avx512,  // F, BW, CD, DQ, VL
  neon,
  wasm,  // SIMD of WebAssembly, without FMA
};

// Returns "portable", "sse4", "avx2", "avx512", "neon" or "wasm".
std::string_view name(Isa isa) noexcept;

// Returns the instruction sets that this build contains and this machine can run, from slowest
// to fastest. Never empty.
std::vector<Isa> available_isas();

// Returns the instruction set of the next kernel call. Throws std::invalid_argument if
// GNOMON_ISA is not the name of one of available_isas().
Isa current_isa();

// Runs a kernel that returns the instruction set it was compiled for. Used to test that
// GNOMON_ISA and ScopedIsa take effect.
Isa running_isa();

// Forces an instruction set for the whole process during the lifetime of the object. For tests
// and benchmarks. Not thread-safe: no other thread may run kernels when a ScopedIsa is created
// or destroyed.
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);  // throws std::invalid_argument if `isa` is not available
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  Isa before_;
};

}  // namespace gnomon
