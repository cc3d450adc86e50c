// The rotation of head vectors, and its sources of cos and sin.
//
// A work item is `width` pairs of `group` heads of one token, so its cos and sin are loaded
// once for the group. A block has the items of some consecutive tokens.
#pragma once

#include <cstdint>

#include "gnomon/rotary/rotary.h"
#include "src/cuda/angles.h"
#include "src/cuda/context.h"
#include "src/cuda/elements.h"

namespace gnomon::cuda {

// A token: row b of the batch, and its index in the row.
struct Token {
  std::int64_t row, index;
};

// Heads of all tokens. Strides are in elements.
template <typename T>
struct Heads {
  T* first = nullptr;  // head 0 of token 0 of row 0
  std::int64_t row = 0, token = 0, head = 0;
  std::int32_t count = 0;  // H

  GNOMON_DEVICE T* at(Token of, int h) const {
    return first + of.row * row + of.index * token + h * head;
  }
};
// token: number among all rows.
GNOMON_DEVICE Token token_of(std::uint32_t token, const Divisor& tokens_per_row) {
  const std::uint32_t row = tokens_per_row.quotient(token);
  return {row, token - row * tokens_per_row.value};
}

// How the items of all tokens are divided: blocks of `threads`, each with some tokens. Of few
// tokens, each is divided among `parts` blocks.
struct Division {
  std::int64_t blocks = 0;
  int threads = 0;
  std::int32_t tokens_per_block = 1;
  Divisor parts;

  // The first token of a block, and its part of the items.
  template <class Context>
  GNOMON_DEVICE std::uint32_t first_token(const Context& context) const {
    return parts.quotient(static_cast<std::uint32_t>(context.block())) *
           static_cast<std::uint32_t>(tokens_per_block);
  }
  template <class Context>
  GNOMON_DEVICE int first_item(const Context& context) const {
    const auto block = static_cast<std::uint32_t>(context.block());
    const auto part = static_cast<int>(block - parts.quotient(block) * parts.value);
    return part * context.threads() + context.thread();
  }
  template <class Context>
  GNOMON_DEVICE int step(const Context& context) const {
    return parts.times(context.threads());
  }
};

// cos and sin of tokens from a table, or, with positions, from rows of a table.
struct TableAngles {
  static constexpr bool in_shared = false;
  const float *cos, *sin;
  std::int64_t row, token;        // strides of both
  const std::int64_t* positions;  // or null
  std::int64_t position_row, position_token;
  std::int64_t rows;  // N

  template <class Context>
  GNOMON_DEVICE void prepare(Context&, std::uint32_t, int, const Divisor&, int) const {}

  template <int width, class Context>
  GNOMON_DEVICE void load(Context&, Token of, int, int pair, int, float (&c)[width],
                          float (&s)[width]) const {
    std::int64_t at = of.row * row + of.index * token;
    if (positions) {
      const std::int64_t p = positions[of.row * position_row + of.index * position_token];
      if (p < 0 || p >= rows) {
        GNOMON_UNROLL
        for (int i = 0; i < width; ++i) c[i] = s[i] = NAN;
        return;
      }
      at = p * token;
    }
    constexpr int step = width % 4 == 0 ? 4 : width;
    GNOMON_UNROLL
    for (int i = 0; i < width; i += step) {
      const auto some_cos = gnomon::cuda::load<float, step>(cos + at + pair + i);
      const auto some_sin = gnomon::cuda::load<float, step>(sin + at + pair + i);
      GNOMON_UNROLL
      for (int j = 0; j < step; ++j) {
        c[i + j] = some_cos[j];
        s[i + j] = some_sin[j];
      }
    }
  }
};

// cos and sin computed from positions and frequencies, once for each token of a block, and kept
// in shared memory: [tokens, pairs] cosines, then sines.
struct ComputedAngles {
  static constexpr bool in_shared = true;
  const std::int64_t* positions;  // [A, B, T]
  std::int64_t axis, row, token;  // strides
  const double* inv_freq;         // [R/2]
  const std::int32_t* axes;       // [R/2], or null
  double scale;

  template <class Context>
  GNOMON_DEVICE void prepare(Context& context, std::uint32_t first, int count,
                             const Divisor& tokens_per_row, int pairs) const {
    float* const cosines = context.template shared<float>();
    for (int i = context.thread(); i < count * pairs; i += context.threads()) {
      const int t = i / pairs, pair = i - t * pairs;
      const Token of = token_of(first + static_cast<std::uint32_t>(t), tokens_per_row);
      const std::int64_t p =
          positions[(axes ? axes[pair] : 0) * axis + of.row * row + of.index * token];
      CosSin entry = table_entry(p, inv_freq[pair], scale);
      if (!(std::fabs(static_cast<double>(p)) <= farthest)) entry = {NAN, NAN};
      cosines[i] = static_cast<float>(entry.cos);
      cosines[count * pairs + i] = static_cast<float>(entry.sin);
    }
    context.barrier();
  }

