// Rotation by given angles, and the gradients of angles and of learned frequencies.
#include "gnomon/rotary/token_angles.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/overlap.h"
#include "src/core/size.h"
#include "src/core/tensor.h"
#include "src/rotary/check.h"
#include "src/rotary/rotate.h"
#include "src/rotary/token_angles.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

constexpr internal::Argument angle_argument(std::string_view name) {
  return {"token_angles", name};
}

void check(const TokenRotation& rotation) {
  if (rotation.rotary_dim < 2 || rotation.rotary_dim % 2)
    refuse("token_angles", "rotary_dim must be even and at least 2", rotation.rotary_dim);
  rotary_internal::check_pairing(rotation.pairing);
  if (rotation.head_offset < 0)
    refuse("token_angles", "head_offset must not be negative", rotation.head_offset);
}

void check_equal(const char* rule, int64_t wanted, int64_t got) {
  if (wanted != got) refuse("token_angles", rule + std::to_string(wanted), got);
}

template <typename T>
void check_head(const View<T, 4>& x, const TokenRotation& rotation) {
  if (x.extent(3) - rotation.rotary_dim < rotation.head_offset)
    refuse("token_angles",
           "x must have at least head_offset + rotary_dim = " +
               std::to_string(rotation.head_offset) + " + " +
               std::to_string(rotation.rotary_dim) + " elements per head",
           int64_t{x.extent(3)});
  if (x.stride(3) != 1)
    refuse("token_angles", "the elements of a head must be contiguous: stride 1",
           int64_t{x.stride(3)});
}

template <typename T, typename Angle>
void check(const View<const T, 4>& x, const View<Angle, 4>& angles,
           const TokenRotation& rotation) {
  check(rotation);
  check_head(x, rotation);
  if (angles.extent(0) != 1)
    check_equal("angles must have 1 row or those of x, ", x.extent(0), angles.extent(0));
  check_equal("angles must have the tokens of x, ", x.extent(1), angles.extent(1));
  if (angles.extent(2) < 1 || x.extent(2) % angles.extent(2))
    refuse("token_angles",
           "the heads of angles must divide those of x, " + std::to_string(x.extent(2)),
           int64_t{angles.extent(2)});
  check_equal("angles must have rotary_dim / 2 pairs, ", rotation.rotary_dim / 2,
              angles.extent(3));
  if (angles.stride(3) != 1 && angles.extent(3) > 1)
    refuse("token_angles", "the angles of a head must be contiguous: stride 1",
           int64_t{angles.stride(3)});
}

// Calls body(Angle{}) for the type of the angles.
template <typename Body>
void by_angle_type(const ConstTensor& angles, Body&& body) {
  if (angles.holds<float>()) return body(float{});
  if (angles.holds<double>()) return body(double{});
  internal::refuse_type(angle_argument("angles"), "f32 or f64", angles.dtype);
}

// Rows of angles of a thread at a time: `count` tokens from t, or heads of the angles from a,
// all pairs [begin, begin + pairs).
struct AngleRows {
  int64_t b, t, a, count, begin, pairs;
  bool by_head;  // rows are heads of the angles; otherwise tokens
};

// Calls body(rows) for all rows of angles of tokens [t, t + count) of row b.
template <typename T, typename Body>
void for_rows(const View<const T, 4>& x, int64_t angle_heads, int64_t all_pairs, int64_t b,
              int64_t t, int64_t count, const Body& body) {
  constexpr int64_t most = 2048;  // angles at a time: with cos, sin and sums, 24 KB of floats
  const bool by_head = angle_heads > 1 && std::abs(x.stride(1)) >= std::abs(x.stride(2));
  const int64_t outer = by_head ? count : angle_heads, inner = by_head ? angle_heads : count;
  for (int64_t begin = 0; begin < all_pairs; begin += rotary_internal::angle_chunk) {
    const int64_t pairs = std::min(rotary_internal::angle_chunk, all_pairs - begin);
    const int64_t step = std::max<int64_t>(1, most / pairs);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; i += step)
        body(AngleRows{b, by_head ? t + o : t + i, by_head ? i : o, std::min(step, inner - i),
                       begin, pairs, by_head});
  }
}

