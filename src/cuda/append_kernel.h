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
  std::int64_t blocks, entries, sequence_count, blocks_per_sequence;

  // The block and the entry of a token; block -1: not written.
  struct CacheEntry {
    std::int64_t block, entry;
  };
  GNOMON_DEVICE CacheEntry of(Token of_token) const {
    const std::int64_t at = of_tokens[of_token.row * row + of_token.index * token];
    if (at < 0) return {-1, 0};
    const std::int64_t page = at / entries, entry = at - page * entries;
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

// Rounds to the type of the cache; only E4M3 has a scale.
template <typename U>
GNOMON_DEVICE U to_cache(float value, float scale) {
  if constexpr (std::is_same_v<U, Float8>)
    return from_float<U>(value / scale);
  else
    return from_float<U>(value);
}

template <typename T, typename U, Pairing pairing, int width>
struct AppendKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 256;
  Heads<T> q;        // elements that rotate
  Heads<const T> k;  // all elements
  Heads<const T> v;
  Pages<U> keys, values;
  Places places;
  SharedAngles angles;
  std::uint32_t tokens, tokens_per_row;
  std::int32_t tokens_per_block;
  std::int32_t pairs, head_offset, head_dim, value_dim;

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const auto first = static_cast<std::uint32_t>(context.block() * tokens_per_block);
    const int count = least(tokens_per_block, static_cast<int>(tokens - first));
    angles.prepare(context, first, count, tokens_per_row, pairs);
    const int vectors = pairs / width;
    const int of_q = q.count * vectors, of_k = k.count * vectors;
    const int still = (head_dim - 2 * pairs) / width, of_still = k.count * still;
    const int value_vectors = value_dim / width, of_v = v.count * value_vectors;
    const int per_token = of_q + of_k + of_still + of_v;
    GNOMON_NO_UNROLL
    for (int item = context.thread(); item < count * per_token; item += context.threads()) {
      const int t = item / per_token;
      int i = item - t * per_token;
      const Token token = token_of(first + static_cast<std::uint32_t>(t), tokens_per_row);
      const float* const cosines = context.template shared<float>() + t * pairs;
      if (i < of_q) {
        const int head = i / vectors, pair = (i - head * vectors) * width;
        T* const x = q.first + token.row * q.row + token.index * q.token + head * q.head;
        rotate_item(x, x, cosines, count * pairs, pair, 1.0f);
        continue;
      }
      const Places::CacheEntry place = places.of(token);
      if (place.block < 0) continue;
      i -= of_q;
      if (i < of_k) {
        const int head = i / vectors, pair = (i - head * vectors) * width;
        const T* const x =
            k.first + token.row * k.row + token.index * k.token + head * k.head + head_offset;
        U* const to = keys.at(place.block, place.entry, head) + head_offset;
        rotate_item(x, to, cosines, count * pairs, pair, keys.scale(head));
      } else if ((i -= of_k) < of_still) {
        const int head = i / still;
        int element = (i - head * still) * width;
        if (element >= head_offset) element += 2 * pairs;
        const T* const x =
            k.first + token.row * k.row + token.index * k.token + head * k.head + element;
        copy_item(x, keys.at(place.block, place.entry, head) + element, keys.scale(head));
      } else {
        i -= of_still;
        const int head = i / value_vectors, element = (i - head * value_vectors) * width;
        const T* const x =
            v.first + token.row * v.row + token.index * v.token + head * v.head + element;
        copy_item(x, values.at(place.block, place.entry, head) + element, values.scale(head));
      }
    }
  }

 private:
  template <typename To>
  GNOMON_DEVICE void rotate_item(const T* from, To* to, const float* cosines, int sines,
                                 int pair, float scale) const {
    const int at = pairing == Pairing::halves ? pair : 2 * pair;
    const int other = at + (pairing == Pairing::halves ? pairs : width);
    auto a = load<T, width>(from + at), b = load<T, width>(from + other);
    if constexpr (pairing == Pairing::adjacent) split_pairs(a, b);
    Vector<To, width> to_a, to_b;
    GNOMON_UNROLL
    for (int i = 0; i < width; ++i) {
      const float x = to_float(a[i]), y = to_float(b[i]);
      const float c = cosines[pair + i], s = cosines[sines + pair + i];
      to_a[i] = to_cache<To>(rotated_first(x, y, c, s), scale);
      to_b[i] = to_cache<To>(rotated_second(x, y, c, s), scale);
    }
    if constexpr (pairing == Pairing::adjacent) join_pairs(to_a, to_b);
    store(to + at, to_a);
    store(to + other, to_b);
  }

  GNOMON_DEVICE void copy_item(const T* from, U* to, float scale) const {
    const auto x = load<T, width>(from);
    if constexpr (std::is_same_v<T, U>) {
      store(to, x);
    } else {
      Vector<U, width> out;
      GNOMON_UNROLL
      for (int i = 0; i < width; ++i) out[i] = to_cache<U>(to_float(x[i]), scale);
      store(to, out);
    }
  }
};

}  // namespace gnomon::cuda
