// [T, H, D] as a batch of one, for the files of this room.
#pragma once

#include "gnomon/view.h"

namespace gnomon::rotary_internal {

template <typename T>
View<T, 4> batch_of_one(const View<T, 3>& x) noexcept {
  return {x.data(),
          {1, x.extent(0), x.extent(1), x.extent(2)},
          {0, x.stride(0), x.stride(1), x.stride(2)}};
}

}  // namespace gnomon::rotary_internal
