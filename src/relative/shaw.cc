#include "gnomon/relative/shaw.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/relative/numbers.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t longest_table = int64_t{1} << 30;  // rows are 32-bit

void check(const Shaw& shaw) {
  if (shaw.heads < 1) refuse("shaw", "heads must be at least 1", shaw.heads);
  if (shaw.head_dim < 1) refuse("shaw", "head_dim must be at least 1", shaw.head_dim);
  if (shaw.meets < ShawMeets::queries || shaw.meets > ShawMeets::queries_and_keys)
    refuse("shaw", "meets must be queries, queries_and_weights or queries_and_keys",
           static_cast<int>(shaw.meets));
  const bool weights = shaw.meets == ShawMeets::queries_and_weights;
  if (weights && shaw.value_dim < 1)
    refuse("shaw", "value_dim must be at least 1 if meets is queries_and_weights",
           shaw.value_dim);
  if (!weights && shaw.value_dim)
    refuse("shaw", "value_dim must be 0 unless meets is queries_and_weights", shaw.value_dim);
  if (shaw.order != ShawOrder::past_first && shaw.order != ShawOrder::future_first)
    refuse("shaw", "order must be past_first or future_first", static_cast<int>(shaw.order));
  if (shaw.outside != ShawOutside::clipped && shaw.outside != ShawOutside::refused)
    refuse("shaw", "outside must be clipped or refused", static_cast<int>(shaw.outside));
  if (shaw.left < 0 || shaw.left > longest_table)
    refuse("shaw", "left must be 0 to " + std::to_string(longest_table), shaw.left);
  if (shaw.right < 0 || shaw.right > longest_table)
    refuse("shaw", "right must be 0 to " + std::to_string(longest_table), shaw.right);
}

int64_t row_unchecked(const Shaw& shaw, int64_t distance) {
  const int64_t clipped = std::clamp(distance, -shaw.left, shaw.right);
  if (shaw.outside == ShawOutside::refused && clipped != distance)
    refuse(
        "shaw",
        "distances must be " + std::to_string(-shaw.left) + " to " + std::to_string(shaw.right),
        distance);
  return shaw.order == ShawOrder::past_first ? clipped + shaw.left : shaw.right - clipped;
}

template <typename T>
void check_tables(const Shaw& shaw, const View<T, 2>& keys, const View<T, 2>& values) {
  check(shaw);
  const int64_t rows =
      internal::checked_product("shaw", "heads x vectors", {shaw.heads, vectors(shaw)});
  internal::check_matrix("shaw", "keys", keys, rows, shaw.head_dim);
  if (shaw.meets == ShawMeets::queries_and_weights)
    internal::check_matrix("shaw", "values", values, rows, shaw.value_dim);
}

Shaw bert(int64_t size, int64_t max_positions, ShawMeets meets) {
  return {.head_dim = size,
          .left = max_positions - 1,
          .right = max_positions - 1,
          .meets = meets,
          .order = ShawOrder::future_first,
          .outside = ShawOutside::refused};
}

}  // namespace

Shaw bert_relative_key(int64_t size, int64_t max_positions) {
  return bert(size, max_positions, ShawMeets::queries);
}

Shaw bert_relative_key_query(int64_t size, int64_t max_positions) {
  return bert(size, max_positions, ShawMeets::queries_and_keys);
}

Shaw relative::wav2vec2_bert(int64_t size, int64_t left, int64_t right) {
  return {.head_dim = size, .left = left, .right = right, .meets = ShawMeets::queries};
}

Shaw relative::speecht5(int64_t size, int64_t max_distance) {
  return {.head_dim = size,
          .left = max_distance - 1,
          .right = max_distance,
          .meets = ShawMeets::queries,
          .order = ShawOrder::future_first};
}

int64_t vectors(const Shaw& shaw) {
  return internal::checked_sum("shaw", "left + 1 + right", {shaw.left, 1, shaw.right});
}

int64_t row(const Shaw& shaw, int64_t distance) {
  check(shaw);
  return row_unchecked(shaw, distance);
}

RelativeForm lower(const Shaw& shaw, const ShawTables& tables, int64_t min_distance,
                   int64_t count) {
  check_tables(shaw, tables.keys, tables.values);
  internal::check_vector_distances("shaw", min_distance, count);
  RelativeVectors keys{
      .heads = shaw.heads, .head_dim = shaw.head_dim, .min_distance = min_distance};
  keys.rows.reserve(internal::to_size(count));
  for (int64_t n = 0; n < count; ++n)
    keys.rows.push_back(static_cast<std::int32_t>(row_unchecked(shaw, min_distance + n)));
  RelativeForm form;
  if (shaw.meets == ShawMeets::queries_and_weights) {
    form.values.push_back(keys);
    form.values[0].head_dim = shaw.value_dim;
    form.values[0].values = internal::as_doubles(tables.values);
  }
  keys.values = internal::as_doubles(tables.keys);
  if (shaw.meets == ShawMeets::queries_and_keys) form.queries.push_back(keys);
  form.keys.push_back(std::move(keys));
  return form;
}

void lower_backward(const Shaw& shaw, const RelativeGradient& grad,
                    const ShawGradients& tables_grad) {
  check_tables(shaw, tables_grad.keys, tables_grad.values);
  const int64_t rows = shaw.heads * vectors(shaw), numbers = rows * shaw.head_dim;
  std::vector<double> keys = internal::only("shaw", "keys", grad.keys, numbers);
  if (shaw.meets == ShawMeets::queries_and_keys) {
    const std::vector<double>& queries =
        internal::only("shaw", "queries", grad.queries, numbers);
    for (std::size_t n = 0; n < keys.size(); ++n) keys[n] += queries[n];
  }
  if (shaw.meets == ShawMeets::queries_and_weights)
    internal::add_rounded(internal::only("shaw", "values", grad.values, rows * shaw.value_dim),
                          tables_grad.values);
  internal::add_rounded(keys, tables_grad.keys);
}

}  // namespace gnomon
