/* Writes results of gnomon.h to a file, as bits, for the tests of the JavaScript package, which
 * computes the same with the module of WebAssembly (tests/wasm/recorded.test.mjs).
 *
 *   gnomon-recorded FILE CONFIG...
 *
 * A line is "KEY\tHEX" with the bits of the numbers, "KEY\t!MESSAGE" for a call that is
 * refused, or "KEY\t{JSON". */
#include <gnomon.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { tokens = 16, heads = 4, width = 128, head_dim = width / heads, length = 64 };

static FILE* out;

static void* allocate(size_t bytes) {
  void* const data = calloc(bytes ? bytes : 1, 1);
  if (!data) abort();
  return data;
}

static gnomon_tensor tensor(uint8_t code, uint8_t bits, int32_t ndim, int64_t a, int64_t b,
                            int64_t c, int64_t d) {
  const int64_t extents[4] = {a, b, c, d};
  gnomon_tensor x;
  memset(&x, 0, sizeof x);
  x.shape = allocate(sizeof extents);
  memcpy(x.shape, extents, sizeof extents);
  int64_t size = 1;
  for (int32_t i = 0; i < ndim; ++i) size *= extents[i];
  x.data = allocate((size_t)size * bits / 8);
  x.device.device_type = 1;
  x.ndim = ndim;
  x.dtype.code = code, x.dtype.bits = bits, x.dtype.lanes = 1;
  return x;
}
static gnomon_tensor floats(int32_t ndim, int64_t a, int64_t b, int64_t c, int64_t d) {
  return tensor(2, 32, ndim, a, b, c, d);
}

static size_t bytes_of(const gnomon_tensor* x) {
  size_t size = x->dtype.bits / 8;
  for (int32_t i = 0; i < x->ndim; ++i) size *= (size_t)x->shape[i];
  return size;
}

static void release(gnomon_tensor* x) {
  free(x->data);
  free(x->shape);
}

static gnomon_tensor integers(const int64_t* values, int64_t count) {
  gnomon_tensor x = tensor(0, 64, 1, count, 0, 0, 0);
  memcpy(x.data, values, bytes_of(&x));
  return x;
}
static gnomon_tensor range(int64_t count) {
  gnomon_tensor x = tensor(0, 64, 1, count, 0, 0, 0);
  for (int64_t i = 0; i < count; ++i) ((int64_t*)x.data)[i] = i;
  return x;
}
static gnomon_tensor normal(uint64_t seed, int64_t count) {
  gnomon_tensor x = floats(1, count, 0, 0, 0);
  if (gnomon_normal(seed, &x)) abort();
  return x;
}

/* Writes the bits, little-endian in each byte order of today's machines, or the refusal. */
static void put(const char* key, const char* of, gnomon_status status, const gnomon_tensor* x) {
  fprintf(out, "%s.%s\t", key, of);
  if (status) {
    fprintf(out, "!%s\n", gnomon_error_message());
    return;
  }
  const unsigned char* const bytes = x->data;
  for (size_t i = 0; i < bytes_of(x); ++i) fprintf(out, "%02x", bytes[i]);
  fputc('\n', out);
}

static void put_json(const char* json) {
  fputc('{', out);
  for (; *json; ++json) fputc(*json == '\n' ? ' ' : *json, out);
  fputc('\n', out);
}

