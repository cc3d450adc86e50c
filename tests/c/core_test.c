/* gnomon.h of the component core, compiled as C11. */
#include <gnomon_context.h>
#include <gnomon_ragged.h>

#include "check.h"

enum { batch = 2, tokens = 5, heads = 4, key_heads = 2, head_dim = 8 };

static void test_rotation(void) {
  gnomon_rotary_spec spec = {
      .size = sizeof spec, .rotary_dim = 6, .pairing = GNOMON_HALVES, .head_offset = 1};
  gnomon_frequencies* frequencies = NULL;
  OK(gnomon_frequencies_create(&spec, &frequencies));
  gnomon_tensor inv_freq = make_tensor(2, 64, 1, 3, 0, 0, 0);
  OK(gnomon_frequencies_get(frequencies, &inv_freq));
  CHECK(fabs(doubles(&inv_freq)[2] - pow(10000, -4.0 / 6)) < 1e-15);

  gnomon_tensor positions = make_positions(tokens);
  gnomon_rotary_table* table = NULL;
  OK(gnomon_rotary_table_create(frequencies, &positions, &table));
  gnomon_tensor x = make_tensor(2, 32, 4, batch, tokens, heads, head_dim), y = x;
  y.data = keep(sizeof(float) * batch * tokens * heads * head_dim);
  draw(&x, 1);
  OK(gnomon_rotate_to(&x, table, GNOMON_FORWARD, &y));
  for (int64_t row = 0; row < batch * tokens * heads; ++row) {
    const float *from = floats(&x) + row * head_dim, *to = floats(&y) + row * head_dim;
    const double position = (double)(row / heads % tokens);
    CHECK(to[0] == from[0] && to[7] == from[7]);
    for (int i = 0; i < 3; ++i) {
      const double angle = position * doubles(&inv_freq)[i];
      const double a = from[1 + i], b = from[4 + i];
      CHECK(fabs(to[1 + i] - (a * cos(angle) - b * sin(angle))) < 4e-7);
      CHECK(fabs(to[4 + i] - (a * sin(angle) + b * cos(angle))) < 4e-7);
    }
  }
  /* Rotate in place, without a table, and back. */
  gnomon_tensor z = y;
  z.data = keep(sizeof(float) * batch * tokens * heads * head_dim);
  memcpy(z.data, x.data, sizeof(float) * batch * tokens * heads * head_dim);
  OK(gnomon_rotate_at(&z, NULL, &positions, frequencies));
  CHECK(memcmp(z.data, y.data, sizeof(float) * batch * tokens * heads * head_dim) == 0);
  OK(gnomon_rotate(&z, NULL, table, GNOMON_INVERSE));
  for (int64_t i = 0; i < size_of_tensor(&x); ++i)
    CHECK(fabs(floats(&z)[i] - floats(&x)[i]) < 1e-6);

  /* A cache of 16 bits, and one of 8 bits with scales. */
  gnomon_tensor half = make_tensor(4, 16, 4, batch, tokens, heads, head_dim);
  OK(gnomon_append(&x, table, &half, NULL));
  gnomon_tensor bytes = make_tensor(0, 8, 4, batch, tokens, heads, head_dim);
  gnomon_tensor scales = make_tensor(2, 32, 3, batch, tokens, heads, 0);
  OK(gnomon_append(&x, table, &bytes, &scales));
  for (int64_t i = 0; i < size_of_tensor(&x); ++i) {
    const double kept = ((int8_t*)bytes.data)[i] * (double)floats(&scales)[i / head_dim];
    CHECK(fabs(kept - floats(&y)[i]) < 0.01);
  }
  OK(gnomon_append(&x, NULL, &z, NULL));
  CHECK(memcmp(z.data, x.data, sizeof(float) * batch * tokens * heads * head_dim) == 0);
  OK(gnomon_shift_keys(&z, frequencies, 0));

  REFUSED(gnomon_rotate(NULL, NULL, table, GNOMON_FORWARD), "q must be given, got NULL");
  REFUSED(gnomon_rotate(&x, NULL, NULL, GNOMON_FORWARD), "table must be given");
  REFUSED(gnomon_rotate(&x, NULL, table, (gnomon_direction)3), "direction");
  REFUSED(gnomon_rotate(&positions, NULL, table, GNOMON_FORWARD), "got i64");
  gnomon_tensor on_gpu = x;
  on_gpu.device.device_type = 2;
  REFUSED(gnomon_rotate(&on_gpu, NULL, table, GNOMON_FORWARD), "device cpu, got cuda:0");
  spec.pairing = 0;
  gnomon_frequencies* none = NULL;
  REFUSED(gnomon_frequencies_create(&spec, &none), "pairing");
  CHECK(none == NULL);
  gnomon_rotary_table_destroy(table);
  gnomon_frequencies_destroy(frequencies);
  gnomon_frequencies_destroy(NULL);
}

