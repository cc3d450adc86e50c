// Entries of --encodings: a name of the list or a scheme, and a suffix that changes its use.
// Task::suffixes lists the suffixes of a task.
//
//   rotary           an encoding of the list
//   rotary*3/none    a scheme (gnomon/model/scheme.h)
//   rotary@random    trained on ascending ids drawn from 0 to the longest tested length, new
//                    ones in every step; tested on 0, 1, 2, ... (Ruoss et al. 2023,
//                    arXiv:2305.16843)
//   learned@resized  tables are resized to the grids of the tests
//   rotary@text      on the text of a task with text and pictures, none on the pictures
//   rotary@image     on the pictures, none on the text
//   rotary@restart   positions restart at each turn of a dialogue
//   rotary@packed    as restart, and only the tokens of the same turn are visible
//   t5@memory        text or a dialogue by segments, with a memory of the tokens before each
//   t5@window        text or a dialogue of which only the last segment is visible
//   rotary@8x256     in a model of 8 layers of width 256 (model_size.h)
//   rotary@drope     trained with its positions until drop_step(), then without (Gelberg et al.
//                    2025, arXiv:2512.12167); encodings without parameters
//   own:NAME         trained by another program (docs/lab/run-format.md), never by this one
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/settings.h"
#include "gnomon/model/encoding.h"

namespace gnomon::lab {

class Transformer;

struct Candidate {
  std::string name;         // as given in --encodings
  std::string scheme;       // the part of the name before the first @
  std::string suffix = {};  // the part of the name after @, without a size, or empty
  std::string title = {}, enters = {}, summary = {}, source = {};  // texts for the report

  bool has_random_positions() const { return suffix == "random"; }
  bool drops_positions() const { return suffix == "drope"; }
};
// Whether an entry is own:NAME, with or without a size.
bool is_own(const std::string& name);
// Throws std::invalid_argument if it is: another program must train it.
void require_trainable(const std::string& name);

// Throws std::invalid_argument with a list of the names if there is no such name or suffix.
Candidate find_candidate(const std::string& name);

// Throws std::invalid_argument if the task does not permit the suffix.
void check_suffix(const Candidate& candidate, const Settings& settings);

// The scheme of an entry, at the usual settings for the model and the training length.
model::Encoding find_usual(const std::string& name, const Settings& settings);

// A model for windows of `tokens`, of the layers and the width of `settings`. With random ids:
// for the longest tested length.
Transformer transformer_for(const Settings& settings, const Candidate& candidate,
                            std::int64_t tokens, std::int64_t seed);

// The name as a part of a file name.
std::string file_name(const std::string& name);

struct ExtensionInfo {
  std::string_view name;   // as in --extend
  std::string_view title;  // "YaRN"
  std::string_view source;
};
// The list: linear, ntk, dynamic-ntk, yarn, drope. drope is not a scaling: it removes the
// positions (Gelberg et al. 2025).
std::span<const ExtensionInfo> extensions();
// Throws std::invalid_argument with a list of the names if there is no such name.
const ExtensionInfo& find_extension(std::string_view name);

// The name of the control, a fine-tune without scaling.
inline constexpr const char* control_extension = "control";

// "YaRN"; "Fine-tuned without scaling" for the control.
std::string extension_title(const std::string& method);

// Whether --extend applies to an entry of --encodings: plain rotary in every layer.
bool extends(const std::string& encoding);

}  // namespace gnomon::lab