  template <int width, class Context>
  GNOMON_DEVICE void load(Context& context, Token, int at, int pair, int sines,
                          float (&c)[width], float (&s)[width]) const {
    const float* const cosines = context.template shared<float>() + at + pair;
    GNOMON_UNROLL
    for (int i = 0; i < width; ++i) {
      c[i] = cosines[i];
      s[i] = cosines[sines + i];
    }
  }
};

// cos and sin of the tokens of a block: loaded from a table, or computed in shared memory.
struct AnyAngles {
  static constexpr bool in_shared = true;
  TableAngles table;
  ComputedAngles computed;
  std::int32_t from_table;

  template <class Context>
  GNOMON_DEVICE void prepare(Context& context, std::uint32_t first, int count,
                             const Divisor& tokens_per_row, int pairs) const {
    if (!from_table) computed.prepare(context, first, count, tokens_per_row, pairs);
  }
  template <int width, class Context>
  GNOMON_DEVICE void load(Context& context, Token of, int at, int pair, int sines,
                          float (&c)[width], float (&s)[width]) const {
    if (from_table)
      table.load<width>(context, of, at, pair, sines, c, s);
    else
      computed.load<width>(context, of, at, pair, sines, c, s);
  }
};

// The elements (x, y) of a pair after a rotation.
GNOMON_DEVICE float rotated_first(float x, float y, float c, float s) {
  return std::fma(x, c, -(y * s));
}
GNOMON_DEVICE float rotated_second(float x, float y, float c, float s) {
  return std::fma(x, s, y * c);
}

// Exchanges the elements of two vectors of adjacent pairs, a0 b0 a1 b1 ..., with vectors of the
// first and of the second elements.
template <typename T, int width>
GNOMON_DEVICE void split_pairs(Vector<T, width>& a, Vector<T, width>& b) {
  Vector<T, width> first, second;
  GNOMON_UNROLL
  for (int i = 0; i < width; ++i) {
    const int even = 2 * i, odd = 2 * i + 1;
    first[i] = even < width ? a[even % width] : b[even % width];
    second[i] = odd < width ? a[odd % width] : b[odd % width];
  }
  a = first;
  b = second;
}
template <typename T, int width>
GNOMON_DEVICE void join_pairs(Vector<T, width>& a, Vector<T, width>& b) {
  Vector<T, width> low, high;
  GNOMON_UNROLL
  for (int i = 0; i < width; ++i) {
    const int other = i + width;
    low[i] = i % 2 ? b[i / 2] : a[i / 2];
    high[i] = other % 2 ? b[other / 2] : a[other / 2];
  }
  a = low;
  b = high;
}

template <typename T>
struct Rounded {
  template <int width>
  GNOMON_DEVICE Vector<T, width> operator()(const float (&values)[width]) const {
    return rounded<T>(values);
  }
};

// `width` pairs of up to `group` heads, in registers. They are loaded after cos and sin: nvcc
// converts bf16 to float before the next loads, and would wait for them.
template <typename T, Pairing pairing, int width, int group>
struct Pairs {
  Vector<T, width> xs[group], ys[group];

  // The element of the first pair in a head, and the distance to the second vector.
  static GNOMON_DEVICE int begin(int pair) {
    return pairing == Pairing::halves ? pair : 2 * pair;
  }
  static GNOMON_DEVICE int other(int pairs) {
    return pairing == Pairing::halves ? pairs : width;
  }

  GNOMON_DEVICE void load(const T* from, std::int64_t stride, int heads, int pairs) {
    GNOMON_UNROLL
    for (int h = 0; h < group; ++h)
      if (h < heads) {
        xs[h] = gnomon::cuda::load<T, width>(from + h * stride);
        ys[h] = gnomon::cuda::load<T, width>(from + h * stride + other(pairs));
      }
  }

