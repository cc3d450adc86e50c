// Rotations of heads one after another.
#pragma once

#include <span>
#include <variant>

#include "gnomon/analysis/order.h"

namespace gnomon::analysis {

template <typename T, std::size_t rank>
void rotate_all(View<T, rank> x, std::span<const HeadRotation> rotations) {
  for (const HeadRotation& one : rotations)
    std::visit([&](const auto& table) { rotate(x, table); }, one);
}

}  // namespace gnomon::analysis
