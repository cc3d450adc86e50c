#include "apps/lab/data/corpus.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/stream.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;

struct Novel {
  const char* file;
  const char* title;
};
constexpr Novel novels[] = {{"emma.txt", "Emma"},
                            {"mansfield_park.txt", "Mansfield Park"},
                            {"pride_and_prejudice.txt", "Pride and Prejudice"},
                            {"sense_and_sensibility.txt", "Sense and Sensibility"},
                            {"persuasion.txt", "Persuasion"},
                            {"northanger_abbey.txt", "Northanger Abbey"}};

// The folder of the shipped texts: beside an installed program, or in the source tree.
fs::path novels_folder() {
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  // PREFIX/libexec/gnomon/gnomon-lab
  const fs::path installed =
      self.parent_path().parent_path().parent_path() / "share/gnomon/austen";
  return fs::is_directory(installed, ignored) ? installed : fs::path(GNOMON_NOVELS);
}

[[noreturn]] void refuse_text(const std::string& rule, const fs::path& path,
                              const std::string& got) {
  refuse("lab", "a text must " + rule, path.string() + ": " + got);
}

// Returns the bytes of the file. Throws with the reason.
std::string read(const fs::path& path) {
  std::error_code error;
  // A settings.json of another user may name a pipe, which blocks, or a device without an end.
  if (const fs::file_status status = fs::status(path, error); fs::is_directory(status))
    refuse_text("be a file", path, "a folder");
  else if (fs::exists(status) && !fs::is_regular_file(status))
    refuse_text("be a file", path, "a pipe or device");
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::string bytes = rest_of(stream);
  if (!stream.is_open() || stream.bad()) refuse_text("be readable", path, std::strerror(errno));
  return bytes;
}

// Throws if the bytes cannot be used as training text.
void check_text(const std::string& path, const std::string& bytes, std::int64_t least) {
  if (bytes.empty()) refuse_text("not be empty", path, "0 bytes");
  if (const std::size_t zero = bytes.find('\0'); zero != std::string::npos)
    refuse_text("not be binary", path, fmt::format("a zero byte at {}", zero));
  const auto control = std::count_if(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 32 && byte != '\n' && byte != '\r' && byte != '\t' && byte != '\f') ||
           byte == 127;
  });
  if (control * 20 > std::ssize(bytes))
    refuse_text("not be binary", path,
                fmt::format("{} control characters in {} bytes", control, bytes.size()));
  if (std::ssize(bytes) < least)
    refuse_text(
        fmt::format("have at least {} bytes, one training window and the byte after it", least),
        path, fmt::format("{} bytes", bytes.size()));
}

Corpus split_by_file(std::vector<Text> texts) {
  Corpus corpus;
  corpus.test = {std::move(texts.back())};
  texts.pop_back();
  corpus.validation = {std::move(texts.back())};
  texts.pop_back();
  corpus.train = std::move(texts);
  corpus.split = fmt::format(
      "by file: the last ({}) tests, the one before it ({}) validates, the others train",
      corpus.test[0].name, corpus.validation[0].name);
  return corpus;
}

Corpus bundled_corpus() {
  const fs::path folder = novels_folder();
  Corpus corpus = split_by_file(mapped(novels, [&](const Novel& novel) {
    return Text{novel.title, read(folder / novel.file)};
  }));
  corpus.source = "the six novels of Jane Austen";
  corpus.split = fmt::format("by book: {} train; {} validates; {} tests",
                             fmt::join(mapped(corpus.train, &Text::name), ", "),
                             corpus.validation[0].name, corpus.test[0].name);
  return corpus;
}

// The first 80 % of each file train, the next 10 % validate, the last 10 % test. The held-out
// parts of small files stay separate texts, so no window crosses two files.
Corpus split_by_position(const std::vector<Text>& texts) {
  Corpus corpus;
  for (const Text& text : texts) {
    const std::size_t tenth = text.bytes.size() / 10, rest = text.bytes.size() - 2 * tenth;
    corpus.train.push_back({text.name, text.bytes.substr(0, rest)});
    corpus.validation.push_back({text.name, text.bytes.substr(rest, tenth)});
    corpus.test.push_back({text.name, text.bytes.substr(rest + tenth)});
  }
  corpus.split =
      "by position: of each file the first 80 % train, the next 10 % validate, "
      "the last 10 % test";
  return corpus;
}

bool holds(const std::vector<Text>& texts, std::int64_t tokens) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const Text& text) { return text.size() >= tokens; });
}

// Encodes all texts. Without a tokenizer, trains one on the training texts.
void add_tokens(Corpus& corpus, std::int64_t size, std::shared_ptr<const Tokenizer> tokenizer) {
  corpus.tokenizer = tokenizer ? std::move(tokenizer)
                               : Tokenizer::train(mapped(corpus.train, &Text::bytes), size);
  if (corpus.tokenizer->size() != size)
    refuse("lab", fmt::format("the tokenizer must have {} tokens", size),
           corpus.tokenizer->size());
  for (auto* part : {&corpus.train, &corpus.validation, &corpus.test})
    encode(*part, *corpus.tokenizer);
  const auto counts = [&](const std::vector<Text>& some) {
    std::vector<double> all(static_cast<std::size_t>(corpus.tokenizer->size()));
    for (const Text& text : some)
      for (const std::int32_t token : text.tokens) all[static_cast<std::size_t>(token)] += 1;
    return all;
  };
  corpus.tokens = token_statistics(counts(corpus.train), counts(corpus.test),
                                   static_cast<double>(Corpus::bytes(corpus.test)));
}

