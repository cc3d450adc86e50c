#include "gnomon/attention/weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gnomon/error.h"
#include "src/attention/ragged.h"
#include "src/attention/written.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using internal::Argument;
using std::int64_t;

constexpr int64_t most_units = 256;  // key columns of one call of attention

constexpr Argument argument(std::string_view name) { return {"attention_weights", name}; }

// A copy of q or k in double.
struct Doubles {
  std::vector<double> values;
  View<double, 4> view;

  explicit Doubles(std::array<int64_t, 4> extents)
      : values(internal::checked_size("attention_weights", "elements",
                                      {extents[0], extents[1], extents[2], extents[3]})),
        view(values.data(), extents) {}
};

Doubles doubles(std::string_view name, const ConstTensor& tensor) {
  std::optional<Doubles> copy;
  internal::by_type(argument(name), tensor, [&]<typename T>(T) {
    const auto from = internal::read<T, 4>(argument(name), tensor);
    copy.emplace(from.extents());
    double* to = copy->values.data();
    for (int64_t b = 0; b < from.extent(0); ++b)
      for (int64_t t = 0; t < from.extent(1); ++t)
        for (int64_t h = 0; h < from.extent(2); ++h)
          for (int64_t d = 0; d < from.extent(3); ++d)
            *to++ = static_cast<double>(static_cast<Accumulator<T>>(from(b, t, h, d)));
  });
  return *std::move(copy);
}

// An output [B, H, T, S], or nothing.
class Matrix {
 public:
  Matrix(std::string_view name, const Tensor& to, const std::array<int64_t, 4>& shape) {
    if (!to.has_data()) return;
    if (to.holds<float>())
      floats_ = internal::write<float, 4>(argument(name), to);
    else
      doubles_ = internal::write<double, 4>(argument(name), to);
    const auto& got = floats_.data() ? floats_.extents() : doubles_.extents();
    internal::check_shape("attention_weights", name, got, shape);
  }
  bool given() const { return floats_.data() || doubles_.data(); }
  void put(int64_t b, int64_t h, int64_t i, int64_t j, double value) const {
    if (floats_.data())
      floats_(b, h, i, j) = static_cast<float>(value);
    else
      doubles_(b, h, i, j) = value;
  }

 private:
  View<float, 4> floats_;
  View<double, 4> doubles_;
};

}  // namespace

void attention_weights(const AttentionInput& input, const AttentionPlan& plan,
                       const Tensor& weights, const Tensor& scores) {
  internal::refuse_ragged("attention_weights", plan);
  const Doubles q = doubles("q", input.q), k = doubles("k", input.k);
  const int64_t batch = q.view.extent(0), queries = q.view.extent(1), heads = q.view.extent(2);
  const int64_t keys = k.view.extent(1), key_heads = k.view.extent(2);
  const std::array<int64_t, 4> shape{batch, heads, queries, keys};
  const Matrix to_weights("weights", weights, shape), to_scores("scores", scores, shape);
  internal::check_written({{"weights", &weights}, {"scores", &scores}},
                          {.q = input.q, .k = input.k, .v = {}});
  if (plan.stick_breaking && to_scores.given())
    refuse("attention_weights", "scores require a softmax", "stick-breaking");
  AttentionPlan own = plan;
  own.relative.values.clear();

  const int64_t block = std::min(most_units, keys);
  Doubles units({1, keys, 1, block}), out({batch, queries, heads, block});
  std::vector<double> sums(internal::checked_size(
      "attention_weights", "batch x heads x queries", {batch, heads, queries}));
  const View<double, 3> lse(sums.data(), {batch, heads, queries});
  for (int64_t begin = 0; begin < keys; begin += block) {
    const int64_t count = std::min(block, keys - begin);
    std::fill(units.values.begin(), units.values.end(), 0.0);
    for (int64_t j = 0; j < count; ++j) units.view(0, begin + j, 0, j) = 1;
    // All rows of the batch and all heads share the unit vectors.
    const View<const double, 4> values(units.values.data(), {batch, keys, key_heads, count},
                                       {0, block, 0, 1});
    const View<double, 4> part(out.values.data(), {batch, queries, heads, count});
    attention({.q = q.view, .k = k.view, .v = values, .terms = input.terms}, own, part, lse);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t j = 0; j < count; ++j) {
            const double weight = part(b, i, h, j);
            if (to_weights.given()) to_weights.put(b, h, i, begin + j, weight);
            if (to_scores.given())
              to_scores.put(b, h, i, begin + j, std::log(weight) + lse(b, h, i));
          }
  }
}

}  // namespace gnomon
