// Tasks of Kazemnejad et al. 2023 (arXiv:2305.19466) whose answer is one byte:
//
//   sum         3+5+9>7                  the sum of digits from 1 to 9, modulo 10
//   polynomial  x=-2,+3x2-1x0>1          the value at x, modulo 10: 3 (-2)^2 - 1 = 11
//   parity      0110101>0                0 if the number of ones is even, else 1
//   lego        q=+1,t=-q,c=+t?c>-       the sign of a variable, by a chain of clauses
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "apps/lab/tasks/letters.h"

namespace gnomon::lab {
namespace letters {

// The lengths of the paper: trained up to 8, tested up to 16; and up to 32.
constexpr auto short_defaults = defaults_of<8, 48, 2, 4>;

constexpr std::int64_t modulus = 10;
constexpr std::int64_t remainder(std::int64_t value) {
  return (value % modulus + modulus) % modulus;
}

// The probabilities of the remainders of a sum of independent terms, each with the
// probabilities `term`.
using Remainders = std::array<double, modulus>;
Remainders of_sum(const Remainders& term, std::int64_t terms) {
  Remainders sum{1};
  for (std::int64_t i = 0; i < terms; ++i) {
    Remainders next{};
    for (std::size_t a = 0; a < modulus; ++a)
      for (std::size_t b = 0; b < modulus; ++b) next[(a + b) % modulus] += sum[a] * term[b];
    sum = next;
  }
  return sum;
}

Example summed(std::int64_t length, Draws& draws) {
  std::string prompt;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t digit = 1 + draws.below(9);
    sum += digit;
    prompt += (i ? "+" : "") + std::to_string(digit);
  }
  return asked(prompt + separator, std::to_string(remainder(sum)));
}
Chance sum_chance(std::int64_t length) {
  Remainders digit;
  digit.fill(1.0 / 9);
  digit[0] = 0;
  const Remainders sum = of_sum(digit, length);
  return one_byte(*std::max_element(sum.begin(), sum.end()));
}

constexpr std::int64_t most_coefficient = 3, most_degree = 3, most_x = 2;
constexpr std::int64_t power(std::int64_t x, std::int64_t degree) {
  std::int64_t product = 1;
  for (std::int64_t i = 0; i < degree; ++i) product *= x;
  return product;
}

// A number from -most to most.
std::int64_t around_zero(std::int64_t most, Draws& draws) {
  return draws.below(2 * most + 1) - most;
}

Example evaluated(std::int64_t length, Draws& draws) {
  const std::int64_t x = around_zero(most_x, draws);
  std::string prompt = fmt::format("x={:+},", x);
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t coefficient = around_zero(most_coefficient, draws),
                       degree = draws.below(most_degree + 1);
    sum += coefficient * power(x, degree);
    prompt += fmt::format("{:+}x{}", coefficient, degree);
  }
  return asked(prompt + separator, std::to_string(remainder(sum)));
}
Chance polynomial_chance(std::int64_t length) {
  constexpr double share_of_term = 1.0 / ((2 * most_coefficient + 1) * (most_degree + 1)),
                   share_of_x = 1.0 / (2 * most_x + 1);
  Remainders all{};
  for (std::int64_t x = -most_x; x <= most_x; ++x) {
    Remainders term{};
    for (std::int64_t c = -most_coefficient; c <= most_coefficient; ++c)
      for (std::int64_t d = 0; d <= most_degree; ++d)
        term[static_cast<std::size_t>(remainder(c * power(x, d)))] += share_of_term;
    const Remainders sum = of_sum(term, length);
    for (std::size_t i = 0; i < modulus; ++i) all[i] += share_of_x * sum[i];
  }
  return one_byte(*std::max_element(all.begin(), all.end()));
}

Example counted_ones(std::int64_t length, Draws& draws) {
  const std::string prompt = random_text("01", length, draws);
  const auto ones = std::count(prompt.begin(), prompt.end(), '1');
  return asked(prompt + separator, std::to_string(ones % 2));
}
// Half of the sequences, and half of the sequences of signs, have each answer.
Chance half(std::int64_t) { return one_byte(0.5); }

Example followed(std::int64_t length, Draws& draws) {
  std::vector<char> name(alphabet);
  std::iota(name.begin(), name.end(), 'a');
  const auto variables = static_cast<std::size_t>(length);
  shuffle(name, variables, draws);
  std::string prompt, values;
  for (std::size_t i = 0; i < variables; ++i) {
    const bool same = draws.below(2) != 0;
    prompt += {name[i], '=', same ? '+' : '-', i ? name[i - 1] : '1', ','};
    values += same == (i ? values[i - 1] == '+' : true) ? '+' : '-';
  }
  prompt.back() = '?';
  // A variable of the second half of the chain.
  const std::int64_t first = (length + 1) / 2;
  const auto at = static_cast<std::size_t>(first + draws.below(length - first));
  return asked(prompt + name[at] + separator, std::string(1, values[at]));
}

}  // namespace letters

constexpr Task sum_task = letters::with_score(
    "sum", "Summation modulo 10", "digits, then the last digit of their sum", "numbers",
    letters::short_defaults,
    {letters::summed, [](std::int64_t n) { return 2 * n + 1; }, letters::sum_chance, 9});
constexpr Task polynomial_task =
    letters::with_score("polynomial", "Value of a polynomial modulo 10",
                        "x and the terms of a polynomial, then its value at x, modulo 10",
                        "terms", letters::short_defaults,
                        {letters::evaluated, [](std::int64_t n) { return 4 * n + 7; },
                         letters::polynomial_chance, 10});
// Fewer than 4 bits have no prompt in one of the parts.
constexpr Task parity_task = letters::with_score(
    "parity", "Parity", "bits, then whether the number of ones is odd", "bits",
    letters::short_defaults,
    {letters::counted_ones, [](std::int64_t n) { return n + 2; }, letters::half, 11}, 4,
    "examples of 4 to ");
constexpr Task lego_task = letters::with_score(
    "lego", "Chain of clauses (LEGO)",
    "a chain of variables with signs, then the value of one in its second half", "variables",
    letters::defaults_of<8, 48, 2, 3>,
    {letters::followed, [](std::int64_t n) { return 5 * n + 3; }, letters::half, 12,
     letters::alphabet},
    2, "examples of 2 to ");

}  // namespace gnomon::lab
