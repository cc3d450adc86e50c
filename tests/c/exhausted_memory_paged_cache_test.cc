// Every function of gnomon_paged_cache.h when memory is exhausted: a status, and after
// GNOMON_OUT_OF_MEMORY the cache is as before the call.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "c/exhaustion.h"
#include "gnomon_paged_cache.h"

namespace gnomon {
namespace c_exhausted_memory_paged_cache_test {

using drawn::Placed;
using drawn::Type;
using std::int64_t;
using namespace exhaustion;

class ExhaustedMemoryOfPagedCaches : public Exhaustion {};

TEST_F(ExhaustedMemoryOfPagedCaches, PagedCaches) {
  const auto one = frequencies(), other = frequencies(500);
  Placed key_scales(Type::f32, {key_heads}, [] { return 0.5; });
  constexpr int64_t block_size = 4;
  gnomon_paged_kv_cache_spec spec{};
  spec.size = sizeof spec;
  spec.blocks = 40, spec.block_size = block_size, spec.heads = key_heads;
  spec.head_dim = spec.value_dim = size;
  for (const int32_t type : {GNOMON_CACHE_F32, GNOMON_CACHE_INT8, GNOMON_CACHE_E4M3}) {
    spec.type = type;
    if (type == GNOMON_CACHE_E4M3) spec.key_scales = spec.value_scales = key_scales.get();
    const auto owned = make<gnomon_paged_kv_cache>(
        "paged_kv_cache_create",
        [&](gnomon_paged_kv_cache** out) {
          return gnomon_paged_kv_cache_create(&spec, one.get(), out);
        },
        gnomon_paged_kv_cache_destroy);
    gnomon_paged_kv_cache* const cache = owned.get();
    // The blocks of all sequences, and the bytes of their entries.
    const auto observe = [&] {
      std::vector<double> all{static_cast<double>(gnomon_paged_kv_cache_free_blocks(cache))};
      gnomon_tensor of[3];
      gnomon_paged_kv_cache_tensors(cache, &of[0], &of[1], &of[2], nullptr);
      for (int64_t sequence = 0; sequence < 4; ++sequence) {
        int64_t held = -1, room = -1;
        if (gnomon_paged_kv_cache_tokens(cache, sequence, &held, &room) != GNOMON_OK) continue;
        for (const int64_t one : {sequence, held, room})
          all.push_back(static_cast<double>(one));
        const Placed id(Type::i64, {1}, [&] { return static_cast<double>(sequence); });
        gnomon_tensor blocks;
        gnomon_paged_kv_cache_block_table(cache, id.get(), &blocks, nullptr);
        for (int64_t entry = 0; entry < held; ++entry) {
          const int32_t block = static_cast<const int32_t*>(blocks.data)[entry / block_size];
          all.push_back(block);
          for (const gnomon_tensor& part : of) {
            if (!part.data || part.ndim < 3) continue;
            int64_t bytes = part.dtype.bits / 8;
            for (int32_t axis = 2; axis < part.ndim; ++axis) bytes *= part.shape[axis];
            const auto* const data = static_cast<const unsigned char*>(part.data) +
                                     (block * block_size + entry % block_size) * bytes;
            all.insert(all.end(), data, data + bytes);
          }
        }
      }
      return all;
    };
    const auto change = [&](const char* name, const std::function<gnomon_status()>& function,
                            const std::function<void()>& undo) {
      std::vector<double> before = observe();
      call(
          name, function, [&] { return observe() == before; },
          [&] {
            if (undo) undo();
            before = observe();
          });
    };
    int64_t first = -1, fork = -1;
    change(
        "paged_kv_cache_start", [&] { return gnomon_paged_kv_cache_start(cache, &first); },
        [&] { gnomon_paged_kv_cache_end(cache, first); });
    const int64_t rows = 30;
    Placed k(Type::f32, {rows, key_heads, size}, numbers()),
        v(Type::f32, {rows, key_heads, size}, numbers()),
        id(Type::i64, {1}, [&] { return static_cast<double>(first); }),
        starts(Type::i64, {2}, [n = 0.0]() mutable { return rows * n++; }),
        positions(Type::i64, {rows}, [n = 3.0]() mutable { return n++; });
    const auto append = [&] {
      return gnomon_paged_kv_cache_append(cache, k.get(), v.get(), id.get(), starts.get(),
                                          positions.get(), nullptr);
    };
    EXPECT_EQ(append(), GNOMON_OK) << gnomon_error_message();
    change("paged_kv_cache_append", append,
           [&] { gnomon_paged_kv_cache_truncate(cache, first, rows); });
    change(
        "paged_kv_cache_fork",
        [&] { return gnomon_paged_kv_cache_fork(cache, first, rows + 2, &fork); },
        [&] { gnomon_paged_kv_cache_end(cache, fork); });
    change("paged_kv_cache_append", append,  // copies the block that both hold
           [&] { gnomon_paged_kv_cache_truncate(cache, first, 2 * rows); });
    Placed ids(Type::i64, {2},
               [&, n = 0]() mutable { return static_cast<double>(n++ ? fork : first); });
    gnomon_tensor blocks, lengths;
    change(
        "paged_kv_cache_block_table",
        [&] { return gnomon_paged_kv_cache_block_table(cache, ids.get(), &blocks, &lengths); },
        {});
    gnomon_tensor all[4];
    change("paged_kv_cache_tensors",
           [&] {
             return gnomon_paged_kv_cache_tensors(cache, &all[0], &all[1], &all[2], &all[3]);
           },
           {});
    if (type == GNOMON_CACHE_F32) {
      change("paged_kv_cache_change_frequencies",
             [&] { return gnomon_paged_kv_cache_change_frequencies(cache, other.get()); }, {});
    }
    int64_t held = 0, room = 0;
    change("paged_kv_cache_tokens",
           [&] { return gnomon_paged_kv_cache_tokens(cache, first, &held, &room); }, {});
    quiet("paged_kv_cache_free_blocks", [&] { gnomon_paged_kv_cache_free_blocks(cache); });
    change("paged_kv_cache_truncate",
           [&] { return gnomon_paged_kv_cache_truncate(cache, first, 7); }, {});
    change(
        "paged_kv_cache_end", [&] { return gnomon_paged_kv_cache_end(cache, fork); },
        [&] { gnomon_paged_kv_cache_fork(cache, first, -1, &fork); });
  }
  quiet("paged_kv_cache_destroy", [] { gnomon_paged_kv_cache_destroy(nullptr); });
  Placed k(Type::f32, {tokens, key_heads, size}, numbers()),
      keys(Type::f32, {40, 4, key_heads, size}), slots(Type::i64, {tokens}, counting());
  const auto rows = table(one.get(), tokens);
  gnomon_paged_cache pages{};
  pages.size = sizeof pages;
  pages.keys = pages.values = nullptr;
  pages.keys = keys.get(), pages.slots = slots.get();
  call("paged_append",
       [&] { return gnomon_paged_append(k.get(), nullptr, rows.get(), &pages); });
  for (const std::string& name : testing::declared_functions("gnomon_paged_cache.h"))
    expect(name);
}

}  // namespace c_exhausted_memory_paged_cache_test
}  // namespace gnomon
