// Arrays with gaps, for readers that draw the arguments of kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "fuzz/target.h"
#include "gnomon.h"
#include "gnomon/dtype.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon::fuzz {

template <typename T>
double value(T element) {
  if constexpr (std::is_floating_point_v<T>)
    return element;
  else
    return static_cast<double>(static_cast<float>(element));
}

// The relative error of one rounding to a type of 16 bits. Others have their own bounds.
template <typename T>
constexpr double half_ulp = std::is_same_v<T, Half>       ? 0x1p-11
                            : std::is_same_v<T, BFloat16> ? 0x1p-8
                                                          : 0;

// Half of the least positive number of the type.
template <typename T>
constexpr double half_least = std::is_same_v<T, Half> ? 0x1p-25 : 0;

// Calls visit with a value of element type `number`, 0 to 3.
template <typename Visit>
void with_type(std::int64_t number, Visit visit) {
  number == 0   ? visit(float{})
  : number == 1 ? visit(double{})
  : number == 2 ? visit(Half{})
                : visit(BFloat16{});
}

inline gnomon_tensor tensor_of(const ConstTensor& tensor) {
  gnomon_tensor same;
  static_assert(sizeof same == sizeof(DlTensor));
  std::memcpy(&same, static_cast<const DlTensor*>(&tensor), sizeof same);
  return same;
}

// An array [B, rows, heads, dim] with drawn gaps between its rows, and a guard at each end.
template <typename T>
struct Array {
  static constexpr std::size_t guard = 3;
  typename View<T, 4>::Extents extents, strides;
  std::vector<T> memory;

  Array(Choices& choose, std::int64_t batch, std::int64_t rows, std::int64_t heads,
        std::int64_t dim)
      : extents{batch, rows, heads, dim} {
    strides[3] = 1;
    strides[2] = dim + choose.below(3);
    strides[1] = heads * strides[2] + choose.below(3);
    strides[0] = rows * strides[1] + choose.below(3);
    memory.assign(static_cast<std::size_t>(batch * strides[0]) + 2 * guard, T(77.0));
  }
  View<T, 4> view() { return {memory.data() + guard, extents, strides}; }
  // Numbers from the uniform distribution on [-scale, scale).
  void fill(std::uint64_t seed, double scale) {
    const View<T, 4> all = view();
    for (std::int64_t b = 0; b < extents[0]; ++b)
      for (std::int64_t t = 0; t < extents[1]; ++t)
        for (std::int64_t h = 0; h < extents[2]; ++h)
          for (std::int64_t d = 0; d < extents[3]; ++d) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            all(b, t, h, d) = T(scale * (static_cast<double>(seed >> 40) * 0x1p-23 - 1));
          }
  }
};

}  // namespace gnomon::fuzz