// Buffers of one thread.
template <typename F>
struct AngleBuffers {
  alignas(64) F cos[2048];
  alignas(64) F sin[2048];
  alignas(64) F sums[2048];
};

template <typename T, typename Angle>
class AngleRotator {
 public:
  using F = Accumulator<T>;

  AngleRotator(View<const T, 4> from, View<T, 4> to, View<const Angle, 4> angles,
               const TokenRotation& rotation, F sign)
      : from_(from), to_(to), angles_(angles), rotation_(rotation), sign_(sign) {}

  int64_t angle_row(int64_t b) const { return angles_.extent(0) == 1 ? 0 : b; }
  int64_t group() const { return from_.extent(2) / angles_.extent(2); }

  void fill(const AngleRows& rows, AngleBuffers<F>& buffers) const {
    cos_sin_(&angles_(angle_row(rows.b), rows.t, rows.a, rows.begin),
             angles_.stride(rows.by_head ? 2 : 1), rows.count, rows.pairs, buffers.cos,
             buffers.sin);
  }
  // Whether cos, sin and the rotation are computed in one pass: each head has its own angles.
  bool in_one_pass() const { return !std::is_same_v<T, double> && group() == 1; }
  // Turns the heads of tokens [t, t + count) of row b; for the backward also adds the gradient
  // of the angles.
  void turn_in_one_pass(int64_t b, int64_t t, int64_t count, const View<const T, 4>& rotated,
                        const View<Angle, 4>& grad_angles) const {
    if constexpr (!std::is_same_v<T, double>) {
      const auto turn = rotary_internal::turn_rows<T, Angle>();
      const bool by_head = std::abs(from_.stride(1)) >= std::abs(from_.stride(2));
      const std::size_t axis = by_head ? 2 : 1;
      const int64_t heads = from_.extent(2), offset = rotation_.head_offset;
      const int64_t outer = by_head ? count : heads, rows = by_head ? heads : count;
      const bool in_place = static_cast<const void*>(from_.data()) == to_.data();
      for (int64_t o = 0; o < outer; ++o) {
        const int64_t at = by_head ? t + o : t, h = by_head ? 0 : o;
        turn(
            {.from = &from_(b, at, h, offset),
             .to = &to_(b, at, h, offset),
             .angles = &angles_(angle_row(b), at, h, 0),
             .from_row = from_.stride(axis),
             .to_row = to_.stride(axis),
             .angle_row = angles_.stride(axis),
             .rows = rows,
             .pairs = rotation_.rotary_dim / 2,
             .pairing = rotation_.pairing,
             .sign = sign_,
             .rotated = rotated.data() ? &rotated(b, at, h, offset) : nullptr,
             .rotated_row = rotated.stride(axis),
             .grad_angles = grad_angles.data() ? &grad_angles(angle_row(b), at, h, 0) : nullptr,
             .grad_angle_row = grad_angles.stride(axis)});
        for (int64_t row = 0; !in_place && row < rows; ++row) {
          const T* const x = &from_(b, at, h, 0) + row * from_.stride(axis);
          T* const to = &to_(b, at, h, 0) + row * to_.stride(axis);
          std::copy(x, x + offset, to);
          std::copy(x + offset + rotation_.rotary_dim, x + from_.extent(3),
                    to + offset + rotation_.rotary_dim);
        }
      }
    }
  }
  void turn(const AngleRows& rows, const AngleBuffers<F>& buffers) const {
    const int64_t head = rows.a * group(), row_axis = rows.by_head ? 2 : 1;
    const int64_t heads_per_row = rows.by_head ? group() : 1;
    const bool in_place = static_cast<const void*>(from_.data()) == to_.data();
    const Heads<T, T> heads{
        .from = &from_(rows.b, rows.t, head, rotation_.head_offset),
        .to = &to_(rows.b, rows.t, head, rotation_.head_offset),
        .from_token = heads_per_row * from_.stride(static_cast<std::size_t>(row_axis)),
        .from_head = from_.stride(2),
        .to_token = heads_per_row * to_.stride(static_cast<std::size_t>(row_axis)),
        .to_head = to_.stride(2),
        .count = group(),
        .pairs = rotation_.rotary_dim / 2,
        .before = in_place ? 0 : rotation_.head_offset,
        .after = in_place ? 0 : from_.extent(3) - rotation_.head_offset - rotation_.rotary_dim};
    if constexpr (std::is_same_v<T, double>)
      turn_doubles(heads, rows, buffers);
    else
      rotate_(heads, {buffers.cos, buffers.sin, rows.pairs, sign_}, rotation_.pairing,
              rows.begin, rows.begin + rows.pairs, rows.count);
  }

