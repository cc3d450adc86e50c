// The tasks whose examples are short texts of letters:
//
//   copy      abca>abca.        the prompt again
//   reverse   abca>acba.        the prompt backwards
//   addition  12+93>050.        21 + 39 = 60; least digits first, so carries move to the right
//   recall    KaLbMc>MbKa...    keys with a letter each; then the keys in another order, each
//                               followed by its letter
//
// The answer is the text after > with the end sign, or the letters after > for recall. Loss and
// accuracy count the answer only.
#include <cmath>
#include <numeric>

#include "apps/lab/tasks/tasks.h"

namespace gnomon::lab {
namespace letters {

constexpr std::int64_t letters = 26, keys = 128;
constexpr char separator = '>', end = '.';

// Examples are a third as long as a window of text, and more steps are required.
TaskDefaults defaults() { return {20, 48, 4, {2, 4}, default_encodings, 2, 64, 4, 4e-3}; }

std::string letters_of(std::int64_t count, Draws& draws) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i)
    text += static_cast<char>('a' + draws.below(letters));
  return text;
}

std::string number_of(std::int64_t digits, Draws& draws) {
  std::string text;
  for (std::int64_t i = 0; i < digits; ++i) text += static_cast<char>('0' + draws.below(10));
  return text;
}

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

// The first `count` characters of `from` in a random order (Fisher and Yates).
template <typename T>
void shuffle(std::vector<T>& from, std::size_t count, Draws& draws) {
  for (std::size_t i = 0; i < count; ++i)
    std::swap(from[i], from[i + static_cast<std::size_t>(
                                    draws.below(static_cast<std::int64_t>(from.size() - i)))]);
}

Example asked(std::string prompt, const std::string& answer) {
  Example one{std::move(prompt) + separator, {}};
  one.answer.assign(one.bytes.size(), false);
  one.bytes += answer + end;
  one.answer.resize(one.bytes.size(), true);
  return one;
}

Example copied(std::int64_t length, Draws& draws) {
  const std::string prompt = letters_of(length, draws);
  return asked(prompt, prompt);
}

Example reversed(std::int64_t length, Draws& draws) {
  const std::string prompt = letters_of(length, draws);
  return asked(prompt, {prompt.rbegin(), prompt.rend()});
}

Example added(std::int64_t length, Draws& draws) {
  const std::string a = number_of(length, draws), b = number_of(length, draws);
  return asked(a + '+' + b, sum_of(a, b));
}

Example recalled(std::int64_t length, Draws& draws) {
  const auto pairs = static_cast<std::size_t>(length);
  // The keys are the bytes that are not letters.
  std::vector<char> key(keys), value;
  std::iota(key.begin(), key.end(), static_cast<char>(-128));
  shuffle(key, pairs, draws);
  Example one;
  for (std::size_t i = 0; i < pairs; ++i) {
    value.push_back(letters_of(1, draws)[0]);
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
std::int64_t addition_bytes(std::int64_t length) { return 3 * length + 4; }
std::int64_t recall_bytes(std::int64_t length) { return 4 * length + 1; }

Chance copy_chance(std::int64_t length) {  // the end sign is certain
  const auto n = static_cast<double>(length);
  return {(n / letters + 1) / (n + 1), std::pow(letters, -n)};
}
Chance addition_chance(std::int64_t length) {
  // Each digit of a sum of uniform numbers is uniform. The last carry is 0 in slightly more
  // than half of the cases. The most likely sum, 99...9, has 10^n of 10^2n cases.
  const auto n = static_cast<double>(length);
  return {(n / 10 + 0.5 + 0.5 * std::pow(10, -n) + 1) / (n + 2), std::pow(10, -n)};
}
Chance recall_chance(std::int64_t length) {
  return {1.0 / letters, std::pow(letters, -static_cast<double>(length))};
}

constexpr Task of_letters(std::string_view name, std::string_view title,
                          std::string_view summary, std::string_view unit,
                          const Letters& made) {
  return {.name = name,
          .title = title,
          .summary = summary,
          .unit = unit,
          .score = "right whole answers",
          .second = "right bytes",
          .what =
              "the share of unseen examples whose answer is right in every byte, the result of "
              "greedy decoding; also the share of right bytes, each predicted after the right "
              "previous bytes",
          .chance = "the best guess that knows the length but not the prompt",
          .defaults = defaults,
          .letters = made};
}

}  // namespace letters

constexpr Task copy_task = letters::of_letters(
    "copy", "Copy", "letters, then the same letters", "letters",
    {letters::copied, letters::copy_bytes, letters::copy_chance, std::nullopt, 3});
constexpr Task reverse_task = letters::of_letters(
    "reverse", "Reverse", "letters, then the same letters in reverse order", "letters",
    {letters::reversed, letters::copy_bytes, letters::copy_chance, std::nullopt, 4});
constexpr Task addition_task = letters::of_letters(
    "addition", "Addition", "two numbers, then their sum, least digit first", "digits",
    {letters::added, letters::addition_bytes, letters::addition_chance, std::nullopt, 5});
constexpr Task recall_task = letters::of_letters(
    "recall", "Associative recall", "pairs of a key and a letter, then the letter of each key",
    "pairs",
    {letters::recalled, letters::recall_bytes, letters::recall_chance, letters::keys, 6});

}  // namespace gnomon::lab
