#include <algorithm>
#include <array>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/tasks/dialogue.h"

namespace gnomon::lab::dialogue_examples {
namespace {

constexpr std::int64_t keys = 6, kinds = 3, talk_words = 16, replies = 4;

const std::vector<std::string> words{
    "user:", "assistant:", "is", "?", "ok",
    // Keys: two of each kind.
    "cat", "dog", "car", "door", "bus", "room",
    // Values of each kind: names, colours, numbers.
    "tom", "max", "kim", "ben", "amy", "leo", "zoe", "sam", "eva", "jim", "ida", "bob", "liz",
    "dan", "mia", "ron", "red", "blue", "green", "black", "white", "brown", "pink", "grey",
    "gold", "teal", "lime", "plum", "navy", "rose", "sand", "rust", "one", "two", "three",
    "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen",
    // Small talk and replies.
    "nice", "day", "rain", "again", "hello", "late", "lunch", "soon", "music", "good", "news",
    "long", "week", "cold", "today", "busy", "yes", "sure", "maybe", "indeed"};
constexpr std::int64_t is = 2, question_mark = 3, ok = 4, first_key = 5,
                       first_value = first_key + keys,
                       first_talk = first_value + kinds * values,
                       first_reply = first_talk + talk_words;

struct Writer {
  Dialogue dialogue;
  Draws draws;
  std::int32_t turn = 0;
  struct Fact {
    std::int64_t value = -1, outdated = -1, turn = -1;
    bool asked = false;
  };
  std::array<Fact, keys> facts = {};

  void write(std::initializer_list<std::int64_t> tokens) {
    dialogue.tokens.insert(dialogue.tokens.end(), tokens);
    dialogue.turns.resize(dialogue.tokens.size(), turn);
  }
  // A new value, each with the same probability.
  void tell(std::int64_t key) {
    Fact& fact = nth(facts, key);
    const bool known = fact.value >= 0;
    std::int64_t value = draws.below(values - known);
    if (known && value >= fact.value) ++value;
    fact = {value, fact.value, turn, false};
    write({user, first_key + key, is, token(key, value), assistant, ok});
  }
  void ask(std::int64_t key) {
    Fact& fact = nth(facts, key);
    fact.asked = true;
    write({user, first_key + key, question_mark, assistant, token(key, fact.value)});
    dialogue.questions.push_back({std::ssize(dialogue.tokens) - 1, turn - fact.turn,
                                  fact.outdated < 0 ? -1 : token(key, fact.outdated)});
  }
  void talk() {
    write({user});
    for (std::int64_t i = 1 + draws.below(3); i > 0; --i)
      write({first_talk + draws.below(talk_words)});
    write({assistant, first_reply + draws.below(replies)});
  }
  static std::int64_t token(std::int64_t key, std::int64_t value) {
    return first_value + key / (keys / kinds) * values + value;
  }
  // The keys but one that were told at most `distance` turns before and not asked since.
  std::vector<std::int64_t> open(std::int64_t but, std::int64_t distance) const {
    std::vector<std::int64_t> all;
    for (std::int64_t key = 0; key < keys; ++key) {
      const Fact& fact = nth(facts, key);
      if (key != but && fact.value >= 0 && !fact.asked && turn - fact.turn <= distance)
        all.push_back(key);
    }
    return all;
  }
};

}  // namespace

const std::string& word(std::int64_t token) {
  static const std::string unknown = "?";
  return token < std::ssize(words) ? nth(words, token) : unknown;
}

Dialogue dialogue(std::int64_t length, std::int64_t train_length, Part part, std::uint64_t seed,
                  std::uint64_t number) {
  Writer writer{{}, Draws{seed, part, length, number}};
  Draws& draws = writer.draws;
  const std::int64_t last = std::max(length, train_length) + other_turns - 1,
                     fact = last - length, outdated = draws.below(fact),
                     asked = draws.below(keys);
  for (std::int64_t turn = 0; turn <= last; ++turn) {
    writer.turn = static_cast<std::int32_t>(turn);
    if (turn == fact || turn == outdated) {
      writer.tell(asked);
      continue;
    }
    if (turn == last) {
      writer.ask(asked);
      continue;
    }
    const std::vector<std::int64_t> open = writer.open(asked, train_length);
    const std::int64_t act = draws.below(3);
    if (act == 0)
      writer.talk();
    else if (act == 1 && !open.empty())
      writer.ask(draws.one_of(open));
    else
      writer.tell((asked + 1 + draws.below(keys - 1)) % keys);
  }
  return writer.dialogue;
}

std::string readable(const Dialogue& dialogue, std::int64_t end) {
  std::string text;
  for (std::int64_t i = 0; i < end; ++i) {
    const std::int64_t token = nth(dialogue.tokens, i);
    if (i > 0) text += token == user ? "\n" : token == assistant ? " / " : " ";
    text += word(token);
  }
  return text;
}

}  // namespace gnomon::lab::dialogue_examples
