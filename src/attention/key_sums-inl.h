// Sums of the gradients of keys, values and gates over the queries of one part.
#if defined(GNOMON_ATTENTION_KEY_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_KEY_SUMS_INL_H_
#undef GNOMON_ATTENTION_KEY_SUMS_INL_H_
#else
#define GNOMON_ATTENTION_KEY_SUMS_INL_H_
#endif

#include <cstdint>

#include "src/attention/channel_gates-inl.h"
#include "src/attention/householder-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Gradients of all keys and values of one key head, and of the sums of gates of its query heads
// [keys, group, stride], summed over the queries of one part.
template <typename A>
struct KeySums {
  A *key, *value, *gates, *row;
  HouseholderSums<A> householder;

  KeySums(internal::Carve<A>& carve, const AttentionProblem& problem)
      : key(carve.take(problem.keys * row_stride(problem.size))),
        value(carve.take(problem.keys * row_stride(problem.value_dim))),
        gates(carve.take(GateNumbers(problem))),
        row(carve.take(padded(problem.polar_dim()))),
        householder(carve, problem) {}
  static std::int64_t GateNumbers(const AttentionProblem& problem) {
    return problem.channel_gates.data()
               ? problem.keys * problem.group() * row_stride(problem.size)
               : 0;
  }
};

// Returns the factor of gradients of keys: packed queries include QueryFactor, which is scale /
// ln 2, times 2 / cap if there is a cap. Pairs include none.
template <typename A>
A KeyFactor(const AttentionProblem& problem) {
  if (problem.pairs) return static_cast<A>(problem.softmax.scale);
  return static_cast<A>(ln_of_2 * problem.softmax.cap.value_or(2) / 2);
}

template <typename A>
void StoreKeySums(const BackwardProblem<A>& problem, std::int64_t b, std::int64_t key_head,
                  const KeySums<A>& sums) {
  const A factor = KeyFactor<A>(problem);
  const std::int64_t group = problem.group(), stride = row_stride(problem.size);
  if (problem.channel_gates_grad.data())
    for (std::int64_t g = 0; g < group; ++g)
      StoreGateGradient(problem, b, key_head * group + g, sums.gates + g * stride,
                        group * stride);
  if (problem.householder.w.data()) {
    FinishHouseholderSums(problem, b, key_head, sums.householder, sums.key);
    StoreHouseholderGradient(problem, b, key_head, factor, sums.householder);
  }
  for (std::int64_t j = 0; j < problem.keys; ++j) {
    A* row = sums.key + j * stride;
    RotateRow(problem.position.key_rotary, b, j, Direction::inverse, row);
    if (problem.position.polar) {
      LoadRow(problem.k, problem.position.keys, b, j, key_head, problem.head_dim, sums.row);
      FromPolar<A>(problem.head_dim, {}, sums.row, row, nullptr);
    }
    StoreRow(problem.k_grad, b, j, key_head, problem.head_dim, factor, row);
    StoreRow(problem.v_grad, b, j, key_head, problem.value_dim, A(1),
             sums.value + j * row_stride(problem.value_dim));
  }
}

template <typename A>
void AddKeySums(const BackwardProblem<A>& problem, const KeySums<A>& from,
                const KeySums<A>& to) {
  const std::int64_t keys = problem.keys * row_stride(problem.size);
  const std::int64_t values = problem.keys * row_stride(problem.value_dim);
  for (std::int64_t i = 0; i < keys; ++i) to.key[i] += from.key[i];
  for (std::int64_t i = 0; i < values; ++i) to.value[i] += from.value[i];
  for (std::int64_t i = 0; i < KeySums<A>::GateNumbers(problem); ++i)
    to.gates[i] += from.gates[i];
  const HouseholderSums<A>&more = from.householder, &sums = to.householder;
  const std::int64_t rows = HouseholderSums<A>::Rows(problem);
  for (std::int64_t i = 0; i < rows * row_stride(problem.size); ++i)
    sums.moved[i] += more.moved[i], sums.product[i] += more.product[i], sums.w[i] += more.w[i];
  for (std::int64_t i = 0; i < rows; ++i) sums.betas[i] += more.betas[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
