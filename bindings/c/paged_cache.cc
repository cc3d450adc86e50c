// gnomon_paged_cache.h: paged KV caches.
#include "gnomon_paged_cache.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/c/handles.h"
#include "gnomon/attention/paged_kv_cache.h"
#include "gnomon/rotary/paged_append.h"

struct gnomon_paged_kv_cache {
  gnomon::PagedKvCache cache;
  std::array<std::int64_t, 2> table_shape = {};
  std::array<std::int64_t, 1> lengths_shape = {};
};

using gnomon::c::elements_of;
using gnomon::c::given;
using gnomon::c::guarded;
using gnomon::c::make;
using gnomon::c::tensor;
using gnomon::c::tensor_if;

namespace gnomon::c {
namespace {

void give(const DlTensor& from, gnomon_tensor* out) {
  if (out) *out = std::bit_cast<gnomon_tensor>(from);
}

std::vector<float> scales_if(const char* name, const gnomon_tensor* from) {
  return from ? elements_of<float>(name, from) : std::vector<float>();
}

}  // namespace
}  // namespace gnomon::c

gnomon_status gnomon_paged_append(const gnomon_tensor* k, const gnomon_tensor* v,
                                  const gnomon_rotary_table* table,
                                  const gnomon_paged_cache* cache) {
  return guarded([&] {
    const gnomon_paged_cache& from = gnomon::c::sized("gnomon_paged_cache", "cache", cache);
    gnomon::PagedCache to;
    to.keys = tensor("keys", from.keys);
    to.values = tensor_if(from.values);
    to.slots = tensor_if(from.slots);
    to.block_table = tensor_if(from.block_table);
    to.entries = tensor_if(from.entries);
    to.sequences = tensor_if(from.sequences);
    if (to.keys.holds<std::int8_t>()) {
      to.key_head_scales = tensor_if(from.key_scales);
      to.value_head_scales = tensor_if(from.value_scales);
    } else {
      to.key_scales = tensor_if(from.key_scales);
      to.value_scales = tensor_if(from.value_scales);
    }
    if (table)
      gnomon::rotate_append(tensor("k", k), tensor_if(v), table->table, to);
    else
      gnomon::copy_append(tensor("k", k), tensor_if(v), to);
  });
}

gnomon_status gnomon_paged_kv_cache_create(const gnomon_paged_kv_cache_spec* spec,
                                           const gnomon_frequencies* frequencies,
                                           gnomon_paged_kv_cache** out) {
  return guarded([&] {
    const gnomon_paged_kv_cache_spec& from =
        gnomon::c::sized("gnomon_paged_kv_cache_spec", "spec", spec);
    gnomon::PagedKvCacheShape shape;
    shape.blocks = from.blocks;
    shape.block_size = from.block_size == 0 ? 16 : from.block_size;
    shape.heads = from.heads;
    shape.head_dim = from.head_dim;
    shape.value_dim = from.value_dim;
    shape.axes = from.axes == 0 ? 1 : from.axes;
    shape.type = static_cast<gnomon::CacheType>(from.type);
    shape.key_scales = gnomon::c::scales_if("key_scales", from.key_scales);
    shape.value_scales = gnomon::c::scales_if("value_scales", from.value_scales);
    std::optional<gnomon::RotaryFrequencies> rotated_with;
    if (frequencies) rotated_with = frequencies->frequencies;
    make(out, gnomon::PagedKvCache(shape, std::move(rotated_with)));
  });
}

void gnomon_paged_kv_cache_destroy(gnomon_paged_kv_cache* cache) { delete cache; }

gnomon_status gnomon_paged_kv_cache_start(gnomon_paged_kv_cache* cache, int64_t* sequence) {
  return guarded([&] {
    int64_t& number = given("sequence", sequence);
    number = given("cache", cache).cache.start();
  });
}

gnomon_status gnomon_paged_kv_cache_fork(gnomon_paged_kv_cache* cache, int64_t sequence,
                                         int64_t tokens, int64_t* fork) {
  return guarded([&] {
    int64_t& number = given("fork", fork);
    gnomon::PagedKvCache& of = given("cache", cache).cache;
    number = tokens == -1 ? of.fork(sequence) : of.fork(sequence, tokens);
  });
}

