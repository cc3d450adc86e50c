#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/cli/kernel_parts.h"
#include "apps/cli/kernels.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/decoding.h"
#include "gnomon/rotary/int8_keys.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::cli {
namespace {

using std::int64_t;

constexpr int64_t query_heads = 32, key_heads = 8;

enum class Layout {
  by_token = 1,  // [B, T, H, D]
  by_head,       // [B, H, T, D]
  packed,        // q, k and v of a token are adjacent
};

struct Case {
  int64_t tokens = 0;
  Pairing pairing = Pairing::halves;
  int64_t size = 128;  // D
  Layout layout = Layout::by_token;
  bool backward = false;
  int64_t batch = 1;

  Rotary rotary() const { return {.rotary_dim = size, .pairing = pairing}; }
  std::string text(DType dtype) const {
    const char* const of_layout = layout == Layout::by_token  ? ""
                                  : layout == Layout::by_head ? " by head"
                                                              : " packed";
    return fmt::format("{} {}{}{} [{}, {}, {}]", name(dtype),
                       pairing == Pairing::halves ? "halves" : "adjacent", of_layout,
                       backward ? " inverse" : "", batch * tokens, query_heads + key_heads,
                       size);
  }
};

// Queries and keys in one allocation.
template <typename T>
struct QueriesAndKeys {
  Shared<T, 1> memory;
  View<T, 4> q, k;

