// Entries of --encodings: a name of the list or a scheme, and a suffix of the task.
//
//   rotary           an encoding of the list
//   rotary*3/none    a scheme (gnomon/model/scheme.h)
//   rotary@random    with a suffix of TaskInfo::suffixes (random_suffix)
#pragma once

#include <optional>
#include <string>

#include "apps/lab/corpus.h"
#include "apps/lab/options.h"
#include "apps/lab/tasks.h"
#include "gnomon/model/encoding.h"

namespace gnomon::lab {

class Transformer;

enum class Numbering { counted = 1, random };

struct Candidate {
  std::string name;                          // as given in --encodings
  std::string scheme;                        // the part of the name before @
  std::string suffix = {};                   // the part after it; empty if there is none
  Numbering numbering = Numbering::counted;  // random: the suffix is "random"
  std::string title = {}, enters = {}, summary = {}, source = {};  // texts for the report
};
// Throws std::invalid_argument with a list of the names if there is no such name, or with a list
// of the suffixes if no task has the suffix.
Candidate find_candidate(const std::string& name);
// Throws std::invalid_argument with a list of the task's suffixes if it does not have that of the
// candidate.
void check_suffix(const Candidate& candidate, const TaskInfo& task);

// The scheme of an entry, at the usual settings for the model and the training length.
model::Encoding find_usual(const std::string& name, const Settings& settings);

// A model for windows of `tokens`. With random ids: for the longest tested length.
Transformer transformer_for(const Settings& settings, const Candidate& candidate,
                            std::int64_t tokens, std::int64_t seed);

// The reason why an encoding cannot take part with these settings. Empty if it can.
std::optional<std::string> unusable(const std::string& name, const Settings& settings,
                                    const Corpus& corpus);

// The name as a part of a file name.
std::string file_name(const std::string& name);

}  // namespace gnomon::lab
