#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "apps/lab/kernels.h"
#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "apps/lab/loss_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "apps/lab/row-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon::lab::HWY_NAMESPACE {

using kernels::Rows;

constexpr std::int64_t piece_rows = 64;

float MostOfRow(std::int64_t width, const float* x) {
  const hn::ScalableTag<float> tag;
  auto most = hn::Set(tag, -std::numeric_limits<float>::infinity());
  float rest = -std::numeric_limits<float>::infinity();
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) most = hn::Max(most, hn::LoadU(tag, x + i));
  for (; i < width; ++i) rest = std::max(rest, x[i]);
  return std::max(rest, hn::GetLane(hn::MaxOfLanes(tag, most)));
}

double CrossEntropy(Rows rows, const float* logits, const std::int64_t* targets, float* grad) {
  const std::int64_t pieces = (rows.count + piece_rows - 1) / piece_rows;
  std::vector<double> sums(static_cast<std::size_t>(pieces));
  const float share = 1 / static_cast<float>(rows.count);
  parallel_for(rows.count, piece_rows, [&](std::int64_t begin, std::int64_t end) {
    double loss = 0;
    for (std::int64_t n = begin; n < end; ++n) {
      const float* row = logits + n * rows.width;
      float* to = grad ? grad + n * rows.width : nullptr;
      const float most = MostOfRow(rows.width, row);
      const float sum = SumOverRow(rows.width, [&](auto tag, std::int64_t i) HWY_ATTR {
        const auto power = hn::Exp(tag, hn::Sub(hn::LoadU(tag, row + i), hn::Set(tag, most)));
        if (to) hn::StoreU(power, tag, to + i);
        return power;
      });
      loss += std::log(static_cast<double>(sum)) + static_cast<double>(most) -
              static_cast<double>(row[targets[n]]);
      if (!to) continue;
      const float scale = share / sum;
      ForRow(rows.width, [&](auto tag, std::int64_t i) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::LoadU(tag, to + i), hn::Set(tag, scale)), tag, to + i);
      });
      to[targets[n]] -= share;
    }
    sums[static_cast<std::size_t>(begin / piece_rows)] = loss;
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total / static_cast<double>(rows.count);
}

}  // namespace gnomon::lab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::lab {

HWY_EXPORT(CrossEntropy);

double kernels::cross_entropy(Rows rows, const float* logits, const std::int64_t* targets,
                              float* grad) {
  return GNOMON_DISPATCH(CrossEntropy)(rows, logits, targets, grad);
}

}  // namespace gnomon::lab
#endif  // HWY_ONCE
