#include "gnomon/rotary/rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/kernels/kernels.h"
#include "bench/kernels/turned_heads.h"
#include "gnomon/rotary/decoding.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

template <typename T>
Kernel rotate_kernel(const Rotation& c) {
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
          [bytes = x.bytes()] { return touching(bytes); },
          [=] {
            const QueriesAndKeys<T> before(c), after(c);
            turn(after.q, after.k);
            return std::max(worst_turn(c, query_heads, elements(before.q), elements(after.q)),
                            worst_turn(c, key_heads, elements(before.k), elements(after.k)));
          }};
}

// Queries only, to another array.
Kernel copy_kernel(int64_t tokens) {
  const Rotation c{.tokens = tokens};
  const auto table = std::make_shared<RotaryTable>(c.rotary(), consecutive(tokens).ids);
  const auto x = random_block<float, 4>({1, tokens, query_heads, c.size});
  const auto out = zeros<float, 4>(x->view.extents());
  const auto turn = [=] { rotate(x->view, *table, Direction::forward, out->view); };
  const int64_t bytes = x->view.size() * 4;
  return {"rotate",
          fmt::format("f32 halves to a copy [{}, {}, {}]", tokens, query_heads, c.size),
          Roof::memory,
          static_cast<double>(bytes),
          turn,
          [=] { return touching(bytes); },
          [=] {
            turn();
            return worst_turn(c, query_heads, elements(x->view), elements(out->view));
          }};
}

// One token of each sequence, each with its own position, without a table.
template <typename T>
Kernel decode_kernel(int64_t batch, Pairing pairing) {
  const Rotation c{.tokens = 1, .pairing = pairing, .batch = batch};
  const QueriesAndKeys<T> x(c);
  const RotaryFrequencies plan = lower(c.rotary());
  auto at = std::make_shared<std::vector<int64_t>>();
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
          [bytes = x.bytes()] { return touching(bytes); },
          [=] {
            const QueriesAndKeys<T> before(c), after(c);
            rotate_at(after.q, after.k, positions, plan);
            return worst_turn(c, query_heads, elements(before.q), elements(after.q),
                              [&](int64_t) { return static_cast<double>(at->back()); });
          }};
}

}  // namespace

std::vector<KernelMaker> rotary_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  const auto rotate_case = [&]<typename T>(T, const Rotation& c) {
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
  all.push_back({"rotate", [=] { return copy_kernel(only.value_or(512)); }});
  for (const int64_t batch : {1, 64})
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
      narrow_types([&]<typename T>(T) {
        all.push_back({"decode", [=] { return decode_kernel<T>(batch, pairing); }});
      });
  return all;
}

std::vector<CountedKernel> counted_rotary() {
  constexpr int64_t heads = query_heads + key_heads, all = 16 * heads * 128;
  const auto rotating = []<typename T>(const char* name, int64_t elements, T, Rotation c) {
    return CountedKernel{name, elements, [c] { return rotate_kernel<T>(c); }};
  };
  const Rotation halves{.tokens = 16}, adjacent{.tokens = 16, .pairing = Pairing::adjacent};
  return {
      rotating("rotate_f32_halves", all, float(), halves),
      rotating("rotate_f32_adjacent", all, float(), adjacent),
      rotating("rotate_f64_halves", all, double(), halves),
      rotating("rotate_f16_halves", all, Half(), halves),
      rotating("rotate_f16_adjacent", all, Half(), adjacent),
      rotating("rotate_bf16_halves", all, BFloat16(), halves),
      rotating("rotate_bf16_adjacent", all, BFloat16(), adjacent),
      rotating("rotate_f32_one_token", heads * 128, float(), {.tokens = 1}),
      rotating("rotate_f32_bhtd", all, float(), {.tokens = 16, .layout = Layout::by_head}),
      rotating("rotate_bf16_bhtd", all, BFloat16(), {.tokens = 16, .layout = Layout::by_head}),
      rotating("rotate_f32_size_80", 16 * heads * 80, float(), {.tokens = 16, .size = 80}),
      rotating("rotate_f16_size_72", 16 * heads * 72, Half(), {.tokens = 16, .size = 72}),
      rotating("rotate_bf16_size_56", 16 * heads * 56, BFloat16(), {.tokens = 16, .size = 56}),
      rotating("rotate_bf16_size_80", 16 * heads * 80, BFloat16(), {.tokens = 16, .size = 80}),
      {"rotate_f32_out_of_place", 16 * query_heads * 128, [] { return copy_kernel(16); }},
      rotating("rotate_backward_f32", all, float(), {.tokens = 16, .backward = true}),
  };
}

}  // namespace gnomon::bench
