// Rotation into a paged cache. A work item is a vector of elements: of a query (two vectors,
// the pairs), of a key (the pairs, or elements that are not rotated), or of a value.
#pragma once

#include <cstdint>

#include "src/cuda/rotate_kernel.h"

namespace gnomon::cuda {

// Where the entries of new tokens are. Strides are in elements.
template <typename U>
struct Pages {
  U* first = nullptr;
  std::int64_t block = 0, entry = 0, head = 0;
  const float* scales = nullptr;  // E4M3
  std::int32_t scale_step = 0;    // 0: one scale for all heads

  GNOMON_DEVICE U* at(std::int64_t b, std::int64_t e, int h) const {
    return first + b * block + e * entry + h * head;
  }
  GNOMON_DEVICE float scale(int h) const { return scales ? scales[h * scale_step] : 1.0f; }
};

struct Places {
  const std::int64_t* of_tokens;  // slots, or entries of sequences
  std::int64_t row, token;        // strides
  const std::int32_t* block_table;
  std::int64_t table_row, table_block;
  const std::int32_t* sequences;  // or null
  std::int64_t sequence_row, sequence_token;
  std::int64_t of_row, of_index;  // null `sequences`: row x of_row + index x of_index
  std::int64_t blocks, sequence_count, blocks_per_sequence;
  Divisor entries;  // of a block

  // The block and the entry of a token; block -1: not written.
  struct CacheEntry {
    std::int64_t block, entry;
  };
  // The slot of a token, or its entry in its sequence: loaded before the elements of the token.
  GNOMON_DEVICE std::int64_t number(Token of_token) const {
    return of_tokens[of_token.row * row + of_token.index * token];
  }
  GNOMON_DEVICE CacheEntry of(Token of_token, std::int64_t at) const {
    if (at < 0) return {-1, 0};
    // A division of 64 bits takes longer than a rotation.
    const std::int64_t page =
        at >> 31 ? at / entries.value : entries.quotient(static_cast<std::uint32_t>(at));
    const std::int64_t entry = at - page * entries.value;
    if (!block_table) return {page < blocks ? page : -1, entry};
    const std::int64_t sequence =
        sequences ? sequences[of_token.row * sequence_row + of_token.index * sequence_token]
                  : of_token.row * of_row + of_token.index * of_index;
    if (page >= blocks_per_sequence || sequence < 0 || sequence >= sequence_count)
      return {-1, 0};
    const std::int64_t block = block_table[sequence * table_row + page * table_block];
    return {block >= 0 && block < blocks ? block : -1, entry};
  }
};

// Rounds values of one head to the type of the cache. Only E4M3 has a scale: values are divided
// by it, and rounded.
template <typename U>
struct ToCache {
  float scale;

  template <int width>
  GNOMON_DEVICE Vector<U, width> operator()(const float (&values)[width]) const {
    if constexpr (!std::is_same_v<U, Float8>) {
      return rounded<U>(values);
    } else {
      float quotients[width];
      if (std::fabs(scale) > 0x1p-40f && std::fabs(scale) < 0x1p40f) {
        const float inverse = 1.0f / scale;
        GNOMON_UNROLL
        for (int i = 0; i < width; ++i) quotients[i] = divided(values[i], inverse);
      } else {
        GNOMON_UNROLL
        for (int i = 0; i < width; ++i) quotients[i] = values[i] / scale;
      }
      return rounded<Float8>(quotients);
    }
  }