/* Three axes of positions, each with a pair: M-RoPE. */
static void test_axes(void) {
  gnomon_rotary_spec spec = {.size = sizeof spec, .rotary_dim = 6, .pairing = GNOMON_ADJACENT};
  gnomon_tensor inv_freq = make_tensor(2, 64, 1, 3, 0, 0, 0);
  gnomon_tensor axes = make_tensor(0, 32, 1, 3, 0, 0, 0);
  for (int i = 0; i < 3; ++i) doubles(&inv_freq)[i] = 1, ((int32_t*)axes.data)[i] = i;
  gnomon_frequencies* frequencies = NULL;
  OK(gnomon_frequencies_from(&spec, &inv_freq, &axes, 2.0, &frequencies));
  gnomon_tensor positions = make_tensor(0, 64, 3, 3, 1, 2, 0);
  const int64_t ids[] = {0, 1, 0, 2, 0, 3};
  memcpy(positions.data, ids, sizeof ids);
  gnomon_rotary_table* table = NULL;
  OK(gnomon_rotary_table_create(frequencies, &positions, &table));
  gnomon_tensor cosine = make_tensor(2, 32, 3, 1, 2, 3, 0), sine = cosine;
  sine.data = keep((6) * sizeof(float));
  OK(gnomon_rotary_table_get(table, &cosine, &sine));
  for (int i = 0; i < 3; ++i) CHECK(fabs(floats(&cosine)[3 + i] - 2 * cos(i + 1)) < 1e-6);
  doubles(&inv_freq)[0] = INFINITY;
  gnomon_frequencies* none = NULL;
  CHECK(gnomon_frequencies_from(&spec, &inv_freq, &axes, 1, &none) != GNOMON_OK);
  gnomon_rotary_table_destroy(table);
  gnomon_frequencies_destroy(frequencies);
}

/* cos and sin without a table, in each type, to columns of one tensor. */
static void test_cos_sin(void) {
  gnomon_rotary_spec spec = {.size = sizeof spec, .rotary_dim = 4, .pairing = GNOMON_HALVES};
  gnomon_tensor inv_freq = make_tensor(2, 64, 1, 2, 0, 0, 0);
  doubles(&inv_freq)[0] = 1, doubles(&inv_freq)[1] = 0.25;
  gnomon_frequencies* frequencies = NULL;
  OK(gnomon_frequencies_from(&spec, &inv_freq, NULL, 2.0, &frequencies));
  gnomon_tensor positions = make_positions(tokens);
  int64_t strides[] = {4, 1};
  gnomon_tensor cosine = make_tensor(2, 64, 2, tokens, 4, 0, 0), sine = cosine;
  cosine.shape[1] = 2, cosine.strides = sine.strides = strides;
  sine.byte_offset = 2 * sizeof(double);
  OK(gnomon_cos_sin(&positions, frequencies, &cosine, &sine));
  for (int t = 0; t < tokens; ++t)
    for (int i = 0; i < 2; ++i) {
      const double angle = t * doubles(&inv_freq)[i];
      CHECK(fabs(doubles(&cosine)[4 * t + i] - 2 * cos(angle)) < 1e-13);
      CHECK(fabs(doubles(&cosine)[4 * t + 2 + i] - 2 * sin(angle)) < 1e-13);
    }
  gnomon_tensor rounded = make_tensor(4, 16, 2, tokens, 2, 0, 0), rounded_sine = rounded;
  rounded_sine.data = keep((2 * tokens) * sizeof(uint16_t));
  OK(gnomon_cos_sin(&positions, frequencies, &rounded, &rounded_sine));
  CHECK(((uint16_t*)rounded.data)[0] == 0x4000); /* 2 in bfloat16 */
  CHECK(((uint16_t*)rounded_sine.data)[0] == 0);

  REFUSED(gnomon_cos_sin(&positions, frequencies, &rounded, &sine), "sin must have elements");
  REFUSED(gnomon_cos_sin(&positions, NULL, &cosine, &sine), "frequencies must be given");
  gnomon_tensor fewer = make_positions(tokens - 1);
  CHECK(gnomon_cos_sin(&fewer, frequencies, &cosine, &sine) == GNOMON_INVALID_ARGUMENT);
  gnomon_frequencies_destroy(frequencies);

  gnomon_tensor axes = make_tensor(0, 32, 1, 2, 0, 0, 0);
  ((int32_t*)axes.data)[1] = 1;
  OK(gnomon_frequencies_from(&spec, &inv_freq, &axes, 1, &frequencies));
  REFUSED(gnomon_cos_sin(&positions, frequencies, &cosine, &sine), "one axis");
  gnomon_frequencies_destroy(frequencies);
}

