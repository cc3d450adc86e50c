// The fastest sgemm of other people that the machine has: the roof of attention.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace gnomon::cli {

// C [n, n] = A [n, n] B [n, n], row by row in memory, by as many threads as threads() says.
struct Sgemm {
  std::string name;  // "OpenBLAS 0.3.21 (SkylakeX)"
  std::function<void(std::int64_t n, const float* a, const float* b, float* c)> multiply;
};

// Of OpenBLAS, whatever BLAS the system prefers, and oneDNN, loaded when first asked for; a
// library whose products are wrong is passed over. Null where there is none.
//
// OpenBLAS takes Xeons newer than itself for old ones: where AVX-512 is there and
// OPENBLAS_CORETYPE is not set, it is set to SkylakeX.
const Sgemm* fastest_sgemm();

}  // namespace gnomon::cli
