#include "bench/kernels/sgemm.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "bench/kernels/blocks.h"
#include "gnomon/parallel.h"
#include "src/core/openblas.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

// cblas.h. Enums are int, and sizes are int in the builds that distributions ship.
using Cblas = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       float alpha, const float* a, int a_row, const float* b, int b_row,
                       float beta, float* c, int c_row);
constexpr int row_major = 101, no_transpose = 111;
// dnnl.h. All matrices are row-major.
using Dnnl = int (*)(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k,
                     float alpha, const float* a, int64_t a_row, const float* b, int64_t b_row,
                     float beta, float* c, int64_t c_row);
struct DnnlVersion {
  int major, minor, patch;
};

template <typename Function>
Function find(void* library, const char* symbol) {
  return reinterpret_cast<Function>(dlsym(library, symbol));
}

// The rows of C are divided among our threads. A library with threads of its own runs one
// thread in each, because loops of OpenMP do not nest.
template <typename Rows>
auto by_rows(Rows rows) {
  return [rows](int64_t n, const float* a, const float* b, float* c) {
    const int64_t grain = (n + gnomon::threads() - 1) / gnomon::threads();
    parallel_for(n, grain, [=](int64_t begin, int64_t end) {
      rows(end - begin, n, a + begin * n, b, c + begin * n);
    });
  };
}

std::optional<Sgemm> open_blas(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const auto gemm = library ? find<Cblas>(library, "cblas_sgemm") : nullptr;
  if (!gemm) return {};
  std::string name = file;
  const auto config = find<const char* (*)()>(library, "openblas_get_config");
  const auto core = find<const char* (*)()>(library, "openblas_get_corename");
  if (config && core) {
    const std::string text = config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
    name = fmt::format("{} ({})", text.substr(0, text.find(' ', text.find(' ') + 1)), core());
  }
  if (const auto threads = find<void (*)(int)>(library, "openblas_set_num_threads")) threads(1);
  return Sgemm{name,
               by_rows([gemm](int64_t m, int64_t n, const float* a, const float* b, float* c) {
                 const int of_c = static_cast<int>(m), size = static_cast<int>(n);
                 gemm(row_major, no_transpose, no_transpose, of_c, size, size, 1.0f, a, size, b,
                      size, 0.0f, c, size);
               })};
}

std::optional<Sgemm> open_dnnl(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const auto gemm = library ? find<Dnnl>(library, "dnnl_sgemm") : nullptr;
  const auto version =
      library ? find<const DnnlVersion* (*)()>(library, "dnnl_version") : nullptr;
  if (!gemm || !version) return {};
  return Sgemm{
      fmt::format("oneDNN {}.{}.{}", version()->major, version()->minor, version()->patch),
      by_rows([gemm](int64_t m, int64_t n, const float* a, const float* b, float* c) {
        gemm('N', 'N', m, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
      })};
}

// The duration of each library in seconds, the best of several alternating rounds. Infinity if
// a product is wrong.
std::vector<double> trial(const std::vector<Sgemm>& sgemms, int64_t n) {
  const auto a = random_block<float, 2>({n, n}), b = random_block<float, 2>({n, n}),
             c = zeros<float, 2>({n, n});
  const auto right = [&] {
    for (int64_t i = 0; i < n; i += 37) {
      const int64_t j = i * 11 % n;
      double exact = 0;
      for (int64_t k = 0; k < n; ++k) exact += double{a->view(i, k)} * double{b->view(k, j)};
      if (!(std::fabs(c->view(i, j) - exact) <= 1e-6 * static_cast<double>(n))) return false;
    }
    return true;
  };
  std::vector<double> best(sgemms.size(), HUGE_VAL);
  for (int round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < sgemms.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      sgemms[i].multiply(n, a->data.get(), b->data.get(), c->data.get());
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      if (right()) best[i] = std::min(best[i], spent.count());
    }
  return best;
}

std::optional<Sgemm> choose() {
#ifdef __SANITIZE_ADDRESS__
  return {};  // LeakSanitizer fails on threads of libraries that are loaded later
#endif
  if (const char* core = internal::openblas_core())
    setenv(internal::openblas_variable, core, 0);
  std::vector<Sgemm> found;
  for (const char* file : {"libopenblas.so.0", "libblas.so.3"})
    if (auto sgemm = open_blas(file)) found.push_back(*sgemm);
  for (const char* file : {"libdnnl.so.3", "libdnnl.so.2"})
    if (auto sgemm = open_dnnl(file)) found.push_back(*sgemm);
  // The reference BLAS is a hundred times slower than the others, so small products exclude it.
  // Threads that start may slow them, too, but less.
  for (const int64_t n : {256, 2048}) {
    if (found.empty()) return {};
    const std::vector<double> seconds = trial(found, n);
    const double best = *std::min_element(seconds.begin(), seconds.end());
    std::vector<Sgemm> left;
    for (std::size_t i = 0; i < found.size(); ++i)
      if (seconds[i] <= (n == 256 ? 30 * best : best) && seconds[i] < HUGE_VAL)
        left.push_back(found[i]);
    found = left;
  }
  return found.empty() ? std::optional<Sgemm>() : found.front();
}

}  // namespace

const Sgemm* fastest_sgemm() {
  static const std::optional<Sgemm> chosen = choose();
  return chosen ? &*chosen : nullptr;
}

}  // namespace gnomon::bench
