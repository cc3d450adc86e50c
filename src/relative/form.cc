#include "gnomon/relative/form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/core/overflow.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

std::string number(int64_t n) { return std::to_string(n); }

void check_table(const RelativeVectors& table, const std::string& part, int64_t heads,
                 int64_t size) {
  if (table.heads != 1 && table.heads != heads)
    refuse("relative", part + " must have 1 head or " + number(heads), table.heads);
  if (table.head_dim != size)
    refuse("relative", part + " must have head_dim " + number(size), table.head_dim);
  const auto numbers = static_cast<int64_t>(table.values.size());
  const int64_t each =
      internal::checked_product("relative", "heads x head_dim", {table.heads, size});
  if (numbers == 0 || numbers % each)
    refuse("relative",
           part + " must have heads x vectors x head_dim values, a positive multiple of " +
               number(each),
           numbers);
  if (table.rows.empty()) refuse("relative", part + " must have a row for a distance", 0);
  int64_t last = 0;
  if (internal::add_overflow(table.min_distance, table.distances() - 1, &last))
    refuse("relative", "the last distance of " + part + " must fit 64 bits",
           table.min_distance);
  const int64_t vectors = table.vectors();
  bool rises = false, falls = false;
  for (std::size_t n = 0; n < table.rows.size(); ++n) {
    if (table.rows[n] < 0 || table.rows[n] >= vectors)
      refuse("relative", "rows of " + part + " must be 0 to " + number(vectors - 1),
             int64_t{table.rows[n]});
    if (n)
      rises |= table.rows[n] > table.rows[n - 1], falls |= table.rows[n] < table.rows[n - 1];
  }
  if (rises && falls)
    refuse("relative", "rows of " + part + " must be non-decreasing or non-increasing", "both");
}

int64_t coordinate(const RelativeVectors& table, int64_t position) {
  if (table.coordinates.empty()) return position;
  if (position < 0 || position >= static_cast<int64_t>(table.coordinates.size()))
    refuse("relative",
           "positions must have a coordinate: 0 to " +
               number(static_cast<int64_t>(table.coordinates.size()) - 1),
           position);
  return table.coordinates[static_cast<std::size_t>(position)];
}

const double* vector_of(const RelativeVectors& table, int64_t head, int64_t query,
                        int64_t key) {
  const int64_t of_key = coordinate(table, key), of_query = coordinate(table, query);
  for (const int64_t one : {of_key, of_query})
    if (!internal::subtractable(one))
      refuse("relative", "coordinates must be at most 2^61 in magnitude", one);
  const int64_t distance = of_key - of_query;
  if (!internal::contains(table.min_distance, table.distances(), distance, distance))
    refuse("relative",
           "distances must be " + internal::range_text(table.min_distance, table.distances()),
           distance);
  const int64_t row = table.rows[static_cast<std::size_t>(distance - table.min_distance)];
  const int64_t h = table.heads == 1 ? 0 : head;
  return table.values.data() + (h * table.vectors() + row) * table.head_dim;
}

void check_projected(const RelativeForm& form, int64_t heads) {
  for (const RelativeVectors& table : form.projected) {
    if (table.head_dim < 1)
      refuse("relative", "the head_dim of projected must be at least 1", table.head_dim);
    check_table(table, "projected", heads, form.projected[0].head_dim);
    if (!internal::subtractable(table.min_distance))
      refuse("relative", "min_distance of projected must be at most 2^61 in magnitude",
             table.min_distance);
    if (!table.coordinates.empty())
      refuse("relative", "projected must have no coordinates",
             static_cast<int64_t>(table.coordinates.size()));
  }
}

}  // namespace

namespace {

void check_contextual(const RelativeForm& form, int64_t heads, int64_t size) {
  const ContextualVectors& table = *form.contextual;
  if (table.heads != 1 && table.heads != heads)
    refuse("relative", "contextual vectors must have 1 head or " + number(heads), table.heads);
  if (table.head_dim != size)
    refuse("relative", "contextual vectors must have head_dim " + number(size), table.head_dim);
  const auto numbers = static_cast<int64_t>(table.values.size());
  const int64_t each =
      internal::checked_product("relative", "heads x head_dim", {table.heads, size});
  if (numbers == 0 || numbers % each)
    refuse("relative",
           "contextual vectors must have heads x positions x head_dim values, a positive "
           "multiple of " +
               number(each),
           numbers);
  for (const double value : table.values)
    if (!std::isfinite(value)) refuse("relative", "contextual vectors must be finite", value);
  if (!form.keys.empty() || !form.queries.empty() || !form.values.empty() ||
      !form.shift.empty() || !form.projected.empty())
    refuse("relative", "contextual vectors must be the only part of a form", "several parts");
}

}  // namespace

