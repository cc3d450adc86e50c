// Running sums of the increments of tokens, modulo 2 pi, and their gradient.
#include <algorithm>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/token_angles.h"
#include "src/core/overlap.h"
#include "src/core/size.h"
#include "src/core/tensor.h"
#include "src/rotary/check.h"
#include "src/rotary/token_angles.h"

namespace gnomon {
namespace {

using internal::to_size;
using rotary_internal::SummedRows;
using rotary_internal::SumStep;
using std::int64_t;

constexpr internal::Argument sum_argument(std::string_view name) {
  return {"cumulative_angles", name};
}

// What each token does to the sum of its row, [B or 1, T].
std::vector<SumStep> steps_of(const Positions& positions) {
  rotary_internal::check(positions);
  if (positions.sequences.size() != positions.ids.size())
    refuse("cumulative_angles", "positions must have batch x tokens sequences",
           std::ssize(positions.sequences));
  std::vector<SumStep> steps(positions.ids.size(), SumStep::add);
  for (int64_t b = 0; b < positions.batch; ++b) {
    std::unordered_set<std::int32_t> ended;
    std::int32_t current = Positions::padding;
    for (int64_t t = 0; t < positions.tokens; ++t) {
      const std::size_t at = to_size(b * positions.tokens + t);
      const std::int32_t sequence = positions.sequences[at];
      if (sequence == Positions::padding) {
        steps[at] = SumStep::padding;
      } else if (sequence != current) {
        if (current != Positions::padding) {
          ended.insert(current);
          steps[at] = SumStep::restart;
        }
        if (ended.contains(sequence))
          refuse("cumulative_angles", "the tokens of a sequence must be consecutive; sequence",
                 int64_t{sequence});
        current = sequence;
      }
    }
  }
  return steps;
}

template <typename T, typename U>
struct SumProblem {
  View<const T, 4> from;
  View<U, 4> to;
  std::vector<SumStep> steps;
  bool one_row;               // of steps, for all rows of the batch
  std::vector<double> scale;  // [P]
  // Heads are contiguous in both arrays, so that those of a token are one run of channels.
  bool merged() const {
    const std::int64_t pairs = from.extent(3);
    return from.extent(2) == 1 || (from.stride(2) == pairs && to.stride(2) == pairs);
  }
};

template <typename T, typename U>
SumProblem<T, U> problem_of(const char* from_name, const ConstTensor& from, const char* to_name,
                            const Tensor& to, const Positions& positions,
                            std::span<const double> scale) {
  SumProblem<T, U> problem{.from = internal::read<T, 4>(sum_argument(from_name), from),
                           .to = internal::write<U, 4>(sum_argument(to_name), to),
                           .steps = steps_of(positions),
                           .one_row = positions.batch == 1,
                           .scale = {scale.begin(), scale.end()}};
  const auto& x = problem.from;
  const auto equal = [](const std::string& rule, int64_t wanted, int64_t got) {
    if (wanted != got) refuse("cumulative_angles", rule + std::to_string(wanted), got);
  };
  internal::check_shape("cumulative_angles", to_name, problem.to.extents(), x.extents());
  for (const std::int64_t stride : {x.stride(3), problem.to.stride(3)})
    if (stride != 1 && x.extent(3) > 1)
      refuse("cumulative_angles", "the pairs of a head must be contiguous: stride 1",
             int64_t{stride});
  internal::check_in_place_or_disjoint(sum_argument(to_name), problem.to, from_name, x);
  equal("positions must have the tokens of the increments, ", x.extent(1), positions.tokens);
  if (positions.batch != 1)
    equal("positions must have 1 row or those of the increments, ", x.extent(0),
          positions.batch);
  if (!scale.empty())
    equal("scale must have a factor for each pair, ", x.extent(3), std::ssize(scale));
  problem.scale.resize(to_size(x.extent(3)), 1.0);
  return problem;
}

// Calls sum(rows) for blocks of channels of each row of the batch, all tokens at once.
// sums: [B, H, P], the sums before and after.
template <typename T, typename U>
void sum_channels(const SumProblem<T, U>& problem, rotary_internal::SumRows<T, U> sum,
                  double* sums) {
  constexpr int64_t most = 512;  // channels at a time: their sums are in L1
  const int64_t tokens = problem.from.extent(1), heads = problem.from.extent(2),
                pairs = problem.from.extent(3);
  const bool merged = problem.merged();
  const int64_t runs = merged ? 1 : heads, channels = merged ? heads * pairs : pairs;
  std::vector<double> scale(to_size(channels));
  for (int64_t c = 0; c < channels; ++c) scale[to_size(c)] = problem.scale[to_size(c % pairs)];
  const int64_t blocks = (channels + most - 1) / most;
  if (tokens == 0 || channels == 0) return;
  parallel_for(problem.from.extent(0) * runs * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t b = item / (runs * blocks), run = item / blocks % runs,
                    first = item % blocks * most;
      sum({.from = &problem.from(b, 0, run, 0) + first,
           .to = &problem.to(b, 0, run, 0) + first,
           .from_step = problem.from.stride(1),
           .to_step = problem.to.stride(1),
           .steps = problem.steps.data() + (problem.one_row ? 0 : b * tokens),
           .tokens = tokens,
           .channels = std::min(most, channels - first),
           .scale = scale.data() + first,
           .sum = sums + (b * heads + run) * pairs + first});
    }
  });
}

