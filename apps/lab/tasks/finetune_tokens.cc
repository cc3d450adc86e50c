#include "apps/lab/data/run_json.h"
#include "apps/lab/tasks/finetune_tokenizer.h"

#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <queue>
#include <sstream>
#include <utility>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/run_json.h"
#include "gnomon/io/file.h"
#include "src/core/json.h"

namespace gnomon::lab::finetune {
namespace {

namespace fs = std::filesystem;

Json parsed(const fs::path& path) {
  const io::MappedFile file(path);
  return internal::parse_json<Json>(file.text(), "finetune", path.string());
}

Vocabulary vocabulary_of(const Json& json, const fs::path& path, std::int64_t size) {
  Vocabulary all;
  if (!json.is_object()) refuse_file(path, "the vocabulary must be an object", "another type");
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= size)
      refuse_file(path, "the ids must be 0 to " + std::to_string(size - 1), id.dump());
    all.emplace(token, id.get<std::int64_t>());
  }
  return all;
}

class Bytes final : public Tokenizer {
 public:
  Bytes() { mask = 0; }
  bool of_bytes() const override { return true; }
  Tokens encode(std::string_view text) const override {
    Tokens tokens;
    tokens.bytes.assign(text.size(), 1);
    for (const char c : text) tokens.ids.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
};

// The characters of GPT-2's byte-level vocabulary: printable bytes stand for themselves, the
// others for 256, 257, ... in their order.
std::array<std::string, 256> byte_characters() {
  std::array<std::string, 256> all;
  UChar32 next = 256;
  for (UChar32 byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
                           (byte >= 0xae && byte <= 0xff);
    icu::UnicodeString(printable ? byte : next++).toUTF8String(nth(all, byte));
  }
  return all;
}

constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

using Merges = std::vector<std::pair<std::string, std::string>>;

// Byte pair encoding of the bytes of each match of a pattern (Radford et al. 2019).
class BytePairs final : public Tokenizer {
 public:
  // `merges`: pairs of tokens, the most frequent first. `whole_words`: a piece that is a token
  // needs no merges.
  BytePairs(Vocabulary vocabulary, const Merges& merges, const std::string& pattern,
            bool whole_words, const fs::path& path)
      : whole_words_(whole_words), path_(path) {
    UErrorCode status = U_ZERO_ERROR;
    UParseError where{};
    pattern_.reset(
        icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(pattern), where, status));
    if (U_FAILURE(status))
      refuse_file(path, "the pattern of the pre-tokenizer must be a regular expression",
                  pattern);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto found = vocabulary.find(characters_[byte]);
      if (found == vocabulary.end())
        refuse_file(path, "the vocabulary must have every byte",
                    "none for byte " + std::to_string(byte));
      of_byte_[byte] = found->second;
    }
    std::int64_t rank = 0;
    for (const auto& [left, right] : merges) {
      const auto a = vocabulary.find(left), b = vocabulary.find(right),
                 both = vocabulary.find(left + right);
      if (a == vocabulary.end() || b == vocabulary.end() || both == vocabulary.end())
        refuse_file(path, "the tokens of a merge must be in the vocabulary",
                    left + " " + right);
      merges_.emplace(key(a->second, b->second), Merge{rank++, both->second});
    }
    vocabulary_ = std::move(vocabulary);
  }

  Tokens encode(std::string_view text) const override {
    Tokens tokens;
    std::unordered_map<std::string, Tokens> known;
    const auto add = [&](std::string_view piece) {
      if (piece.empty()) return;
      auto [found, added] = known.try_emplace(std::string(piece));
      if (added) found->second = merged(piece);
      const Tokens& of_piece = found->second;
      tokens.ids.insert(tokens.ids.end(), of_piece.ids.begin(), of_piece.ids.end());
      tokens.bytes.insert(tokens.bytes.end(), of_piece.bytes.begin(), of_piece.bytes.end());
    };
    // In blocks of whole lines, because ICU counts in 32 bits.
    constexpr std::size_t block = std::size_t{1} << 26;
    while (text.size() > block) {
      const std::size_t line = text.find('\n', block);
      const std::size_t size = std::min(line, text.size() - 1) + 1;
      pieces(text.substr(0, size), add);
      text.remove_prefix(size);
    }
    pieces(text, add);
    return tokens;
  }

 private:
  struct Merge {
    std::int64_t rank, token;
  };
  static std::uint64_t key(std::int64_t a, std::int64_t b) {
    return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b);
  }

  template <typename Add>
  void pieces(std::string_view text, Add&& add) const {
    UErrorCode status = U_ZERO_ERROR;
    UText input = UTEXT_INITIALIZER;
    utext_openUTF8(&input, text.data(), static_cast<std::int64_t>(text.size()), &status);
    const std::unique_ptr<icu::RegexMatcher> matcher(pattern_->matcher(status));
    if (U_SUCCESS(status)) matcher->reset(&input);
    // Limits a match to about 10 s: a pattern of the file can take exponential time.
    if (U_SUCCESS(status)) matcher->setTimeLimit(10000, status);
    std::size_t end = 0;
    while (U_SUCCESS(status) && matcher->find(status)) {
      const auto from = static_cast<std::size_t>(matcher->start64(status)),
                 to = static_cast<std::size_t>(matcher->end64(status));
      add(text.substr(end, from - end));  // text between the matches is a piece
      add(text.substr(from, to - from));
      end = to;
    }
    add(text.substr(end));
    utext_close(&input);
    if (U_FAILURE(status))
      refuse_file(path_, "the pre-tokenizer must match the text", u_errorName(status));
  }

  // The pair of the lowest rank is merged first, the leftmost of equal ones.
  Tokens merged(std::string_view piece) const {
    Tokens tokens;
    if (whole_words_) {
      std::string name;
      for (const char c : piece) name += characters_[static_cast<unsigned char>(c)];
      if (const auto found = vocabulary_.find(name); found != vocabulary_.end())
        return {{found->second}, {static_cast<std::int64_t>(piece.size())}};
    }
    // The symbols as a list, so that a long piece takes O(n log n).
    struct Symbol {
      std::int64_t token, bytes, before, after;
    };
    struct Candidate {
      std::int64_t rank, at, left, right, token;
      bool operator<(const Candidate& other) const {  // the top of the queue is the largest
        return std::pair(rank, at) > std::pair(other.rank, other.at);
      }
    };
    const std::int64_t size = std::ssize(piece);
    std::vector<Symbol> symbols;
    for (std::int64_t i = 0; const char c : piece) {
      symbols.push_back(
          {of_byte_[static_cast<unsigned char>(c)], 1, i - 1, i + 1 < size ? i + 1 : -1});
      ++i;
    }
    const auto symbol = [&](std::int64_t i) -> Symbol& { return nth(symbols, i); };
    std::priority_queue<Candidate> queue;
    const auto offer = [&](std::int64_t at) {
      if (at < 0 || symbol(at).after < 0) return;
      const std::int64_t left = symbol(at).token, right = symbol(symbol(at).after).token;
      if (const auto found = merges_.find(key(left, right)); found != merges_.end())
        queue.push({found->second.rank, at, left, right, found->second.token});
    };
    for (std::int64_t i = 0; i < size; ++i) offer(i);
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& left = symbol(best.at);
      // A symbol without bytes was merged into the one before it.
      if (left.bytes == 0 || left.token != best.left || left.after < 0 ||
          symbol(left.after).token != best.right)
        continue;
      Symbol& right = symbol(left.after);
      left.token = best.token;
      left.bytes += std::exchange(right.bytes, 0);
      left.after = right.after;
      if (left.after >= 0) symbol(left.after).before = best.at;
      offer(left.before);
      offer(best.at);
    }
    for (std::int64_t i = 0; i >= 0; i = symbol(i).after) {
      tokens.ids.push_back(symbol(i).token);
      tokens.bytes.push_back(symbol(i).bytes);
    }
    return tokens;
  }

  const std::array<std::string, 256> characters_ = byte_characters();
  Vocabulary vocabulary_;
  std::array<std::int64_t, 256> of_byte_{};
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::unique_ptr<icu::RegexPattern> pattern_;
  bool whole_words_;
  fs::path path_;
};

