// A task: its data, scores and words. Settings and results point to one of tasks().
//
// Texts are divided into windows. Other tasks consist of examples, which are trained at short
// lengths and tested at longer ones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/run_result.h"

namespace gnomon::lab {

class TaskModel;
struct Candidate;
struct Corpus;

// Defaults of options.
struct TaskDefaults {
  std::int64_t train_length = 0, batch = 0,
               steps = 0;                // steps: a factor on the steps of the preset
  std::vector<std::int64_t> times = {};  // eval lengths, relative to train_length
  std::string encodings = {};
  std::int64_t layers = 4, width = 128, heads = 4;  // model size
  double learning_rate = 2e-3;
};

// What a model predicts: each next token of a text, masked bytes of a text, or examples.
enum class Predicts { next = 1, masked, examples };

struct Example {
  std::string bytes;         // the prompt and the answer
  std::vector<bool> answer;  // whether each byte belongs to the answer
};

// The result of the best guess that knows the length but not the prompt: the share of right
// bytes of the answer, and the share of whole answers that are right. The guess of a byte knows
// its place in the answer and not the bytes before it.
struct Chance {
  double byte = 0, whole = 0;
};

// Tests on examples of another distribution than in training.
struct Shifted {
  Example (*draw)(std::int64_t length, Draws& draws) = nullptr;
  Chance (*chance)(std::int64_t length) = nullptr;
};
// The depth of an answer in its prompt, in `count` equal parts. Test number i is of the depth
// i modulo `count`.
struct Depths {
  std::int64_t count = 0;
  Example (*draw)(std::int64_t length, std::int64_t depth, Draws& draws) = nullptr;
};

// Examples that are texts of a prompt and an answer, for SequenceModel. Every length from
// Task::shortest on has a prompt in each part.
struct Letters {
  // Draws an example of this length, in letters, digits or pairs.
  Example (*draw)(std::int64_t length, Draws& draws) = nullptr;
  // An upper bound of the bytes of an example up to this length; ascending.
  std::int64_t (*bytes)(std::int64_t length) = nullptr;
  Chance (*chance)(std::int64_t length) = nullptr;
  std::uint64_t stream = 0;                  // of random numbers, different for each task
  std::optional<std::int64_t> longest = {};  // the largest length; empty: no limit
  double ceiling = 1;  // of the scores: of a reader that knows how prompts give answers
  // If given: Task::score is the share of right bytes of the answers, and Task::second that of
  // these tests.
  Shifted shifted = {};
  Depths depths = {};  // if given: tests of all depths, which the report compares
};

struct Task {
  std::string_view name;     // as in --task
  std::string_view title;    // "Copy"
  std::string_view summary;  // one line
  std::string_view unit;     // unit of a length: "letters"
  Predicts predicts = Predicts::examples;

  // Scores of a task with examples, from 0 to 1 in a Stretch. Encodings are ranked by `score`,
  // and then by `second`, which is empty if there is none.
  std::string_view score = {};   // "right whole answers"
  std::string_view second = {};  // "right bytes"
  std::string_view what = {};    // definition of the scores: "the share of ..."
  std::string_view chance = {};  // source of the scores by chance: "the best guess that ..."
  bool reports_second = false;   // the second score answers a question of its own
  std::string_view loss = "bits per byte";  // unit of the loss in training
  std::string_view model_name = {};  // "encoder-decoder Transformer"; empty: by `predicts`
  std::string_view trained_on = "examples of 1 to ";  // text before the training length
  std::string_view samples =                          // sentence before the samples
      "The answer of each model to the same unseen example, by greedy decoding.";
  std::string_view suffixes = "random";  // permitted after @ in --encodings: "text,image"

  TaskDefaults (*defaults)() = nullptr;
  Letters letters = {};
  // The number of tokens of an example; null: equal to the length.
  std::int64_t (*tokens)(std::int64_t length) = nullptr;
  // Makes a model other than SequenceModel.
  std::unique_ptr<TaskModel> (*model)(const Settings& settings, const Corpus& corpus,
                                      const std::string& encoding, std::int64_t seed) = nullptr;
  // The texts of an encoding for the report; null: find_candidate.
  Candidate (*describe_entry)(const std::string& name, const Settings& settings) = nullptr;
  Corpus (*load)(const Settings& settings) = nullptr;  // reads settings.texts; null: no TEXT
  void (*check)(const Settings& settings) = nullptr;   // throws std::invalid_argument
  std::int64_t shortest = 1;                           // length of an example
  // The result of length_stretches(); null: as described there.
  std::vector<Stretch> (*stretches)(const Settings& settings) = nullptr;

  bool has_examples() const { return predicts == Predicts::examples; }
  bool is_masked() const { return predicts == Predicts::masked; }
  // The number of tokens in a window or an example at a length. For text, the length itself.
  std::int64_t window_tokens(std::int64_t length) const {
    return tokens ? tokens(length) : letters.bytes ? letters.bytes(length) - 1 : length;
  }
};

std::span<const Task* const> tasks();
// Throws std::invalid_argument with a list of the names if there is no such name.
const Task& find_task(std::string_view name);

// "copy          letters, then the same letters", a line for each task.
std::string task_list();

// The unit of a length: "bytes", "tokens" with --tokens bpe or --finetune, or Task::unit.
std::string_view length_unit(const Settings& settings);
// The unit of a position in a window: length_unit for text, "tokens" for examples.
std::string_view position_unit(const Settings& settings);
// The noun for an entry of settings.encodings: "encoding", or "model" with --finetune.
std::string_view entry_noun(const Settings& settings);

// Throws std::invalid_argument unless inputs and targets are rows of tokens, which other
// programs can train on: the tasks of SequenceModel. `use` requires it, as in "own:NAME".
void check_portable(const Settings& settings, std::string_view use);

// A target without a loss.
constexpr std::int64_t uncounted = -1;
// Replaces a byte that the model predicts. No text contains it, because a text with a zero byte
// is rejected as binary data.
constexpr std::int64_t mask_byte = 0;
constexpr double masked_share = 0.15;

// The number of tokens in a window of training. --finetune with --extend: the longest length.
std::int64_t training_window(const Settings& settings);

// The parts have no prompt in common.
enum class Part { train = 1, validation, test };
// By the hash of a prompt: of sixteen values, one tests, one validates, and the others train.
Part part_of(std::string_view prompt);

// The distribution of a test.
struct Drawn {
  bool shifted = false;  // by Letters::shifted
  std::optional<std::int64_t> depth = {};
};
// An example of a task with letters. A pure function of the arguments. The bytes that are not
// the answer, up to > if there is one, decide its part.
Example example(const Task& task, std::int64_t length, Part part, std::uint64_t seed,
                std::uint64_t number, const Drawn& drawn = {});

// The stretches in which a task with examples is tested: `from`, `to` and `up_to`. Those of
// Task::stretches, or, if it is null, each has a quarter of the training length, none
// contains lengths on both sides of an eval length, and the first begins at Task::shortest.
std::vector<Stretch> length_stretches(const Settings& settings);

}  // namespace gnomon::lab