 private:
  // The kernels of rotations have factors of float.
  void turn_doubles(const Heads<T, T>& heads, const AngleRows& rows,
                    const AngleBuffers<F>& buffers) const {
    const bool halves = rotation_.pairing == Pairing::halves;
    const int64_t step = halves ? 1 : 2, half = halves ? heads.pairs : 1;
    for (int64_t row = 0; row < rows.count; ++row)
      for (int64_t h = 0; h < heads.count; ++h) {
        const T* const x = heads.from + row * heads.from_token + h * heads.from_head;
        T* const to = heads.to + row * heads.to_token + h * heads.to_head;
        for (int64_t i = 0; i < rows.pairs; ++i) {
          const F cos = buffers.cos[row * rows.pairs + i];
          const F sin = sign_ * buffers.sin[row * rows.pairs + i];
          const int64_t at = step * (rows.begin + i);
          const F a = x[at], b = x[at + half];
          to[at] = a * cos - b * sin;
          to[at + half] = a * sin + b * cos;
        }
        if (rows.begin != 0) continue;
        std::copy(x - heads.before, x, to - heads.before);
        std::copy(x + 2 * heads.pairs, x + 2 * heads.pairs + heads.after, to + 2 * heads.pairs);
      }
  }

  static auto rotate_kernel_of() {
    if constexpr (std::is_same_v<T, double>)
      return nullptr;
    else
      return rotary_internal::rotate_kernel<T, T>();
  }

  View<const T, 4> from_;
  View<T, 4> to_;
  View<const Angle, 4> angles_;
  TokenRotation rotation_;
  F sign_;
  rotary_internal::CosSinOfAngles<Angle, F> cos_sin_ =
      rotary_internal::cos_sin_of_angles<Angle, F>();
  decltype(rotate_kernel_of()) rotate_ = rotate_kernel_of();
};

template <typename T, typename Angle>
void rotate_views(const View<const T, 4>& x, const View<T, 4>& out,
                  const View<const Angle, 4>& angles, const TokenRotation& rotation,
                  Direction direction) {
  if (direction != Direction::forward && direction != Direction::inverse)
    refuse("token_angles", "direction must be forward or inverse", static_cast<int>(direction));
  check(x, angles, rotation);
  internal::check_disjoint(angle_argument("x"), out, "angles", angles);
  using F = Accumulator<T>;
  const AngleRotator<T, Angle> rotator(x, out, angles, rotation,
                                       direction == Direction::forward ? F(1) : F(-1));
  rotary_internal::for_tokens(
      [&](int64_t b, int64_t t, int64_t count) {
        if (rotator.in_one_pass()) return rotator.turn_in_one_pass(b, t, count, {}, {});
        AngleBuffers<F> buffers;
        for_rows(x, angles.extent(2), rotation.rotary_dim / 2, b, t, count,
                 [&](const AngleRows& rows) {
                   rotator.fill(rows, buffers);
                   rotator.turn(rows, buffers);
                 });
      },
      rotary_internal::InputOutput<T, T>(x, out));
}