std::pair<std::string, std::string> merge_of(const std::string& line, const fs::path& path) {
  const std::size_t space = line.find(' ');
  if (space == std::string::npos || space == 0 || space + 1 == line.size())
    refuse_file(path, "a merge must be two tokens", line.substr(0, 80));
  return {line.substr(0, space), line.substr(space + 1)};
}

Merges read_merges(const fs::path& path) {
  const io::MappedFile file(path);
  std::istringstream lines{std::string(file.text())};
  Merges merges;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || (merges.empty() && line.rfind("#version", 0) == 0)) continue;
    merges.push_back(merge_of(line, path));
  }
  return merges;
}

// `usual` if there is no such key or its value has another type.
template <typename T>
T value_at(const Json& json, const char* key, T usual) {
  if (const auto found = json.find(key); found != json.end()) Reader::read(*found, usual);
  return usual;
}
std::string string_at(const Json& json, const char* key, const std::string& usual = "") {
  return value_at(json, key, usual);
}

// The pattern of a pre-tokenizer: ByteLevel, or Split and then ByteLevel without a pattern.
std::string pattern_of(const Json& pre, const fs::path& path) {
  const std::string type = string_at(pre, "type");
  if (type == "ByteLevel" && !value_at(pre, "add_prefix_space", true) &&
      value_at(pre, "use_regex", true))
    return gpt2_pattern;
  if (type == "Sequence" && pre.contains("pretokenizers") && pre["pretokenizers"].is_array() &&
      pre["pretokenizers"].size() == 2) {
    const Json &split = pre["pretokenizers"][0], &bytes = pre["pretokenizers"][1];
    if (string_at(split, "type") == "Split" && string_at(split, "behavior") == "Isolated" &&
        !value_at(split, "invert", false) && split.contains("pattern") &&
        split["pattern"].is_object() && !string_at(split["pattern"], "Regex").empty() &&
        string_at(bytes, "type") == "ByteLevel" && !value_at(bytes, "use_regex", true) &&
        !value_at(bytes, "add_prefix_space", true))
      return string_at(split["pattern"], "Regex");
  }
  refuse_file(path,
              "the pre-tokenizer must be ByteLevel without a prefix space, "
              "or Split and ByteLevel",
              pre.dump().substr(0, 200));
}