// Calls body(T{}, U{}) for the types of increments T and sums U: the same, or float and double.
template <typename Body>
void by_sum_types(const char* name, const ConstTensor& increments, const char* sums_name,
                  const ConstTensor& sums, Body&& body) {
  if (increments.holds<double>()) {
    if (!sums.holds<double>())
      internal::refuse_type(sum_argument(sums_name), data_type_of<double>, sums.dtype);
    return body(double{}, double{});
  }
  if (!increments.holds<float>())
    internal::refuse_type(sum_argument(name), "f32 or f64", increments.dtype);
  if (sums.holds<float>()) return body(float{}, float{});
  if (sums.holds<double>()) return body(float{}, double{});
  internal::refuse_type(sum_argument(sums_name), "f32 or f64", sums.dtype);
}

}  // namespace

void cumulative_angles(const ConstTensor& increments, const Positions& positions,
                       std::span<const double> scale, const Tensor& state, const Tensor& out) {
  by_sum_types("increments", increments, "out", out, [&]<typename T, typename U>(T, U) {
    const auto problem =
        problem_of<T, U>("increments", increments, "out", out, positions, scale);
    const auto& x = problem.from;
    if (!state.has_data()) {
      std::vector<double> sums(to_size(x.extent(0) * x.extent(2) * x.extent(3)));
      return sum_channels<T, U>(problem, rotary_internal::sum_rows<T, U>(), sums.data());
    }
    const auto sums = internal::write<double, 3>(sum_argument("state"), state);
    internal::check_shape("cumulative_angles", "state", sums.extents(),
                          {x.extent(0), x.extent(2), x.extent(3)});
    if (!sums.contiguous())
      refuse("cumulative_angles", "state must be contiguous", "a strided array");
    sum_channels<T, U>(problem, rotary_internal::sum_rows<T, U>(), sums.data());
  });
}

void cumulative_angles_backward(const ConstTensor& grad_angles, const Positions& positions,
                                std::span<const double> scale, const Tensor& grad_increments) {
  by_sum_types(
      "grad_increments", grad_increments, "grad_angles", grad_angles,
      [&]<typename T, typename U>(T, U) {
        const auto problem = problem_of<U, T>("grad_angles", grad_angles, "grad_increments",
                                              grad_increments, positions, scale);
        std::vector<double> sums(
            to_size(problem.from.extent(0) * problem.from.extent(2) * problem.from.extent(3)));
        sum_channels<U, T>(problem, rotary_internal::sum_rows_backward<U, T>(), sums.data());
      });
}

}  // namespace gnomon