static void put_tables(void) {
  const int64_t positions[] = {0, 1, 7, 1000, 131072, 2147483647};
  gnomon_tensor at = integers(positions, 6), table = floats(2, 6, 64, 0, 0);
  static const char* const layouts[] = {"interleaved", "half-split", "tensor2tensor"};
  for (int32_t layout = 1; layout <= 3; ++layout)
    put("sinusoidal", layouts[layout - 1], gnomon_sinusoidal(&at, layout, 10000, &table),
        &table);

  gnomon_rotary_spec spec = {
      .size = sizeof spec, .rotary_dim = 64, .pairing = GNOMON_HALVES, .base = 500000};
  gnomon_frequencies* frequencies = NULL;
  if (gnomon_frequencies_create(&spec, &frequencies)) abort();
  gnomon_tensor inv_freq = tensor(2, 64, 1, 32, 0, 0, 0);
  put("rotary", "frequencies", gnomon_frequencies_get(frequencies, &inv_freq), &inv_freq);
  gnomon_tensor cosine = floats(2, 6, 32, 0, 0), sine = floats(2, 6, 32, 0, 0);
  const gnomon_status status = gnomon_cos_sin(&at, frequencies, &cosine, &sine);
  put("rotary", "cos", status, &cosine);
  put("rotary", "sin", status, &sine);
  gnomon_frequencies_destroy(frequencies);

  gnomon_tensor slopes = tensor(2, 64, 1, 12, 0, 0, 0);
  put("alibi", "slopes", gnomon_alibi_slopes(12, 0, &slopes), &slopes);
  gnomon_tensor numbers = normal(7, 1000);
  put("normal", "7", GNOMON_OK, &numbers);
}

static void put_rotations(void) {
  static const char* const pairings[] = {"halves", "adjacent"};
  static const char* const directions[] = {"forward", "inverse"};
  for (int32_t pairing = 1; pairing <= 2; ++pairing)
    for (int32_t direction = 1; direction <= 2; ++direction) {
      gnomon_rotary_spec spec = {
          .size = sizeof spec, .rotary_dim = 48, .pairing = pairing, .head_offset = 8};
      gnomon_frequencies* frequencies = NULL;
      gnomon_rotary_table* table = NULL;
      gnomon_tensor at = range(128), x = normal(5, 128 * 2 * 64);
      x.ndim = 3, x.shape[0] = 128, x.shape[1] = 2, x.shape[2] = 64;
      if (gnomon_frequencies_create(&spec, &frequencies) ||
          gnomon_rotary_table_create(frequencies, &at, &table))
        abort();
      put(pairings[pairing - 1], directions[direction - 1],
          gnomon_rotate(&x, NULL, table, direction), &x);
      gnomon_rotary_table_destroy(table);
      gnomon_frequencies_destroy(frequencies);
      release(&at), release(&x);
    }
}

/* The parameters of an encoding, of which JSON has the shapes. */
static int64_t parameters_of(const gnomon_encoding* encoding, gnomon_tensor* values) {
  char* json = NULL;
  if (gnomon_encoding_parameters(encoding, &json)) abort();
  int64_t count = 0;
  for (const char* at = json; (at = strstr(at, "\"rows\":")); ++count) {
    const int64_t rows = strtoll(at + 7, NULL, 10);
    at = strstr(at, "\"columns\":");
    values[count] = floats(2, rows, strtoll(at + 10, NULL, 10), 0, 0);
    if (gnomon_encoding_random_parameter(encoding, count, &values[count])) abort();
  }
  gnomon_free(json);
  return count;
}

/* Attention of a plan that rotates in gnomon_prepare. */
static void put_attention(const char* key, const gnomon_layer_plan* plan) {
  gnomon_tensor x[3];
  for (int i = 0; i < 3; ++i) {
    x[i] = normal((uint64_t)i + 1, tokens * width);
    const int64_t shape[] = {1, tokens, heads, head_dim};
    memcpy(x[i].shape, shape, sizeof shape);
    x[i].ndim = 4;
  }
  gnomon_status status = gnomon_prepare(&x[0], &x[1], &x[2], plan);
  put(key, "q", status, &x[0]);
  put(key, "k", status, &x[1]);
  gnomon_tensor result = floats(4, 1, tokens, heads, head_dim);
  gnomon_tensor weights = floats(4, 1, heads, tokens, tokens),
                scores = floats(4, 1, heads, tokens, tokens);
  const gnomon_attention_input input = {
      .size = sizeof input, .q = &x[0], .k = &x[1], .v = &x[2]};
  put(key, "attention", status ? status : gnomon_attention(&input, plan, &result, NULL),
      &result);
  put(key, "weights", status ? status : gnomon_attention_weights(&input, plan, &weights, NULL),
      &weights);
  put(key, "scores", status ? status : gnomon_attention_weights(&input, plan, NULL, &scores),
      &scores);
  for (int i = 0; i < 3; ++i) release(&x[i]);
  release(&result), release(&weights), release(&scores);
}

