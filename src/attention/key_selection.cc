#include "gnomon/attention/key_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "gnomon/error.h"
#include "src/attention/check.h"
#include "src/attention/key_selection.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr std::string_view selection_operation = "key_selection";
constexpr internal::Argument selection_argument(std::string_view name) {
  return {selection_operation, name};
}

template <typename T>
constexpr DType selection_dtype = DType::f32;
template <>
constexpr DType selection_dtype<Half> = DType::f16;
template <>
constexpr DType selection_dtype<BFloat16> = DType::bf16;
template <>
constexpr DType selection_dtype<double> = DType::f64;

template <typename T>
internal::Operand selection_operand(std::string_view name, View<const T, 4> x) {
  if (x.extent(3) > 1 && x.stride(3) != 1)
    refuse(selection_operation, "the last axis of " + std::string(name) + " must have stride 1",
           std::int64_t{x.stride(3)});
  return {x.data(), {x.stride(0), x.stride(1), x.stride(2)}, selection_dtype<T>, {}};
}

void check_selection_extent(std::string_view name, int64_t axis, int64_t got, int64_t wanted) {
  if (got != wanted)
    refuse(selection_operation,
           "axis " + std::to_string(axis) + " of " + std::string(name) + " must be " +
               std::to_string(wanted),
           got);
}

}  // namespace

template <typename A>
void internal::choose(const A* scores, int64_t count, std::int32_t* order, int64_t kept,
                      std::int32_t* selected, int64_t step) {
  const int64_t chosen = std::min(count, kept);
  std::iota(order, order + count, 0);
  if (chosen < count)
    std::nth_element(order, order + chosen, order + count, [&](std::int32_t a, std::int32_t b) {
      const A x = scores[a], y = scores[b];
      if (std::isnan(x) != std::isnan(y)) return std::isnan(x);
      return x > y || (!(x < y) && a < b);
    });
  std::sort(order, order + chosen);
  for (int64_t i = 0; i < kept; ++i)
    selected[i * step] = i < chosen ? order[i] : std::int32_t{-1};
}
template void internal::choose(const float*, int64_t, std::int32_t*, int64_t, std::int32_t*,
                               int64_t);
template void internal::choose(const double*, int64_t, std::int32_t*, int64_t, std::int32_t*,
                               int64_t);

void select_keys(const ConstTensor& q, const ConstTensor& weights, const ConstTensor& keys,
                 const AttentionMask& mask, const Tensor& selected) {
  internal::by_type(selection_argument("q"), q, [&]<typename T>(T) {
    const auto queries = internal::read<T, 4>(selection_argument("q"), q);
    const auto of_heads = internal::read<T, 3>(selection_argument("weights"), weights);
    const auto entries = internal::read<T, 4>(selection_argument("keys"), keys);
    const auto out = internal::write<std::int32_t, 3>(selection_argument("selected"), selected);
    const int64_t batch = queries.extent(0), tokens = queries.extent(1);
    check_selection_extent("weights", 0, of_heads.extent(0), batch);
    check_selection_extent("weights", 1, of_heads.extent(1), tokens);
    check_selection_extent("weights", 2, of_heads.extent(2), queries.extent(2));
    check_selection_extent("keys", 0, entries.extent(0), batch);
    check_selection_extent("keys", 2, entries.extent(2), 1);
    check_selection_extent("keys", 3, entries.extent(3), queries.extent(3));
    check_selection_extent("selected", 0, out.extent(0), batch);
    check_selection_extent("selected", 1, out.extent(1), tokens);
    if (entries.extent(1) > std::numeric_limits<std::int32_t>::max())
      refuse(selection_operation, "keys must be fewer than 2^31", int64_t{entries.extent(1)});
    internal::SelectionProblem problem;
    const BiasForm none;
    internal::AttentionProblem& seen = problem.keys_seen;
    seen.batch = batch, seen.queries = tokens, seen.keys = entries.extent(1);
    seen.heads = queries.extent(2), seen.key_heads = 1;
    seen.size = seen.value_dim = queries.extent(3);
    seen.mask = internal::known_mask({.mask = mask}, tokens, entries.extent(1));
    seen.position.bias = &none;
    seen.q = selection_operand("q", queries);
    seen.k = selection_operand("keys", entries);
    internal::check(seen);
    problem.weights = selection_operand(
        "weights",
        View<const T, 4>(of_heads.data(), {batch, tokens, 1, of_heads.extent(2)},
                         {of_heads.stride(0), of_heads.stride(1), 0, of_heads.stride(2)}));
    problem.selected = out;
    if (out.size() == 0) return;
    internal::run_selection(problem, Accumulator<T>{});
  });
}

}  // namespace gnomon
