#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "apps/lab/data/lists.h"
#include "apps/lab/tasks/translation.h"
#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::lab::translation_examples {
namespace data {

// Sentences of the synthetic language. There are 192 of two words.
constexpr std::int64_t train_per_length = 2500, tests_per_length = 512;

std::string normalized(std::string_view text) {
  std::string all;
  for (const std::string& word : words_of(text)) all += (all.empty() ? "" : " ") + word;
  return all;
}

std::vector<SentencePair> synthetic(const Settings& settings) {
  std::vector<SentencePair> all;
  for (std::int64_t words = least_words; words <= settings.longest(); ++words) {
    std::set<std::string> sources;
    Draws draws{0x7472616e73, words};
    const bool trains = words <= settings.train_length;
    for (std::int64_t i = 0; i < (trains ? train_per_length : tests_per_length); ++i) {
      SentencePair one = synthetic_pair(words, draws);
      if (sources.insert(one.source).second) all.push_back(std::move(one));
    }
  }
  return all;
}

std::vector<std::string> lines_of(const Text& text) {
  const bool marked = text.bytes.starts_with("\xef\xbb\xbf");  // byte order mark
  std::istringstream rest(text.bytes.substr(marked ? 3 : 0));
  std::vector<std::string> lines;
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

std::vector<SentencePair> aligned(const std::vector<Text>& texts) {
  for (const Text& text : texts)
    if (const std::size_t at = internal::ill_formed_utf8(text.bytes); at != std::string::npos)
      refuse("lab", "a text of --task translation must be UTF-8",
             fmt::format("{}: other bytes in line {}", text.name,
                         1 + std::ranges::count(text.bytes.substr(0, at), '\n')));
  const auto sources = lines_of(texts[0]), targets = lines_of(texts[1]);
  if (sources.size() != targets.size())
    refuse("lab", "SOURCE and TARGET must have the same number of lines",
           std::to_string(sources.size()) + " and " + std::to_string(targets.size()));
  std::vector<SentencePair> all;
  for (std::size_t i = 0; i < sources.size(); ++i)
    all.push_back({normalized(sources[i]), normalized(targets[i])});
  return all;
}

std::size_t count(const Data::ByLength& lengths, std::int64_t from, std::int64_t to) {
  std::size_t all = 0;
  for (std::int64_t i = from; i <= std::min(to, std::ssize(lengths) - 1); ++i)
    all += nth(lengths, i).size();
  return all;
}

// The examples of the length nearest to `length`, from `least` to `most`, that has examples.
const std::vector<EncodedPair>& nearest(const Data::ByLength& lengths, std::int64_t length,
                                        std::int64_t least, std::int64_t most) {
  for (std::int64_t away = 0;; ++away)
    for (const std::int64_t at : {length - away, length + away})
      if (at >= least && at <= most && !nth(lengths, at).empty()) return nth(lengths, at);
}

}  // namespace data

Data split(const std::vector<SentencePair>& pairs, const Settings& settings) {
  const std::int64_t trained = settings.train_length, longest = settings.longest();
  Data all;
  all.train = all.validation = all.test = Data::ByLength(static_cast<std::size_t>(longest) + 1);
  std::vector<std::string_view> sources, targets;
  for (const SentencePair& pair : pairs) {
    // A sentence has at least as many tokens as words.
    if (part_of(pair.source) != Part::train ||
        std::count(pair.source.begin(), pair.source.end(), ' ') >= trained)
      continue;
    sources.push_back(pair.source);
    targets.push_back(pair.target);
  }
  all.source = Vocabulary(sources);
  all.target = Vocabulary(targets);
  for (const SentencePair& pair : pairs) {
    EncodedPair one{pair, all.source.ids(pair.source), all.target.ids(pair.target)};
    const std::int64_t length = std::ssize(one.source);
    if (length == 0 || one.target.empty() || length > longest ||
        std::ssize(one.target) > most_target(length)) {
      ++all.dropped;
      continue;
    }
    nth(all.part(length > trained ? Part::test : part_of(pair.source)), length)
        .push_back(std::move(one));
  }
  const auto none = [&](const std::string& rule) {
    refuse("lab", "the texts must " + rule,
           fmt::format("{} lines, of which none", pairs.size()));
  };
  for (const auto& [part, name] :
       {std::pair{&all.train, "train"}, std::pair{&all.validation, "validation"}})
    if (data::count(*part, 1, trained) == 0)
      none(fmt::format("have sentences of at most {} tokens in the part {}", trained, name));
  std::int64_t from = 1;
  for (const std::int64_t to : settings.eval_lengths) {
    if (data::count(all.test, from, to) == 0)
      none(fmt::format(
          "have test sentences of {} to {} tokens (see --train-length and --eval-lengths)",
          from, to));
    from = to + 1;
  }
  return all;
}

Corpus load(const Settings& settings) {
  Corpus corpus;
  std::vector<SentencePair> pairs;
  if (settings.texts.empty()) {
    pairs = data::synthetic(settings);
    corpus.source = "a synthetic language pair";
    corpus.digest = "synthetic";
  } else {
    const std::vector<Text> texts = read_texts(settings.texts, 1);
    pairs = data::aligned(texts);
    corpus.source = settings.texts[0] + " and " + settings.texts[1];
    corpus.digest = texts[0].bytes + '\0' + texts[1].bytes;
  }
  auto found = std::make_shared<Data>(split(pairs, settings));
  corpus.split = fmt::format(
      "by a hash of the source sentence: of sixteen sentences of at most {} tokens, fourteen "
      "train, one validates and one tests; longer sentences test",
      settings.train_length);
  if (found->dropped > 0)
    corpus.split += fmt::format(
        "; without {} pairs that are empty on a side, too long, or too unequal in length",
        found->dropped);
  corpus.data = std::move(found);
  return corpus;
}

std::vector<const EncodedPair*> batch_of(const Data& data, Part part, std::int64_t batch,
                                         std::uint64_t seed, std::uint64_t step) {
  const Data::ByLength& lengths = part == Part::train ? data.train : data.validation;
  Draws draws{seed, part, step};
  auto at = static_cast<std::size_t>(
      draws.below(static_cast<std::int64_t>(data::count(lengths, 0, std::ssize(lengths)))));
  std::size_t length = 0;
  while (at >= lengths[length].size()) at -= lengths[length++].size();
  std::vector<const EncodedPair*> all;
  for (std::int64_t row = 0; row < batch; ++row) all.push_back(&draws.one_of(lengths[length]));
  return all;
}

std::vector<const EncodedPair*> tests_of(const Data& data, const Settings& settings,
                                         const Stretch& stretch) {
  const std::int64_t count = 2 * settings.eval_segments;
  const std::int64_t widths = stretch.to - stretch.from + 1;
  std::int64_t from = stretch.from, to = stretch.to;
  if (data::count(data.test, from, to) == 0) {
    std::int64_t least = 1;
    for (const std::int64_t length : settings.eval_lengths)
      if (length < stretch.up_to) least = length + 1;
    from = to = std::ssize(data::nearest(data.test, from, least, stretch.up_to).front().source);
  }
  std::vector<const EncodedPair*> all;
  for (std::int64_t length = from; length <= to; ++length) {
    const auto& here = nth(data.test, length);
    const std::int64_t most = from == to ? count : (count + widths - 1) / widths;
    for (std::int64_t i = 0; i < std::min(most, std::ssize(here)); ++i)
      all.push_back(&nth(here, i));
  }
  return all;
}

ByChance chance_of(const Data& data, const std::vector<const EncodedPair*>& examples) {
  constexpr int draws_each = 8;
  Draws draws{0x6368616e6365};
  ByChance sum;
  for (const EncodedPair* one : examples)
    for (int i = 0; i < draws_each; ++i) {
      const EncodedPair& other = draws.one_of(
          data::nearest(data.train, std::ssize(one->source), 1, std::ssize(data.train) - 1));
      sum.chrf += chrf(other.pair.target, one->pair.target);
      sum.whole += other.pair.target == one->pair.target ? 1 : 0;
    }
  const double count = draws_each * static_cast<double>(examples.size());
  return {sum.chrf / count, sum.whole / count};
}

}  // namespace gnomon::lab::translation_examples
