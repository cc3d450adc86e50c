// Texts with labels for the task classify: a user's CSV file, or generated sentences.
//
//   now the big dog saw the old hen then..     label hunter
//   now the big hen saw the old dog then..     label prey
//
// A generated sentence has a hunter (dog, fox, owl, cat) and a prey (hen, rat, ant, bee). The
// label says which of them is the subject. A sentence and the sentence with the two animals
// exchanged are equally likely and consist of the same words, so the best guess from the words
// without their order is right in half of the cases. Words of four bytes with their space fill
// a sentence up to its length, and one to four dots end it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/task.h"

namespace gnomon::lab::classify_examples {

constexpr std::int64_t shortest_sentence = 20;  // bytes

struct LabelledText {
  std::string text;
  std::int64_t label = 0;

  bool operator==(const LabelledText&) const = default;
};

// A sentence with `length` bytes, at least shortest_sentence. A pure function of the arguments.
// The numbers 2 i and 2 i + 1 give a sentence and the sentence with the animals exchanged. No
// sentence belongs to two parts.
LabelledText sentence(std::int64_t length, Part part, std::uint64_t seed, std::uint64_t number);
constexpr std::string_view sentence_labels[] = {"hunter", "prey"};

// A user's texts. Texts with the same bytes are in the same part.
struct LabelledTexts : TaskData {
  std::vector<std::string> names;  // label names, in the order of their first row
  std::vector<LabelledText> train, validation, test;
  std::string digest;  // hash of the file
};

// Reads a CSV file. Its first row names the columns "text" and "label", in upper or lower case.
// Without this row there must be two columns, the text and the label. By a hash of the text, of
// ten texts eight train, one validates and one tests. Texts are bytes of any encoding without
// zero bytes. Throws std::invalid_argument for other files, an empty text, label or part, less
// than 2 or more than 1000 labels, or if no test text has `reached` bytes.
LabelledTexts read_labelled_texts(const std::string& path, std::int64_t reached);

}  // namespace gnomon::lab::classify_examples
