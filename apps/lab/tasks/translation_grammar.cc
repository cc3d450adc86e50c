// The synthetic language pair of the task translation.
//
//   sentence -> clause, or clause "and" sentence    clauses of at most 8 words
//   clause   -> phrase verb, or phrase verb phrase  past tense: the verb shows no number
//   phrase   -> adjectives noun, with a relative clause after it or not
//   relative -> "that" verb, or "that" verb phrase
//
// In the translation, the verb is last in its clause and agrees with its subject in number. The
// object has a particle after it. Adjectives follow their noun and agree with it in class and
// number. A relative clause precedes its noun and ends with a particle.
#include <span>

#include "apps/lab/tasks/translation.h"

namespace gnomon::lab::translation_examples {
namespace grammar {

// Words and the stems of their translations. Every second noun has the class "o", the others
// have the class "a".
constexpr std::string_view nouns[] = {"dog kel",      "cat mir",    "bird tav",    "horse zan",
                                      "tiger hur",    "farmer gor", "teacher dil", "king rup",
                                      "nurse vesh",   "sailor bok", "baker fas",   "friend lem",
                                      "stranger pid", "doctor jat", "robot num",   "lion shob"};
constexpr std::string_view adjectives[] = {"small pik",   "big gan",  "old ver",   "young nol",
                                           "red rash",    "blue sin", "happy lud", "tired mok",
                                           "clever tesh", "quiet hol"};
constexpr std::string_view transitive[] = {
    "saw vid", "chased kach", "helped yel", "followed sut", "called zor",
    "met mab", "feared gip",  "liked ral",  "found tun",    "watched bel"};
constexpr std::string_view intransitive[] = {"slept sol",  "ran dar",     "sang kant",
                                             "waited pov", "laughed hah", "fell zum"};
constexpr const char *that = "that", *relative_particle = "ke", *object_particle = "ta";
constexpr const char *conjunction = "and", *target_conjunction = "u";
constexpr std::int64_t most_clause_words = 8, most_adjectives = 2;

enum class Number { singular = 1, plural };

struct Word {
  std::string source, stem;
  std::size_t number;  // index in the list
};
Word any(std::span<const std::string_view> words, Draws& draws) {
  const auto number = static_cast<std::size_t>(draws.below(std::ssize(words)));
  const std::string_view word = words[number];
  const std::size_t space = word.find(' ');
  return {std::string(word.substr(0, space)), std::string(word.substr(space + 1)), number};
}

void append(std::string& text, const std::string& words) {
  if (!text.empty() && !words.empty()) text += ' ';
  text += words;
}

struct Phrase {
  SentencePair pair;
  Number number;
};
Phrase phrase(std::int64_t words, Draws& draws);

// The verb and its object, if it has one: `words` words.
SentencePair predicate(Number subject, std::int64_t words, Draws& draws) {
  const std::string ending = subject == Number::singular ? "it" : "ur";
  const Word verb = words == 1 ? any(intransitive, draws) : any(transitive, draws);
  if (words == 1) return {verb.source, verb.stem + ending};
  const SentencePair object = phrase(words - 1, draws).pair;
  return {verb.source + ' ' + object.source,
          object.target + ' ' + object_particle + ' ' + verb.stem + ending};
}

Phrase phrase(std::int64_t words, Draws& draws) {
  // A relative clause has at least two words.
  std::int64_t count;
  do {
    count = draws.below(std::min(most_adjectives, words - 1) + 1);
  } while (words - 1 - count == 1);
  const Word noun = any(nouns, draws);
  const Number number = draws.below(2) == 0 ? Number::singular : Number::plural;
  std::string ending = noun.number % 2 ? "o" : "a";
  if (number == Number::plural) ending += 'n';
  SentencePair pair;
  std::string after;
  for (std::int64_t i = 0; i < count; ++i) {
    const Word one = any(adjectives, draws);
    append(pair.source, one.source);
    append(after, one.stem + ending);
  }
  append(pair.source, noun.source + (number == Number::plural ? "s" : ""));
  if (const std::int64_t rest = words - 1 - count; rest > 0) {
    const SentencePair relative = predicate(number, rest - 1, draws);
    append(pair.source, that + (' ' + relative.source));
    append(pair.target, relative.target + ' ' + relative_particle);
  }
  append(pair.target, noun.stem + ending);
  append(pair.target, after);
  return {pair, number};
}

SentencePair clause(std::int64_t words, Draws& draws) {
  // A third of the clauses has no object.
  const bool alone = words == 2 || draws.below(3) == 0;
  const std::int64_t subject_words = alone ? words - 1 : 1 + draws.below(words - 2);
  const Phrase subject = phrase(subject_words, draws);
  const SentencePair rest = predicate(subject.number, words - subject_words, draws);
  return {subject.pair.source + ' ' + rest.source, subject.pair.target + ' ' + rest.target};
}

}  // namespace grammar

SentencePair synthetic_pair(std::int64_t words, Draws& draws) {
  using namespace grammar;
  SentencePair all;
  for (;;) {
    // Another clause has at least two words and a conjunction.
    const bool last = words < 5 || (words <= most_clause_words && draws.below(2) == 0);
    const std::int64_t here =
        last ? words : least_words + draws.below(std::min(most_clause_words, words - 3) - 1);
    const SentencePair one = clause(here, draws);
    append(all.source, one.source);
    append(all.target, one.target);
    if (last) return all;
    append(all.source, conjunction);
    append(all.target, target_conjunction);
    words -= here + 1;
  }
}

}  // namespace gnomon::lab::translation_examples
