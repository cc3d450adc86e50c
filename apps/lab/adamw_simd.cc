#include <vector>

#include "apps/lab/kernels.h"
#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "apps/lab/adamw_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "apps/lab/row-inl.h"
#include "hwy/highway.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon::lab::HWY_NAMESPACE {

constexpr std::int64_t piece = 8192;

double SumOfSquares(std::int64_t count, const float* x) {
  // Each float sum has at most 512 additions per lane, which limits its rounding error.
  std::vector<float> sums(static_cast<std::size_t>((count + piece - 1) / piece));
  parallel_for(count, piece, [&](std::int64_t begin, std::int64_t end) {
    sums[static_cast<std::size_t>(begin / piece)] =
        SumOverRow(end - begin, [&](auto tag, std::int64_t i) HWY_ATTR {
          const auto one = hn::LoadU(tag, x + begin + i);
          return hn::Mul(one, one);
        });
  });
  double total = 0;
  for (const float sum : sums) total += static_cast<double>(sum);
  return total;
}

void AdamW(std::int64_t count, const kernels::AdamWStep& s, const float* grad, float* m,
           float* v, float* x) {
  parallel_for(count, piece, [&](std::int64_t begin, std::int64_t end) {
    ForRow(end - begin, [&](auto tag, std::int64_t i) HWY_ATTR {
      const auto of = [&](float number) HWY_ATTR { return hn::Set(tag, number); };
      const std::int64_t at = begin + i;
      const auto g = hn::Mul(hn::LoadU(tag, grad + at), of(s.gradient_scale));
      const auto mean =
          hn::MulAdd(hn::LoadU(tag, m + at), of(s.beta1), hn::Mul(g, of(1 - s.beta1)));
      const auto square = hn::MulAdd(hn::LoadU(tag, v + at), of(s.beta2),
                                     hn::Mul(hn::Mul(g, g), of(1 - s.beta2)));
      const auto size = hn::MulAdd(hn::Sqrt(square), of(1 / s.root), of(s.epsilon));
      hn::StoreU(mean, tag, m + at);
      hn::StoreU(square, tag, v + at);
      hn::StoreU(hn::NegMulAdd(of(s.step), hn::Div(mean, size),
                               hn::Mul(hn::LoadU(tag, x + at), of(s.keep))),
                 tag, x + at);
    });
  });
}

}  // namespace gnomon::lab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::lab {

HWY_EXPORT(SumOfSquares);
HWY_EXPORT(AdamW);

double kernels::sum_of_squares(std::int64_t count, const float* x) {
  return GNOMON_DISPATCH(SumOfSquares)(count, x);
}
void kernels::adamw(std::int64_t count, const AdamWStep& step, const float* grad, float* m,
                    float* v, float* x) {
  GNOMON_DISPATCH(AdamW)(count, step, grad, m, v, x);
}

}  // namespace gnomon::lab
#endif  // HWY_ONCE
