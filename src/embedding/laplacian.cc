#include "gnomon/embedding/laplacian.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/embedding/laplacian.h"

namespace gnomon {

using internal::to_size;
namespace {

using std::int64_t;

// Sets the sign of column k: first to the fixed convention, then as the spec requires. `flip`:
// negate.
void set_sign(const Laplacian& spec, LaplacianVectors& vectors, int64_t k, bool flip) {
  const auto entry = [&](int64_t n) -> double& {
    return vectors.values[to_size(n * vectors.vectors + k)];
  };
  double largest = 0;
  for (int64_t n = 0; n < vectors.nodes; ++n) largest = std::max(largest, std::fabs(entry(n)));
  double sign = 1;
  for (int64_t n = 0; n < vectors.nodes; ++n)
    if (std::fabs(entry(n)) >= largest * (1 - 0x1p-20)) {
      sign = entry(n) < 0 ? -1 : 1;
      break;
    }
  if (flip) sign = -sign;
  for (int64_t n = 0; n < vectors.nodes; ++n)
    entry(n) = spec.signs == LaplacianSigns::absolute ? std::fabs(entry(n)) : sign * entry(n);
}

// A random bit per vector, by SplitMix64 of Steele, Lea and Flood ("Fast splittable
// pseudorandom number generators", 2014): equal on every machine.
bool coin(std::uint64_t seed, int64_t k) {
  std::uint64_t x = seed + (static_cast<std::uint64_t>(k) + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) >> 63;
}

// cos(pi numerator / denominator). The argument is reduced in integers, so zeros are exact.
double cos_of_pi(int64_t numerator, int64_t denominator) {
  numerator %= 2 * denominator;
  if (2 * numerator == denominator || 2 * numerator == 3 * denominator) return 0;
  return std::cos(std::numbers::pi * static_cast<double>(numerator) /
                  static_cast<double>(denominator));
}

}  // namespace

namespace internal {

void check(const Laplacian& spec) {
  if (spec.vectors < 1) refuse("laplacian", "vectors must be at least 1", spec.vectors);
  if (spec.kind != LaplacianKind::combinatorial && spec.kind != LaplacianKind::symmetric)
    refuse("laplacian", "kind must be combinatorial or symmetric", static_cast<int>(spec.kind));
  if (spec.zeros != LaplacianZeros::skip_one && spec.zeros != LaplacianZeros::skip_all)
    refuse("laplacian", "zeros must be skip_one or skip_all", static_cast<int>(spec.zeros));
  if (spec.signs != LaplacianSigns::fixed && spec.signs != LaplacianSigns::random &&
      spec.signs != LaplacianSigns::absolute)
    refuse("laplacian", "signs must be fixed, random or absolute",
           static_cast<int>(spec.signs));
}

LaplacianVectors zero_vectors(const Laplacian& spec, int64_t nodes) {
  return {.nodes = nodes,
          .vectors = spec.vectors,
          .found = 0,
          .eigenvalues = std::vector<double>(to_size(spec.vectors)),
          .values = std::vector<double>(to_size(nodes * spec.vectors))};
}

}  // namespace internal

LaplacianVectors path_laplacian_vectors(const Laplacian& laplacian, int64_t nodes,
                                        std::uint64_t seed) {
  internal::check(laplacian);
  if (nodes < 0) refuse("laplacian", "nodes must not be negative", nodes);
  const bool symmetric = laplacian.kind == LaplacianKind::symmetric;
  LaplacianVectors vectors = internal::zero_vectors(laplacian, nodes);
  vectors.found = std::clamp<int64_t>(nodes - 1, 0, laplacian.vectors);
  // A single node has one pair in the symmetric kind, with eigenvalue 1.
  if (nodes == 1 && symmetric && laplacian.zeros == LaplacianZeros::skip_all) {
    vectors.found = 1;
    vectors.eigenvalues[0] = vectors.values[0] = 1;
    return with_signs(laplacian, std::move(vectors), seed);
  }
  for (int64_t k = 0; k < vectors.found; ++k) {
    const int64_t j = k + 1, steps = symmetric ? nodes - 1 : nodes;
    vectors.eigenvalues[to_size(k)] = (symmetric ? 1 : 2) * (1 - cos_of_pi(j, steps));
    double squares = 0;
    for (int64_t n = 0; n < nodes; ++n) {
      const bool end = n == 0 || n == nodes - 1;
      const double entry = symmetric ? (end ? 1 : std::numbers::sqrt2) * cos_of_pi(j * n, steps)
                                     : cos_of_pi(j * (2 * n + 1), 2 * steps);
      vectors.values[to_size(n * laplacian.vectors + k)] = entry;
      squares += entry * entry;
    }
    for (int64_t n = 0; n < nodes; ++n)
      vectors.values[to_size(n * laplacian.vectors + k)] /= std::sqrt(squares);
  }
  return with_signs(laplacian, std::move(vectors), seed);
}

LaplacianVectors with_signs(const Laplacian& laplacian, LaplacianVectors vectors,
                            std::uint64_t seed) {
  internal::check(laplacian);
  if (vectors.found < 0 || vectors.found > vectors.vectors ||
      vectors.values.size() != to_size(vectors.nodes) * to_size(vectors.vectors))
    refuse("laplacian", "the vectors must be [nodes, vectors]",
           static_cast<int64_t>(vectors.values.size()));
  for (int64_t k = 0; k < vectors.found; ++k)
    set_sign(laplacian, vectors, k, laplacian.signs == LaplacianSigns::random && coin(seed, k));
  return vectors;
}

}  // namespace gnomon
