// The task scan: commands of a small language, and the actions that they ask for.
//
//   jump around left and walk>lJlJlJlJW.
//
// Source: Lake and Baroni 2018 (arXiv:1711.00350), figure 6: the grammar of the commands and
// the rules of their actions. The actions are W, L, R, J (walk, look, run, jump), l and r (turn
// left and right).
//
//   C -> S and S | S after S | S              20910 commands
//   S -> V twice | V thrice | V
//   V -> D opposite side | D around side | D side | U
//   D -> U | turn                             "turn left" has no action besides the turn
//
// A length is the number of actions, as in the paper's split by length. No command has 23, 29,
// 31 or some larger numbers of actions: such a length is that of the next shorter commands.
#include <map>
#include <ranges>

#include "apps/lab/tasks/letters.h"

namespace gnomon::lab {
namespace scan {

constexpr std::int64_t most_actions = 48;  // U around side thrice, twice

struct Phrase {
  std::string words, actions;
};

std::string times(const std::string& actions, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += actions;
  return all;
}

// All S of the grammar.
std::vector<Phrase> sentences() {
  std::vector<Phrase> verbs;
  for (const Phrase& action :
       {Phrase{"walk", "W"}, {"look", "L"}, {"run", "R"}, {"jump", "J"}, {"turn", ""}}) {
    if (!action.actions.empty()) verbs.push_back(action);
    for (const Phrase& side : {Phrase{"left", "l"}, {"right", "r"}}) {
      const std::string turned = side.actions + action.actions;
      verbs.push_back({action.words + " " + side.words, turned});
      verbs.push_back({action.words + " opposite " + side.words, side.actions + turned});
      verbs.push_back({action.words + " around " + side.words, times(turned, 4)});
    }
  }
  std::vector<Phrase> all;
  for (const Phrase& verb : verbs) {
    all.push_back(verb);
    all.push_back({verb.words + " twice", times(verb.actions, 2)});
    all.push_back({verb.words + " thrice", times(verb.actions, 3)});
  }
  return all;
}

struct Commands {
  std::vector<Phrase> of_length[most_actions + 1];  // by the number of actions
  Chance chance[most_actions + 1];
  std::int64_t bytes[most_actions + 1];  // of the longest example up to this length
};

// The answers of one length are aligned, so the best guess at each place is the most frequent
// action there.
Chance chance_of(const std::vector<Phrase>& commands) {
  const auto count = static_cast<double>(commands.size());
  const std::size_t actions = commands[0].actions.size();
  double right = 1, whole = 0;  // the end sign
  for (std::size_t place = 0; place < actions; ++place) {
    std::map<char, double> at_place;
    for (const Phrase& one : commands) ++at_place[one.actions[place]];
    right += std::ranges::max(std::views::values(at_place)) / count;
  }
  std::map<std::string, double> answers;
  for (const Phrase& one : commands) whole = std::max(whole, ++answers[one.actions] / count);
  return {right / static_cast<double>(actions + 1), whole};
}

const Commands& commands() {
  static const Commands all = [] {
    Commands built;
    const auto add = [&](const std::string& words, const std::string& actions) {
      built.of_length[actions.size()].push_back({words, actions});
    };
    const std::vector<Phrase> parts = sentences();
    for (const Phrase& a : parts) {
      add(a.words, a.actions);
      for (const Phrase& b : parts) {
        add(a.words + " and " + b.words, a.actions + b.actions);
        add(a.words + " after " + b.words, b.actions + a.actions);
      }
    }
    built.bytes[0] = 0;
    for (std::size_t n = 1; n <= most_actions; ++n) {
      if (built.of_length[n].empty()) built.of_length[n] = built.of_length[n - 1];
      built.chance[n] = chance_of(built.of_length[n]);
      built.bytes[n] = built.bytes[n - 1];
      for (const Phrase& one : built.of_length[n])
        built.bytes[n] =
            std::max(built.bytes[n], std::ssize(one.words) + std::ssize(one.actions) + 2);
    }
    return built;
  }();
  return all;
}

// check_settings refuses other lengths, but stored settings are read before it.
std::size_t place_of(std::int64_t length) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(length, 1, most_actions));
}

Example draw(std::int64_t length, Draws& draws) {
  const Phrase& one = draws.one_of(commands().of_length[place_of(length)]);
  return letters::asked(one.words + letters::separator, one.actions + letters::end);
}
std::int64_t bytes(std::int64_t length) { return commands().bytes[place_of(length)]; }
Chance chance(std::int64_t length) { return commands().chance[place_of(length)]; }

}  // namespace scan

constexpr Task scan_task =
    letters::with_scores("scan", "SCAN", "a command in words, then its actions", "actions",
                         letters::defaults_of<24, 32, 2>,
                         {scan::draw, scan::bytes, scan::chance, 15, scan::most_actions});

}  // namespace gnomon::lab
