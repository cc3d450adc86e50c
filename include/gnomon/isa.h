// Which instruction set the kernels use. The best of the machine is chosen at the first call;
// the environment variable GNOMON_ISA (one of the names below) forces another, to compare
// kernels or to report a bug in one. An unknown or unavailable name is an error, not a guess.
#pragma once

#include <string_view>
#include <vector>

namespace gnomon {

enum class Isa {
  portable = 1,  // plain C++, as the compiler makes it
  sse4,
  avx2,    // with FMA and F16C
  avx512,  // F, BW, CD, DQ, VL
  neon,
};

// "portable", "sse4", "avx2", "avx512" or "neon".
std::string_view name(Isa isa) noexcept;

// What this machine can run and this build contains; best last. Never empty.
std::vector<Isa> available_isas();

// What the next kernel call will use. Throws std::invalid_argument when GNOMON_ISA names none
// of available_isas().
Isa current_isa();

// What a kernel reports of itself when it is run: the proof that forcing works.
Isa running_isa();

// Forces an instruction set for the whole process while it lives. For tests and benchmarks;
// not while other threads run kernels.
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);  // throws when `isa` is not available
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  Isa before_;
};

}  // namespace gnomon