static void test_tables(void) {
  gnomon_tensor positions = make_positions(3);
  gnomon_tensor table = make_tensor(2, 32, 2, 3, 4, 0, 0);
  OK(gnomon_sinusoidal(&positions, GNOMON_INTERLEAVED, 0, &table));
  CHECK(fabs(floats(&table)[4 + 0] - sin(1)) < 1e-7);
  CHECK(fabs(floats(&table)[8 + 3] - cos(0.02)) < 1e-7);
  gnomon_tensor x = make_tensor(2, 64, 3, 2, 3, 4, 0);
  OK(gnomon_add_table(&x, &table, 2));
  CHECK(fabs(doubles(&x)[12 + 4] - 2 * sin(1)) < 1e-6);
  gnomon_tensor rows = make_tensor(0, 64, 2, 2, 3, 0, 0);
  ((int64_t*)rows.data)[5] = 1;
  OK(gnomon_add_rows(&x, &table, &rows));
  CHECK(fabs(doubles(&x)[23] - (2 * cos(0.02) + cos(0.01))) < 1e-6);
  gnomon_tensor grad = make_tensor(2, 32, 2, 3, 4, 0, 0);
  OK(gnomon_add_rows_backward(&x, &rows, &grad));
  CHECK(fabs(floats(&grad)[7] - doubles(&x)[23]) < 1e-6);
  ((int64_t*)rows.data)[0] = 3;
  REFUSED(gnomon_add_rows(&x, &table, &rows), "row must be one of the table's 3");
  REFUSED(gnomon_sinusoidal(&positions, (gnomon_sinusoidal_layout)4, 0, &table), "layout");
}

/* Causal attention of grouped heads with a strip, in double. */
static void attend(const gnomon_tensor* q, const gnomon_tensor* k, const gnomon_tensor* v,
                   const gnomon_tensor* strip, double* out) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t g = h / (heads / key_heads);
        double weights[tokens], sum = 0;
        double* to = out + ((b * tokens + i) * heads + h) * head_dim;
        for (int64_t j = 0; j <= i; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < head_dim; ++d)
            dot += doubles(q)[((b * tokens + i) * heads + h) * head_dim + d] *
                   doubles(k)[((b * tokens + j) * key_heads + g) * head_dim + d];
          weights[j] = exp(dot / sqrt(head_dim) + doubles(strip)[h * tokens + j - i + 4]);
          sum += weights[j];
        }
        for (int64_t d = 0; d < head_dim; ++d) {
          to[d] = 0;
          for (int64_t j = 0; j <= i; ++j)
            to[d] += weights[j] / sum *
                     doubles(v)[((b * tokens + j) * key_heads + g) * head_dim + d];
        }
      }
}

