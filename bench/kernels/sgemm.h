// The fastest sgemm of the libraries on this machine: the roof of attention.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace gnomon::bench {

// C [n, n] = A [n, n] B [n, n], row-major, with threads() threads.
struct Sgemm {
  std::string name;  // "OpenBLAS 0.3.21 (SkylakeX)"
  std::function<void(std::int64_t n, const float* a, const float* b, float* c)> multiply;
};

// Chooses among OpenBLAS, the BLAS that the system selects, and oneDNN, which are loaded at the
// first call. Libraries with wrong products are excluded. Null if there is no library.
//
// OpenBLAS does not recognize processors that are newer than it: OPENBLAS_CORETYPE is set by
// the instruction sets of the processor (src/core/openblas.h), unless it is set already.
const Sgemm* fastest_sgemm();

}  // namespace gnomon::bench
