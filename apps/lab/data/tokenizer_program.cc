// gnomon-tokenizer, the program that gnomon-lab runs for --tokens bpe. It is a separate
// program, because Debian's SentencePiece and LibTorch contain different versions of Protocol
// Buffers.
//
//   gnomon-tokenizer train N < TEXT          writes a model of SentencePiece
//   gnomon-tokenizer pieces < MODEL          writes the bytes of each token after their number
//   gnomon-tokenizer encode < SIZE MODEL TEXT    writes the tokens
//
// SIZE is the number of bytes of MODEL. Numbers are uint32 of the machine, SIZE is uint64.
// After an error, the output is the message, and the exit status is 2.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "gnomon/error.h"

namespace {

using gnomon::refuse;

constexpr const char* space = "\u2581";

// The lines of a text, without their line breaks. A line break has the token of its byte.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::string_view text) : text_(text) { Next(); }
  bool done() const override { return done_; }
  void Next() override {
    done_ = begin_ >= text_.size();
    if (done_) return;
    const std::size_t end = std::min(text_.find('\n', begin_), text_.size());
    line_ = text_.substr(begin_, end - begin_);
    begin_ = end + 1;
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::string_view text_;
  std::size_t begin_ = 0;
  std::string line_;
  bool done_ = false;
};

// "<0x0A>" as one byte, or the piece with spaces.
std::string bytes_of(const sentencepiece::SentencePieceProcessor& processor, int token) {
  std::string piece = processor.IdToPiece(token);
  if (processor.IsByte(token))
    return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
  if (processor.IsUnknown(token) || processor.IsControl(token)) return {};
  for (std::size_t at = 0; (at = piece.find(space, at)) != std::string::npos;)
    piece.replace(at, 3, " ");
  return piece;
}

void put(const std::string& bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stdout); }
void put(std::uint32_t number) { std::fwrite(&number, sizeof number, 1, stdout); }

void train(std::string_view text, const std::string& size) {
  Lines lines(text);
  std::string model;
  const std::unordered_map<std::string, std::string> options{
      {"model_type", "bpe"},
      {"vocab_size", size},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9999"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"max_sentence_length", "1000000"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"num_threads", "1"},
      {"minloglevel", "2"}};
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &model);
  if (!status.ok())
    refuse("lab",
           "the training text must have enough words, and not more characters than tokens, for "
           "--tokens bpe:" +
               size,
           status.ToString());
  put(model);
}

void load(sentencepiece::SentencePieceProcessor& processor, std::string_view model) {
  if (const auto status = processor.LoadFromSerializedProto(model); !status.ok())
    refuse("lab", "the tokenizer must be a model of SentencePiece", status.ToString());
}

void pieces(std::string_view model) {
  sentencepiece::SentencePieceProcessor processor;
  load(processor, model);
  int single = 0;
  for (int token = 0; token < processor.GetPieceSize(); ++token)
    single += processor.IsByte(token);
  if (single != 256) refuse("lab", "the tokenizer must have a token for every byte", single);
  for (int token = 0; token < processor.GetPieceSize(); ++token) {
    const std::string bytes = bytes_of(processor, token);
    put(static_cast<std::uint32_t>(bytes.size()));
    put(bytes);
  }
}

// By line: SentencePiece takes more than linear time in the length of its input.
void encode(std::string_view input) {
  std::uint64_t size = 0;
  if (input.size() < sizeof size)
    refuse("lab", "the input must have a size", std::ssize(input));
  std::memcpy(&size, input.data(), sizeof size);
  input.remove_prefix(sizeof size);
  if (size > input.size()) refuse("lab", "the input must have a model", std::ssize(input));
  sentencepiece::SentencePieceProcessor processor;
  load(processor, input.substr(0, size));
  const std::string_view text = input.substr(size);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    std::vector<int> line;
    if (const auto status = processor.Encode(text.substr(begin, end - begin), &line);
        !status.ok())
      refuse("lab", "--tokens must encode the text", status.ToString());
    for (const int token : line) put(static_cast<std::uint32_t>(token));
    begin = end;
  }
}

std::string standard_input() {
  std::string all;
  char block[1 << 16];
  for (std::size_t count; (count = std::fread(block, 1, sizeof block, stdin)) > 0;)
    all.append(block, count);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  try {
    if (command == "train" && argc == 3)
      train(standard_input(), argv[2]);
    else if (command == "pieces" && argc == 2)
      pieces(standard_input());
    else if (command == "encode" && argc == 2)
      encode(standard_input());
    else
      refuse("tokenizer", "the command must be train N, pieces or encode", command);
  } catch (const std::exception& error) {
    std::fputs(error.what(), stdout);
    return 2;
  }
  return 0;
}
