#include "gnomon/rotary/learned.h"

#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using internal::to_size;

RotaryFrequencies plain(const RotaryLearned& rotary, std::int64_t pairs) {
  RotaryFrequencies frequencies = lower(Rotary{.rotary_dim = rotary.rotary_dim,
                                               .pairing = rotary.pairing,
                                               .base = rotary.base,
                                               .head_offset = rotary.head_offset});
  if (pairs != rotary.rotary_dim / 2)
    refuse("rotary_learned",
           "alpha must have rotary_dim / 2 = " + std::to_string(rotary.rotary_dim / 2) +
               " elements",
           std::int64_t{pairs});
  return frequencies;
}

}  // namespace

RotaryFrequencies lower(const RotaryLearned& rotary, View<const float, 1> alpha) {
  RotaryFrequencies frequencies = plain(rotary, alpha.extent(0));
  for (std::ptrdiff_t i = 0; i < alpha.extent(0); ++i)
    frequencies.inv_freq[to_size(i)] *= std::exp(double{alpha(i)});
  return frequencies;
}

void lower_backward(const RotaryLearned& rotary, View<const float, 1> alpha,
                    std::span<const double> frequencies_grad, View<float, 1> alpha_grad) {
  const RotaryFrequencies frequencies = lower(rotary, alpha);
  plain(rotary, std::ssize(frequencies_grad));
  plain(rotary, alpha_grad.extent(0));
  for (std::ptrdiff_t i = 0; i < alpha.extent(0); ++i)
    alpha_grad(i) =
        static_cast<float>(double{alpha_grad(i)} +
                           frequencies.inv_freq[to_size(i)] * frequencies_grad[to_size(i)]);
}

}  // namespace gnomon
