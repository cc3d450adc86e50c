#include "gnomon/model/gguf_vocabulary.h"

#include <algorithm>
#include <map>
#include <optional>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/core/text.h"
#include "src/io/json.h"

namespace gnomon::model {
namespace {

using gnomon::internal::Json;
using gnomon::internal::JsonDocument;
using gnomon::internal::JsonType;
using gnomon::internal::to_size;

// llama_token_type of llama.h.
constexpr std::int32_t normal = 1, control = 3, user_defined = 4, unused = 5;

// Pre-tokenizers of llama.cpp, src/llama-vocab.cpp, as the steps of tokenizer.json: "bytes" is
// ByteLevel, "words" is ByteLevel with its regular expression, "digits" is Digits, one by one.
// Other steps are the expression of an isolating Split.
constexpr std::string_view llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
struct PreTokenizer {
  std::string_view name;
  std::vector<std::string_view> steps;
  bool ignores_merges = false;  // a word that is a token is not split
};
const std::vector<PreTokenizer>& pre_tokenizers() {
  static const std::vector<PreTokenizer> all = {
      {"gpt-2", {"words"}},
      {"smollm", {"digits", "words"}},
      {"llama-bpe", {llama3, "bytes"}, true},
      {"smaug-bpe", {llama3, "bytes"}},
      {"qwen2", {qwen, "bytes"}},
  };
  return all;
}

// The reason why a vocabulary is not read.
struct Unknown {
  std::string reason;
};

std::string text_of(const Json& object, std::string_view key) {
  const auto value = object.find(key);
  return value && value->is(JsonType::string) ? value->string(key) : std::string();
}
bool is_true(const Json& object, std::string_view key) {
  const auto value = object.find(key);
  return value && value->is(JsonType::boolean) && value->boolean(key);
}
bool is_set(const Json& object, std::string_view key) {
  const auto value = object.find(key);
  return value && !value->is_null() &&
         !(value->is(JsonType::string) && value->string(key).empty());
}
// Calls use(part) for the parts of a Sequence, or for the object itself.
template <typename Use>
void for_each_part(const Json& object, std::string_view key, Use&& use) {
  const auto parts = object.find(key);
  if (text_of(object, "type") == "Sequence" && parts)
    parts->for_each_element(use);
  else
    use(object);
}

std::string step_of(const Json& part) {
  const std::string type = text_of(part, "type");
  if (type == "ByteLevel" && !is_true(part, "add_prefix_space")) {
    const auto regex = part.find("use_regex");
    return !regex || is_true(part, "use_regex") ? "words" : "bytes";
  }
  if (type == "Digits" && is_true(part, "individual_digits")) return "digits";
  const auto pattern = part.find("pattern");
  if (type == "Split" && pattern && text_of(part, "behavior") == "Isolated" &&
      !is_true(part, "invert"))
    return text_of(*pattern, "Regex");
  return {};
}

class Vocabulary {
 public:
  Vocabulary(const Json& root, std::int64_t tokens, GgufVocabulary& out)
      : root_(root), out_(out), texts_(to_size(tokens)), types_(to_size(tokens), unused) {}

  void read(const TokenizerFiles& files, const std::string& folder) {
    const std::string_view pre = pre_tokenizer();
    read_tokens();
    put("model", std::string("gpt2"));
    put("pre", std::string(pre));
    put("tokens", texts_);
    put("token_type", types_);
    put("merges", merges_);
    read_post_processor();
    if (!files.tokenizer_config.empty()) {
      const JsonDocument document(files.tokenizer_config, folder + "tokenizer_config.json");
      read_config(document.root());
    }
    if (bos_) put("bos_token_id", static_cast<std::uint32_t>(*bos_));
    if (eos_) put("eos_token_id", static_cast<std::uint32_t>(*eos_));
    put("add_bos_token", adds_bos_);
    put("add_eos_token", adds_eos_);
    if (!files.chat_template.empty()) template_ = files.chat_template;
    if (!template_.empty()) out_.metadata.emplace_back("tokenizer.chat_template", template_);
  }

 private:
  void put(const char* key, GgufValue value) {
    out_.metadata.emplace_back(std::string("tokenizer.ggml.") + key, std::move(value));
  }

  Json model() const {
    const auto model = root_.find("model");
    if (!model) throw Unknown{"tokenizer.json has no model"};
    return *model;
  }

  std::string_view pre_tokenizer() {
    const Json model = this->model();
    if (text_of(model, "type") != "BPE")
      throw Unknown{"the model of tokenizer.json must be BPE, got " +
                    gnomon::internal::shown(text_of(model, "type"))};
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"})
      if (is_set(model, key)) throw Unknown{std::string(key) + " has no key in the format"};
    if (is_true(model, "byte_fallback")) throw Unknown{"byte_fallback: not a byte-level BPE"};
    if (const auto normalizer = root_.find("normalizer");
        normalizer && !normalizer->is_null()) {
      const std::string type = text_of(*normalizer, "type");
      if (type != "NFC")
        throw Unknown{"the normalizer " + gnomon::internal::shown(type) +
                      " is not one of llama.cpp"};
      out_.notes.emplace_back("llama.cpp does not normalise text to NFC before it splits it");
    }
    std::vector<std::string> steps;
    if (const auto pre = root_.find("pre_tokenizer"))
      for_each_part(*pre, "pretokenizers",
                    [&](const Json& part) { steps.push_back(step_of(part)); });
    for (const PreTokenizer& one : pre_tokenizers())
      if (std::equal(steps.begin(), steps.end(), one.steps.begin(), one.steps.end()) &&
          one.ignores_merges == is_true(model, "ignore_merges"))
        return one.name;
    throw Unknown{"the pre-tokenizer is not one that is known to be llama.cpp's"};
  }