template <typename T, typename Angle>
void backward(const View<const T, 4>& rotated, const View<const Angle, 4>& angles,
              const TokenRotation& rotation, const View<T, 4>& grad,
              const View<Angle, 4>& grad_angles) {
  using F = Accumulator<T>;
  const View<const T, 4> of_grad = grad;
  check(rotated, angles, rotation);
  internal::check_shape("token_angles", "grad", grad.extents(), rotated.extents());
  check_head(of_grad, rotation);
  internal::check_shape("token_angles", "grad_angles", grad_angles.extents(), angles.extents());
  internal::check_disjoint(angle_argument("grad"), grad, "rotated", rotated);
  internal::check_disjoint(angle_argument("grad"), grad, "angles", angles);
  internal::check_disjoint(angle_argument("grad_angles"), grad_angles, "grad", of_grad);
  internal::check_disjoint(angle_argument("grad_angles"), grad_angles, "angles", angles);
  internal::check_disjoint(angle_argument("grad_angles"), grad_angles, "rotated", rotated);

  const AngleRotator<T, Angle> rotator(of_grad, grad, angles, rotation, F(-1));
  const auto cross = rotary_internal::cross_rows<T>();
  const bool halves = rotation.pairing == Pairing::halves;
  const int64_t group = rotator.group(), all_pairs = rotation.rotary_dim / 2;
  const auto tokens = [&](int64_t b, int64_t t, int64_t count) {
    if (rotator.in_one_pass())
      return rotator.turn_in_one_pass(b, t, count, rotated, grad_angles);
    AngleBuffers<F> buffers;
    for_rows(of_grad, angles.extent(2), all_pairs, b, t, count, [&](const AngleRows& rows) {
      const std::size_t axis = rows.by_head ? 2 : 1;
      const int64_t heads = rows.by_head ? group : 1;
      const int64_t first = rotation.head_offset + (halves ? 1 : 2) * rows.begin;
      cross({.rotated = &rotated(b, rows.t, rows.a * group, first),
             .grad = &of_grad(b, rows.t, rows.a * group, first),
             .rotated_row = heads * rotated.stride(axis),
             .rotated_head = rotated.stride(2),
             .grad_row = heads * grad.stride(axis),
             .grad_head = grad.stride(2),
             .rows = rows.count,
             .heads = group,
             .pairs = rows.pairs,
             .pairing = rotation.pairing,
             .half = halves ? all_pairs : 1},
            buffers.sums);
      for (int64_t row = 0; row < rows.count; ++row) {
        Angle* const to = &grad_angles(rotator.angle_row(b), rows.t, rows.a, rows.begin) +
                          row * grad_angles.stride(axis);
        const F* const sums = buffers.sums + row * rows.pairs;
        for (int64_t i = 0; i < rows.pairs; ++i) to[i] += static_cast<Angle>(sums[i]);
      }
      rotator.fill(rows, buffers);
      rotator.turn(rows, buffers);
    });
  };
  // Rows of the batch that share angles add to the same gradients: one thread has all rows of a
  // token.
  const int64_t batch = grad.extent(0);
  const bool shared = angles.extent(0) == 1 && batch > 1;
  const View<const T, 4> one = shared ? of_grad.slice(0, 0, 1) : of_grad;
  rotary_internal::for_tokens(
      [&](int64_t b, int64_t t, int64_t count) {
        if (!shared) return tokens(b, t, count);
        for (int64_t row = 0; row < batch; ++row) tokens(row, t, count);
      },
      rotary_internal::InputOutput<T, T>(one, shared ? grad.slice(0, 0, 1) : grad));
}

template <typename T>
View<const T, 4> read_heads(const char* name, const ConstTensor& x) {
  return internal::read_batch<T, 4>(angle_argument(name), x);
}
template <typename T>
View<T, 4> write_heads(const char* name, const Tensor& x) {
  return internal::write_batch<T, 4>(angle_argument(name), x);
}

}  // namespace

void rotate_by_angles(const Tensor& x, const ConstTensor& angles, const TokenRotation& rotation,
                      Direction direction) {
  internal::by_type(angle_argument("x"), x, [&]<typename T>(T) {
    by_angle_type(angles, [&]<typename Angle>(Angle) {
      const View<T, 4> heads = write_heads<T>("x", x);
      rotate_views<T, Angle>(heads, heads, read_heads<Angle>("angles", angles), rotation,
                             direction);
    });
  });
}

void rotate_by_angles(const ConstTensor& x, const ConstTensor& angles,
                      const TokenRotation& rotation, Direction direction, const Tensor& out) {
  internal::by_type(angle_argument("x"), x, [&]<typename T>(T) {
    by_angle_type(angles, [&]<typename Angle>(Angle) {
      const View<const T, 4> heads = read_heads<T>("x", x);
      const View<T, 4> to = write_heads<T>("out", out);
      rotary_internal::check_target("out", heads, to);
      rotate_views<T, Angle>(heads, to, read_heads<Angle>("angles", angles), rotation,
                             direction);
    });
  });
}

