#include <algorithm>
#include <cctype>
#include <map>

#include "apps/lab/tasks/translation.h"

namespace gnomon::lab::translation_examples {
namespace text {

constexpr std::string_view joins = "@@";  // no word contains @, which is not a letter
constexpr const char* unknown_character = "\xef\xbf\xbd";  // U+FFFD

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }
bool in_word(char c) { return !is_ascii(c) || std::isalnum(static_cast<unsigned char>(c)); }

// The characters of UTF-8 text: each byte that does not continue a character begins one.
std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) >> 6) == 2) ++end;
    all.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return all;
}

std::vector<std::string> spelling(std::string_view word) {
  std::vector<std::string> all;
  for (const std::string_view one : characters(word))
    all.push_back(std::string(one) + std::string(joins));
  all.back().resize(all.back().size() - joins.size());
  return all;
}

using Counts = std::unordered_map<std::string, std::int64_t>;

// The most frequent of the counts, at least `least`, at most `most` of them.
std::vector<std::string> frequent(const Counts& counts, std::int64_t least, std::size_t most) {
  std::vector<std::pair<std::int64_t, std::string>> sorted;
  for (const auto& [text, count] : counts)
    if (count >= least) sorted.emplace_back(-count, text);
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() > most) sorted.resize(most);
  std::vector<std::string> all;
  for (const auto& [count, text] : sorted) all.push_back(text);
  return all;
}

std::map<std::u32string, std::int64_t> grams(const std::u32string& characters, std::size_t n) {
  std::map<std::u32string, std::int64_t> all;
  for (std::size_t i = 0; i + n <= characters.size(); ++i) ++all[characters.substr(i, n)];
  return all;
}

// The code points without white space. Any injective function of the characters serves.
std::u32string letters_of(std::string_view text) {
  std::u32string all;
  for (const std::string_view one : characters(text)) {
    if (one.size() == 1 && is_space(one[0])) continue;
    char32_t code = 0;
    for (const char c : one) code = code << 8 | static_cast<unsigned char>(c);
    all += code;
  }
  return all;
}

}  // namespace text

std::vector<std::string> words_of(std::string_view sentence) {
  std::vector<std::string> all;
  bool inside = false;
  for (const char c : sentence) {
    if (text::is_space(c)) {
      inside = false;
    } else if (text::in_word(c)) {
      if (!inside) all.emplace_back();
      inside = true;
      all.back() += c;
    } else {
      all.emplace_back(1, c);
      inside = false;
    }
  }
  return all;
}

double chrf(std::string_view hypothesis, std::string_view reference) {
  constexpr std::size_t most_characters = 6;
  constexpr double beta_squared = 4;
  const std::u32string guess = text::letters_of(hypothesis),
                       right = text::letters_of(reference);
  double precision = 0, recall = 0, orders = 0;
  for (std::size_t n = 1; n <= std::min({most_characters, guess.size(), right.size()}); ++n) {
    const auto of_guess = text::grams(guess, n), of_right = text::grams(right, n);
    double common = 0;
    for (const auto& [gram, count] : of_guess)
      if (const auto found = of_right.find(gram); found != of_right.end())
        common += static_cast<double>(std::min(count, found->second));
    precision += common / static_cast<double>(guess.size() + 1 - n);
    recall += common / static_cast<double>(right.size() + 1 - n);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders, recall /= orders;
  return (1 + beta_squared) * precision * recall / (beta_squared * precision + recall);
}

Vocabulary::Vocabulary(const std::vector<std::string_view>& sentences) {
  add("</s>");  // not a possible word
  add(text::unknown_character);
  text::Counts words, pieces;
  for (const std::string_view sentence : sentences)
    for (const std::string& word : words_of(sentence)) ++words[word];
  for (const std::string& word : text::frequent(words, least_count, most_words)) add(word);
  for (const auto& [word, count] : words)
    if (!ids_.contains(word))
      for (const std::string& piece : text::spelling(word)) pieces[piece] += count;
  for (const std::string& piece : text::frequent(pieces, 1, most_characters)) add(piece);
}

void Vocabulary::add(const std::string& token) {
  if (ids_.emplace(token, size()).second) tokens_.push_back(token);
}

Ids Vocabulary::ids(std::string_view sentence) const {
  Ids all;
  for (const std::string& word : words_of(sentence)) {
    if (const auto found = ids_.find(word); found != ids_.end()) {
      all.push_back(found->second);
      continue;
    }
    for (const std::string& piece : text::spelling(word)) {
      const auto found = ids_.find(piece);
      all.push_back(found == ids_.end() ? unknown : found->second);
    }
  }
  return all;
}

std::string Vocabulary::text(const Ids& ids) const {
  std::string all;
  bool joined = true;
  for (const std::int64_t id : ids) {
    if (id == end) break;
    std::string token = tokens_.at(static_cast<std::size_t>(id));
    if (!joined) all += ' ';
    joined = token.size() > text::joins.size() && token.ends_with(text::joins);
    if (joined) token.resize(token.size() - text::joins.size());
    all += token;
  }
  return all;
}

}  // namespace gnomon::lab::translation_examples