  explicit QueriesAndKeys(const Case& c) {
    const int64_t all =
        c.layout == Layout::packed ? query_heads + 2 * key_heads : query_heads + key_heads;
    memory = random_block<T, 1>({c.batch * c.tokens * all * c.size});
    const auto view = [&](int64_t first, int64_t heads) -> View<T, 4> {
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
  int64_t bytes() const { return (q.size() + k.size()) * static_cast<int64_t>(sizeof(T)); }
};

// The largest error of a sample of rotated heads. position(b, t): the position of a token.
template <typename T, typename Rotated, typename Position>
double worst_turn(const Case& c, View<const T, 4> before, Rotated turned, Position position) {
  const auto f = inverse_frequencies(c.rotary());
  const int64_t heads = before.extent(2), half = c.size / 2;
  double worst = 0;
  for (int64_t t = 0; t < c.tokens; t += std::max<int64_t>(1, c.tokens / 61))
    for (int64_t h = 0; h < heads; h += heads - 1)
      for (int64_t i = 0; i < half; ++i) {
        const bool halves = c.pairing == Pairing::halves;
        const int64_t x = halves ? i : 2 * i, y = halves ? i + half : 2 * i + 1;
        const auto p = static_cast<long double>(position(c.batch - 1, t));
        const long double angle =
            (c.backward ? -p : p) * static_cast<long double>(f[static_cast<std::size_t>(i)]);
        const long double a = as_double(before(c.batch - 1, t, h, x)),
                          b = as_double(before(c.batch - 1, t, h, y));
        worst =
            std::max({worst,
                      std::fabs(turned(t, h, x) -
                                static_cast<double>(a * std::cos(angle) - b * std::sin(angle))),
                      std::fabs(turned(t, h, y) - static_cast<double>(a * std::sin(angle) +
                                                                      b * std::cos(angle)))});
      }
  return worst;
}

template <typename T>
Kernel rotate_kernel(const Case& c) {
  const auto table = std::make_shared<RotaryTable>(c.rotary(), consecutive(c.tokens).ids);
  const QueriesAndKeys<T> x(c);
  const auto turn = [=](View<T, 4> q, View<T, 4> k) {
    rotate(q, k, *table, c.backward ? Direction::inverse : Direction::forward);
  };
  return {"rotate",
          c.text(dtype_of<T>),
          Roof::memory,
          static_cast<double>(x.bytes()),
          [=] { turn(x.q, x.k); },
          touching(x.bytes()),
          [=] {
            const QueriesAndKeys<T> before(c), after(c);
            turn(after.q, after.k);
            const auto of = [&](View<T, 4> was, View<T, 4> is) {
              return worst_turn<T>(
                  c, was,
                  [&](int64_t t, int64_t h, int64_t d) { return as_double(is(0, t, h, d)); },
                  [](int64_t, int64_t t) { return t; });
            };
            return std::max(of(before.q, after.q), of(before.k, after.k));
          }};
}

// Stores new keys in a cache, with another layout and optionally another type.
template <typename T, typename U>
Kernel append_kernel(int64_t tokens) {
  const Case c{.tokens = tokens};
  const auto table = std::make_shared<RotaryTable>(c.rotary(), consecutive(tokens).ids);
  const auto k = random_block<T, 4>({1, tokens, key_heads, c.size});
  const auto slot = zeros<U, 4>({1, tokens, key_heads, c.size});
  const auto scales = zeros<float, 3>({1, tokens, key_heads});
  constexpr bool bytes8 = std::is_same_v<U, std::int8_t>;
  const int64_t bytes = k->view.size() * static_cast<int64_t>(sizeof(T) + sizeof(U)) / 2;
  const auto append = [=] {
    if constexpr (bytes8)
      rotate_append(k->view, *table, slot->view, scales->view);
    else
      rotate_append(k->view, *table, slot->view);
  };
  const auto type = [&] {
    if constexpr (bytes8)
      return "int8";
    else
      return name(dtype_of<U>);
  }();
  return {
      "append",
      fmt::format("{} to {} [{}, {}, {}]", name(dtype_of<T>), type, tokens, key_heads, c.size),
      Roof::memory,
      static_cast<double>(bytes),
      append,
      touching(bytes),
      [=] {
        append();
        return worst_turn<T>(
            c, k->view,
            [&](int64_t t, int64_t h, int64_t d) {
              if constexpr (bytes8)
                return double{scales->view(0, t, h)} * slot->view(0, t, h, d);
              else
                return as_double(slot->view(0, t, h, d));
            },
            [](int64_t, int64_t t) { return t; });
      }};
}

// One token of each sequence, each with its own position, without a table.
template <typename T>
Kernel decode_kernel(int64_t batch, Pairing pairing) {
  const Case c{.tokens = 1, .pairing = pairing, .batch = batch};
  const QueriesAndKeys<T> x(c);
  const RotaryFrequencies plan = lower(c.rotary());
  auto at = std::make_shared<Integers>();
  for (int64_t b = 0; b < batch; ++b) at->push_back(5000 + 777 * b);
  const View<const int64_t, 3> positions(at->data(), {1, batch, 1});
  return {"decode",
          c.text(dtype_of<T>),
          Roof::memory,
          static_cast<double>(x.bytes()),
          [=] {
            (void)at;
            rotate_at(x.q, x.k, positions, plan);
          },
          touching(x.bytes()),
          [=] {
            const QueriesAndKeys<T> before(c), after(c);
            rotate_at(after.q, after.k, positions, plan);
            return worst_turn<T>(
                c, before.q,
                [&](int64_t t, int64_t h, int64_t d) {
                  return as_double(after.q(batch - 1, t, h, d));
                },
                [&](int64_t b, int64_t) { return (*at)[static_cast<std::size_t>(b)]; });
          }};
}

}  // namespace

std::vector<KernelMaker> rotary_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  const auto rotate_case = [&]<typename T>(T, const Case& c) {
    all.push_back({"rotate", [=] { return rotate_kernel<T>(c); }});
  };
  const auto narrow_types = [&](const auto& use) {
    use(float());
    use(Half());
    use(BFloat16());
  };
  for (const int64_t tokens : lengths(only, (query_heads + key_heads) * 128 * 4)) {
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent}) {
      const auto each = [&](auto type) {
        rotate_case(type, {.tokens = tokens, .pairing = pairing});
      };
      narrow_types(each);
      each(double());
    }
    if (tokens == 1) continue;
    narrow_types([&](auto type) {
      rotate_case(type, {.tokens = tokens, .layout = Layout::by_head});
      rotate_case(type, {.tokens = tokens, .layout = Layout::packed});
      rotate_case(type, {.tokens = tokens, .backward = true});
    });
  }
  for (const int64_t size : {56, 64, 72, 80, 96, 192, 256})
    narrow_types(
        [&](auto type) { rotate_case(type, {.tokens = only.value_or(512), .size = size}); });
  for (const int64_t tokens : lengths(only, key_heads * 128 * 4)) {
    const auto append = [&](auto make) { all.push_back({"append", make}); };
    append([=] { return append_kernel<float, float>(tokens); });
    append([=] { return append_kernel<float, Half>(tokens); });
    append([=] { return append_kernel<float, BFloat16>(tokens); });
    append([=] { return append_kernel<BFloat16, BFloat16>(tokens); });
    append([=] { return append_kernel<float, std::int8_t>(tokens); });
    append([=] { return append_kernel<BFloat16, std::int8_t>(tokens); });
  }
  for (const int64_t batch : {1, 64})
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
      narrow_types([&]<typename T>(T) {
        all.push_back({"decode", [=] { return decode_kernel<T>(batch, pairing); }});
      });
  return all;
}

}  // namespace gnomon::cli
