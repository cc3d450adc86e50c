#include "gnomon/rotary/complex.h"

#include <cstdint>

namespace gnomon {
namespace internal {

void check_complex(std::span<const std::int64_t> extents,
                   std::span<const std::int64_t> strides) {
  const std::size_t last = extents.size() - 1;
  if (extents[last] % 2)
    refuse("complex", "the last extent must be even", std::int64_t{extents[last]});
  if (strides[last] != 1)
    refuse("complex", "the last axis must be contiguous: stride 1",
           std::int64_t{strides[last]});
  for (std::size_t axis = 0; axis < last; ++axis)
    if (extents[axis] > 1 && strides[axis] % 2)
      refuse("complex", "strides of other axes must be even", std::int64_t{strides[axis]});
}

}  // namespace internal

std::vector<std::complex<float>> cis_of(const RotaryTable& table) {
  const View<const float, 3> cos = table.cos(), sin = table.sin();
  std::vector<std::complex<float>> cis;
  cis.reserve(static_cast<std::size_t>(cos.size()));
  for (std::ptrdiff_t at = 0; at < cos.size(); ++at)
    cis.emplace_back(cos.data()[at], sin.data()[at]);
  return cis;
}

}  // namespace gnomon