static void test_attention(void) {
  gnomon_tensor q = make_tensor(2, 64, 4, batch, tokens, heads, head_dim);
  gnomon_tensor k = make_tensor(2, 64, 4, batch, tokens, key_heads, head_dim);
  gnomon_tensor v = make_tensor(2, 64, 4, batch, tokens, key_heads, head_dim);
  gnomon_tensor out = make_tensor(2, 64, 4, batch, tokens, heads, head_dim);
  gnomon_tensor lse = make_tensor(2, 64, 3, batch, heads, tokens, 0);
  gnomon_tensor strip = make_tensor(2, 64, 2, heads, tokens, 0, 0);
  draw(&q, 1), draw(&k, 2), draw(&v, 3), draw(&strip, 4);
  static double expected[batch * tokens * heads * head_dim], moved[sizeof expected / 8];
  attend(&q, &k, &v, &strip, expected);

  gnomon_layer_plan* plan = NULL;
  OK(gnomon_layer_plan_create(&plan));
  OK(gnomon_layer_plan_set_strip(plan, &strip, -4));
  OK(gnomon_layer_plan_set_softmax(plan, NAN, 0, NULL));
  gnomon_attention_input input = {.q = &q, .k = &k, .v = &v};
  REFUSED(gnomon_attention(&input, plan, &out, &lse), "the plan must have a mask");
  OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -1, -1, -1));
  REFUSED(gnomon_attention(&input, plan, &out, &lse),
          "the member size of gnomon_attention_input must be sizeof(gnomon_attention_input)");
  input.size = sizeof input;
  OK(gnomon_attention(&input, plan, &out, &lse));
  for (int64_t i = 0; i < size_of_tensor(&out); ++i)
    CHECK(fabs(doubles(&out)[i] - expected[i]) < 1e-12);

  /* Gradients of the sum of out x weights against differences of the oracle. */
  gnomon_tensor out_grad = make_tensor(2, 64, 4, batch, tokens, heads, head_dim);
  draw(&out_grad, 5);
  gnomon_tensor q_grad = q, k_grad = k, v_grad = v;
  q_grad.data = keep(8 * batch * tokens * heads * head_dim);
  k_grad.data = keep(8 * batch * tokens * key_heads * head_dim);
  v_grad.data = keep(8 * batch * tokens * key_heads * head_dim);
  gnomon_plan_gradient* of_plan = NULL;
  OK(gnomon_plan_gradient_create(&of_plan));
  gnomon_attention_gradient gradient = {
      .size = sizeof gradient, .q = &q_grad, .k = &k_grad, .v = &v_grad, .plan = of_plan};
  OK(gnomon_attention_backward(&input, plan, &out, &lse, &out_grad, &gradient));
  gnomon_tensor strip_grad = make_tensor(2, 64, 2, heads, tokens, 0, 0);
  OK(gnomon_plan_gradient_bias(of_plan, &strip_grad));
  const gnomon_tensor* of[] = {&q, &k, &v, &strip};
  const gnomon_tensor* grads[] = {&q_grad, &k_grad, &v_grad, &strip_grad};
  for (int one = 0; one < 4; ++one)
    for (int64_t i = 0; i < size_of_tensor(of[one]); i += 3) {
      const double before = doubles(of[one])[i], step = 1e-5;
      double slope = 0;
      for (int sign = -1; sign <= 1; sign += 2) {
        doubles(of[one])[i] = before + sign * step;
        attend(&q, &k, &v, &strip, moved);
        for (int64_t n = 0; n < size_of_tensor(&out); ++n)
          slope += sign * moved[n] * doubles(&out_grad)[n] / (2 * step);
      }
      doubles(of[one])[i] = before;
      CHECK(fabs(slope - doubles(grads[one])[i]) < 1e-8);
    }

  /* Left padding: the first key of row 0 belongs to no sequence. */
  gnomon_tensor ids = make_tensor(0, 64, 2, batch, tokens, 0, 0);
  gnomon_tensor sequences = make_tensor(0, 32, 2, batch, tokens, 0, 0);
  for (int64_t i = 0; i < batch * tokens; ++i) ((int64_t*)ids.data)[i] = i % tokens;
  ((int32_t*)sequences.data)[0] = -1;
  OK(gnomon_layer_plan_set_positions(plan, &ids, &sequences, &ids, &sequences));
  OK(gnomon_attention(&input, plan, &out, NULL));
  for (int64_t d = 0; d < heads * head_dim; ++d) CHECK(doubles(&out)[d] == 0);

  REFUSED(gnomon_attention(&input, NULL, &out, NULL), "plan must be given");
  gnomon_tensor other = make_tensor(2, 32, 4, batch, tokens, key_heads, head_dim);
  input.k = &other;
  REFUSED(gnomon_attention(&input, plan, &out, NULL), "k must have elements of f64");
  REFUSED(gnomon_layer_plan_set_mask(plan, (gnomon_visibility)7, 0, -1, -1), "visibility");
  REFUSED(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -2, -1, -1), "offset must be -1");
  input.k = &k;
  /* A struct of a later version: members that are 0 are accepted. */
  struct {
    gnomon_attention_input input;
    const gnomon_tensor* later;
  } longer = {.input = input};
  longer.input.size = sizeof longer;
  OK(gnomon_attention(&longer.input, plan, &out, NULL));
  longer.later = &q;
  REFUSED(gnomon_attention(&longer.input, plan, &out, NULL),
          "unless the other members are 0, got");
  gnomon_tensor one = q;
  int64_t shape_of_one[] = {batch, 1, heads, head_dim};
  one.shape = shape_of_one;
  OK(gnomon_layer_plan_set_softmax(plan, NAN, 0, NULL));
  gnomon_layer_plan* step = NULL;
  OK(gnomon_layer_plan_create(&step));
  OK(gnomon_layer_plan_set_mask(step, GNOMON_CAUSAL, -1, -1, -1));
  gnomon_attention_input of_one = {.size = sizeof of_one, .q = &one, .k = &k, .v = &v};
  gnomon_tensor out_of_one = out;
  out_of_one.shape = shape_of_one;
  REFUSED(gnomon_attention(&of_one, step, &out_of_one, NULL),
          "a mask without an offset requires T = S");
  gnomon_layer_plan_destroy(step);
  gnomon_layer_plan_destroy(plan);
  gnomon_plan_gradient_destroy(of_plan);
}

