// Tasks with few facts in a long text, after RULER (Hsieh et al. 2024, arXiv:2404.06654):
//
//   needle     old sun QX=493 the sea was PB=118 far ?QX=493
//              keys with a value each among words, then one of the keys; tests ask for keys at
//              each quarter of the depth equally often
//   variables  the D=417 sky B=D was J=902 A=B day K=J ?417>DBA
//              chains of assignments among words, then the names that have a value, in order
//
// A length is the number of words, of 4 bytes each. The facts stand at random places between
// the words, so the depth of each fact is uniform.
#include <numeric>

#include "apps/lab/tasks/letters.h"

namespace gnomon::lab {
namespace haystack {

constexpr std::int64_t needles = 4, chains = 2, names = 3;  // names of a chain
constexpr std::int64_t digits = 3;                          // of a value
constexpr std::int64_t quarters = 4;                        // of the depth, in tests
constexpr const char* words[] = {"the", "and", "old", "new", "sun", "sea", "sky", "red",
                                 "was", "far", "but", "how", "who", "all", "day", "men"};
constexpr std::int64_t word_bytes = 4;  // with the space

constexpr auto defaults = letters::defaults_of<32, 16, 2, 4>;

// Random places of facts: the number of words before each, from 0 to `length`.
std::vector<std::int64_t> random_places(std::int64_t length, std::size_t facts, Draws& draws) {
  std::vector<std::int64_t> words_before;
  for (std::size_t i = 0; i < facts; ++i) words_before.push_back(draws.below(length + 1));
  return words_before;
}

// `length` random words with the facts between them, in their order. words_before: ascending.
std::string text_of(std::int64_t length, const std::vector<std::string>& facts,
                    const std::vector<std::int64_t>& words_before, Draws& draws) {
  std::string text;
  std::size_t next = 0;
  for (std::int64_t word = 0; word <= length; ++word) {
    for (; next < facts.size() && words_before[next] == word; ++next) text += facts[next];
    if (word < length) text += draws.one_of(words) + std::string(" ");
  }
  return text;
}

std::vector<char> capitals(std::int64_t count, Draws& draws) {
  std::vector<char> all(letters::alphabet);
  std::iota(all.begin(), all.end(), 'A');
  shuffle(all, static_cast<std::size_t>(count), draws);
  return all;
}

// quarter: of the places between the words, for the key that is asked for; empty: any place.
Example found(std::int64_t length, std::optional<std::int64_t> quarter, Draws& draws) {
  // The first letters of the keys differ.
  const std::vector<char> first = capitals(needles, draws);
  std::vector<std::string> keys, values, facts;
  for (std::size_t i = 0; i < needles; ++i) {
    keys.push_back({first[i], static_cast<char>('A' + draws.below(letters::alphabet)), '='});
    values.push_back(letters::random_text(letters::digits, digits, draws));
    facts.push_back(keys[i] + values[i] + " ");
  }
  std::vector<std::int64_t> places = random_places(length, needles, draws);
  auto asked = static_cast<std::size_t>(draws.below(needles));
  if (quarter) {
    constexpr std::int64_t fine = 1 << 20;  // steps of a quarter
    places[asked] = (*quarter * fine + draws.below(fine)) * (length + 1) / (quarters * fine);
  }
  const std::int64_t place = places[asked];
  std::sort(places.begin(), places.end());
  // Of facts at the same place, the order is random, too.
  const auto [begin, end] = std::equal_range(places.begin(), places.end(), place);
  const std::int64_t at = begin - places.begin() + draws.below(end - begin);
  asked = static_cast<std::size_t>(at);
  return letters::asked(text_of(length, facts, places, draws) + "?" + keys[asked],
                        values[asked]);
}
Example found_anywhere(std::int64_t length, Draws& draws) { return found(length, {}, draws); }
Example found_at(std::int64_t length, std::int64_t quarter, Draws& draws) {
  return found(length, quarter, draws);
}
std::int64_t needle_bytes(std::int64_t length) {
  return word_bytes * length + needles * (digits + 4) + 4 + digits;
}

Example traced(std::int64_t length, Draws& draws) {
  const std::vector<char> name = capitals(chains * names, draws);
  std::vector<std::string> values, answers(chains), facts;
  while (std::ssize(values) < chains) {  // different ones
    const std::string value = letters::random_text(letters::digits, digits, draws);
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  // The chains alternate at random, and the assignments of each are in order.
  std::vector<std::size_t> order;
  for (std::size_t chain = 0; chain < chains; ++chain) order.insert(order.end(), names, chain);
  shuffle(order, order.size(), draws);
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::string& before = answers[order[i]];
    facts.push_back({name[i], '='});
    facts.back() +=
        (before.empty() ? values[order[i]] : before.substr(before.size() - 1)) + " ";
    before += name[i];
  }
  const auto asked = static_cast<std::size_t>(draws.below(chains));
  std::vector<std::int64_t> places = random_places(length, facts.size(), draws);
  std::sort(places.begin(), places.end());
  return letters::asked(
      text_of(length, facts, places, draws) + "?" + values[asked] + letters::separator,
      answers[asked]);
}
std::int64_t variables_bytes(std::int64_t length) {
  return word_bytes * length + chains * ((digits + 3) + (names - 1) * 4) + digits + 2 + names;
}

}  // namespace haystack

// Three uniform digits, and three different letters.
constexpr Task needle_task = letters::with_scores(
    "needle", "Needle in a haystack", "keys with values among words, then the value of one key",
    "words", haystack::defaults,
    {.draw = haystack::found_anywhere,
     .bytes = haystack::needle_bytes,
     .chance = [](std::int64_t) { return Chance{0.1, 0.001}; },
     .stream = 17,
     .depths = {haystack::quarters, haystack::found_at}});
constexpr Task variables_task = letters::with_scores(
    "variables", "Variable tracking",
    "chains of assignments among words, then the names that have a value", "words",
    haystack::defaults,
    {haystack::traced, haystack::variables_bytes,
     [](std::int64_t) { return Chance{1.0 / 26, 1.0 / (26 * 25 * 24)}; }, 18});

}  // namespace gnomon::lab
