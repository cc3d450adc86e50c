#include "gnomon/relative/cope.h"

#include <string>

#include "gnomon/error.h"
#include "src/relative/numbers.h"

namespace gnomon {
namespace {

using std::int64_t;

template <typename T>
void check_table_of(const Cope& cope, View<T, 2> table) {
  // Products of a query with all positions are kept, and positions are counted in floats.
  constexpr int64_t most = int64_t{1} << 20;
  if (cope.heads < 1) refuse("cope", "heads must be at least 1", cope.heads);
  if (cope.head_dim < 1) refuse("cope", "head_dim must be at least 1", cope.head_dim);
  if (cope.positions < 1 || cope.positions > most)
    refuse("cope", "positions must be 1 to " + std::to_string(most), cope.positions);
  internal::check_matrix(
      "cope", "the table", table,
      internal::checked_product("cope", "heads x positions", {cope.heads, cope.positions}),
      cope.head_dim);
}

}  // namespace

RelativeForm lower(const Cope& cope, View<const float, 2> table) {
  check_table_of(cope, table);
  RelativeForm form;
  form.contextual = ContextualVectors{
      .heads = cope.heads, .head_dim = cope.head_dim, .values = internal::as_doubles(table)};
  return form;
}

void lower_backward(const Cope& cope, const RelativeGradient& grad, View<float, 2> table_grad) {
  check_table_of(cope, table_grad);
  if (static_cast<int64_t>(grad.contextual.size()) != table_grad.size())
    refuse("cope",
           "the gradient must have " + std::to_string(table_grad.size()) +
               " numbers of contextual vectors",
           static_cast<int64_t>(grad.contextual.size()));
  internal::add_rounded(grad.contextual, table_grad);
}

}  // namespace gnomon
