#include "gnomon/rotary/decoding.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "src/core/angles.h"
#include "src/rotary/check.h"
#include "src/rotary/growth.h"
#include "src/rotary/rotate.h"

namespace gnomon {
namespace {

using rotary_internal::heads_of;
using rotary_internal::InputOutput;
using rotary_internal::named;
using std::int64_t;

constexpr int64_t pair_chunk = 256;  // pairs whose cosines and sines are stored at a time

void check_positions(const RotaryFrequencies& frequencies, View<const int64_t, 3> positions,
                     int64_t batch, int64_t tokens) {
  rotary_internal::check(frequencies, positions.extent(0));
  if (positions.extent(0) < 1)
    refuse("rotary", "positions must have at least one axis", positions.extent(0));
  internal::check_frequencies(frequencies.inv_freq);
  if ((positions.extent(1) != 1 && positions.extent(1) != batch) ||
      positions.extent(2) != tokens)
    refuse("rotary",
           "positions must be [A, 1 or B, T] = [A, 1 or " + std::to_string(batch) + ", " +
               std::to_string(tokens) + "]",
           shape_text(positions.extents()));
  constexpr int64_t most = int64_t{1} << 31;
  for (int64_t axis = 0; axis < positions.extent(0); ++axis)
    for (int64_t b = 0; b < positions.extent(1); ++b)
      for (int64_t t = 0; t < tokens; ++t)
        if (const int64_t p = positions(axis, b, t); p < -most || p > most)
          refuse("rotary", "positions must be at most 2^31 in magnitude", p);
}

// Computes the cosines and sines of pairs [begin, end) of one token. position(axis): its
// position on an axis.
template <typename Position>
void make_factors(internal::PairAngles angles, const RotaryFrequencies& frequencies,
                  int64_t begin, int64_t end, const Position& position, float* cos,
                  float* sin) {
  const auto first = static_cast<std::size_t>(begin);
  const double* const inv_freq = frequencies.inv_freq.data() + first;
  int64_t at[pair_chunk];
  const bool one_axis = frequencies.axes.empty();
  if (one_axis) at[0] = position(0);
  for (int64_t i = begin; !one_axis && i < end; ++i)
    at[i - begin] = position(frequencies.axes[static_cast<std::size_t>(i)]);
  angles(at, one_axis ? 0 : 1, inv_freq, end - begin, frequencies.table_scale, cos, sin);
  if (frequencies.growth.empty()) return;
  for (int64_t i = begin; i < end; ++i)
    rotary_internal::grow(frequencies, static_cast<std::size_t>(i),
                          at[one_axis ? 0 : i - begin], cos[i - begin], sin[i - begin]);
}

// The positions must have been checked. All ways must have the checked rows and tokens.
template <typename... T, typename... U>
void rotate_tokens_at(const RotaryFrequencies& frequencies, View<const int64_t, 3> positions,
                      const InputOutput<T, U>&... ways) {
  const internal::PairAngles angles = internal::pair_angles();
  const int64_t pairs = frequencies.rotary_dim() / 2;
  rotary_internal::for_tokens(
      [&](int64_t b, int64_t t, int64_t count) {
        float cos[pair_chunk], sin[pair_chunk];
        const int64_t row = positions.extent(1) == 1 ? 0 : b;
        for (const int64_t last = t + count; t < last; ++t)
          for (int64_t begin = 0; begin < pairs; begin += pair_chunk) {
            const int64_t end = std::min(pairs, begin + pair_chunk);
            make_factors(
                angles, frequencies, begin, end,
                [&](std::int32_t axis) { return positions(axis, row, t); }, cos, sin);
            (rotary_internal::rotate_kernel<T, U>()(ways.heads(frequencies, b, t),
                                                    {cos, sin, 0, 1}, frequencies.pairing,
                                                    begin, end, 1),
             ...);
          }
      },
      ways...);
}

template <typename Q, typename K>
void check_rows(const Q& q, const K& k) {
  if (k.extent(0) != q.extent(0) || k.extent(1) != q.extent(1))
    refuse("rotary",
           "k must have the rows and tokens of q, " + std::to_string(q.extent(0)) + " x " +
               std::to_string(q.extent(1)),
           std::to_string(k.extent(0)) + " x " + std::to_string(k.extent(1)));
}

// Returns positions as [A, B or 1, T]. Positions [T] are shared by all axes of the frequencies.
View<const int64_t, 3> positions_of(const ConstTensor& positions,
                                    const RotaryFrequencies& frequencies) {
  if (positions.rank != 1) return internal::read<int64_t, 3>(named("positions"), positions);
  const auto ids = internal::read<int64_t, 1>(named("positions"), positions);
  return {ids.data(),
          {rotary_internal::axis_count(frequencies), 1, ids.extent(0)},
          {0, 0, ids.stride(0)}};
}

}  // namespace

void rotate_at(const Tensor& q, const Tensor& k, const ConstTensor& positions,
               const RotaryFrequencies& frequencies) {
  const auto ids = positions_of(positions, frequencies);
  internal::by_type(named("q"), q, [&]<typename T>(T) {
    const auto queries = heads_of<T>("q", q), keys = heads_of<T>("k", k);
    check_positions(frequencies, ids, queries.extent(0), queries.extent(1));
    check_rows(queries, keys);
    rotary_internal::check_heads(queries, frequencies);
    rotary_internal::check_heads(keys, frequencies);
    internal::check_disjoint(named("k"), keys, "q", queries);
    internal::check_disjoint(named("q"), queries, "positions", positions);
    internal::check_disjoint(named("k"), keys, "positions", positions);
    rotate_tokens_at(frequencies, ids, InputOutput<T, T>(queries), InputOutput<T, T>(keys));
  });
}

void rotate_at(const Tensor& x, const ConstTensor& positions,
               const RotaryFrequencies& frequencies) {
  const auto ids = positions_of(positions, frequencies);
  internal::by_type(named("x"), x, [&]<typename T>(T) {
    const auto heads = heads_of<T>("x", x);
    check_positions(frequencies, ids, heads.extent(0), heads.extent(1));
    rotary_internal::check_heads(heads, frequencies);
    internal::check_disjoint(named("x"), heads, "positions", positions);
    rotate_tokens_at(frequencies, ids, InputOutput<T, T>(heads));
  });
}

void rotate_append_at(const Tensor& q, const ConstTensor& k, const ConstTensor& positions,
                      const RotaryFrequencies& frequencies, const Tensor& slot) {
  const auto ids = positions_of(positions, frequencies);
  rotary_internal::by_types(k, slot, [&]<typename T, typename U>(T, U) {
    const auto queries = heads_of<T>("q", q);
    const auto keys = heads_of<T>("k", k);
    const auto to = heads_of<U>("slot", slot);
    check_positions(frequencies, ids, queries.extent(0), queries.extent(1));
    check_rows(queries, keys);
    rotary_internal::check_heads(queries, frequencies);
    rotary_internal::check_heads(keys, frequencies);
    rotary_internal::check_target("slot", keys, to);
    internal::check_disjoint(named("q"), queries, "k", keys);
    internal::check_disjoint(named("q"), queries, "slot", to);
    internal::check_disjoint(named("q"), queries, "positions", positions);
    internal::check_disjoint(named("slot"), to, "positions", positions);
    rotate_tokens_at(frequencies, ids, InputOutput<T, T>(queries), InputOutput<T, U>(keys, to));
  });
}

}  // namespace gnomon