static void put_encoding(const char* name) {
  gnomon_encoding* encoding = NULL;
  if (gnomon_encoding_from_name(name, width, heads, length, GNOMON_CAUSAL, &encoding)) abort();
  gnomon_tensor values[64];
  const gnomon_tensor* all[64];
  const int64_t count = parameters_of(encoding, values);
  for (int64_t i = 0; i < count; ++i) all[i] = &values[i];
  gnomon_layer_plan* plan = NULL;
  gnomon_status status = gnomon_encoding_lower(encoding, all, count, tokens, tokens, &plan);
  if (!status) status = gnomon_layer_plan_rotate_in_prepare(plan);
  if (!status) status = gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, 0, -1, -1);
  gnomon_tensor x = floats(3, 1, tokens, width, 0), bias = floats(3, heads, tokens, tokens, 0);
  put(name, "plan", status, &x);
  if (!status) {
    gnomon_status of_table = gnomon_add_position(&x, plan);
    if (!of_table) of_table = gnomon_prepare_input(&x, plan, 1);
    put(name, "table", of_table, &x);
    put(name, "bias", gnomon_layer_plan_bias(plan, 0, &bias), &bias);
    put_attention(name, plan);
  }
  gnomon_layer_plan_destroy(plan);
  gnomon_encoding_destroy(encoding);
  release(&x), release(&bias);
  for (int64_t i = 0; i < count; ++i) release(&values[i]);
}

static void put_encodings(void) {
  char* json = NULL;
  if (gnomon_encodings(&json)) abort();
  fprintf(out, "encodings\t");
  put_json(json);
  const char start[] = "{\"name\":\"";
  for (char* at = json; (at = strstr(at, start));) {
    char name[64];
    at += sizeof start - 1;
    const size_t size = strcspn(at, "\"");
    if (size >= sizeof name) abort();
    memcpy(name, at, size);
    name[size] = 0;
    put_encoding(name);
  }
  gnomon_free(json);
}

static void put_checks(void) {
  static const char* const names[] = {"none", "sinusoidal", "learned", "rotary", "alibi",
                                      "t5",   "shaw",       "fire",    "swin-v2"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    char* json = NULL;
    fprintf(out, "%s.check\t", names[i]);
    if (gnomon_encoding_check(names[i], width, heads, length, 2 * length, &json))
      fprintf(out, "!%s\n", gnomon_error_message());
    else
      put_json(json);
    gnomon_free(json);
  }
}

static char* text_of(const char* path) {
  FILE* const file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) abort();
  const long size = ftell(file);
  char* const text = allocate((size_t)size + 1);
  rewind(file);
  if (size < 0 || fread(text, 1, (size_t)size, file) != (size_t)size) abort();
  fclose(file);
  return text;
}

static void put_model(const char* path) {
  char *const text = text_of(path), *json = NULL;
  gnomon_model* model = NULL;
  fprintf(out, "%s\t", path);
  if (gnomon_model_from_config(text, &model) || gnomon_model_to_json(model, &json))
    fprintf(out, "!%s\n", gnomon_error_message());
  else
    put_json(json);
  gnomon_free(json);
  gnomon_model_destroy(model);
  free(text);
}

int main(int count, char** arguments) {
  if (count < 2 || !(out = fopen(arguments[1], "wb"))) return 2;
  fprintf(out, "isa\t{\"%s\"\n", gnomon_isa());
  put_tables();
  put_rotations();
  put_encodings();
  put_checks();
  for (int i = 2; i < count; ++i) put_model(arguments[i]);
  return fclose(out) != 0;
}
