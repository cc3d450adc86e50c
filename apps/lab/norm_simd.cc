#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/lab/kernels.h"
#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "apps/lab/norm_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "apps/lab/row-inl.h"
#include "hwy/highway.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon::lab::HWY_NAMESPACE {

using kernels::Rows;

constexpr std::int64_t piece_rows = 32;
constexpr float epsilon = 1e-5f;  // LibTorch's default

HWY_INLINE void NormRow(std::int64_t width, const float* HWY_RESTRICT x, const float* added,
                        const float* HWY_RESTRICT gain, const float* HWY_RESTRICT shift,
                        float* sum, float* HWY_RESTRICT normed, float* mean, float* inverse) {
  float total = 0;
  if (added) {
    total = SumOverRow(width, [&](auto tag, std::int64_t i) HWY_ATTR {
      const auto both = hn::Add(hn::LoadU(tag, x + i), hn::LoadU(tag, added + i));
      hn::StoreU(both, tag, sum + i);
      return both;
    });
    x = sum;
  } else {
    total = SumOverRow(
        width, [&](auto tag, std::int64_t i) HWY_ATTR { return hn::LoadU(tag, x + i); });
  }
  const float middle = total / static_cast<float>(width);
  const float squares = SumOverRow(width, [&](auto tag, std::int64_t i) HWY_ATTR {
    const auto apart = hn::Sub(hn::LoadU(tag, x + i), hn::Set(tag, middle));
    return hn::Mul(apart, apart);
  });
  const float scale = 1 / std::sqrt(squares / static_cast<float>(width) + epsilon);
  ForRow(width, [&](auto tag, std::int64_t i) HWY_ATTR {
    const auto apart = hn::Sub(hn::LoadU(tag, x + i), hn::Set(tag, middle));
    hn::StoreU(hn::MulAdd(hn::Mul(apart, hn::Set(tag, scale)), hn::LoadU(tag, gain + i),
                          hn::LoadU(tag, shift + i)),
               tag, normed + i);
  });
  *mean = middle;
  *inverse = scale;
}

void Norm(Rows rows, const float* x, const float* added, const float* gain, const float* shift,
          float* sum, float* normed, float* mean, float* inverse) {
  parallel_for(rows.count, piece_rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t at = n * rows.width;
      NormRow(rows.width, x + at, added ? added + at : nullptr, gain, shift,
              added ? sum + at : nullptr, normed + at, mean + n, inverse + n);
    }
  });
}

// gain_sum, shift_sum: [C]. The sums are added to them.
HWY_INLINE void NormRowBackward(std::int64_t width, const float* HWY_RESTRICT sum, float mean,
                                float inverse, const float* HWY_RESTRICT gain,
                                const float* HWY_RESTRICT normed_grad, const float* sum_grad,
                                float* HWY_RESTRICT x_grad, float* HWY_RESTRICT gain_sum,
                                float* HWY_RESTRICT shift_sum) {
  const auto standard = [&](auto tag, std::int64_t i) HWY_ATTR {  // mean 0, deviation 1
    return hn::Mul(hn::Sub(hn::LoadU(tag, sum + i), hn::Set(tag, mean)), hn::Set(tag, inverse));
  };
  float along_one = 0, along_row = 0;
  SumsOverRow(
      width,
      [&](auto tag, std::int64_t i, auto& one, auto& row) HWY_ATTR {
        const auto grad = hn::LoadU(tag, normed_grad + i), of_row = standard(tag, i);
        hn::StoreU(hn::Add(hn::LoadU(tag, shift_sum + i), grad), tag, shift_sum + i);
        hn::StoreU(hn::MulAdd(grad, of_row, hn::LoadU(tag, gain_sum + i)), tag, gain_sum + i);
        const auto inner = hn::Mul(grad, hn::LoadU(tag, gain + i));
        one = hn::Add(one, inner);
        row = hn::MulAdd(inner, of_row, row);
      },
      along_one, along_row);
  const float one = along_one / static_cast<float>(width);
  const float row = along_row / static_cast<float>(width);
  ForRow(width, [&](auto tag, std::int64_t i) HWY_ATTR {
    const auto inner = hn::Mul(hn::LoadU(tag, normed_grad + i), hn::LoadU(tag, gain + i));
    const auto left =
        hn::NegMulAdd(standard(tag, i), hn::Set(tag, row), hn::Sub(inner, hn::Set(tag, one)));
    const auto before = sum_grad ? hn::LoadU(tag, sum_grad + i) : hn::Zero(tag);
    hn::StoreU(hn::MulAdd(left, hn::Set(tag, inverse), before), tag, x_grad + i);
  });
}

void NormBackward(Rows rows, const float* sum, const float* mean, const float* inverse,
                  const float* gain, const float* normed_grad, const float* sum_grad,
                  float* x_grad, float* gain_grad, float* shift_grad) {
  const std::int64_t width = rows.width;
  const std::int64_t pieces = (rows.count + piece_rows - 1) / piece_rows;
  std::vector<float> sums(static_cast<std::size_t>(2 * pieces * width));  // by piece
  parallel_for(rows.count, piece_rows, [&](std::int64_t begin, std::int64_t end) {
    float* const gain_sum = sums.data() + 2 * (begin / piece_rows) * width;
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t at = n * width;
      NormRowBackward(width, sum + at, mean[n], inverse[n], gain, normed_grad + at,
                      sum_grad ? sum_grad + at : nullptr, x_grad + at, gain_sum,
                      gain_sum + width);
    }
  });
  std::fill_n(gain_grad, width, 0.0f);
  std::fill_n(shift_grad, width, 0.0f);
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const float* of_piece = sums.data() + 2 * piece * width;
    for (std::int64_t c = 0; c < width; ++c) {
      gain_grad[c] += of_piece[c];
      shift_grad[c] += of_piece[width + c];
    }
  }
}

}  // namespace gnomon::lab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::lab {

HWY_EXPORT(Norm);
HWY_EXPORT(NormBackward);

void kernels::norm(Rows rows, const float* x, const float* added, const float* gain,
                   const float* shift, float* sum, float* normed, float* mean, float* inverse) {
  GNOMON_DISPATCH(Norm)(rows, x, added, gain, shift, sum, normed, mean, inverse);
}
void kernels::norm_backward(Rows rows, const float* sum, const float* mean,
                            const float* inverse, const float* gain, const float* normed_grad,
                            const float* sum_grad, float* x_grad, float* gain_grad,
                            float* shift_grad) {
  GNOMON_DISPATCH(NormBackward)
  (rows, sum, mean, inverse, gain, normed_grad, sum_grad, x_grad, gain_grad, shift_grad);
}

}  // namespace gnomon::lab
#endif  // HWY_ONCE