void rotate_by_angles_backward(const ConstTensor& rotated, const ConstTensor& angles,
                               const TokenRotation& rotation, const Tensor& grad,
                               const Tensor& grad_angles) {
  internal::by_type(angle_argument("grad"), grad, [&]<typename T>(T) {
    by_angle_type(angles, [&]<typename Angle>(Angle) {
      backward<T, Angle>(read_heads<T>("rotated", rotated), read_heads<Angle>("angles", angles),
                         rotation, write_heads<T>("grad", grad),
                         write_heads<Angle>("grad_angles", grad_angles));
    });
  });
}

namespace {

template <typename T>
void add_frequencies(const View<const T, 4>& rotated, const View<const T, 4>& grad_rotated,
                     const RotaryFrequencies& frequencies, std::span<const Positions> axes,
                     std::span<double> grad) {
  const TokenRotation rotation{.rotary_dim = frequencies.rotary_dim(),
                               .pairing = frequencies.pairing,
                               .head_offset = frequencies.head_offset};
  rotary_internal::check(frequencies, std::ssize(axes));
  check(rotation);
  if (!frequencies.growth.empty() || frequencies.table_scale != 1)
    refuse("token_angles", "learned frequencies must have no growth and a table_scale of 1",
           frequencies.table_scale);
  check_head(rotated, rotation);
  internal::check_shape("token_angles", "grad_rotated", grad_rotated.extents(),
                        rotated.extents());
  check_head(grad_rotated, rotation);
  const int64_t batch = rotated.extent(0), tokens = rotated.extent(1);
  for (const Positions& axis : axes) {
    rotary_internal::check(axis);
    check_equal("positions must have the tokens of x, ", tokens, axis.tokens);
    if (axis.batch != 1)
      check_equal("positions must have 1 row or those of x, ", batch, axis.batch);
  }
  const int64_t pairs = rotation.rotary_dim / 2;
  check_equal("grad must have a frequency for each pair, ", pairs, std::ssize(grad));
  // One thread has some of the pairs, and all tokens: no sum depends on the threads.
  const auto cross = rotary_internal::cross_rows<T>();
  const bool halves = rotation.pairing == Pairing::halves;
  parallel_for(pairs, 16, [&](int64_t begin, int64_t end) {
    Accumulator<T> sums[16];
    const int64_t first = rotation.head_offset + (halves ? 1 : 2) * begin;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; rotated.extent(2) > 0 && t < tokens; ++t) {
        const auto at = [&](const Positions& axis) {
          return to_size((axis.batch == 1 ? 0 : b * tokens) + t);
        };
        if (axes[0].sequences[at(axes[0])] == Positions::padding) continue;
        cross({.rotated = &rotated(b, t, 0, first),
               .grad = &grad_rotated(b, t, 0, first),
               .rotated_head = rotated.stride(2),
               .grad_head = grad_rotated.stride(2),
               .rows = 1,
               .heads = rotated.extent(2),
               .pairs = end - begin,
               .pairing = rotation.pairing,
               .half = halves ? pairs : 1},
              sums);
        for (int64_t i = begin; i < end; ++i) {
          const Positions& axis =
              axes[frequencies.axes.empty() ? 0 : to_size(frequencies.axes[to_size(i)])];
          grad[to_size(i)] +=
              static_cast<double>(axis.ids[at(axis)]) * static_cast<double>(sums[i - begin]);
        }
      }
  });
}

}  // namespace

void frequencies_backward(const ConstTensor& rotated, const ConstTensor& grad_rotated,
                          const RotaryFrequencies& frequencies, std::span<const Positions> axes,
                          std::span<double> grad) {
  if (axes.empty()) refuse("token_angles", "positions must have at least one axis", 0);
  internal::by_type(angle_argument("rotated"), rotated, [&]<typename T>(T) {
    add_frequencies<T>(read_heads<T>("rotated", rotated),
                       read_heads<T>("grad_rotated", grad_rotated), frequencies, axes, grad);
  });
}

}  // namespace gnomon
