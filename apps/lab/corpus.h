// The texts: reading, checks, and the split into training, validation and test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/lab/options.h"

namespace gnomon::lab {

struct Text {
  std::string name;  // file name without its folder
  std::string bytes;
};

// Data of a task that is not a text. Each task with a loader has its own type.
struct TaskData {
  virtual ~TaskData() = default;
};

struct Corpus {
  std::vector<Text> train, validation, test;
  std::string split;   // the split, as text for the report
  std::string source;  // the source, as text for the report
  std::shared_ptr<const TaskData> data = {};
  std::string digest = {};  // of `data`, for the check of --resume

  static std::int64_t bytes(const std::vector<Text>& texts);
};

// Reads settings.texts, or the shipped novels. Empty for a task with letters; with `data` for
// other tasks. Throws
// std::invalid_argument with one line for every file that is empty, binary, too small or
// unreadable, or if the held-out parts are shorter than the longest window.
Corpus load_corpus(const Settings& settings);

// A hash of the names and bytes of all texts: two processes have the same texts.
std::string fingerprint(const Corpus& corpus);

// Reads text files of at least `least` bytes. Throws like load_corpus.
std::vector<Text> read_texts(const std::vector<std::string>& paths, std::int64_t least);

// Bytes of text for one test segment: its targets, the context of the first target, and one
// byte before the context.
std::int64_t segment_bytes(const Settings& settings);

}  // namespace gnomon::lab
