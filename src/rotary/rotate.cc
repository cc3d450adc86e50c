// Turning queries and keys by a table, and turning them back.
#include <string>

#include "gnomon/error.h"
#include "gnomon/rotary/rotary.h"
#include "src/rotary/turn.h"

namespace gnomon {
namespace rotary_internal {

template <typename T>
void check_heads(const View<T, 4>& x, const RotarySchedule& schedule) {
  if (x.extent(3) - schedule.dim() < schedule.first)  // no sum: `first` may be anything
    refuse("rotary",
           "x must have at least first + dim = " + std::to_string(schedule.first) + " + " +
               std::to_string(schedule.dim()) + " elements per head",
           std::int64_t{x.extent(3)});
  if (x.stride(3) != 1)
    refuse("rotary", "the elements of a head must be contiguous: stride 1",
           std::int64_t{x.stride(3)});
}

template <typename T>
void check_fits(const View<T, 4>& x, const RotaryTable& table) {
  if (x.extent(1) != table.tokens())
    refuse("rotary", "x must have the table's " + std::to_string(table.tokens()) + " tokens",
           std::int64_t{x.extent(1)});
  if (table.batch() != 1 && x.extent(0) != table.batch())
    refuse("rotary", "x must have the table's " + std::to_string(table.batch()) + " rows",
           std::int64_t{x.extent(0)});
  check_heads(x, table.schedule());
}

Turns turns_of(const RotaryTable& table, std::ptrdiff_t batch, float sign) {
  const auto shared = [&](const View<const float, 3>& of) {
    return View<const float, 3>(
        of.data(), {batch, of.extent(1), of.extent(2)},
        {table.batch() == 1 ? 0 : of.stride(0), of.stride(1), of.stride(2)});
  };
  return {shared(table.cos()), shared(table.sin()), sign};
}

#define GNOMON_INSTANTIATE(T)                                                \
  template void check_heads(const View<T, 4>&, const RotarySchedule&);       \
  template void check_heads(const View<const T, 4>&, const RotarySchedule&); \
  template void check_fits(const View<T, 4>&, const RotaryTable&);           \
  template void check_fits(const View<const T, 4>&, const RotaryTable&);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace rotary_internal

namespace {

using namespace rotary_internal;

constexpr float forth = 1, back = -1;

template <typename T>
void turn_in_place(View<T, 4> x, const RotaryTable& table, float sign) {
  check_fits(x, table);
  turn(table.schedule(), turns_of(table, x.extent(0), sign), Way<T, T>(x));
}

template <typename T>
void turn_both(View<T, 4> q, View<T, 4> k, const RotaryTable& table, float sign) {
  check_fits(q, table);
  check_fits(k, table);
  if (k.extent(0) != q.extent(0))
    refuse("rotary", "k must have the rows of q, " + std::to_string(q.extent(0)),
           std::int64_t{k.extent(0)});
  turn(table.schedule(), turns_of(table, q.extent(0), sign), Way<T, T>(q), Way<T, T>(k));
}

template <typename T>
void turn_into(View<const T, 4> x, const RotaryTable& table, View<T, 4> out, float sign) {
  check_fits(x, table);
  check_target("out", x, out);
  turn(table.schedule(), turns_of(table, x.extent(0), sign), Way<T, T>(x, out));
}

}  // namespace

template <typename T>
void rotate(View<T, 4> x, const RotaryTable& table) {
  turn_in_place(x, table, forth);
}
template <typename T>
void rotate(View<T, 3> x, const RotaryTable& table) {
  rotate(batch_of_one(x), table);
}
template <typename T>
void rotate(View<T, 4> q, View<T, 4> k, const RotaryTable& table) {
  turn_both(q, k, table, forth);
}
template <typename T>
void rotate(View<T, 3> q, View<T, 3> k, const RotaryTable& table) {
  rotate(batch_of_one(q), batch_of_one(k), table);
}
template <typename T>
void rotate(std::type_identity_t<View<const T, 4>> x, const RotaryTable& table,
            View<T, 4> out) {
  turn_into<T>(x, table, out, forth);
}
template <typename T>
void rotate(std::type_identity_t<View<const T, 3>> x, const RotaryTable& table,
            View<T, 3> out) {
  rotate<T>(batch_of_one(x), table, batch_of_one(out));
}

template <typename T>
void rotate_backward(View<T, 4> grad, const RotaryTable& table) {
  turn_in_place(grad, table, back);
}
template <typename T>
void rotate_backward(View<T, 3> grad, const RotaryTable& table) {
  rotate_backward(batch_of_one(grad), table);
}
template <typename T>
void rotate_backward(View<T, 4> grad_q, View<T, 4> grad_k, const RotaryTable& table) {
  turn_both(grad_q, grad_k, table, back);
}
template <typename T>
void rotate_backward(View<T, 3> grad_q, View<T, 3> grad_k, const RotaryTable& table) {
  rotate_backward(batch_of_one(grad_q), batch_of_one(grad_k), table);
}
template <typename T>
void rotate_backward(std::type_identity_t<View<const T, 4>> grad, const RotaryTable& table,
                     View<T, 4> out) {
  turn_into<T>(grad, table, out, back);
}
template <typename T>
void rotate_backward(std::type_identity_t<View<const T, 3>> grad, const RotaryTable& table,
                     View<T, 3> out) {
  rotate_backward<T>(batch_of_one(grad), table, batch_of_one(out));
}

#define GNOMON_INSTANTIATE_RANK(T, rank)                                           \
  template void rotate(View<T, rank>, const RotaryTable&);                         \
  template void rotate(View<T, rank>, View<T, rank>, const RotaryTable&);          \
  template void rotate(View<const T, rank>, const RotaryTable&, View<T, rank>);    \
  template void rotate_backward(View<T, rank>, const RotaryTable&);                \
  template void rotate_backward(View<T, rank>, View<T, rank>, const RotaryTable&); \
  template void rotate_backward(View<const T, rank>, const RotaryTable&, View<T, rank>);
#define GNOMON_INSTANTIATE(T)   \
  GNOMON_INSTANTIATE_RANK(T, 4) \
  GNOMON_INSTANTIATE_RANK(T, 3)
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE
#undef GNOMON_INSTANTIATE_RANK

}  // namespace gnomon