  // Writes the rotated pairs. rounding_of(h): rounds `width` floats of head h to U.
  template <typename U, typename RoundingOf>
  GNOMON_DEVICE void store(U* to, std::int64_t stride, int heads, int pairs,
                           const float (&c)[width], const float (&s)[width],
                           const RoundingOf& rounding_of) {
    GNOMON_UNROLL
    for (int h = 0; h < group; ++h)
      if (h < heads) {
        if constexpr (pairing == Pairing::adjacent) split_pairs(xs[h], ys[h]);
        float first[width], second[width];
        GNOMON_UNROLL
        for (int i = 0; i < width; ++i) {
          const float x = to_float(xs[h][i]), y = to_float(ys[h][i]);
          first[i] = rotated_first(x, y, c[i], s[i]);
          second[i] = rotated_second(x, y, c[i], s[i]);
        }
        const auto round = rounding_of(h);
        Vector<U, width> a = round(first), b = round(second);
        if constexpr (pairing == Pairing::adjacent) join_pairs(a, b);
        gnomon::cuda::store(to + h * stride, a);
        gnomon::cuda::store(to + h * stride + other(pairs), b);
      }
  }
};
template <typename T, Pairing pairing, int width, int group, class Angles>
struct RotateKernel {
  static constexpr bool synchronizes = Angles::in_shared;
  static constexpr int max_threads = 256, blocks_at_once = 3;  // at most 80 registers
  Heads<T> q, k;
  Angles angles;
  std::uint32_t tokens;    // B T
  Divisor tokens_per_row;  // T
  Division division;
  Divisor per_token, vectors;  // items of a token, vectors of a head
  std::int32_t pairs;          // R/2
  std::int32_t q_groups;       // groups of heads of q
  float sign;                  // -1: inverse

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const std::uint32_t first = division.first_token(context);
    const int count = least(division.tokens_per_block, static_cast<int>(tokens - first));
    angles.prepare(context, first, count, tokens_per_row, pairs);
    const int items = per_token.times(count), step = division.step(context);
    GNOMON_NO_UNROLL
    for (int item = division.first_item(context); item < items; item += step) {
      const int t = per_token.quotient(item), rest = item - per_token.times(t);
      const int some = vectors.quotient(rest), pair = (rest - vectors.times(some)) * width;
      const Token token = token_of(first + static_cast<std::uint32_t>(t), tokens_per_row);
      const bool in_q = some < q_groups;
      const int head = (in_q ? some : some - q_groups) * group;
      const int heads = least(group, (in_q ? q.count : k.count) - head);
      const std::int64_t stride = in_q ? q.head : k.head;
      T* const x = (in_q ? q.first : k.first) + token.row * (in_q ? q.row : k.row) +
                   token.index * (in_q ? q.token : k.token) + head * stride +
                   Pairs<T, pairing, width, group>::begin(pair);
      float c[width], s[width];
      angles.template load<width>(context, token, t * pairs, pair, count * pairs, c, s);
      Pairs<T, pairing, width, group> values;
      values.load(x, stride, heads, pairs);
      GNOMON_UNROLL
      for (int i = 0; i < width; ++i) s[i] *= sign;
      values.store(x, stride, heads, pairs, c, s, [](int) { return Rounded<T>(); });
    }
  }
};

// Writes the rotation of x to another tensor, and copies the elements that are not rotated. A
// work item is a vector of pairs, or a vector of other elements.
template <typename T, Pairing pairing, int width>
struct RotateToKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 256;
  Heads<const T> x;  // all elements
  Heads<T> out;
  AnyAngles angles;
  std::uint32_t tokens;
  Divisor tokens_per_row;
  Division division;
  Divisor per_token, per_head;
  std::int32_t pairs, head_offset;
  float sign;

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const std::uint32_t first = division.first_token(context);
    const int count = least(division.tokens_per_block, static_cast<int>(tokens - first));
    angles.prepare(context, first, count, tokens_per_row, pairs);
    const int vectors = pairs / width;
    const int items = per_token.times(count), step = division.step(context);
    GNOMON_NO_UNROLL
    for (int item = division.first_item(context); item < items; item += step) {
      const int t = per_token.quotient(item), rest = item - per_token.times(t);
      const int head = per_head.quotient(rest), i = rest - per_head.times(head);
      const Token token = token_of(first + static_cast<std::uint32_t>(t), tokens_per_row);
      const T* const from = x.at(token, head);
      T* const to = out.at(token, head);
      if (i >= vectors) {
        int element = (i - vectors) * width;
        if (element >= head_offset) element += 2 * pairs;
        store(to + element, load<T, width>(from + element));
        continue;
      }
      const int pair = i * width;
      const int at = head_offset + Pairs<T, pairing, width, 1>::begin(pair);
      float c[width], s[width];
      angles.template load<width>(context, token, t * pairs, pair, count * pairs, c, s);
      Pairs<T, pairing, width, 1> values;
      values.load(from + at, 0, 1, pairs);
      GNOMON_UNROLL
      for (int j = 0; j < width; ++j) s[j] *= sign;
      values.store(to + at, 0, 1, pairs, c, s, [](int) { return Rounded<T>(); });
    }
  }
};

}  // namespace gnomon::cuda
