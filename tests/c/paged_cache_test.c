/* gnomon_paged_cache.h, compiled as C11. */
#include <gnomon_paged_cache.h>

#include "check.h"

enum { heads = 2, head_dim = 8, rows = 6, blocks = 5, block_size = 4 };

static gnomon_tensor integers(const int64_t* values, int64_t count) {
  gnomon_tensor x = make_tensor(0, 64, 1, count, 0, 0, 0);
  memcpy(x.data, values, (size_t)count * sizeof(int64_t));
  return x;
}

static gnomon_frequencies* make_frequencies(void) {
  gnomon_rotary_spec spec = {.size = sizeof spec, .rotary_dim = 8, .pairing = GNOMON_HALVES};
  gnomon_frequencies* frequencies = NULL;
  OK(gnomon_frequencies_create(&spec, &frequencies));
  return frequencies;
}

/* Entries by slots and by a block table have the elements of a contiguous append. */
static void test_append(void) {
  gnomon_frequencies* frequencies = make_frequencies();
  gnomon_tensor positions = make_positions(rows);
  gnomon_rotary_table* table = NULL;
  OK(gnomon_rotary_table_create(frequencies, &positions, &table));
  gnomon_tensor k = make_tensor(2, 32, 3, rows, heads, head_dim, 0), flat = k;
  flat.data = keep(sizeof(float) * rows * heads * head_dim);
  draw(&k, 1);
  OK(gnomon_append(&k, table, &flat, NULL));
  const int64_t places[rows] = {12, 13, 14, 15, 0, 1}, index[rows] = {0, 1, 2, 3, 4, 5};
  gnomon_tensor slots = integers(places, rows), entries = integers(index, rows);
  gnomon_tensor block_table = make_tensor(0, 32, 2, 1, 2, 0, 0);
  ((int32_t*)block_table.data)[0] = 3;
  gnomon_tensor sequences = make_tensor(0, 32, 1, rows, 0, 0, 0);
  for (int by_table = 0; by_table < 2; ++by_table) {
    gnomon_tensor keys = make_tensor(2, 32, 4, blocks, block_size, heads, head_dim);
    gnomon_tensor values = make_tensor(2, 32, 4, blocks, block_size, heads, head_dim);
    gnomon_paged_cache cache = {.size = sizeof cache, .keys = &keys, .values = &values};
    if (by_table)
      cache.block_table = &block_table, cache.entries = &entries, cache.sequences = &sequences;
    else
      cache.slots = &slots;
    OK(gnomon_paged_append(&k, &k, table, &cache));
    const size_t size = sizeof(float) * heads * head_dim;
    for (int64_t t = 0; t < rows; ++t) {
      CHECK(!memcmp((char*)keys.data + (size_t)places[t] * size,
                    (char*)flat.data + (size_t)t * size, size));
      CHECK(!memcmp((char*)values.data + (size_t)places[t] * size,
                    (char*)k.data + (size_t)t * size, size));
    }
  }
  /* int8, and E4M3, without rotation. */
  gnomon_tensor bytes = make_tensor(0, 8, 4, blocks, block_size, heads, head_dim);
  gnomon_tensor of_heads = make_tensor(2, 32, 3, blocks, block_size, heads, 0);
  gnomon_paged_cache int8 = {
      .size = sizeof int8, .keys = &bytes, .slots = &slots, .key_scales = &of_heads};
  OK(gnomon_paged_append(&k, NULL, NULL, &int8));
  gnomon_tensor narrow = make_tensor(10, 8, 4, blocks, block_size, heads, head_dim);
  gnomon_tensor one = make_tensor(2, 32, 1, 1, 0, 0, 0);
  floats(&one)[0] = 0.5f;
  gnomon_paged_cache e4m3 = {
      .size = sizeof e4m3, .keys = &narrow, .slots = &slots, .key_scales = &one};
  floats(&k)[0] = 1.0f;
  OK(gnomon_paged_append(&k, NULL, NULL, &e4m3));
  CHECK(((uint8_t*)narrow.data)[12 * heads * head_dim] == 0x40); /* 2 */
  CHECK(((int8_t*)bytes.data)[0] != 0 || floats(&of_heads)[0] != 0);
  REFUSED(gnomon_paged_append(&k, NULL, NULL, NULL), "cache must be given");
  e4m3.slots = NULL;
  REFUSED(gnomon_paged_append(&k, NULL, NULL, &e4m3), "slots");
  gnomon_rotary_table_destroy(table);
  gnomon_frequencies_destroy(frequencies);
}

