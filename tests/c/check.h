/* Checks and tensors for the tests of gnomon.h, which are C. */
#ifndef GNOMON_TESTS_C_CHECK_H_
#define GNOMON_TESTS_C_CHECK_H_

#include <gnomon.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, gnomon_error_message()); \
      ++failures;                                                                        \
    }                                                                                    \
  } while (0)
#define OK(call) CHECK((call) == GNOMON_OK)
/* The call is refused, and the message has `text` in it. */
#define REFUSED(call, text)                              \
  do {                                                   \
    CHECK((call) == GNOMON_INVALID_ARGUMENT);            \
    CHECK(strstr(gnomon_error_message(), text) != NULL); \
  } while (0)

enum { most_axes = 4, most_kept = 1024 };

/* Zeroed memory until free_kept(). */
static void* kept[most_kept];
static int kept_count = 0;
static inline void* keep(size_t bytes) {
  void* const data = calloc(bytes ? bytes : 1, 1);
  if (!data || kept_count == most_kept) abort();
  return kept[kept_count++] = data;
}
static inline void free_kept(void) {
  while (kept_count) free(kept[--kept_count]);
}

/* A row-major tensor with memory until free_kept(). */
static inline gnomon_tensor make_tensor(uint8_t code, uint8_t bits, int32_t rank, int64_t a,
                                        int64_t b, int64_t c, int64_t d) {
  const int64_t extents[most_axes] = {a, b, c, d};
  gnomon_tensor x;
  memset(&x, 0, sizeof x);
  int64_t size = 1;
  x.shape = keep(most_axes * sizeof(int64_t));
  for (int32_t i = 0; i < rank; ++i) {
    x.shape[i] = extents[i];
    size *= extents[i];
  }
  x.data = keep((size_t)size * (bits / 8));
  x.device.device_type = 1;
  x.ndim = rank;
  x.dtype.code = code, x.dtype.bits = bits, x.dtype.lanes = 1;
  return x;
}

static inline int64_t size_of_tensor(const gnomon_tensor* x) {
  int64_t size = 1;
  for (int32_t i = 0; i < x->ndim; ++i) size *= x->shape[i];
  return size;
}

/* Numbers from -1 to 1 in a float32 or float64 tensor, the same for the same seed. */
static inline void draw(gnomon_tensor* x, uint64_t seed) {
  for (int64_t i = 0; i < size_of_tensor(x); ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const double value = (double)(seed >> 11) / 4503599627370496.0 - 1;
    if (x->dtype.bits == 32)
      ((float*)x->data)[i] = (float)value;
    else
      ((double*)x->data)[i] = value;
  }
}

static inline double* doubles(const gnomon_tensor* x) { return (double*)x->data; }
static inline float* floats(const gnomon_tensor* x) { return (float*)x->data; }

/* Positions 0 to count - 1 as [count]. */
static inline gnomon_tensor make_positions(int64_t count) {
  gnomon_tensor x = make_tensor(0, 64, 1, count, 0, 0, 0);
  for (int64_t t = 0; t < count; ++t) ((int64_t*)x.data)[t] = t;
  return x;
}

#endif
