#include "src/core/size.h"
#include "src/core/overflow.h"

namespace gnomon::internal {
namespace {

std::string joined(std::initializer_list<std::int64_t> numbers, const char* sign) {
  std::string text;
  for (const std::int64_t one : numbers) {
    if (!text.empty()) text += sign;
    text += std::to_string(one);
  }
  return text;
}

}  // namespace

std::int64_t checked_product(std::string_view operation, std::string_view what,
                             std::initializer_list<std::int64_t> factors) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t factor : factors) {
    empty |= factor == 0;
    if (!multiply(count, factor))
      refuse(operation,
             std::string(what) + (factor < 0 ? " must not be negative" : " must fit in memory"),
             joined(factors, " x "));
  }
  if (empty && count > most_rows_of_empty)
    refuse(operation, std::string(what) + " must be at most 2^31 beside a 0",
           joined(factors, " x "));
  return empty ? 0 : count;
}

std::int64_t checked_sum(std::string_view operation, std::string_view what,
                         std::initializer_list<std::int64_t> terms) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms)
    if (add_overflow(sum, term, &sum))
      refuse(operation, std::string(what) + " must fit 64 bits", joined(terms, " + "));
  return sum;
}

std::string range_text(std::int64_t first, std::int64_t count) {
  std::int64_t last = 0;
  if (add_overflow(first, count - 1, &last)) last = std::numeric_limits<std::int64_t>::max();
  return std::to_string(first) + " to " + std::to_string(last);
}

}  // namespace gnomon::internal
