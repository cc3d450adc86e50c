// Turning with cosines and sines that lie anywhere, for the files of this room.
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
#include "src/core/tensor.h"

namespace gnomon {

// Heads of some tokens of one row, on their way from elements T to elements U; in place where
// the pointers and strides are the same, otherwise without any overlap. Strides in elements.
template <typename T, typename U>
struct Heads {
  const T* from = nullptr;  // the first element that turns, of the first token's first head
  U* to = nullptr;
  std::ptrdiff_t from_token = 0, from_head = 0, to_token = 0, to_head = 0;
  std::int64_t count = 0;              // H
  std::int64_t pairs = 0;              // R/2
  std::int64_t before = 0, after = 0;  // elements beside the pairs that are copied

  // Whether a head's tokens lie closer than a token's heads: [B, H, T, D].
  bool by_head() const { return count > 1 && std::abs(to_token) < std::abs(to_head); }
};

// cos and sin of each token, [T, R/2]; token 0 serves all where the stride is 0.
struct TurnFactors {
  const float *cos, *sin;
  std::ptrdiff_t token;
  float sign;  // -1 turns back
};

namespace rotary_internal {

// Turns pairs [begin, end) of `tokens` tokens, by factors from pair `begin` on; what lies
// beside the pairs is copied along with pair 0.
template <typename T, typename U>
using TurnKernel = void (*)(const Heads<T, U>&, const TurnFactors&, Pairing, std::int64_t begin,
                            std::int64_t end, std::int64_t tokens);
// T to U: each type to itself; float to Half or BFloat16; Half and BFloat16 to float.
template <typename T, typename U>
TurnKernel<T, U> turn_kernel();

// The arguments of this room as messages name them.
constexpr internal::Argument named(std::string_view name) { return {"rotary", name}; }

// The heads of a tensor [B, T, H, D] or [T, H, D].
template <typename T>
View<const T, 4> heads_of(std::string_view name, const ConstTensor& tensor) {
  return internal::read_batch<T, 4>(named(name), tensor);
}
template <typename T>
View<T, 4> heads_of(std::string_view name, const Tensor& tensor) {
  return internal::write_batch<T, 4>(named(name), tensor);
}

// body(T{}, U{}) for the ways of a cache: each type to itself, float to Half or BFloat16.
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

// Throws std::invalid_argument when a head of x does not hold the R elements from `first` on,
// one after another.
void check_heads(const std::array<std::ptrdiff_t, 4>& shape, std::ptrdiff_t stride,
                 const RotarySchedule& schedule);
template <typename T>
void check_heads(const View<T, 4>& x, const RotarySchedule& schedule) {
  check_heads(x.extents(), x.stride(3), schedule);
}

// The same, and that x has the table's tokens and rows.
void check_fits(const std::array<std::ptrdiff_t, 4>& shape, std::ptrdiff_t stride,
                const RotaryTable& table);
template <typename T>
void check_fits(const View<T, 4>& x, const RotaryTable& table) {
  check_fits(x.extents(), x.stride(3), table);
}

// That x and `to`, which is called `name`, have one shape and contiguous heads.
template <typename T, typename U>
void check_target(const char* name, const View<const T, 4>& x, const View<U, 4>& to) {
  if (to.extents() != x.extents())
    refuse("rotary",
           std::string(name) + " must have the shape of what is written to it, " +
               shape_text(x.extents()),
           shape_text(to.extents()));
  if (x.stride(3) != 1)
    refuse("rotary", "the elements of a head must be contiguous: stride 1",
           std::int64_t{x.stride(3)});
  if (to.stride(3) != 1)
    refuse("rotary",
           std::string("the elements of a head of ") + name + " must be contiguous: stride 1",
           std::int64_t{to.stride(3)});
}

// What turns the heads of a token: cos and sin [B, T, R/2], the last axis contiguous. A stride
// of 0 shares them among rows or tokens.
struct Turns {
  View<const float, 3> cos, sin;
  float sign = 1;  // -1 turns back
};
Turns turns_of(const RotaryTable& table, std::ptrdiff_t batch, float sign = 1);

// Heads [B, T, H, D] on their way: from.data() == to.data() is in place.
template <typename T, typename U>
struct Way {
  View<const T, 4> from;
  View<U, 4> to;

  Way(View<const T, 4> from, View<U, 4> to) : from(from), to(to) {}
  explicit Way(View<U, 4> x) : from(x), to(x) {}

  std::int64_t head_elements() const { return from.extent(2) * from.extent(3); }  // of a token
  // From token t of row b on.
  Heads<T, U> heads(const RotarySchedule& schedule, std::int64_t b, std::int64_t t) const {
    if (from.extent(2) == 0) return {};
    const bool in_place = static_cast<const void*>(from.data()) == to.data();
    return {.from = &from(b, t, 0, schedule.first),
            .to = &to(b, t, 0, schedule.first),
            .from_token = from.stride(1),
            .from_head = from.stride(2),
            .to_token = to.stride(1),
            .to_head = to.stride(2),
            .count = from.extent(2),
            .pairs = schedule.dim() / 2,
            .before = in_place ? 0 : schedule.first,
            .after = in_place ? 0 : from.extent(3) - schedule.first - schedule.dim()};
  }
};

// body(b, t, n) for tokens t to t + n - 1 of row b, in pieces that are worth a thread. Pieces
// of [B, H, T, D] are longer, for each head's part of them is a run of its own.
template <typename Body, typename... Ways>
void for_tokens(const Body& body, const Ways&... ways) {
  constexpr std::int64_t worth = 1 << 16, run_by_head = 64,
                         most = 64;  // elements; tokens; pieces
  const auto& first = std::get<0>(std::tie(ways...)).from;
  const std::int64_t tokens = first.extent(1), rows = first.extent(0) * tokens;
  const bool by_head = (... || (std::abs(ways.to.stride(1)) < std::abs(ways.to.stride(2))));
  const std::int64_t pieces =
      std::clamp<std::int64_t>(rows * (... + ways.head_elements()) / worth, 1, most);
  if (pieces == 1) {  // without a division: one token takes less than a microsecond
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
  parallel_for(rows, piece, run, Share::in_runs);
}

// Turns all ways in one pass over the turns; of the schedule it reads where the pairs lie. The
// ways have the same rows and tokens. No checks.
template <typename... T, typename... U>
void turn(const RotarySchedule& schedule, const Turns& turns, const Way<T, U>&... ways) {
  for_tokens(
      [&](std::int64_t b, std::int64_t t, std::int64_t count) {
        const TurnFactors factors{&turns.cos(b, t, 0), &turns.sin(b, t, 0), turns.cos.stride(1),
                                  turns.sign};
        (turn_kernel<T, U>()(ways.heads(schedule, b, t), factors, schedule.pairing, 0,
                             schedule.dim() / 2, count),
         ...);
      },
      ways...);
}

}  // namespace rotary_internal
}  // namespace gnomon