gnomon_status gnomon_paged_kv_cache_truncate(gnomon_paged_kv_cache* cache, int64_t sequence,
                                             int64_t tokens) {
  return guarded([&] { given("cache", cache).cache.truncate(sequence, tokens); });
}

gnomon_status gnomon_paged_kv_cache_end(gnomon_paged_kv_cache* cache, int64_t sequence) {
  return guarded([&] { given("cache", cache).cache.end(sequence); });
}

gnomon_status gnomon_paged_kv_cache_tokens(const gnomon_paged_kv_cache* cache, int64_t sequence,
                                           int64_t* tokens, int64_t* room) {
  return guarded([&] {
    const gnomon::PagedKvCache& of = given("cache", cache).cache;
    given("tokens", tokens) = of.tokens(sequence);
    if (room) *room = of.room(sequence);
  });
}

int64_t gnomon_paged_kv_cache_free_blocks(const gnomon_paged_kv_cache* cache) {
  return cache ? cache->cache.free_blocks() : 0;
}

gnomon_status gnomon_paged_kv_cache_append(gnomon_paged_kv_cache* cache, const gnomon_tensor* k,
                                           const gnomon_tensor* v,
                                           const gnomon_tensor* sequences,
                                           const gnomon_tensor* starts,
                                           const gnomon_tensor* positions,
                                           const gnomon_rotary_table* table) {
  return guarded([&] {
    gnomon::PagedKvCache& to = given("cache", cache).cache;
    const auto of = elements_of<std::int64_t>("sequences", sequences);
    std::vector<std::int64_t> at;
    if (starts) at = elements_of<std::int64_t>("starts", starts);
    std::vector<gnomon::Positions> axes;
    if (positions) axes = gnomon::c::axes_of("positions", positions, nullptr);
    to.append(tensor("k", k), tensor_if(v), of, at, axes, table ? &table->table : nullptr);
  });
}

gnomon_status gnomon_paged_kv_cache_tensors(const gnomon_paged_kv_cache* cache,
                                            gnomon_tensor* keys, gnomon_tensor* values,
                                            gnomon_tensor* key_scales,
                                            gnomon_tensor* value_scales) {
  return guarded([&] {
    const gnomon::PagedKvCache& of = given("cache", cache).cache;
    gnomon::c::give(of.keys(), keys);
    gnomon::c::give(of.values(), values);
    gnomon::c::give(of.key_scales(), key_scales);
    gnomon::c::give(of.value_scales(), value_scales);
  });
}

gnomon_status gnomon_paged_kv_cache_block_table(gnomon_paged_kv_cache* cache,
                                                const gnomon_tensor* sequences,
                                                gnomon_tensor* block_table,
                                                gnomon_tensor* key_lengths) {
  return guarded([&] {
    gnomon_paged_kv_cache& of = given("cache", cache);
    const auto all = elements_of<std::int64_t>("sequences", sequences);
    const auto table = of.cache.block_table(all);
    const auto lengths = of.cache.key_lengths(all);
    of.table_shape = table.extents();
    of.lengths_shape = {std::ssize(lengths)};
    gnomon::DlTensor blocks, entries;
    blocks.data = const_cast<std::int32_t*>(table.data());
    blocks.rank = 2;
    blocks.dtype = gnomon::data_type_of<std::int32_t>;
    blocks.shape = of.table_shape.data();
    entries.data = const_cast<std::int64_t*>(lengths.data());
    entries.rank = 1;
    entries.dtype = gnomon::data_type_of<std::int64_t>;
    entries.shape = of.lengths_shape.data();
    gnomon::c::give(blocks, block_table);
    gnomon::c::give(entries, key_lengths);
  });
}

gnomon_status gnomon_paged_kv_cache_change_frequencies(gnomon_paged_kv_cache* cache,
                                                       const gnomon_frequencies* to) {
  return guarded(
      [&] { given("cache", cache).cache.change_frequencies(given("to", to).frequencies); });
}
