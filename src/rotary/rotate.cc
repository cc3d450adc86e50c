// Rotates queries and keys by a table, forward and inverse.
#include <string>

#include "gnomon/error.h"
#include "gnomon/rotary/rotary.h"
#include "src/rotary/rotate.h"

namespace gnomon {
namespace rotary_internal {

void check_heads(const std::array<std::int64_t, 4>& shape, std::int64_t stride,
                 const RotaryFrequencies& frequencies) {
  if (shape[3] - frequencies.rotary_dim() <
      frequencies.head_offset)  // first + dim could overflow
    refuse("rotary",
           "x must have at least head_offset + rotary_dim = " +
               std::to_string(frequencies.head_offset) + " + " +
               std::to_string(frequencies.rotary_dim()) + " elements per head",
           std::int64_t{shape[3]});
  if (stride != 1)
    refuse("rotary", "the elements of a head must be contiguous: stride 1",
           std::int64_t{stride});
}

void check_fits(const std::array<std::int64_t, 4>& shape, std::int64_t stride,
                const RotaryTable& table) {
  if (shape[1] != table.tokens())
    refuse("rotary", "x must have the table's " + std::to_string(table.tokens()) + " tokens",
           std::int64_t{shape[1]});
  if (table.batch() != 1 && shape[0] != table.batch())
    refuse("rotary", "x must have the table's " + std::to_string(table.batch()) + " rows",
           std::int64_t{shape[0]});
  check_heads(shape, stride, table.frequencies());
}

CosSin cos_sin_of(const RotaryTable& table, std::int64_t batch, float sign) {
  const auto shared = [&](const View<const float, 3>& of) {
    return View<const float, 3>(
        of.data(), {batch, of.extent(1), of.extent(2)},
        {table.batch() == 1 ? 0 : of.stride(0), of.stride(1), of.stride(2)});
  };
  return {shared(table.cos()), shared(table.sin()), sign};
}

}  // namespace rotary_internal

namespace {

using namespace rotary_internal;

float sign_of(Direction direction) {
  if (direction != Direction::forward && direction != Direction::inverse)
    refuse("rotary", "direction must be forward or inverse", static_cast<int>(direction));
  return direction == Direction::forward ? 1.0f : -1.0f;
}

}  // namespace

void rotate(const Tensor& x, const RotaryTable& table, Direction direction) {
  internal::by_type(named("x"), x, [&]<typename T>(T) {
    const auto heads = heads_of<T>("x", x);
    check_fits(heads, table);
    rotate_together(table.frequencies(), cos_sin_of(table, heads.extent(0), sign_of(direction)),
                    InputOutput<T, T>(heads));
  });
}

void rotate(const Tensor& q, const Tensor& k, const RotaryTable& table, Direction direction) {
  internal::by_type(named("q"), q, [&]<typename T>(T) {
    const auto queries = heads_of<T>("q", q), keys = heads_of<T>("k", k);
    check_fits(queries, table);
    check_fits(keys, table);
    if (keys.extent(0) != queries.extent(0))
      refuse("rotary", "k must have the rows of q, " + std::to_string(queries.extent(0)),
             std::int64_t{keys.extent(0)});
    internal::check_disjoint(named("k"), keys, "q", queries);
    rotate_together(table.frequencies(),
                    cos_sin_of(table, queries.extent(0), sign_of(direction)),
                    InputOutput<T, T>(queries), InputOutput<T, T>(keys));
  });
}

void rotate(const ConstTensor& x, const RotaryTable& table, Direction direction,
            const Tensor& out) {
  internal::by_type(named("x"), x, [&]<typename T>(T) {
    const auto from = heads_of<T>("x", x);
    const auto to = heads_of<T>("out", out);
    check_fits(from, table);
    check_target("out", from, to);
    rotate_together(table.frequencies(), cos_sin_of(table, from.extent(0), sign_of(direction)),
                    InputOutput<T, T>(from, to));
  });
}

}  // namespace gnomon