void check(const RelativeForm& form, int64_t heads, int64_t size, int64_t value_dim) {
  if (heads < 1) refuse("relative", "heads must be at least 1", heads);
  if (size < 1) refuse("relative", "the head_dim of keys must be at least 1", size);
  if (value_dim < 1) refuse("relative", "the head_dim of values must be at least 1", value_dim);
  for (const RelativeVectors& table : form.keys) check_table(table, "keys", heads, size);
  for (const RelativeVectors& table : form.queries) check_table(table, "queries", heads, size);
  for (const RelativeVectors& table : form.values)
    check_table(table, "values", heads, value_dim);
  check_projected(form, heads);
  const auto shift = static_cast<int64_t>(form.shift.size());
  if (const int64_t wanted =
          internal::checked_product("relative", "heads x head_dim", {heads, size});
      shift && shift != wanted)
    refuse("relative", "shift must have heads x head_dim = " + number(wanted) + " numbers",
           shift);
  if (form.contextual) check_contextual(form, heads, size);
}

void relative_scores(const RelativeForm& form, int64_t offset, View<const double, 3> q,
                     View<const double, 3> k, View<double, 3> out) {
  const int64_t queries = q.extent(0), heads = q.extent(1), size = q.extent(2);
  const int64_t keys = k.extent(0), key_heads = k.extent(1);
  if (k.extent(2) != size || key_heads < 1 || heads % key_heads)
    refuse("relative",
           "k must be [keys, heads, head_dim] with the head_dim of q " +
               shape_text(q.extents()) + " and heads that divide its",
           shape_text(k.extents()));
  if (const std::array<std::int64_t, 3> whole{heads, queries, keys}; out.extents() != whole)
    refuse("relative", "out must be " + shape_text(whole), shape_text(out.extents()));
  if (offset < 0) refuse("relative", "offset must not be negative", offset);
  check(form, heads, size, form.values.empty() ? 1 : form.values[0].head_dim);
  if (form.contextual)
    refuse("relative",
           "contextual positions depend on a softmax scale and a mask, which these scores do "
           "not have",
           "contextual vectors");
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t own = offset + i, g = h / (heads / key_heads);
        double sum = 0;
        for (int64_t d = 0; d < size; ++d) {
          const double shift =
              form.shift.empty() ? 0 : form.shift[static_cast<std::size_t>(h * size + d)];
          const double query = q(i, h, d) + shift, key = k(j, g, d);
          sum += shift * key;
          for (const RelativeVectors& table : form.keys)
            sum += query * vector_of(table, h, own, j)[d];
          for (const RelativeVectors& table : form.queries)
            sum += key * vector_of(table, h, own, j)[d];
        }
        out(h, i, j) = sum;
      }
}

void add_contextual(const ContextualVectors& table, int64_t head, std::span<const double> query,
                    std::span<double> scores) {
  RelativeForm form;
  form.contextual = table;
  check(form, table.heads, std::ssize(query), 1);
  if (head < 0 || head >= table.heads)
    refuse("relative", "head must be 0 to " + number(table.heads - 1), head);
  const auto product = [&](double position) {
    const double* vector =
        table.values.data() +
        (head * table.positions() + static_cast<int64_t>(position)) * table.head_dim;
    return std::inner_product(query.begin(), query.end(), vector, 0.0);
  };
  double sum = 0;
  for (auto score = scores.rbegin(); score != scores.rend(); ++score) {
    sum += 1 / (1 + std::exp(-*score));
    const double position = std::min(sum, static_cast<double>(table.positions() - 1));
    const double low = product(std::floor(position)), high = product(std::ceil(position));
    *score += low + (position - std::floor(position)) * (high - low);
  }
}

void projected_scores(const RelativeForm& form, int64_t offset, View<const double, 3> r,
                      View<double, 3> out) {
  const int64_t queries = r.extent(0), heads = r.extent(1), size = r.extent(2);
  if (out.extent(0) != heads || out.extent(1) != queries)
    refuse("relative",
           "out must be [heads, queries, keys] with those of r " + shape_text(r.extents()),
           shape_text(out.extents()));
  if (offset < 0) refuse("relative", "offset must not be negative", offset);
  check_projected(form, heads);
  if (!form.projected.empty() && form.projected[0].head_dim != size)
    refuse("relative",
           "r must have elements for the head_dim of projected, " +
               number(form.projected[0].head_dim),
           size);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t j = 0; j < out.extent(2); ++j) {
        double sum = 0;
        for (const RelativeVectors& table : form.projected) {
          const int64_t distance = j - (offset + i);
          if (!internal::contains(table.min_distance, table.distances(), distance, distance))
            continue;
          const double* vector = vector_of(table, h, offset + i, j);
          for (int64_t d = 0; d < size; ++d) sum += r(i, h, d) * vector[d];
        }
        out(h, i, j) = sum;
      }
}

}  // namespace gnomon