void check_parts(const Corpus& corpus, const Settings& settings) {
  const std::int64_t least = settings.train_length + 1, segment = segment_tokens(settings);
  if (holds(corpus.test, segment) && holds(corpus.validation, least) &&
      holds(corpus.train, least))
    return;
  const std::string unit = corpus.tokenizer ? "tokens" : "bytes";
  std::int64_t total = 0;
  for (const auto* part : {&corpus.train, &corpus.validation, &corpus.test})
    for (const Text& text : *part) total += text.size();
  refuse("lab",
         fmt::format("the test part, a tenth of the texts, must have a window of {0} {1} and "
                     "half a window before it, about {2} {1} of text (or use shorter "
                     "--eval-lengths)",
                     settings.longest(), unit, 10 * segment),
         fmt::format("{} {} in total", total, unit));
}

}  // namespace

std::vector<Text> read_texts(const std::vector<std::string>& paths, std::int64_t least) {
  std::vector<Text> texts;
  std::string complaints;
  for (const std::string& path : paths) try {
      std::string bytes = read(path);
      check_text(path, bytes, least);
      texts.push_back({fs::path(path).filename().string(), std::move(bytes)});
    } catch (const std::invalid_argument& error) {
      complaints += (complaints.empty() ? "" : "\n") + std::string(error.what());
    }
  if (!complaints.empty()) throw std::invalid_argument(complaints);
  return texts;
}

std::int64_t Corpus::bytes(const std::vector<Text>& texts) {
  std::int64_t sum = 0;
  for (const Text& text : texts) sum += std::ssize(text.bytes);
  return sum;
}

std::string Corpus::text_of(const Text& text, std::int64_t begin, std::int64_t count) const {
  std::string all;
  for (std::int64_t i = begin; i < begin + count; ++i)
    all += tokenizer ? tokenizer->bytes(text.token(i))
                     : std::string(1, static_cast<char>(text.token(i)));
  return all;
}

// A token that does not occur in training has a small probability.
TokenStatistics token_statistics(const std::vector<double>& train,
                                 const std::vector<double>& test, double test_bytes) {
  double total = 0, tested = 0, bits = 0;
  for (const double count : train) total += count + 1;
  for (std::size_t i = 0; i < test.size(); ++i) {
    tested += test[i];
    bits -= test[i] * std::log2((train[i] + 1) / total);
  }
  const double bytes = std::max(1.0, test_bytes);
  return {.bytes_per_token = bytes / std::max(1.0, tested), .frequency_bits = bits / bytes};
}

void encode(std::vector<Text>& texts, const Tokenizer& tokenizer) {
  for (Text& text : texts) text.tokens = tokenizer.encode(text.bytes);
}

std::int64_t segment_tokens(const Settings& settings) {
  return settings.longest() + settings.longest() / 2 + 1;
}

Corpus load_texts(const Settings& settings, std::shared_ptr<const Tokenizer> tokenizer) {
  Corpus corpus;
  if (settings.texts.empty()) {
    corpus = bundled_corpus();
  } else {
    const std::int64_t least = settings.train_length + 1;
    std::vector<Text> texts = read_texts(settings.texts, least);
    const std::size_t count = texts.size();
    const bool by_file = count >= 3 && holds({texts[count - 1]}, segment_tokens(settings)) &&
                         holds({texts[count - 2]}, least);
    corpus = by_file ? split_by_file(std::move(texts)) : split_by_position(texts);
    corpus.source = count == 1 ? settings.texts[0] : std::to_string(count) + " files";
  }
  if (!settings.finetune.empty()) return corpus;
  if (const auto size = parse_tokens(settings.tokens))
    add_tokens(corpus, *size, std::move(tokenizer));
  check_parts(corpus, settings);
  return corpus;
}

std::string fingerprint(const Corpus& corpus) {
  std::uint64_t hash = fnv1a("");
  const auto add = [&](std::string_view bytes) { hash = fnv1a(bytes, hash); };
  for (const auto* part : {&corpus.train, &corpus.validation, &corpus.test})
    for (const Text& text : *part) {
      add(text.name);
      add(std::string_view("", 1));
      add(text.bytes);
    }
  // Another version of SentencePiece may find other tokens.
  for (std::int64_t i = 0; corpus.tokenizer && i < corpus.tokenizer->size(); ++i) {
    add(corpus.tokenizer->bytes(i));
    add(std::string_view("", 1));
  }
  add(corpus.digest);
  return fmt::format("{:016x}", hash);
}

}  // namespace gnomon::lab
