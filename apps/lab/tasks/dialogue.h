// The task `dialogue`: facts, small talk and questions in turns of a user and an assistant. The
// answer to a question is the value that was told last.
//
//   <user> cat is tom <assistant> ok     a fact: a key and its value
//   <user> nice day <assistant> sure     small talk: one to three words and a reply
//   <user> cat ? <assistant> tom         a question and its answer
//
// A token is a word or one of the two roles. A turn is the user's words and the assistant's
// reply. A length is the number of turns from the fact to the question: 1 if the question is in
// the turn after the fact.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lab/model/task_model.h"
#include "apps/lab/model/transformer.h"

namespace gnomon::lab::dialogue_examples {

// Token ids. The words follow the roles.
constexpr std::int64_t user = 0, assistant = 1;
constexpr std::int64_t values = 16;              // of a key: all equally likely
constexpr std::int64_t most_tokens_of_turn = 6;  // those of a fact
constexpr std::int64_t other_turns = 4;          // before the last fact, at least

// The word of a token; "?" if it has none.
const std::string& word(std::int64_t token);

struct Question {
  std::int64_t answer = 0;    // index of the answer in Dialogue::tokens
  std::int64_t distance = 0;  // turns from the fact to the question
  // The value that the fact replaced, if the key had been told before, else -1.
  std::int64_t outdated = -1;
};
struct Dialogue {
  std::vector<std::int64_t> tokens;  // [T]
  std::vector<std::int32_t> turns;   // the turn of each token, [T]
  std::vector<Question> questions;   // ascending; the last one is the last turn
};

// A dialogue of max(length, train_length) + other_turns turns whose last question has the
// distance `length`. The fact of that question replaces another value, at a random earlier
// turn, and is not asked in between. Each other turn is a fact about another key, small talk,
// or a question about another key, at a distance of at most train_length. Every fact is asked
// at most once, because the answer tells it again. A pure function of the arguments.
Dialogue dialogue(std::int64_t length, std::int64_t train_length, Part part, std::uint64_t seed,
                  std::uint64_t number);

// "user: cat is tom / assistant: ok", a line for each turn, up to the token `end`.
std::string readable(const Dialogue& dialogue, std::int64_t end);

// The tokens of a segment, which are also those of the window, and the tokens of the memory.
constexpr std::int64_t segment_tokens(std::int64_t train_length) { return 3 * train_length; }
constexpr std::int64_t memory_tokens(std::int64_t train_length) { return 12 * train_length; }

// How the tokens of earlier turns are seen: the suffixes of the task.
enum class Context {
  whole = 1,  // all earlier tokens, at positions 0, 1, 2, ...
  random,     // like `whole`; random positions in training
  restart,    // all earlier tokens; positions restart at each turn
  packed,     // the tokens of the same turn only
  memory,     // segments with a memory of earlier tokens
  window,     // the last tokens before the answer only
};

class DialogueModel final : public TaskModel {
 public:
  DialogueModel(const Settings& settings, const Corpus&, const std::string& encoding,
                std::int64_t seed);

  torch::nn::Module& module() override { return *model_; }
  Json specification() const override { return json_of_scheme(model_->scheme()); }
  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override;
  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override;
  void describe(RunResult& result) override;

  // Logits before the answers `asked`, [questions, vocabulary], by dialogue, then by place.
  // asked[b]: indices of answers in dialogues[b].tokens.
  at::Tensor logits(const std::vector<Dialogue>& dialogues,
                    const std::vector<std::vector<std::int64_t>>& asked);

 private:
  at::Tensor of_windows(const std::vector<Dialogue>& dialogues,
                        const std::vector<std::vector<std::int64_t>>& asked);
  // Whether the encoding has a position for every token of dialogues of this length.
  bool applies(std::int64_t length) const;

  Context context_;
  Transformer model_;
  SegmentReader segments_;
  std::vector<std::int64_t> ids_;  // random positions of a training step
};

}  // namespace gnomon::lab::dialogue_examples