  void add_token(const Json& value, std::int64_t id, std::string text, std::int32_t type) {
    if (id < 0 || id >= static_cast<std::int64_t>(texts_.size()))
      value.fail("ids of tokens must be 0 to " + std::to_string(texts_.size() - 1) + ", got " +
                 std::to_string(id));
    if (text.empty()) value.fail("tokens must not be empty");
    // Added tokens may repeat a token of the model.
    if (types_[to_size(id)] != unused && texts_[to_size(id)] != text)
      value.fail("ids of tokens must be unique, got " + std::to_string(id));
    texts_[to_size(id)] = std::move(text);
    types_[to_size(id)] = type;
  }

  void read_tokens() {
    const Json model = this->model();
    const auto vocabulary = model.find("vocab");
    if (!vocabulary) throw Unknown{"tokenizer.json has no vocabulary"};
    vocabulary->for_each_member([&](const std::string& text, Json id) {
      add_token(id, id.integer("vocab"), text, normal);
    });
    if (const auto added = root_.find("added_tokens"))
      added->for_each_element([&](Json token) {
        const auto id = token.find("id");
        if (!id) token.fail("an added token must have an id");
        for (const char* key : {"lstrip", "rstrip", "single_word"})
          if (is_true(token, key))
            out_.notes.push_back(std::string("llama.cpp does not know ") + key + " of token " +
                                 gnomon::internal::shown(text_of(token, "content")));
        add_token(token, id->integer("id"), text_of(token, "content"),
                  is_true(token, "special") ? control : user_defined);
      });
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (types_[id] == unused) texts_[id] = "[PAD" + std::to_string(id) + "]";
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (!ids_.emplace(texts_[id], id).second)
        vocabulary->fail("tokens must be unique, got " + gnomon::internal::shown(texts_[id]));
    const auto merges = model.find("merges");
    if (!merges) throw Unknown{"tokenizer.json has no merges"};
    merges->for_each_element([&](Json merge) {
      if (merge.is(JsonType::string)) return merges_.push_back(merge.string("merges"));
      const auto pair = merge.strings("merges");
      if (pair.size() != 2 || pair[0].find(' ') != std::string::npos ||
          pair[1].find(' ') != std::string::npos)
        merge.fail("a merge must be two tokens without spaces");
      merges_.push_back(pair[0] + " " + pair[1]);
    });
  }

  std::optional<std::size_t> id_of(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  // Which special tokens are added to a text.
  void read_post_processor() {
    const auto post = root_.find("post_processor");
    if (!post || post->is_null()) return;
    for_each_part(*post, "processors", [&](const Json& part) {
      const std::string type = text_of(part, "type");
      if (type == "ByteLevel") return;
      const auto single = part.find("single");
      if (type != "TemplateProcessing" || !single)
        throw Unknown{"the post-processor " + gnomon::internal::shown(type) +
                      " is not one of llama.cpp"};
      bool after = false;
      single->for_each_element([&](const Json& piece) {
        if (piece.find("Sequence")) {
          after = true;
          return;
        }
        const auto special = piece.find("SpecialToken");
        const auto id = special ? id_of(text_of(*special, "id")) : std::nullopt;
        if (!id || (after ? adds_eos_ : adds_bos_))
          throw Unknown{"the post-processor adds other tokens than one before and one after"};
        (after ? eos_ : bos_) = id;
        (after ? adds_eos_ : adds_bos_) = true;
      });
    });
  }

  void read_config(const Json& config) {
    if (!config.is(JsonType::object)) return;
    const auto token = [&](const char* key) -> std::optional<std::size_t> {
      const auto value = config.find(key);
      if (!value) return std::nullopt;
      if (value->is(JsonType::object)) return id_of(text_of(*value, "content"));
      return id_of(text_of(config, key));
    };
    if (!bos_) bos_ = token("bos_token");
    if (!eos_) eos_ = token("eos_token");
    template_ = text_of(config, "chat_template");
  }

  const Json root_;
  GgufVocabulary& out_;
  std::vector<std::string> texts_;
  std::vector<std::int32_t> types_;
  std::vector<std::string> merges_;
  std::map<std::string, std::size_t> ids_;
  std::optional<std::size_t> bos_, eos_;
  bool adds_bos_ = false, adds_eos_ = false;
  std::string template_;
};

}  // namespace

GgufVocabulary read_vocabulary(const TokenizerFiles& files, std::int64_t tokens,
                               const std::string& folder) {
  GgufVocabulary out;
  if (files.tokenizer.empty()) {
    out.reason = "there is no tokenizer.json";
    return out;
  }
  const JsonDocument document(files.tokenizer, folder + "tokenizer.json");
  try {
    Vocabulary(document.root(), tokens, out).read(files, folder);
  } catch (const Unknown& unknown) {
    out = {.metadata = {}, .reason = unknown.reason, .notes = {}};
  }
  return out;
}

}  // namespace gnomon::model
