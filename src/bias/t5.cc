#include "gnomon/bias/t5.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "src/bias/spread.h"

namespace gnomon {
namespace {

using std::int64_t;

// Returns the number of buckets of one side.
int64_t buckets_of_side(const T5Bias& t5) {
  return t5.direction == T5Direction::bidirectional ? t5.buckets / 2 : t5.buckets;
}

void check(const T5Bias& t5) {
  if (t5.heads < 1) refuse("t5", "heads must be at least 1", t5.heads);
  if (t5.direction != T5Direction::causal && t5.direction != T5Direction::bidirectional)
    refuse("t5", "direction must be causal or bidirectional", static_cast<int>(t5.direction));
  if (t5.direction == T5Direction::causal && t5.buckets < 2)
    refuse("t5", "buckets must be at least 2", t5.buckets);
  if (t5.direction == T5Direction::bidirectional && (t5.buckets < 4 || t5.buckets % 2))
    refuse("t5", "buckets must be even and at least 4 if direction is bidirectional",
           t5.buckets);
  if (const int64_t exact = buckets_of_side(t5) / 2; t5.max_distance <= exact)
    refuse("t5",
           "max_distance must be greater than the number of exact buckets, " +
               std::to_string(exact),
           t5.max_distance);
}

void check_table(const T5Bias& t5, const std::array<std::int64_t, 2>& extents) {
  check(t5);
  if (extents[0] != t5.buckets)
    refuse("t5", "the table must have a row for each bucket, " + std::to_string(t5.buckets),
           extents[0]);
  if (extents[1] != t5.heads)
    refuse("t5", "the table must have a column for each head, " + std::to_string(t5.heads),
           extents[1]);
}

int64_t bucket_unchecked(const T5Bias& t5, int64_t distance) {
  const int64_t side = buckets_of_side(t5), exact = side / 2;
  int64_t base = 0;
  if (t5.direction == T5Direction::bidirectional) {
    if (distance > 0) base = side;
    distance = distance < 0 ? -distance : distance;
  } else {
    distance = std::max<int64_t>(-distance, 0);
  }
  if (distance < exact) return base + distance;
  // The arithmetic of the released models. Any other order moves the boundaries 16, 32 and 64.
  const float logarithm = std::log(static_cast<float>(distance) / static_cast<float>(exact));
  const auto whole = static_cast<float>(
      std::log(static_cast<double>(t5.max_distance) / static_cast<double>(exact)));
  const auto steps = static_cast<int64_t>(logarithm / whole * static_cast<float>(side - exact));
  return base + std::min(exact + steps, side - 1);
}

internal::Classes buckets_of(const T5Bias& t5, int64_t min_distance, int64_t count) {
  // From max_distance on, all distances share the last bucket, except for rounding errors of
  // the logarithms. From twice max_distance on there are no exceptions.
  const int64_t inner = 2 * std::min(t5.max_distance, std::numeric_limits<int64_t>::max() / 4);
  return internal::classes_of("t5", min_distance, count, inner,
                              [&](int64_t distance) { return bucket_unchecked(t5, distance); });
}

}  // namespace

int64_t bucket(const T5Bias& t5, int64_t distance) {
  check(t5);
  return bucket_unchecked(t5, distance);
}

StripBias lower(const T5Bias& t5, View<const float, 2> table, int64_t min_distance,
                int64_t count) {
  check_table(t5, table.extents());
  return internal::spread(table, min_distance, buckets_of(t5, min_distance, count));
}

void lower_backward(const T5Bias& t5, std::span<const double> strip_grad, int64_t min_distance,
                    int64_t count, View<float, 2> table_grad) {
  check_table(t5, table_grad.extents());
  internal::gather_gradient("t5", strip_grad, buckets_of(t5, min_distance, count), table_grad);
}

}  // namespace gnomon