 private:
  // value / scale: a product with the inverse, and a correction by the remainder, which rounds
  // correctly (Markstein 1990). Infinity has no remainder. A remainder below the normal numbers
  // belongs to a quotient that E4M3 rounds to 0.
  GNOMON_DEVICE float divided(float value, float inverse) const {
    const float quotient = value * inverse;
    const float corrected = std::fma(std::fma(-quotient, scale, value), inverse, quotient);
    return std::fabs(quotient) < 0x1p60f ? corrected : quotient;
  }
};

template <typename T, typename U, Pairing pairing, int width, int group>
struct AppendKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 256, blocks_at_once = 3;  // at most 80 registers
  Heads<T> q;                                                  // elements that rotate
  Heads<const T> k;                                            // all elements
  Heads<const T> v;
  Pages<U> keys, values;
  Places places;
  AnyAngles angles;
  std::uint32_t tokens;
  Divisor tokens_per_row;
  Division division;
  // Vectors of the pairs, of the other elements, and of the values of a head.
  Divisor per_token, vectors, still, value_vectors;
  std::int32_t pairs, head_offset;
  std::int32_t q_groups, of_pairs, of_still;  // groups of heads, and items of a token

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const std::uint32_t first = division.first_token(context);
    const int count = least(division.tokens_per_block, static_cast<int>(tokens - first));
    angles.prepare(context, first, count, tokens_per_row, pairs);
    const int items = per_token.times(count), step = division.step(context);
    GNOMON_NO_UNROLL
    for (int item = division.first_item(context); item < items; item += step) {
      const int t = per_token.quotient(item);
      int i = item - per_token.times(t);
      const Token token = token_of(first + static_cast<std::uint32_t>(t), tokens_per_row);
      if (i < of_pairs) {
        rotate_item(context, token, i, t * pairs, count * pairs);
      } else if ((i -= of_pairs) < of_still) {
        const int some = still.quotient(i);
        int element = (i - still.times(some)) * width;
        if (element >= head_offset) element += 2 * pairs;
        copy_item(k, keys, token, some * group, element);
      } else {
        i -= of_still;
        const int some = value_vectors.quotient(i);
        copy_item(v, values, token, some * group, (i - value_vectors.times(some)) * width);
      }
    }
  }

 private:
  using Some = Pairs<T, pairing, width, group>;

  // Item i: pairs of some heads of q, or of k.
  template <class Context>
  GNOMON_DEVICE void rotate_item(Context& context, Token token, int i, int at,
                                 int sines) const {
    const int some = vectors.quotient(i), pair = (i - vectors.times(some)) * width;
    const bool in_q = some < q_groups;
    const int head = (in_q ? some : some - q_groups) * group;
    const int heads = least(group, (in_q ? q.count : k.count) - head);
    const int begin = Some::begin(pair);
    T* const of_q = in_q ? q.at(token, head) + begin : nullptr;
    const T* const x = in_q ? of_q : k.at(token, head) + head_offset + begin;
    const std::int64_t number = in_q ? 0 : places.number(token);
    float c[width], s[width];
    angles.template load<width>(context, token, at, pair, sines, c, s);
    Some all;
    all.load(x, in_q ? q.head : k.head, heads, pairs);
    if (in_q)
      return all.store(of_q, q.head, heads, pairs, c, s, [](int) { return Rounded<T>(); });
    const Places::CacheEntry place = places.of(token, number);
    if (place.block < 0) return;
    all.store(keys.at(place.block, place.entry, head) + head_offset + begin, keys.head, heads,
              pairs, c, s, [&](int h) { return ToCache<U>{keys.scale(head + h)}; });
  }

  // Copies a vector of some heads.
  GNOMON_DEVICE void copy_item(const Heads<const T>& x, const Pages<U>& pages, Token token,
                               int head, int element) const {
    const int heads = least(group, x.count - head);
    const T* const from = x.at(token, head) + element;
    const std::int64_t number = places.number(token);
    Vector<T, width> all[group];
    GNOMON_UNROLL
    for (int h = 0; h < group; ++h)
      if (h < heads) all[h] = load<T, width>(from + h * x.head);
    const Places::CacheEntry place = places.of(token, number);
    if (place.block < 0) return;
    GNOMON_UNROLL
    for (int h = 0; h < group; ++h)
      if (h < heads) {
        U* const to = pages.at(place.block, place.entry, head + h) + element;
        if constexpr (std::is_same_v<T, U>) {
          store(to, all[h]);
        } else {
          float numbers[width];
          GNOMON_UNROLL
          for (int i = 0; i < width; ++i) numbers[i] = to_float(all[h][i]);
          store(to, ToCache<U>{pages.scale(head + h)}(numbers));
        }
      }
  }
};

}  // namespace gnomon::cuda
