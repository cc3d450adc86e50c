// Rotation by cosines and sines with any strides.
//
// Letters: B batch, T tokens, H heads, D head dimension, R rotary dimension.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"
#include "src/core/float_mode.h"
#include "src/core/overlap.h"
#include "src/core/tensor.h"

namespace gnomon {

// Heads of some tokens of one row, read as elements T and written as elements U. In place if
// the pointers and strides are equal; otherwise input and output must not overlap. Strides are
// in elements.
template <typename T, typename U>
struct Heads {
  const T* from = nullptr;  // first rotated element of the first head of the first token
  U* to = nullptr;
  std::int64_t from_token = 0, from_head = 0, to_token = 0, to_head = 0;
  std::int64_t count = 0;              // H
  std::int64_t pairs = 0;              // R/2
  std::int64_t before = 0, after = 0;  // elements copied before and after the pairs

  // Whether the token stride is smaller than the head stride, as in [B, H, T, D].
  bool by_head() const { return count > 1 && std::abs(to_token) < std::abs(to_head); }
};

// cos and sin of each token, [T, R/2].
struct CosSinRows {
  const float *cos, *sin;
  std::int64_t token;  // stride; 0: all tokens share one row
  float sign;          // -1: inverse rotation
};

namespace rotary_internal {

// Rotates pairs [begin, end) of `tokens` tokens. The factors start at pair `begin`. The call
// with begin = 0 also copies the elements before and after the pairs.
template <typename T, typename U>
using RotateKernel = void (*)(const Heads<T, U>&, const CosSinRows&, Pairing,
                              std::int64_t begin, std::int64_t end, std::int64_t tokens);
// T to U: each type to the same type; float to Half or BFloat16; Half and BFloat16 to float.
template <typename T, typename U>
RotateKernel<T, U> rotate_kernel();
template <>
RotateKernel<float, float> rotate_kernel();
template <>
RotateKernel<double, double> rotate_kernel();
template <>
RotateKernel<Half, Half> rotate_kernel();
template <>
RotateKernel<BFloat16, BFloat16> rotate_kernel();
template <>
RotateKernel<float, Half> rotate_kernel();
template <>
RotateKernel<float, BFloat16> rotate_kernel();
template <>
RotateKernel<Half, float> rotate_kernel();
template <>
RotateKernel<BFloat16, float> rotate_kernel();

// Name of an argument in error messages.
constexpr internal::Argument named(std::string_view name) { return {"rotary", name}; }

// Returns a tensor [B, T, H, D] or [T, H, D] as a view [B, T, H, D].
template <typename T>
View<const T, 4> heads_of(std::string_view name, const ConstTensor& tensor) {
  return internal::read_batch<T, 4>(named(name), tensor);
}
template <typename T>
View<T, 4> heads_of(std::string_view name, const Tensor& tensor) {
  return internal::write_batch<T, 4>(named(name), tensor);
}

// Calls body(T{}, U{}) for the element types of a cache: each type to the same type, float to
// Half or BFloat16.
template <typename Body>
void by_types(const ConstTensor& from, const ConstTensor& to, Body&& body) {
  internal::by_type(named("slot"), to, [&]<typename U>(U) {
    if (from.holds<U>()) return body(U{}, U{});
    if constexpr (sizeof(U) == 2)
      if (from.holds<float>()) return body(float{}, U{});
    internal::refuse_type(named("slot"), name(from.dtype) + ", or f16 or bf16 for f32",
                          to.dtype);
  });
}

// Throws std::invalid_argument unless a head of x contains R elements from `head_offset` on and
// is contiguous.
void check_heads(const std::array<std::int64_t, 4>& shape, std::int64_t stride,
                 const RotaryFrequencies& frequencies);
template <typename T>
void check_heads(const View<T, 4>& x, const RotaryFrequencies& frequencies) {
  check_heads(x.extents(), x.stride(3), frequencies);
}

// Throws also unless x has the tokens and rows of the table.
void check_fits(const std::array<std::int64_t, 4>& shape, std::int64_t stride,
                const RotaryTable& table);
template <typename T>
void check_fits(const View<T, 4>& x, const RotaryTable& table) {
  check_fits(x.extents(), x.stride(3), table);
}

// Throws std::invalid_argument unless x and `to` have the same shape and contiguous heads, and
// are the same elements or disjoint. `name` is the name of `to` in the message.
template <typename T, typename U>
void check_target(const char* name, const View<const T, 4>& x, const View<U, 4>& to) {
  if (to.extents() != x.extents())
    refuse("rotary",
           std::string(name) + " must have the shape of the input, " + shape_text(x.extents()),
           shape_text(to.extents()));
  if (x.stride(3) != 1)
    refuse("rotary", "the elements of a head must be contiguous: stride 1",
           std::int64_t{x.stride(3)});
  if (to.stride(3) != 1)
    refuse("rotary",
           std::string("the elements of a head of ") + name + " must be contiguous: stride 1",
           std::int64_t{to.stride(3)});
  internal::check_in_place_or_disjoint(named(name), to, "the input", x);
}

// cos and sin [B, T, R/2], the last axis contiguous. With a stride of 0, rows or tokens share
// them.
struct CosSin {
  View<const float, 3> cos, sin;
  float sign = 1;  // -1: inverse rotation
};
CosSin cos_sin_of(const RotaryTable& table, std::int64_t batch, float sign = 1);

// Input and output of a rotation, [B, T, H, D]. In place if from.data() == to.data().
template <typename T, typename U>
struct InputOutput {
  View<const T, 4> from;
  View<U, 4> to;

