// The element types of keys and values, and the scales of those with 8 bits.
#pragma once

#include <string_view>

#include "gnomon/tensor.h"

namespace gnomon::internal {

// Whether elements are E4M3: float8_e4m3fn of DLPack, or bytes.
bool is_e4m3(const ConstTensor& tensor);

// Checks that k or v has an element type that is allowed with that of q, and scales if, and
// only if, they are required.
void check_type_of_keys(std::string_view name, const ConstTensor& q, const ConstTensor& keys,
                        const ConstTensor& scales);

// Checks the scales of k or v, and returns them for each row and head, with strides of 0 along
// the rows of E4M3. Without data if the elements have none.
View<const float, 3> scales_of(std::string_view name, const ConstTensor& scales,
                               const ConstTensor& keys);

}  // namespace gnomon::internal
