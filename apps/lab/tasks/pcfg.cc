// The task pcfg: functions of strings, applied to strings. A function is one character and
// stands before its arguments; two arguments have a comma between them.
//
//   TSabc>bcabca.      repeat(shift("abc"))
//   A1ab,cd,Re>cde.    append(remove_first("ab", "cd"), reverse("e"))
//
//   C copy     abc      T repeat (twice)  abcabc    A append         abc,de -> abcde
//   R reverse  cba      E echo            abcc      P prepend        abc,de -> deabc
//   S shift    bca      X swap first and last       1 remove first   abc,de -> de
//                                         cba       2 remove second  abc,de -> abc
//
// Source: PCFG SET of Hupkes et al. 2020 (arXiv:1908.08351), section 3.2: the functions and the
// grammar S -> U S | B S , S | string. Differences: the paper sets the probabilities of its
// rules by English sentences and writes words; here each function is equally likely, the
// functions of two arguments are divided at random, a string has 1 to 4 letters, and an answer
// with more than 60 letters is drawn again.
//
// A length is the number of functions.
#include <array>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/tasks/letters.h"

namespace gnomon::lab {
namespace pcfg {

constexpr std::int64_t most_functions = 32, longest_string = 4, longest_answer = 60;
constexpr std::string_view unary = "CRSXTE", binary = "AP12";
constexpr std::int64_t functions = std::ssize(unary) + std::ssize(binary);

struct Expression {
  std::string prompt, value;
};

std::string applied(char function, const std::string& a, const std::string& b) {
  std::string all = a;
  if (function == 'R') std::reverse(all.begin(), all.end());
  if (function == 'S') std::rotate(all.begin(), all.begin() + 1, all.end());
  if (function == 'X') std::swap(all.front(), all.back());
  if (function == 'T') return a + a;
  if (function == 'E') return a + a.back();
  if (function == 'A') return a + b;
  if (function == 'P') return b + a;
  if (function == '1') return b;
  return all;
}

// A function that is applied to an answer that is too long is not computed: repeat doubles it.
Expression drawn(std::int64_t count, Draws& draws) {
  if (count == 0) {
    const std::string letters =
        letters::random_text(letters::small_letters, 1 + draws.below(longest_string), draws);
    return {letters, letters};
  }
  const std::int64_t which = draws.below(functions);
  Expression one;
  if (which < std::ssize(unary)) {
    const char function = nth(unary, which);
    const Expression a = drawn(count - 1, draws);
    one = {function + a.prompt, applied(function, a.value, "")};
  } else {
    const char function = nth(binary, which - std::ssize(unary));
    const std::int64_t first = draws.below(count);
    const Expression a = drawn(first, draws), b = drawn(count - 1 - first, draws);
    one = {function + a.prompt + "," + b.prompt, applied(function, a.value, b.value)};
  }
  // All longer answers are alike: no function makes them shorter, except for the two that
  // remove them.
  one.value.resize(std::min<std::size_t>(one.value.size(), longest_answer + 1));
  return one;
}

Example draw(std::int64_t length, Draws& draws) {
  for (;;) {
    const Expression one = drawn(length, draws);
    if (std::ssize(one.value) <= longest_answer)
      return letters::asked(one.prompt + letters::separator, one.value + letters::end);
  }
}

// Every function has two arguments, and every string is the longest one.
std::int64_t bytes(std::int64_t length) {
  const std::int64_t prompt = length + longest_string * (length + 1) + length;
  return prompt + 1 + longest_answer + 1;
}

// Probabilities by the number of letters of an answer, 0 to longest_answer.
using Lengths = std::array<double, longest_answer + 1>;

// One step of both recursions below: the probabilities for `count` functions from those for
// fewer.
Lengths applied(const std::vector<Lengths>& fewer, std::int64_t count) {
  Lengths all{};
  constexpr double share = 1.0 / static_cast<double>(functions);
  const Lengths& argument = nth(fewer, count - 1);
  for (std::size_t m = 1; m < all.size(); ++m) {
    all[m] += 4 * share * argument[m];  // C, R, S, X
    if (2 * m < all.size()) all[2 * m] += share * argument[m];
    if (m + 1 < all.size()) all[m + 1] += share * argument[m];
  }
  const double division = share / static_cast<double>(count);
  for (std::int64_t first = 0; first < count; ++first) {
    const Lengths &a = nth(fewer, first), &b = nth(fewer, count - 1 - first);
    for (std::size_t m = 1; m < all.size(); ++m) {
      for (std::size_t k = 1; m + k < all.size(); ++k)
        all[m + k] += 2 * division * a[m] * b[k];  // A, P
      all[m] += division * (a[m] + b[m]);          // 2, 1
    }
  }
  return all;
}

// `letter`: the factor of each letter of a string.
std::vector<Lengths> recursion(double letter) {
  std::vector<Lengths> all(1);
  for (std::size_t m = 1; m <= longest_string; ++m)
    all[0][m] = std::pow(letter, static_cast<double>(m)) / longest_string;
  for (std::int64_t count = 1; count <= most_functions; ++count)
    all.push_back(applied(all, count));
  return all;
}

// The length of an answer depends on the lengths of the arguments only. At each place, all
// letters are equally likely, so a byte is a letter or the end sign.
//
// Of the answers with m letters, m equal ones are the most likely: an expression gives a string
// if the letters of the prompt have certain values, and copies of one letter must be equal,
// which excludes no expression only if all letters are equal. So the probability of m times "a"
// is a recursion over expressions, in which each letter that is not removed has a factor 1/26.
Chance chance(std::int64_t length) {
  static const std::vector<Lengths> lengths = recursion(1),
                                    equal = recursion(1.0 / letters::alphabet);
  const auto at = static_cast<std::size_t>(std::clamp<std::int64_t>(length, 1, most_functions));
  double kept = 0, byte = 0, whole = 0, longer = 0;
  for (std::size_t m = lengths[at].size(); m-- > 0;) {
    const double here = lengths[at][m] / static_cast<double>(m + 1);
    byte += std::max(here, longer / letters::alphabet);  // place m: after m letters
    kept += lengths[at][m];
    longer += here;
    whole = std::max(whole, equal[at][m]);
  }
  return {byte / kept, whole / kept};
}

}  // namespace pcfg

constexpr Task pcfg_task =
    letters::with_scores("pcfg", "String functions (PCFG SET)",
                         "functions of strings and their arguments, then the resulting string",
                         "functions", letters::defaults_of<8, 48, 2>,
                         {pcfg::draw, pcfg::bytes, pcfg::chance, 16, pcfg::most_functions});

}  // namespace gnomon::lab
