// The tasks of sorting of Kazemnejad et al. 2023 (arXiv:2305.19466):
//
//   sort          7Kb0>07Kb.                characters by their byte; some may be equal
//   sort-numbers  731,204,318>204,318,731.  numbers from 100 to 999
#include <cmath>

#include "apps/lab/tasks/letters.h"

namespace gnomon::lab {
namespace letters {

constexpr auto sort_defaults = defaults_of<8, 48, 2, 4>;
constexpr std::int64_t most_sorted = 1000;

constexpr std::string_view sorted_characters =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn";
constexpr std::int64_t characters = std::ssize(sorted_characters);
constexpr std::int64_t least_number = 100, numbers = 900;

Example sorted_letters(std::int64_t length, Draws& draws) {
  const std::string prompt = random_text(sorted_characters, length, draws);
  std::string answer = prompt;
  std::sort(answer.begin(), answer.end());
  return asked(prompt + separator, answer + end);
}

Example sorted_numbers(std::int64_t length, Draws& draws) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < length; ++i)
    values.push_back(least_number + draws.below(numbers));
  const auto list = [&] {
    std::string text;
    for (const std::int64_t value : values)
      text += (text.empty() ? "" : ",") + std::to_string(value);
    return text;
  };
  const std::string prompt = list();
  std::sort(values.begin(), values.end());
  return asked(prompt + separator, list() + end);
}

// The probability that the item at place `rank` of n sorted items is `value`, of `values`
// equally likely values: [n][values]. At most `value` are a binomial number of items, and the
// item is at most `value` if that number exceeds its rank.
std::vector<std::vector<double>> order_statistics(std::int64_t n, std::int64_t values) {
  std::vector<std::vector<double>> all(static_cast<std::size_t>(n),
                                       std::vector<double>(static_cast<std::size_t>(values)));
  const auto items = static_cast<double>(n);
  std::vector<double> before(static_cast<std::size_t>(n));  // at most the previous value
  for (std::size_t value = 0; value < static_cast<std::size_t>(values); ++value) {
    const double share = static_cast<double>(value + 1) / static_cast<double>(values);
    double tail = 0;
    for (std::int64_t rank = n - 1; rank >= 0; --rank) {
      const auto count = static_cast<double>(rank + 1);
      tail += share == 1 ? static_cast<double>(count == items)
                         : std::exp(std::lgamma(items + 1) - std::lgamma(count + 1) -
                                    std::lgamma(items - count + 1) + count * std::log(share) +
                                    (items - count) * std::log1p(-share));
      const auto at = static_cast<std::size_t>(rank);
      all[at][value] = tail - before[at];
      before[at] = tail;
    }
  }
  return all;
}

// The most likely sorted list has each value as often as any other, as nearly as possible: n!
// orders, divided by those of equal values.
double most_likely_list(std::int64_t n, std::int64_t values) {
  const std::int64_t each = n / values, more = n % values;
  const auto logarithm = [](std::int64_t count) {
    return std::lgamma(static_cast<double>(count) + 1);
  };
  return std::exp(logarithm(n) - static_cast<double>(values - more) * logarithm(each) -
                  static_cast<double>(more) * logarithm(each + 1) -
                  static_cast<double>(n) * std::log(static_cast<double>(values)));
}

Chance sort_chance(std::int64_t length) {
  double right = 1;  // the end sign
  for (const std::vector<double>& item : order_statistics(length, characters))
    right += *std::max_element(item.begin(), item.end());
  return {right / static_cast<double>(length + 1), most_likely_list(length, characters)};
}

Chance sort_numbers_chance(std::int64_t length) {
  double right = static_cast<double>(length);  // commas and the end sign
  for (const std::vector<double>& item : order_statistics(length, numbers))
    for (const std::int64_t place : {100, 10, 1}) {
      std::vector<double> digits(10);
      for (std::size_t i = 0; i < item.size(); ++i)
        digits[(static_cast<std::size_t>(least_number) + i) / static_cast<std::size_t>(place) %
               10] += item[i];
      right += *std::max_element(digits.begin(), digits.end());
    }
  return {right / static_cast<double>(4 * length), most_likely_list(length, numbers)};
}

}  // namespace letters

constexpr Task sort_task = letters::with_scores(
    "sort", "Sorting of characters", "characters, then the same characters in ascending order",
    "characters", letters::sort_defaults,
    {letters::sorted_letters, [](std::int64_t n) { return 2 * n + 2; }, letters::sort_chance,
     13, letters::most_sorted});
constexpr Task sort_numbers_task =
    letters::with_scores("sort-numbers", "Sorting of numbers",
                         "numbers of three digits, then the same numbers in ascending order",
                         "numbers", letters::sort_defaults,
                         {letters::sorted_numbers, [](std::int64_t n) { return 8 * n; },
                          letters::sort_numbers_chance, 14, letters::most_sorted});

}  // namespace gnomon::lab
