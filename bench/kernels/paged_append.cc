// New keys and values of a paged cache.
#include "gnomon/rotary/paged_append.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "bench/kernels/kernels.h"
#include "bench/kernels/turned_heads.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

constexpr int64_t block_size = 16;

enum class Blocks { in_order = 1, shuffled };

// Slots of tokens in blocks, and the views that a PagedCache borrows.
template <typename U>
struct Pages {
  std::vector<int64_t> slots;
  Shared<U, 4> keys, values;
  Shared<float, 3> key_scales, value_scales;
  View<const int64_t, 1> of_tokens;
  PagedCache cache;

  Pages(const Rotation& c, Blocks order) {
    const int64_t blocks = (c.tokens + block_size - 1) / block_size;
    std::vector<int64_t> of_blocks(static_cast<std::size_t>(blocks));
    std::iota(of_blocks.begin(), of_blocks.end(), 0);
    if (order == Blocks::shuffled)
      std::shuffle(of_blocks.begin(), of_blocks.end(), std::mt19937(1));
    for (int64_t t = 0; t < c.tokens; ++t)
      slots.push_back(of_blocks[static_cast<std::size_t>(t / block_size)] * block_size +
                      t % block_size);
    keys = zeros<U, 4>({blocks, block_size, key_heads, c.size});
    values = zeros<U, 4>({blocks, block_size, key_heads, c.size});
    key_scales = zeros<float, 3>({blocks, block_size, key_heads});
    value_scales = zeros<float, 3>({blocks, block_size, key_heads});
    of_tokens = {slots.data(), {c.tokens}};
    cache.keys = keys->view;
    cache.values = values->view;
    cache.slots = of_tokens;
    if constexpr (std::is_same_v<U, std::int8_t>) {
      cache.key_head_scales = key_scales->view;
      cache.value_head_scales = value_scales->view;
    }
  }
  Pages(const Pages&) = delete;
};

template <typename T, typename U>
Kernel paged_kernel(int64_t tokens, Blocks order) {
  const Rotation c{.tokens = tokens};
  const auto table = std::make_shared<RotaryTable>(c.rotary(), consecutive(tokens).ids);
  const auto k = random_block<T, 4>({1, tokens, key_heads, c.size});
  const auto v = random_block<T, 4>({1, tokens, key_heads, c.size});
  const auto pages = std::make_shared<Pages<U>>(c, order);
  constexpr bool bytes8 = std::is_same_v<U, std::int8_t>;
  const int64_t bytes = k->view.size() * static_cast<int64_t>(sizeof(T) + sizeof(U));
  const auto append = [=] { rotate_append(k->view, v->view, *table, pages->cache); };
  const auto type = [&] {
    if constexpr (bytes8)
      return "int8";
    else
      return name(dtype_of<U>);
  }();
  return {"append",
          fmt::format("keys and values, {} to {} [{}, {}, {}], blocks of {} {}",
                      name(dtype_of<T>), type, tokens, key_heads, c.size, block_size,
                      order == Blocks::shuffled ? "shuffled" : "in order"),
          Roof::memory,
          static_cast<double>(bytes),
          append,
          [=] { return touching(bytes); },
          [=] {
            append();
            return worst_turn(
                c, key_heads, elements(k->view), [&](int64_t t, int64_t h, int64_t d) {
                  const int64_t slot = pages->slots[static_cast<std::size_t>(t)];
                  const int64_t block = slot / block_size, entry = slot % block_size;
                  const U element = pages->keys->view(block, entry, h, d);
                  if constexpr (bytes8)
                    return double{pages->key_scales->view(block, entry, h)} * element;
                  else
                    return as_double(element);
                });
          }};
}

}  // namespace

std::vector<KernelMaker> paged_append_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  for (const int64_t tokens : lengths(only, 2 * key_heads * 128 * 4))
    for (const Blocks order : {Blocks::in_order, Blocks::shuffled}) {
      if (tokens <= block_size && order == Blocks::shuffled) continue;
      const auto append = [&](auto make) { all.push_back({"append paged", make}); };
      append([=] { return paged_kernel<float, float>(tokens, order); });
      append([=] { return paged_kernel<BFloat16, BFloat16>(tokens, order); });
      append([=] { return paged_kernel<BFloat16, std::int8_t>(tokens, order); });
    }
  return all;
}

}  // namespace gnomon::bench
