#include "apps/lab/tasks/classify_data.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "apps/lab/data/csv.h"
#include "apps/lab/data/draws.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"

namespace gnomon::lab::classify_examples {
namespace {

constexpr std::string_view hunters[] = {"dog", "fox", "owl", "cat"},
                           preys[] = {"hen", "rat", "ant", "bee"},
                           verbs[] = {"saw", "met", "hit", "bit", "fed", "led"},
                           adjectives[] = {"big", "red", "old", "shy", "wet", "sad"},
                           adverbs[] = {"now", "yet", "too"};
constexpr std::int64_t most_labels = 1000, most_bytes = std::int64_t{1} << 30;

std::string one_of(std::span<const std::string_view> words, Draws& draws) {
  return std::string(draws.one_of(words));
}

// A sentence without its animals.
struct Frame {
  std::string begin, middle, end, hunter, prey;

  std::string with(const std::string& subject, const std::string& object) const {
    return begin + subject + middle + object + end;
  }
};

Frame drawn_frame(std::int64_t length, Draws& draws) {
  std::string before, of_subject, of_object, after;
  std::int64_t left = length - shortest_sentence;
  for (; left >= 4; left -= 4) {
    const std::int64_t place = draws.below(4);
    if (place == 0) before += one_of(adverbs, draws) + " ";
    if (place == 1) of_subject += one_of(adjectives, draws) + " ";
    if (place == 2) of_object += one_of(adjectives, draws) + " ";
    if (place == 3) after += " " + one_of(adverbs, draws);
  }
  Frame frame{before + "the " + of_subject, {}, after, {}, {}};
  frame.middle = " " + one_of(verbs, draws) + " the " + of_object;
  frame.hunter = one_of(hunters, draws);
  frame.prey = one_of(preys, draws);
  frame.end += std::string(static_cast<std::size_t>(1 + left), '.');
  return frame;
}

// The column with this name, in upper or lower case, or -1.
std::ptrdiff_t column(const std::vector<std::string>& row, std::string_view name) {
  const auto same = [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
  };
  const auto found = std::find_if(row.begin(), row.end(), [&](const std::string& field) {
    return std::equal(field.begin(), field.end(), name.begin(), name.end(), same);
  });
  return found == row.end() ? -1 : found - row.begin();
}

}  // namespace

LabelledText sentence(std::int64_t length, Part part, std::uint64_t seed,
                      std::uint64_t number) {
  Draws draws{seed, part, length, number / 2};
  for (;;) {
    const Frame frame = drawn_frame(length, draws);
    if (part_of(frame.with(frame.hunter, frame.prey)) != part) continue;
    const bool hunts = number % 2 == 0;
    return {hunts ? frame.with(frame.hunter, frame.prey) : frame.with(frame.prey, frame.hunter),
            hunts ? 0 : 1};
  }
}

LabelledTexts read_labelled_texts(const std::string& path, std::int64_t reached) {
  const io::MappedFile file(path);
  if (std::ssize(file.text()) > most_bytes)
    refuse("lab", "a CSV file must have at most 2^30 bytes", std::ssize(file.text()));
  if (file.text().find('\0') != std::string_view::npos)
    refuse("lab", "a CSV file must be text, without zero bytes (UTF-16 has them)", path);
  const auto rows = parse_csv(file.text(), path);
  if (rows.empty()) refuse("lab", "a CSV file must have rows", path);
  auto text_at = column(rows[0], "text"), label_at = column(rows[0], "label");
  const bool header = text_at >= 0 && label_at >= 0;
  if (!header && (text_at >= 0 || label_at >= 0 || rows[0].size() != 2))
    refuse("lab",
           "the first row of a CSV file must name the columns text and label, unless "
           "it has two columns without names, the text and the label",
           path);
  if (!header) text_at = 0, label_at = 1;
  const auto text_column = static_cast<std::size_t>(text_at),
             label_column = static_cast<std::size_t>(label_at);
  LabelledTexts data;
  data.digest = std::to_string(hash_of(file.text()));
  std::unordered_map<std::string, std::int64_t> known;
  for (std::size_t i = header; i < rows.size(); ++i) {
    const std::string &text = rows[i][text_column], &label = rows[i][label_column];
    if (text.empty() || label.empty())
      refuse("lab", "every row of a CSV file must have a text and a label",
             path + ", row " + std::to_string(i + 1));
    const auto [at, fresh] = known.emplace(label, std::ssize(data.names));
    if (fresh) data.names.push_back(label);
    if (std::ssize(data.names) > most_labels)
      refuse("lab", "the column of the labels must have at most 1000 different ones",
             path + ", row " + std::to_string(i + 1));
    const std::uint64_t tenth = hash_of(text) % 10;
    (tenth == 0   ? data.test
     : tenth == 1 ? data.validation
                  : data.train)
        .push_back({text, at->second});
  }
  if (data.names.size() < 2)
    refuse("lab", "a CSV file must have at least two different labels", path);
  for (const auto* part : {&data.train, &data.validation, &data.test})
    if (part->empty())
      refuse("lab",
             "each part must have a text (by a hash, of ten texts eight train, one validates, "
             "one tests)",
             std::to_string(rows.size()) + " rows");
  const auto longest = std::max_element(
      data.test.begin(), data.test.end(),
      [](const auto& a, const auto& b) { return a.text.size() < b.text.size(); });
  if (std::ssize(longest->text) < reached)
    refuse("lab",
           "a test text must have at least " + std::to_string(reached) +
               " bytes (or use shorter --train-length and --eval-lengths)",
           "the longest has " + std::to_string(longest->text.size()));
  return data;
}

}  // namespace gnomon::lab::classify_examples