static void test_bias(void) {
  gnomon_tensor slopes = make_tensor(2, 64, 1, 4, 0, 0, 0);
  OK(gnomon_alibi_slopes(8, 4, &slopes));
  CHECK(fabs(doubles(&slopes)[0] - pow(2, -5)) < 1e-15);
  gnomon_layer_plan* plan = NULL;
  OK(gnomon_layer_plan_create(&plan));
  OK(gnomon_layer_plan_set_slopes(plan, &slopes));
  gnomon_tensor bias = make_tensor(2, 32, 3, 4, 2, 3, 0);
  OK(gnomon_layer_plan_bias(plan, 1, &bias));
  CHECK(fabs(floats(&bias)[3 + 0] + 2 * pow(2, -5)) < 1e-9);
  gnomon_layer_plan_destroy(plan);
}

static gnomon_tensor int64s(int64_t count, const int64_t* from) {
  gnomon_tensor x = make_tensor(0, 64, 1, count, 0, 0, 0);
  memcpy(x.data, from, (size_t)count * sizeof *from);
  return x;
}

/* Two sequences in one call, with shuffled pages of two rows, against separate calls. */
static void test_ragged(void) {
  enum { heads = 4, key_heads = 2, size = 8, page = 2, rows = 5, keys = 8 };
  const int64_t of_starts[] = {0, 1, rows}, of_lengths[] = {3, 5}, of_offsets[] = {2, 1};
  const int64_t first_key[] = {0, 3};
  const int32_t of_blocks[] = {4, 1, -1, 0, 5, 2};
  gnomon_tensor starts = int64s(3, of_starts), lengths = int64s(2, of_lengths),
                offsets = int64s(2, of_offsets);
  gnomon_tensor blocks = make_tensor(0, 32, 2, 2, 3, 0, 0);
  memcpy(blocks.data, of_blocks, sizeof of_blocks);
  gnomon_tensor q = make_tensor(2, 32, 4, 1, rows, heads, size), out = q;
  out.data = keep(sizeof(float) * rows * heads * size);
  gnomon_tensor k = make_tensor(2, 32, 4, 1, keys, key_heads, size), v = k;
  v.data = keep(sizeof(float) * keys * key_heads * size);
  draw(&q, 1), draw(&k, 2), draw(&v, 3);
  gnomon_tensor k_pages = make_tensor(2, 32, 4, 6, page, key_heads, size), v_pages = k_pages;
  v_pages.data = keep(sizeof(float) * 6 * page * key_heads * size);
  const size_t row = sizeof(float) * key_heads * size;
  for (int n = 0; n < 2; ++n)
    for (int64_t j = 0; j < of_lengths[n]; ++j) {
      const int64_t to = of_blocks[3 * n + j / page] * page + j % page, from = first_key[n] + j;
      memcpy((char*)k_pages.data + to * (int64_t)row, (char*)k.data + from * (int64_t)row, row);
      memcpy((char*)v_pages.data + to * (int64_t)row, (char*)v.data + from * (int64_t)row, row);
    }
  gnomon_layer_plan* plan = NULL;
  OK(gnomon_layer_plan_create(&plan));
  OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -1, -1, -1));
  const gnomon_attention_input input = {
      .size = sizeof input, .q = &q, .k = &k_pages, .v = &v_pages};
  gnomon_ragged_batch batch = {.size = sizeof batch,
                               .query_starts = &starts,
                               .key_lengths = &lengths,
                               .offsets = &offsets,
                               .block_table = &blocks};
  OK(gnomon_attention_ragged(&input, &batch, plan, &out, NULL));
  for (int n = 0; n < 2; ++n) {
    gnomon_tensor q_n = q, k_n = k, v_n = v;
    int64_t q_shape[] = {1, of_starts[n + 1] - of_starts[n], heads, size};
    int64_t k_shape[] = {1, of_lengths[n], key_heads, size};
    q_n.shape = q_shape, k_n.shape = v_n.shape = k_shape;
    q_n.byte_offset = sizeof(float) * (uint64_t)(of_starts[n] * heads * size);
    k_n.byte_offset = v_n.byte_offset = row * (uint64_t)first_key[n];
    gnomon_tensor alone = q_n;
    alone.byte_offset = 0, alone.data = keep(sizeof(float) * rows * heads * size);
    OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, of_offsets[n], -1, -1));
    const gnomon_attention_input input_n = {
        .size = sizeof input_n, .q = &q_n, .k = &k_n, .v = &v_n};
    OK(gnomon_attention(&input_n, plan, &alone, NULL));
    CHECK(!memcmp(alone.data, floats(&out) + of_starts[n] * heads * size,
                  sizeof(float) * (size_t)(q_shape[1] * heads * size)));
  }
  REFUSED(gnomon_attention_ragged(&input, &batch, plan, &out, NULL), "an offset of the mask");
  OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, 0, -1, -1));
  REFUSED(gnomon_attention_ragged(&input, NULL, plan, &out, NULL), "batch must be given");
  ((int32_t*)blocks.data)[0] = 6;
  REFUSED(gnomon_attention_ragged(&input, &batch, plan, &out, NULL),
          "block_table[0][0] must be a block of the cache, 0 to 5, got 6");
  lengths.dtype.bits = 32;
  REFUSED(gnomon_attention_ragged(&input, &batch, plan, &out, NULL), "key_lengths must have");
  gnomon_layer_plan_destroy(plan);

  gnomon_tensor ids = make_tensor(0, 64, 2, 1, 6, 0, 0),
                sequences = make_tensor(0, 32, 2, 1, 6, 0, 0);
  OK(gnomon_ragged_positions(&starts, NULL, &offsets, &ids, &sequences));
  const int64_t expected[] = {2, 1, 2, 3, 4, 0};
  CHECK(!memcmp(ids.data, expected, sizeof expected));
  CHECK(((int32_t*)sequences.data)[0] == 0 && ((int32_t*)sequences.data)[4] == 1 &&
        ((int32_t*)sequences.data)[5] == -1);
  REFUSED(gnomon_ragged_positions(NULL, &offsets, NULL, &ids, NULL), "axis 0 of ids must be 2");
}

