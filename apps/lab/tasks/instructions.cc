// Tasks with lists of instructions, of two bytes each:
//
//   flipflop  w1i0i1r1w0i1r0    write a bit, ignore a bit, read the bit written last; after
//                               each r the answer
//   count     a+..b+a+b0>b0a2c0  add 1 to a variable, set it to 0, or pass; then each variable,
//                               in another order, with its value
//
// flipflop is the flip-flop language of Liu et al. 2023 (arXiv:2306.00946): the first
// instruction writes, the last one reads, and the bits that are written or ignored are uniform.
// Training has four ignored instructions of five. The second score is that of tests with 49 of
// 50: reads are then far from their writes. count follows Golovneva et al. 2024
// (arXiv:2405.18719).
//
// A length is the number of instructions.
#include <algorithm>
#include <array>

#include "apps/lab/data/lists.h"
#include "apps/lab/tasks/letters.h"

namespace gnomon::lab {
namespace instructions {

constexpr std::string_view bits = "01", others = "wr";

// Of a hundred instructions between the first and the last one, `ignored` ignore a bit. The
// others write or read with the same probability.
template <std::int64_t ignored>
Example flip_flop(std::int64_t length, Draws& draws) {
  Example one;
  char stored = '0';
  for (std::int64_t i = 0; i < length; ++i) {
    const char instruction = i == 0                       ? 'w'
                             : i == length - 1            ? 'r'
                             : draws.below(100) < ignored ? 'i'
                                                          : draws.one_of(others);
    const char bit = instruction == 'r' ? stored : draws.one_of(bits);
    if (instruction == 'w') stored = bit;
    one.bytes += {instruction, bit};
    one.answer.insert(one.answer.end(), {false, instruction == 'r'});
  }
  return one;
}

// The bit that is read was uniform, whatever the place.
Chance bit_chance(std::int64_t) { return letters::one_byte(0.5); }

constexpr std::int64_t variables = 3, values = 10;  // a, b, c from 0 to 9
// Half of the instructions pass. One of five others sets its variable to 0. A variable that is
// 9 is set, too.
constexpr std::int64_t set_of = 5;

Example counted(std::int64_t length, Draws& draws) {
  std::array<char, variables> value;
  value.fill('0');
  Example one;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t at = draws.below(2 * variables);
    if (at >= variables) {
      one.bytes += "..";
      continue;
    }
    char& here = nth(value, at);
    const bool sets = draws.below(set_of) == 0 || here == '9';
    here = sets ? '0' : static_cast<char>(here + 1);
    one.bytes += {static_cast<char>('a' + at), sets ? '0' : '+'};
  }
  one.bytes += letters::separator;
  one.answer.assign(one.bytes.size(), false);
  std::vector<std::int64_t> order{0, 1, 2};
  shuffle(order, order.size(), draws);
  for (const std::int64_t at : order) {
    one.bytes += {static_cast<char>('a' + at), nth(value, at)};
    one.answer.insert(one.answer.end(), {false, true});
  }
  return one;
}

// The probabilities of all values of the variables after `length` instructions. Variables are
// exchangeable, so the order of the questions does not matter.
Chance count_chance(std::int64_t length) {
  constexpr std::size_t states = values * values * values;
  constexpr double each = 0.5 / variables, set = 1.0 / set_of;
  std::vector<double> now(states);
  now[0] = 1;
  for (std::int64_t i = 0; i < length; ++i) {
    std::vector<double> next(states);
    for (std::size_t state = 0; state < states; ++state) {
      if (now[state] == 0) continue;
      next[state] += 0.5 * now[state];
      for (const std::size_t place : {1, 10, 100}) {
        const std::size_t value = state / place % values, zero = state - value * place;
        const double adds = value == values - 1 ? 0 : 1 - set;
        if (adds > 0) next[state + place] += each * adds * now[state];
        next[zero] += each * (1 - adds) * now[state];
      }
    }
    now = std::move(next);
  }
  std::array<double, values> of_one{};
  for (std::size_t state = 0; state < states; ++state) of_one[state % values] += now[state];
  return {*std::max_element(of_one.begin(), of_one.end()),
          *std::max_element(now.begin(), now.end())};
}

}  // namespace instructions

constexpr Task flipflop_task{
    .name = "flipflop",
    .title = "Flip-flop",
    .summary = "bits that are written, ignored and read, then each bit that is read",
    .unit = "instructions",
    .score = "right reads",
    .second = "right reads with few writes",
    .what =
        "the share of reads of unseen programs whose bit is right, each predicted after the "
        "right previous bits; the second score is that of programs of which 98 % instead of "
        "80 % of the instructions are ignored, as training has none",
    .chance = "the best guess that knows the length but not the prompt",
    .reports_second = true,
    .trained_on = "programs of 5 to ",
    .suffixes = letters::letter_suffixes,
    .defaults = letters::defaults_of<64, 16, 2, 4>,
    .letters = {.draw = instructions::flip_flop<80>,
                .bytes = [](std::int64_t n) { return 2 * n; },
                .chance = instructions::bit_chance,
                .stream = 19,
                .shifted = {instructions::flip_flop<98>, instructions::bit_chance}},
    // Fewer instructions have few programs: a part of the data may have none.
    .shortest = 5};

constexpr Task count_task = [] {
  Task task = letters::with_scores(
      "count", "Counting", "instructions that add 1 to variables, then the value of each",
      "instructions", letters::defaults_of<32, 16, 2, 4>,
      {instructions::counted,
       [](std::int64_t n) { return 2 * n + 1 + 2 * instructions::variables; },
       instructions::count_chance, 20});
  task.second = "right counts";
  task.what =
      "the share of unseen programs of which all three variables have the right value, the "
      "result of greedy decoding; also the share of right values";
  task.reports_second = true;
  task.trained_on = "programs of 3 to ";
  task.shortest = 3;
  return task;
}();

}  // namespace gnomon::lab