std::unique_ptr<Tokenizer> read_json(const fs::path& path, std::int64_t size) {
  const Json json = parsed(path);
  const Json none = Json::object();
  const auto part = [&](const char* key) -> const Json& {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return json.is_object() && found != json.end() && found->is_object() ? *found : none;
  };
  const Json &model = part("model"), &pre = part("pre_tokenizer"),
             &normalizer = part("normalizer");
  const std::string type = string_at(model, "type", model.contains("merges") ? "BPE" : "none");
  if (!model.contains("vocab")) refuse_file(path, "the model must have a vocabulary", "none");
  Vocabulary vocabulary = vocabulary_of(model["vocab"], path, size);
  if (type == "WordPiece") {
    if (string_at(normalizer, "type") != "BertNormalizer" ||
        string_at(pre, "type") != "BertPreTokenizer")
      refuse_file(path, "WordPiece must have the normalizer and pre-tokenizer of BERT",
                  normalizer.dump().substr(0, 80));
    if (!value_at(normalizer, "clean_text", true) ||
        !value_at(normalizer, "handle_chinese_chars", true))
      refuse_file(path, "clean_text and handle_chinese_chars must be true", "false");
    WordPieceOptions options;
    options.lowercase = value_at(normalizer, "lowercase", true);
    options.strip_accents = value_at(normalizer, "strip_accents", options.lowercase);
    options.prefix = string_at(model, "continuing_subword_prefix", "##");
    options.unknown = string_at(model, "unk_token", "[UNK]");
    return word_pieces(std::move(vocabulary), options, path);
  }
  if (type != "BPE") refuse_file(path, "the model must be BPE or WordPiece", type);
  const auto merges_json = model.find("merges");
  if (merges_json == model.end() || !merges_json->is_array())
    refuse_file(path, "the model must have merges", "none");
  if (!normalizer.empty())
    refuse_file(path, "byte-level BPE must have no normalizer",
                normalizer.dump().substr(0, 80));
  if (value_at(model, "byte_fallback", false) ||
      !string_at(model, "continuing_subword_prefix").empty() ||
      !string_at(model, "end_of_word_suffix").empty())
    refuse_file(path, "BPE must be byte-level, without byte_fallback, prefix and suffix",
                "one of them");
  Merges merges;
  for (const Json& one : *merges_json) {
    if (one.is_string())
      merges.push_back(merge_of(one.get<std::string>(), path));
    else if (one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string())
      merges.emplace_back(one[0].get<std::string>(), one[1].get<std::string>());
    else
      refuse_file(path, "a merge must be two tokens", one.dump().substr(0, 80));
  }
  return std::make_unique<BytePairs>(std::move(vocabulary), merges, pattern_of(pre, path),
                                     value_at(model, "ignore_merges", false), path);
}

std::unique_ptr<Tokenizer> read_words(const fs::path& folder, std::int64_t size) {
  const fs::path path = folder / "vocab.txt", config = folder / "tokenizer_config.json";
  const io::MappedFile file(path);
  std::istringstream lines{std::string(file.text())};
  Vocabulary vocabulary;
  std::int64_t id = 0;
  for (std::string line; std::getline(lines, line); ++id) {
    if (line.ends_with('\r')) line.pop_back();
    vocabulary[line] = id;
  }
  if (id > size)
    refuse_file(path, "must have at most " + std::to_string(size) + " tokens",
                std::to_string(id));
  WordPieceOptions options;
  if (fs::exists(config)) options.lowercase = value_at(parsed(config), "do_lower_case", true);
  options.strip_accents = options.lowercase;
  return word_pieces(std::move(vocabulary), options, path);
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer(const fs::path& folder, std::int64_t vocabulary) {
  constexpr std::int64_t bytes = 256, most_special = 16;
  if (fs::exists(folder / "tokenizer.json"))
    return read_json(folder / "tokenizer.json", vocabulary);
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt")) {
    const fs::path path = folder / "vocab.json";
    Vocabulary tokens = vocabulary_of(parsed(path), path, vocabulary);
    return std::make_unique<BytePairs>(std::move(tokens), read_merges(folder / "merges.txt"),
                                       gpt2_pattern, false, path);
  }
  if (fs::exists(folder / "vocab.txt")) return read_words(folder, vocabulary);
  for (const char* other : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    if (fs::exists(folder / other))
      refuse_file(folder / other,
                  "the tokenizer must be tokenizer.json, vocab.json or vocab.txt", other);
  if (vocabulary < bytes || vocabulary > bytes + most_special)
    refuse_file(folder,
                "must have a tokenizer (tokenizer.json, vocab.json and merges.txt, or "
                "vocab.txt), or a vocabulary of 256 to 272 bytes",
                "vocab_size " + std::to_string(vocabulary));
  return std::make_unique<Bytes>();
}

}  // namespace gnomon::lab::finetune