static int64_t loops = 0;
/* A softmax in double of two queries, the first of which sees one key; and the rotation of a
 * plan before attention. */
static void test_weights(void) {
  enum { count = 2, size = 4 };
  gnomon_tensor q = make_tensor(2, 32, 4, 1, count, 1, size);
  gnomon_tensor k = make_tensor(2, 32, 4, 1, count, 1, size);
  draw(&q, 1), draw(&k, 2);
  gnomon_layer_plan* plan = NULL;
  OK(gnomon_layer_plan_create(&plan));
  gnomon_tensor slopes = make_tensor(2, 64, 1, 1, 0, 0, 0);
  doubles(&slopes)[0] = 0.25;
  OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -1, -1, -1));
  OK(gnomon_layer_plan_set_slopes(plan, &slopes));
  gnomon_tensor weights = make_tensor(2, 64, 4, 1, 1, count, count), scores = weights;
  scores.data = keep(sizeof(double) * count * count);
  const gnomon_attention_input input = {.size = sizeof input, .q = &q, .k = &k};
  OK(gnomon_attention_weights(&input, plan, &weights, &scores));
  double expected[count];
  for (int j = 0; j < count; ++j) {
    expected[j] = -0.25 * (1 - j);
    for (int d = 0; d < size; ++d)
      expected[j] += (double)floats(&q)[size + d] * (double)floats(&k)[j * size + d] / 2;
    CHECK(fabs(doubles(&scores)[2 + j] - expected[j]) < 1e-12);
  }
  CHECK(doubles(&weights)[0] == 1 && doubles(&weights)[1] == 0);
  CHECK(doubles(&scores)[1] == -INFINITY);
  CHECK(fabs(doubles(&weights)[2] - 1 / (1 + exp(expected[1] - expected[0]))) < 1e-13);
  CHECK(fabs(doubles(&weights)[2] + doubles(&weights)[3] - 1) < 1e-13);

  gnomon_rotary_spec spec = {.size = sizeof spec, .rotary_dim = size, .pairing = GNOMON_HALVES};
  gnomon_frequencies* frequencies = NULL;
  gnomon_rotary_table* table = NULL;
  OK(gnomon_frequencies_create(&spec, &frequencies));
  CHECK(gnomon_frequencies_count(frequencies) == 2 && gnomon_frequencies_count(NULL) == 0);
  gnomon_tensor positions = make_positions(count), before = q, rotated = q;
  before.data = keep(sizeof(float) * count * size),
  rotated.data = keep(sizeof(float) * count * size);
  memcpy(before.data, q.data, sizeof(float) * count * size);
  OK(gnomon_rotary_table_create(frequencies, &positions, &table));
  OK(gnomon_rotate_to(&q, table, GNOMON_FORWARD, &rotated));
  OK(gnomon_layer_plan_set_rotary(plan, table, table));
  OK(gnomon_prepare(&q, NULL, NULL, plan));
  CHECK(memcmp(q.data, before.data, sizeof(float) * count * size) == 0);
  OK(gnomon_layer_plan_rotate_in_prepare(plan));
  OK(gnomon_prepare(&q, NULL, NULL, plan));
  CHECK(memcmp(q.data, rotated.data, sizeof(float) * count * size) == 0);
  OK(gnomon_layer_plan_set_rotary(plan, table, NULL));
  REFUSED(gnomon_prepare(&q, NULL, NULL, plan),
          "[layer] queries must be rotated in prepare or in attention, not in, got both");
  OK(gnomon_layer_plan_set_rotary(plan, NULL, NULL));
  gnomon_rotary_table_destroy(table);
  gnomon_frequencies_destroy(frequencies);

  gnomon_tensor narrow = make_tensor(2, 64, 4, 1, 1, count, 1);
  REFUSED(gnomon_attention_weights(&input, plan, &narrow, NULL),
          "weights must be [1, 1, 2, 2]");
  REFUSED(gnomon_attention_weights(NULL, plan, &weights, NULL), "input must be given");
  gnomon_layer_plan_destroy(plan);
}

