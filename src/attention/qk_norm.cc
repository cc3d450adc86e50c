#include "gnomon/attention/qk_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t norm_grain = 256;  // tokens in a piece

void check_weights(const char* name, View<const float, 2> weights, int64_t heads,
                   int64_t size) {
  if (!weights.data()) return;
  if ((weights.extent(0) != 1 && weights.extent(0) != heads) || weights.extent(1) != size)
    refuse("qk_norm",
           std::string(name) + " must be [1 or " + std::to_string(heads) + ", " +
               std::to_string(size) + "]",
           shape_text(weights.extents()));
}

// Factor and shift of a norm: y = factor (x - shift).
struct Moments {
  double shift, factor;
};
Moments moments(const HeadNorm& norm, const std::vector<double>& x) {
  const auto count = static_cast<double>(x.size());
  double mean = 0, squares = 0;
  if (norm.kind == NormKind::layer) {
    for (const double one : x) mean += one;
    mean /= count;
  }
  for (const double one : x) squares += (one - mean) * (one - mean);
  if (norm.kind == NormKind::clip)
    return {0, std::min(1.0, norm.limit / (std::sqrt(squares) + norm.epsilon))};
  if (norm.kind == NormKind::l2) return {0, 1 / std::max(std::sqrt(squares), norm.epsilon)};
  return {mean, 1 / std::sqrt(squares / count + norm.epsilon)};
}

template <typename T>
double number(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<double>(static_cast<float>(x));
}

double entry(View<const float, 2> weights, int64_t head, int64_t element, double otherwise) {
  if (!weights.data()) return otherwise;
  return double{weights(weights.extent(0) == 1 ? 0 : head, element)};
}

template <typename T>
void normalise_typed(const HeadNorm& norm, View<const float, 2> weight,
                     View<const float, 2> bias, View<T, 4> x) {
  if (norm.kind < NormKind::rms || norm.kind > NormKind::clip)
    refuse("qk_norm", "kind must be rms, layer, l2 or clip", static_cast<int>(norm.kind));
  if (norm.kind == NormKind::clip ? !(norm.limit > 0 && std::isfinite(norm.limit))
                                  : norm.limit != 0)
    refuse("qk_norm", "limit must be finite and positive for clip, and 0 for others",
           norm.limit);
  if (norm.scope != NormScope::head && norm.scope != NormScope::all_heads)
    refuse("qk_norm", "scope must be head or all_heads", static_cast<int>(norm.scope));
  if (!(norm.epsilon >= 0) || !std::isfinite(norm.epsilon))
    refuse("qk_norm", "epsilon must be finite and not negative", norm.epsilon);
  if (!std::isfinite(norm.weight_offset))
    refuse("qk_norm", "weight_offset must be finite", norm.weight_offset);
  const int64_t tokens = x.extent(1), heads = x.extent(2), size = x.extent(3);
  check_weights("weight", weight, heads, size);
  check_weights("bias", bias, heads, size);
  if (x.size() == 0) return;
  const int64_t together = norm.scope == NormScope::head ? 1 : heads;
  parallel_for(x.extent(0) * tokens, norm_grain, [&](int64_t begin, int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(together * size));
    for (int64_t token = begin; token < end; ++token)
      for (int64_t first = 0; first < heads; first += together) {
        T* const row = &x(token / tokens, token % tokens, first, 0);
        const auto at = [&](int64_t i) -> T& {
          return row[i / size * x.stride(2) + i % size * x.stride(3)];
        };
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = number(at(static_cast<int64_t>(i)));
        const auto weight_of = [&](int64_t i) {
          return norm.weight_offset +
                 entry(weight, first + i / size, i % size, 1 - norm.weight_offset);
        };
        if (norm.kind == NormKind::clip)
          for (std::size_t i = 0; i < values.size(); ++i)
            values[i] *= weight_of(static_cast<int64_t>(i));
        const auto [shift, factor] = moments(norm, values);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto element = static_cast<int64_t>(i);
          const double w = norm.kind == NormKind::clip ? 1 : weight_of(element);
          at(element) = static_cast<T>(w * factor * (values[i] - shift) +
                                       entry(bias, first + element / size, element % size, 0));
        }
      }
  });
}

}  // namespace

void normalise_heads(const Tensor& x, const HeadNorm& norm, const ConstTensor& weight,
                     const ConstTensor& bias) {
  constexpr auto named = [](std::string_view name) {
    return internal::Argument{"qk_norm", name};
  };
  internal::by_type(named("x"), x, [&]<typename T>(T) {
    normalise_typed(norm, internal::read_if<float, 2>(named("weight"), weight),
                    internal::read_if<float, 2>(named("bias"), bias),
                    internal::write_batch<T, 4>(named("x"), x));
  });
}

}  // namespace gnomon
