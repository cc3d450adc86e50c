// Products of queries and keys through Householder factors: backward pass.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/householder_backward_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/householder_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// sums [householder_block, stride] += weights^T rows, of the columns of block u from `begin`.
template <typename A>
void CollectBlock(const Tile& part, std::int64_t u, std::int64_t begin, std::int64_t size,
                  const A* weights, const A* rows, A* sums) {
  const std::int64_t stride = row_stride(size);
  begin = std::max(begin, u * householder_block);
  Product<A> product;
  product.depth = part.queries, product.factors = FactorsOf(rows, part.queries, size);
  product.a = weights + begin, product.a_stride = tile_keys;
  product.b = rows, product.b_row = stride;
  product.c = sums + (part.key + begin) * stride, product.c_row = stride;
  Multiply<Left::by_column, Into::add>(product, (u + 1) * householder_block - begin,
                                       padded(size));
}

// The gradients of a row within its own block. x: the row before it meets its own key.
template <typename A>
void OwnBlockBackward(const internal::TypedProblem<A>& problem, const Tile& part,
                      std::int64_t r, const FactorsOfHead<A>& of, const A* x,
                      const A* score_grad, A* steps, A* key_sums, A* grad) {
  const std::int64_t size = problem.size, stride = of.stride;
  std::int64_t count = 0, own = 0, last = 0;
  ForOwnBlock(problem, part, r, [&](std::int64_t s, bool moves) HWY_ATTR {
    if (!count) own = s, std::copy_n(x, padded(size), steps);
    last = s;
    A* next = steps + ++count * stride;
    std::copy_n(next - stride, padded(size), next);
    if (moves) Reflect(size, of[part.key + s], next);
  });
  const std::int64_t first = FirstSeen(problem, part, r) - part.key;
  for (std::int64_t s = last; count && s <= own; ++s) {
    const A* met = steps + (own - s) * stride;
    if (s > first) ReflectBackward(size, of[part.key + s], met, grad);
    const A ds = score_grad[s];
    if (ds == A(0)) continue;
    AddRow(size, ds, of.keys + (part.key + s) * stride, grad);
    AddRow(size, ds, met, key_sums + (part.key + s) * stride);
  }
}

template <typename A>
void HouseholderBackward(const internal::TypedProblem<A>& problem, const Tile& tile,
                         const Columns& all, const A* score_grad,
                         const HouseholderScratch<A>& at, const HouseholderSums<A>& sums,
                         A* key_sums, A* q_grad) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  const auto of = FactorsOfTile(problem, tile, &sums);
  ForParts(problem, tile, [&](const Tile& part, std::int64_t row, std::int64_t earlier) {
    A* grad = q_grad + row * stride;
    const A* ds = score_grad + row * tile_keys;
    for (std::int64_t u = all.begin / householder_block; u < earlier; ++u) {
      const A* met = at.met + (u * tile_rows + row) * stride;
      if (Moves(problem, part, u)) {
        const A* along = at.along + row * tile_keys;
        A* across = at.across + row * tile_keys;
        MeetFactors<A>(problem, part, u, grad, at.product_panels, across);
        CollectBlock<A>(part, u, 0, size, along, grad, sums.product);
        CollectBlock<A>(part, u, 0, size, across, met, sums.w);
        AddBlock<A>(part, u, 0, size, across, of.w, grad);
      }
      CollectBlock<A>(part, u, all.begin, size, ds, met, sums.moved);
      AddBlock<A>(part, u, all.begin, size, ds, of.moved, grad);
    }
    if (earlier == blocks_of_tile) return;
    for (std::int64_t r = 0; r < part.queries; ++r)
      OwnBlockBackward<A>(problem, part, r, of,
                          at.met + (earlier * tile_rows + row + r) * stride, ds + r * tile_keys,
                          sums.steps, key_sums, grad + r * stride);
  });
}

template <typename A>
bool IsZero(std::int64_t size, const A* row) {
  return std::all_of(row, row + size, [](A one) { return one == A(0); });
}

template <typename A>
void FinishHouseholderSums(const internal::TypedProblem<A>& problem, std::int64_t b,
                           std::int64_t key_head, const HouseholderSums<A>& sums, A* key_sums) {
  const std::int64_t size = problem.size, stride = row_stride(size);
  A* const steps = sums.steps;
  const FactorsOfHead<A> of(problem, b, key_head, sums);
  // Computes the rows at each factor from `from` to `to`, by `step`.
  const auto forward = [&](const A* x, std::int64_t from, std::int64_t to, std::int64_t step) {
    std::copy_n(x, padded(size), steps);
    A* at = steps;
    for (std::int64_t s = from; s != to; s += step, at += stride) {
      std::copy_n(at, padded(size), at + stride);
      Reflect(size, of[s], at + stride);
    }
    return at;
  };
  const auto backward = [&](A* grad, std::int64_t from, std::int64_t to, std::int64_t step) {
    const A* at = steps + (to - from) * step * stride;
    for (std::int64_t s = to; s != from;) {
      s -= step, at -= stride;
      ReflectBackward(size, of[s], at, grad);
    }
  };
  // A row without a gradient adds nothing: factors of other sequences may be NaN.
  for (std::int64_t j = 0; j < problem.keys; ++j) {
    const std::int64_t begin = j / householder_block * householder_block;
    const std::int64_t end = std::min(begin + householder_block, problem.keys);
    if (A* grad = sums.moved + j * stride; !IsZero(size, grad)) {
      forward(of.keys + j * stride, j + 1, end, 1);
      backward(grad, j + 1, end, 1);
      AddRow(size, A(1), grad, key_sums + j * stride);
    }
    if (A* grad = sums.product + j * stride; !IsZero(size, grad)) {
      const A* moved = forward(of.w + j * stride, j - 1, begin - 1, -1);
      sums.betas[j] -= DotRows<A>(size, grad, moved);
      ScaleRow(-of.betas[j], padded(size), grad);
      backward(grad, j - 1, begin - 1, -1);
      AddRow(size, A(1), grad, sums.w + j * stride);
    }
  }
}

template <typename A>
void StoreHouseholderGradient(const BackwardProblem<A>& problem, std::int64_t b,
                              std::int64_t key_head, A factor, const HouseholderSums<A>& sums) {
  for (std::int64_t j = 0; j < problem.keys; ++j) {
    if (problem.householder_grad.data())
      for (std::int64_t n = 0; n < problem.size; ++n)
        problem.householder_grad(b, j, key_head, n) =
            static_cast<float>(factor * sums.w[j * row_stride(problem.size) + n]);
    if (problem.betas_grad.data())
      problem.betas_grad(b, key_head, j) = static_cast<float>(factor * sums.betas[j]);
  }
}

#define GNOMON_HOUSEHOLDER_BACKWARD(A)                                                      \
  template void HouseholderBackward(const internal::TypedProblem<A>&, const Tile&,          \
                                    const Columns&, const A*, const HouseholderScratch<A>&, \
                                    const HouseholderSums<A>&, A*, A*);                     \
  template void FinishHouseholderSums(const internal::TypedProblem<A>&, std::int64_t,       \
                                      std::int64_t, const HouseholderSums<A>&, A*);         \
  template void StoreHouseholderGradient(const BackwardProblem<A>&, std::int64_t,           \
                                         std::int64_t, A, const HouseholderSums<A>&);
GNOMON_HOUSEHOLDER_BACKWARD(float)
GNOMON_HOUSEHOLDER_BACKWARD(double)
#undef GNOMON_HOUSEHOLDER_BACKWARD

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
