/* The smallest program: a rotation of one head. Its size is in docs/systems.md. */
#include <gnomon.h>
#include <math.h>
#include <stdio.h>

int main(void) {
  gnomon_rotary_spec spec = {.size = sizeof spec, .rotary_dim = 4, .pairing = GNOMON_HALVES};
  gnomon_frequencies* frequencies = NULL;
  gnomon_rotary_table* table = NULL;
  int64_t position = 1, one = 1, shape[4] = {1, 1, 1, 4};
  float x[4] = {1, 0, 0, 1};
  gnomon_tensor positions = {
      .data = &position, .device = {1, 0}, .ndim = 1, .dtype = {0, 64, 1}, .shape = &one};
  gnomon_tensor q = {
      .data = x, .device = {1, 0}, .ndim = 4, .dtype = {2, 32, 1}, .shape = shape};
  if (gnomon_frequencies_create(&spec, &frequencies) ||
      gnomon_rotary_table_create(frequencies, &positions, &table) ||
      gnomon_rotate(&q, NULL, table, GNOMON_FORWARD)) {
    fprintf(stderr, "%s\n", gnomon_error_message());
    return 1;
  }
  /* Pairs (0, 2) and (1, 3), turned by 1 and 0.01 radians. */
  const double expected[4] = {cos(1), -sin(0.01), sin(1), cos(0.01)};
  for (int i = 0; i < 4; ++i)
    if (fabs((double)x[i] - expected[i]) > 1e-7) return 2;
  gnomon_rotary_table_destroy(table);
  gnomon_frequencies_destroy(frequencies);
  return 0;
}
