// Queries and keys of rotary kernels, and the oracle of a rotation.
#pragma once

#include <functional>
#include <string>

#include "bench/kernels/blocks.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::bench {

inline constexpr std::int64_t query_heads = 32, key_heads = 8;

enum class Layout {
  by_token = 1,  // [B, T, H, D]
  by_head,       // [B, H, T, D]
  packed,        // q, k and v of a token are adjacent
};

struct Rotation {
  std::int64_t tokens = 0;
  Pairing pairing = Pairing::halves;
  std::int64_t size = 128;  // D
  Layout layout = Layout::by_token;
  bool backward = false;
  std::int64_t batch = 1;

  Rotary rotary() const { return {.rotary_dim = size, .pairing = pairing}; }
  std::string text(DType dtype) const;  // as in Kernel::detail
};

// Queries and keys in one allocation.
template <typename T>
struct QueriesAndKeys {
  Shared<T, 1> memory;
  View<T, 4> q, k;

  explicit QueriesAndKeys(const Rotation& c) {
    const std::int64_t all =
        c.layout == Layout::packed ? query_heads + 2 * key_heads : query_heads + key_heads;
    memory = random_block<T, 1>({c.batch * c.tokens * all * c.size});
    const auto view = [&](std::int64_t first, std::int64_t heads) -> View<T, 4> {
      T* const data = memory->data.get();
      const std::array<std::ptrdiff_t, 4> shape{c.batch, c.tokens, heads, c.size};
      if (c.layout == Layout::packed)
        return {
            data + first * c.size, shape, {c.tokens * all * c.size, all * c.size, c.size, 1}};
      T* const begin = data + first * c.batch * c.tokens * c.size;
      if (c.layout == Layout::by_head)
        return {begin, shape, {heads * c.tokens * c.size, c.size, c.tokens * c.size, 1}};
      return {begin, shape};
    };
    q = view(0, query_heads);
    k = view(query_heads, key_heads);
  }
  std::int64_t bytes() const {
    return (q.size() + k.size()) * static_cast<std::int64_t>(sizeof(T));
  }
};

using Element =
    std::function<double(std::int64_t token, std::int64_t head, std::int64_t element)>;

// The elements of the last row of a batch.
template <typename T>
Element elements(View<T, 4> x) {
  return [x, last = x.extent(0) - 1](std::int64_t t, std::int64_t h, std::int64_t d) {
    return as_double(x(last, t, h, d));
  };
}

// The largest error of a sample of `heads` rotated heads. position(token): the token itself.
double worst_turn(const Rotation& c, std::int64_t heads, const Element& before,
                  const Element& turned,
                  const std::function<double(std::int64_t)>& position = {});

}  // namespace gnomon::bench
