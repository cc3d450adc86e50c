/* Rotates queries and keys as Llama 3 does, and computes attention, in C.
 *
 *   cc rotary.c $(pkg-config --cflags --libs gnomon-core) -lm -o rotary
 */
#include <gnomon.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { tokens = 16, heads = 4, key_heads = 2, head_dim = 64 };

static void check(gnomon_status status) {
  if (status == GNOMON_OK) return;
  fprintf(stderr, "%s\n", gnomon_error_message());
  exit(1);
}

/* A float32 tensor [1, tokens, count, head_dim] that owns its memory. */
static gnomon_tensor heads_of(int64_t count) {
  gnomon_tensor x = {.device = {1, 0}, .ndim = 4, .dtype = {2, 32, 1}};
  x.data = calloc((size_t)(tokens * count * head_dim), sizeof(float));
  x.shape = malloc(4 * sizeof(int64_t));
  if (!x.data || !x.shape) exit(1);
  x.shape[0] = 1, x.shape[1] = tokens, x.shape[2] = count, x.shape[3] = head_dim;
  for (int64_t i = 0; i < tokens * count * head_dim; ++i)
    ((float*)x.data)[i] = (float)sin(0.37 * (double)i);
  return x;
}

int main(void) {
  gnomon_rotary_spec spec = {
      .size = sizeof spec, .rotary_dim = head_dim, .pairing = GNOMON_HALVES, .base = 500000};
  gnomon_frequencies* frequencies = NULL;
  check(gnomon_frequencies_create(&spec, &frequencies));

  int64_t ids[tokens], count = tokens;
  for (int64_t t = 0; t < tokens; ++t) ids[t] = t;
  gnomon_tensor positions = {
      .data = ids, .device = {1, 0}, .ndim = 1, .dtype = {0, 64, 1}, .shape = &count};
  gnomon_rotary_table* table = NULL;
  check(gnomon_rotary_table_create(frequencies, &positions, &table));

  gnomon_tensor q = heads_of(heads), k = heads_of(key_heads), v = heads_of(key_heads);
  gnomon_tensor out = heads_of(heads);
  check(gnomon_rotate(&q, &k, table, GNOMON_FORWARD));

  gnomon_layer_plan* plan = NULL;
  check(gnomon_layer_plan_create(&plan)); /* softmax scale 1 / sqrt(head_dim) */
  check(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, 0, -1, -1));
  gnomon_attention_input input = {.size = sizeof input, .q = &q, .k = &k, .v = &v};
  check(gnomon_attention(&input, plan, &out, NULL));
  printf("%.6f\n", (double)((float*)out.data)[tokens * heads * head_dim - 1]);

  gnomon_layer_plan_destroy(plan);
  gnomon_rotary_table_destroy(table);
  gnomon_frequencies_destroy(frequencies);
  gnomon_tensor* all[] = {&q, &k, &v, &out};
  for (int i = 0; i < 4; ++i) free(all[i]->data), free(all[i]->shape);
  return 0;
}