static void serially(void* context, int64_t count, gnomon_task task, void* data) {
  CHECK(context == &loops);
  ++loops;
  for (int64_t i = count; i-- > 0;) task(data, i);
}

static void test_executor(void) {
  gnomon_tensor positions = make_positions(4096);
  gnomon_tensor first = make_tensor(2, 32, 2, 4096, 256, 0, 0), second = first;
  second.data = keep((4096 * 256) * sizeof(float));
  OK(gnomon_sinusoidal(&positions, GNOMON_HALF_SPLIT, 10000, &first));
  OK(gnomon_set_threads(64));
  OK(gnomon_set_executor(serially, &loops, 8));
  CHECK(gnomon_threads() == 8);
  OK(gnomon_sinusoidal(&positions, GNOMON_HALF_SPLIT, 10000, &second));
  CHECK(loops > 0);
  CHECK(memcmp(first.data, second.data, 4096 * 256 * sizeof(float)) == 0);
  OK(gnomon_set_executor(NULL, NULL, 0));
  REFUSED(gnomon_set_executor(serially, &loops, 0), "at least 1 thread");
  REFUSED(gnomon_set_threads(0), "must be 1 to 4096");
}

/* Calls of a thread use the context that it has chosen, and its memory again. */
static void test_context(void) {
  gnomon_tensor positions = make_positions(4096);
  gnomon_tensor table = make_tensor(2, 32, 2, 4096, 256, 0, 0), same = table;
  same.data = keep((4096 * 256) * sizeof(float));
  OK(gnomon_sinusoidal(&positions, GNOMON_HALF_SPLIT, 10000, &table));
  gnomon_context *of_engine = NULL, *own = NULL;
  OK(gnomon_context_create_on(serially, &loops, 8, &of_engine));
  OK(gnomon_context_create(3, &own));
  CHECK(gnomon_context_use(of_engine) == NULL);
  loops = 0;
  OK(gnomon_sinusoidal(&positions, GNOMON_HALF_SPLIT, 10000, &same));
  const int64_t counted = loops;
  CHECK(counted > 0 && !memcmp(table.data, same.data, 4096 * 256 * sizeof(float)));
  CHECK(gnomon_context_use(own) == of_engine);
  memset(same.data, 0, 4096 * 256 * sizeof(float));
  OK(gnomon_sinusoidal(&positions, GNOMON_HALF_SPLIT, 10000, &same));
  CHECK(loops == counted && !memcmp(table.data, same.data, 4096 * 256 * sizeof(float)));

  gnomon_tensor x = make_tensor(2, 32, 4, 1, 300, 2, 32), out = x;
  out.data = keep(sizeof(float) * 300 * 2 * 32);
  draw(&x, 1);
  gnomon_layer_plan* plan = NULL;
  OK(gnomon_layer_plan_create(&plan));
  OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -1, -1, -1));
  const gnomon_attention_input input = {.size = sizeof input, .q = &x, .k = &x, .v = &x};
  OK(gnomon_attention(&input, plan, &out, NULL));
  const size_t kept = gnomon_context_kept_bytes(own);
  CHECK(kept > 0 && gnomon_context_kept_bytes(of_engine) == 0);
  OK(gnomon_attention(&input, plan, &out, NULL));
  CHECK(gnomon_context_kept_bytes(own) == kept);
  gnomon_context_release(own);
  CHECK(gnomon_context_kept_bytes(own) == 0 && gnomon_context_kept_bytes(NULL) == 0);
  gnomon_layer_plan_destroy(plan);
  gnomon_context_destroy(own); /* the thread uses none now */
  CHECK(gnomon_context_use(NULL) == NULL);
  gnomon_context_destroy(of_engine);
  gnomon_context_destroy(NULL);
  REFUSED(gnomon_context_create(-1, &own), "0 to 4096");
  REFUSED(gnomon_context_create_on(NULL, NULL, 1, &own), "run must be given");
  REFUSED(gnomon_context_create_on(serially, NULL, 0, &own), "at least 1 thread");
  REFUSED(gnomon_context_create(1, NULL), "out must be given");
}

int main(void) {
  CHECK(strcmp(gnomon_error_message(), "") == 0);
  CHECK(gnomon_version_number() == GNOMON_VERSION_NUMBER);
  CHECK(strlen(gnomon_version()) >= 5 && strlen(gnomon_isa()) >= 4);
  test_rotation();
  test_axes();
  test_cos_sin();
  test_tables();
  test_attention();
  test_bias();
  test_weights();
  test_ragged();
  test_executor();
  test_context();
  free_kept();
  printf("%d failures\n", failures);
  return failures != 0;
}