static void test_cache(void) {
  gnomon_frequencies* frequencies = make_frequencies();
  gnomon_paged_kv_cache_spec spec = {.size = sizeof spec,
                                     .blocks = blocks,
                                     .block_size = block_size,
                                     .heads = heads,
                                     .head_dim = head_dim,
                                     .value_dim = head_dim,
                                     .type = GNOMON_CACHE_F32};
  gnomon_paged_kv_cache* cache = NULL;
  OK(gnomon_paged_kv_cache_create(&spec, frequencies, &cache));
  int64_t a = -1, b = -1, c = -1, tokens = 0, room = 0;
  OK(gnomon_paged_kv_cache_start(cache, &a));
  OK(gnomon_paged_kv_cache_start(cache, &b));
  const int64_t numbers[] = {a, b}, at[] = {0, 5, 6};
  gnomon_tensor both = integers(numbers, 2), starts = integers(at, 3);
  gnomon_tensor k = make_tensor(2, 32, 3, rows, heads, head_dim, 0);
  draw(&k, 1);
  OK(gnomon_paged_kv_cache_append(cache, &k, &k, &both, &starts, NULL, NULL));
  OK(gnomon_paged_kv_cache_tokens(cache, a, &tokens, &room));
  CHECK(tokens == 5 && room == 3 + 2 * block_size);
  OK(gnomon_paged_kv_cache_fork(cache, a, -1, &c));
  CHECK(gnomon_paged_kv_cache_free_blocks(cache) == 2);
  gnomon_tensor keys, values, block_table, lengths;
  OK(gnomon_paged_kv_cache_tensors(cache, &keys, &values, NULL, NULL));
  CHECK(keys.ndim == 4 && keys.shape[0] == blocks && keys.shape[1] == block_size);
  OK(gnomon_paged_kv_cache_block_table(cache, &both, &block_table, &lengths));
  CHECK(block_table.shape[0] == 2 && block_table.shape[1] == 2);
  CHECK(((int64_t*)lengths.data)[0] == 5 && ((int64_t*)lengths.data)[1] == 1);
  /* The keys of b are those of position 0: not rotated. */
  const int32_t block = ((int32_t*)block_table.data)[2];
  CHECK(((int32_t*)block_table.data)[3] == -1);
  const size_t size = sizeof(float) * heads * head_dim;
  CHECK(!memcmp((char*)keys.data + (size_t)block * block_size * size, (char*)k.data + 5 * size,
                size));
  CHECK(!memcmp((char*)values.data + (size_t)block * block_size * size,
                (char*)k.data + 5 * size, size));

  REFUSED(gnomon_paged_kv_cache_append(cache, &k, &k, &both, NULL, NULL, NULL), "starts");
  REFUSED(gnomon_paged_kv_cache_truncate(cache, b, 9), "tokens to keep");
  REFUSED(gnomon_paged_kv_cache_end(cache, 77), "got 77");
  OK(gnomon_paged_kv_cache_truncate(cache, c, 0));
  OK(gnomon_paged_kv_cache_end(cache, c));
  OK(gnomon_paged_kv_cache_end(cache, a));
  CHECK(gnomon_paged_kv_cache_free_blocks(cache) == blocks - 1);
  gnomon_rotary_spec other = {
      .size = sizeof other, .rotary_dim = 8, .pairing = GNOMON_HALVES, .base = 5e5};
  gnomon_frequencies* to = NULL;
  OK(gnomon_frequencies_create(&other, &to));
  OK(gnomon_paged_kv_cache_change_frequencies(cache, to));
  gnomon_paged_kv_cache_destroy(cache);
  gnomon_paged_kv_cache_destroy(NULL);
  spec.type = 0;
  cache = NULL;
  REFUSED(gnomon_paged_kv_cache_create(&spec, frequencies, &cache), "type must be");
  CHECK(cache == NULL);
  gnomon_frequencies_destroy(to);
  gnomon_frequencies_destroy(frequencies);
}

int main(void) {
  test_append();
  test_cache();
  free_kept();
  if (failures) printf("%d checks failed\n", failures);
  return failures != 0;
}
