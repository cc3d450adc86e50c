// The forms of a bias: what attention needs to know to add position to a block of scores
// without ever holding a matrix [H, Q, K]. Every bias encoding lowers to one of them; attention
// knows these and no encoding by name.
//
// The distance of a query and a key is  position(key) - position(query):  negative towards the
// past. Letters: H query heads, Q queries, K keys, N distances.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "gnomon/view.h"

namespace gnomon {

// No bias.
struct NoBias {
  bool operator==(const NoBias&) const = default;
};

// -slopes[h] |distance|.
struct SlopeBias {
  std::vector<double> slopes;  // [H]
  bool operator==(const SlopeBias&) const = default;
};

// values[h, distance - first]: one number for each distance from `first` to `first + N - 1`. A
// distance outside is refused by whoever applies the strip, before it reads anything.
struct StripBias {
  std::int64_t heads = 0;      // H
  std::int64_t first = 0;      // the distance of column 0
  std::vector<double> values;  // [H, N]

  std::int64_t distances() const noexcept {  // N
    return heads ? static_cast<std::int64_t>(values.size()) / heads : 0;
  }
  bool operator==(const StripBias&) const = default;
};

// A matrix that the caller already has, by row of queries and row of keys. Borrowed. Strides
// may be zero (the same for every head, say).
struct DenseBias {
  View<const float, 4> values;  // [B, H, Q, K]
};

using BiasForm = std::variant<NoBias, SlopeBias, StripBias, DenseBias>;

// The gradient of a form's numbers, in its own shape, summed over the batch: [H] for a slope,
// [H, N] for a strip. Empty for NoBias; a dense form's goes to the view below.
struct BiasGradient {
  std::vector<double> values;
  View<float, 4> dense;  // [B, H, Q, K], written by the backward pass where it has data
};

// The heads that a form speaks of; 0 for NoBias, which fits any number.
std::int64_t heads(const BiasForm& form) noexcept;

// The whole matrix: out [H, Q, K] (any strides) gets the bias of the query at position
// offset + q and the key at position k. For looking at, and for engines that ask for it.
// Throws when out's heads are not the form's, or a strip does not reach. For a DenseBias the
// batch row 0.
void dense(const BiasForm& form, std::int64_t offset, View<float, 3> out);
void dense(const BiasForm& form, std::int64_t offset, View<double, 3> out);

// scores [H, Q, K] += bias, in place: the same numbers where scores already exist.
void add_bias(View<float, 3> scores, const BiasForm& form, std::int64_t offset);

// The gradient of `add_bias` for the form's numbers: grad [H, Q, K] summed along equal
// distances in double, in the order of q then k. Returns it in the form's shape.
BiasGradient add_bias_backward(View<const float, 3> grad, const BiasForm& form,
                               std::int64_t offset);

}  // namespace gnomon
