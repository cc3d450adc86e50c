// The tasks that copy letters, reverse them, add numbers and recall pairs:
//
//   copy           abca>abca.      the prompt again
//   copy-ascii     q{7Z>q{7Z.      the same with 92 printable characters
//   copy-repeated  ababab>ababab.  a token of two letters, repeated
//   reverse        abca>acba.      the prompt backwards
//   addition       12+93>050.      21 + 39 = 60; least digits first, so that carries move to
//                                  the right
//   recall         KaLbMc>MbKa...  keys with a letter each; then the keys in another order,
//                                  each followed by its letter
//
// The answer is the text after > with the end sign, or the letters after > for recall. Loss and
// accuracy count the answer only. copy, copy-ascii, copy-repeated and reverse are the primitive
// tasks of Kazemnejad et al. 2023 (arXiv:2305.19466); docs/lab/length-tasks.md has the others.
#include "apps/lab/tasks/letters.h"

#include <cmath>
#include <numeric>

namespace gnomon::lab {
namespace letters {

constexpr std::int64_t keys = 128;

constexpr auto copy_defaults = defaults_of<20, 48, 2, 4>;

// Both numbers have the least digit first and the same length. The sum has one more digit.
std::string sum_of(const std::string& a, const std::string& b) {
  std::string sum;
  int carry = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int digit = (a[i] - '0') + (b[i] - '0') + carry;
    sum += static_cast<char>('0' + digit % 10);
    carry = digit / 10;
  }
  return sum + static_cast<char>('0' + carry);
}

// The printable characters except for the space and the two signs.
constexpr std::string_view printable =
    R"(!"#$%&'()*+,-/0123456789:;<=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`)"
    "abcdefghijklmnopqrstuvwxyz{|}~";

template <const std::string_view& characters>
Example copied(std::int64_t length, Draws& draws) {
  const std::string prompt = random_text(characters, length, draws);
  return asked(prompt + separator, prompt + end);
}

Example copied_repeated(std::int64_t length, Draws& draws) {
  const std::string token = random_text(small_letters, 2, draws);
  std::string prompt;
  for (std::int64_t i = 0; i < length; ++i) prompt += token;
  return asked(prompt + separator, prompt + end);
}

Example reversed(std::int64_t length, Draws& draws) {
  const std::string prompt = random_text(small_letters, length, draws);
  return asked(prompt + separator, std::string(prompt.rbegin(), prompt.rend()) + end);
}

Example added(std::int64_t length, Draws& draws) {
  const std::string a = random_text(digits, length, draws),
                    b = random_text(digits, length, draws);
  return asked(a + '+' + b + separator, sum_of(a, b) + end);
}

Example recalled(std::int64_t length, Draws& draws) {
  const auto pairs = static_cast<std::size_t>(length);
  // The keys are the bytes that are not letters.
  std::vector<char> key(keys), value;
  std::iota(key.begin(), key.end(), static_cast<char>(-128));
  shuffle(key, pairs, draws);
  Example one;
  for (std::size_t i = 0; i < pairs; ++i) {
    value.push_back(random_text(small_letters, 1, draws)[0]);
    one.bytes += {key[i], value[i]};
  }
  one.bytes += separator;
  one.answer.assign(one.bytes.size(), false);
  std::vector<std::size_t> order(pairs);
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, pairs, draws);
  for (const std::size_t i : order) {
    one.bytes += {key[i], value[i]};
    one.answer.insert(one.answer.end(), {false, true});
  }
  return one;
}

std::int64_t copy_bytes(std::int64_t length) { return 2 * length + 2; }

Chance chance_of(std::int64_t length, double characters) {  // the end sign is certain
  const auto n = static_cast<double>(length);
  return {(n / characters + 1) / (n + 1), std::pow(characters, -n)};
}
Chance copy_chance(std::int64_t length) { return chance_of(length, alphabet); }
Chance ascii_chance(std::int64_t length) { return chance_of(length, std::size(printable)); }
Chance repeated_chance(std::int64_t length) {
  return {chance_of(2 * length, alphabet).byte, 1.0 / (alphabet * alphabet)};
}
Chance addition_chance(std::int64_t length) {
  // Each digit of a sum of uniform numbers is uniform. The last carry is 0 in slightly more
  // than half of the cases. The most likely sum, 99...9, has 10^n of 10^2n cases.
  const auto n = static_cast<double>(length);
  return {(n / 10 + 0.5 + 0.5 * std::pow(10, -n) + 1) / (n + 2), std::pow(10, -n)};
}
Chance recall_chance(std::int64_t length) {
  return {1.0 / alphabet, std::pow(alphabet, -static_cast<double>(length))};
}

}  // namespace letters

constexpr Task copy_task = letters::with_scores(
    "copy", "Copy", "letters, then the same letters", "letters", letters::copy_defaults,
    {letters::copied<letters::small_letters>, letters::copy_bytes, letters::copy_chance, 3});
constexpr Task copy_ascii_task = letters::with_scores(
    "copy-ascii", "Copy of characters",
    "92 different printable characters, then the same characters", "characters",
    letters::copy_defaults,
    {letters::copied<letters::printable>, letters::copy_bytes, letters::ascii_chance, 7});
constexpr Task copy_repeated_task =
    letters::with_scores("copy-repeated", "Copy of a repeated token",
                         "a token of two letters many times, then the same as many times",
                         "repetitions", letters::copy_defaults,
                         {letters::copied_repeated, [](std::int64_t n) { return 4 * n + 2; },
                          letters::repeated_chance, 8});
constexpr Task reverse_task = letters::with_scores(
    "reverse", "Reverse", "letters, then the same letters in reverse order", "letters",
    letters::copy_defaults, {letters::reversed, letters::copy_bytes, letters::copy_chance, 4});
constexpr Task addition_task = letters::with_scores(
    "addition", "Addition", "two numbers, then their sum, least digit first", "digits",
    letters::copy_defaults,
    {letters::added, [](std::int64_t n) { return 3 * n + 4; }, letters::addition_chance, 5});
constexpr Task recall_task = letters::with_scores(
    "recall", "Associative recall", "pairs of a key and a letter, then the letter of each key",
    "pairs", letters::copy_defaults,
    {letters::recalled, [](std::int64_t n) { return 4 * n + 1; }, letters::recall_chance, 6,
     letters::keys});

}  // namespace gnomon::lab