  InputOutput(View<const T, 4> from, View<U, 4> to) : from(from), to(to) {}
  explicit InputOutput(View<U, 4> x) : from(x), to(x) {}

  std::int64_t head_elements() const { return from.extent(2) * from.extent(3); }  // per token
  // Heads from token t of row b on.
  Heads<T, U> heads(const RotaryFrequencies& frequencies, std::int64_t b,
                    std::int64_t t) const {
    if (from.extent(2) == 0) return {};
    const bool in_place = static_cast<const void*>(from.data()) == to.data();
    return {.from = &from(b, t, 0, frequencies.head_offset),
            .to = &to(b, t, 0, frequencies.head_offset),
            .from_token = from.stride(1),
            .from_head = from.stride(2),
            .to_token = to.stride(1),
            .to_head = to.stride(2),
            .count = from.extent(2),
            .pairs = frequencies.rotary_dim() / 2,
            .before = in_place ? 0 : frequencies.head_offset,
            .after = in_place
                         ? 0
                         : from.extent(3) - frequencies.head_offset - frequencies.rotary_dim()};
  }
};

// Calls body(b, t, n) for tokens t to t + n - 1 of row b, in pieces large enough for a thread.
// Pieces of [B, H, T, D] are longer, since each head of a piece is a separate run in memory.
template <typename Body, typename... InputOutputs>
void for_tokens(const Body& body, const InputOutputs&... ways) {
  constexpr std::int64_t worth = 1 << 16, run_by_head = 64,
                         most = 64;  // elements; tokens; pieces
  const auto& first = std::get<0>(std::tie(ways...)).from;
  const std::int64_t tokens = first.extent(1), rows = first.extent(0) * tokens;
  const internal::DefaultFloatMode mode;
  const bool by_head = (... || (std::abs(ways.to.stride(1)) < std::abs(ways.to.stride(2))));
  const std::int64_t pieces =
      std::clamp<std::int64_t>(rows * (... + ways.head_elements()) / worth, 1, most);
  if (pieces == 1) {  // avoids divisions: one token takes less than a microsecond
    for (std::int64_t b = 0; rows != 0 && b < first.extent(0); ++b) body(b, 0, tokens);
    return;
  }
  const std::int64_t piece =
      std::max<std::int64_t>(by_head ? run_by_head : 1, (rows + pieces - 1) / pieces);
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t b = begin / tokens, t = begin % tokens;
      const std::int64_t count = std::min(end - begin, tokens - t);
      body(b, t, count);
      begin += count;
    }
  };
  parallel_for(rows, piece, run, Share::contiguous);
}

// Rotates all ways in one pass over the cosines and sines. Reads only the pairing, the first
// element and R from the frequencies. All ways must have the same rows and tokens; no checks.
template <typename... T, typename... U>
void rotate_together(const RotaryFrequencies& frequencies, const CosSin& cos_sin,
                     const InputOutput<T, U>&... ways) {
  for_tokens(
      [&](std::int64_t b, std::int64_t t, std::int64_t count) {
        const CosSinRows factors{&cos_sin.cos(b, t, 0), &cos_sin.sin(b, t, 0),
                                 cos_sin.cos.stride(1), cos_sin.sign};
        (rotate_kernel<T, U>()(ways.heads(frequencies, b, t), factors, frequencies.pairing, 0,
                               frequencies.rotary_dim() / 2, count),
         ...);
      },
      ways...);
}

}  // namespace rotary_internal
}  // namespace gnomon
