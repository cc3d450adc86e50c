#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <utility>

#include "apps/lab/tasks/finetune_tokenizer.h"

namespace gnomon::lab::finetune {
namespace {

namespace fs = std::filesystem;

// The longest tokens from the left of each word (Devlin et al. 2018): words are separated by
// white space, punctuation and Chinese characters.
class WordPieces final : public Tokenizer {
 public:
  WordPieces(Vocabulary vocabulary, WordPieceOptions options, const fs::path& path)
      : options_(std::move(options)), vocabulary_(std::move(vocabulary)) {
    const auto id = [&](const std::string& token) {
      const auto found = vocabulary_.find(token);
      if (found == vocabulary_.end())
        refuse_file(path, "the vocabulary must have " + token, "none");
      return found->second;
    };
    unknown_ = id(options_.unknown);
    mask = id("[MASK]");
    first = id("[CLS]");
    last = id("[SEP]");
    UErrorCode status = U_ZERO_ERROR;
    decompose_ = icu::Normalizer2::getNFDInstance(status);
    if (U_FAILURE(status)) refuse_file(path, "ICU must have NFD", u_errorName(status));
  }

  Tokens encode(std::string_view text) const override {
    Tokens tokens;
    std::vector<UChar32> word;
    std::int64_t waiting = 0;  // bytes since the end of the last token
    const auto finish = [&] {
      if (!word.empty()) add_word(word, waiting, tokens);
      word.clear();
    };
    const auto* data = reinterpret_cast<const std::uint8_t*>(text.data());
    for (std::int64_t i = 0; i < std::ssize(text);) {
      const std::int64_t begin = i;
      UChar32 c;
      U8_NEXT(data, i, std::ssize(text), c);
      if (c < 0) c = 0xfffd;
      const bool removed = c == 0 || c == 0xfffd || is_control(c);
      const bool space = !removed && u_isUWhiteSpace(c);
      const bool alone = !removed && !space && (is_chinese(c) || is_punctuation(c));
      if (space || alone) finish();
      waiting += i - begin;
      if (removed || space) continue;
      append(c, word);
      if (alone) finish();
    }
    finish();
    if (!tokens.bytes.empty()) tokens.bytes.back() += waiting;
    return tokens;
  }

 private:
  static bool is_control(UChar32 c) {
    if (c == '\t' || c == '\n' || c == '\r') return false;
    const auto type = u_charType(c);
    return type == U_CONTROL_CHAR || type == U_FORMAT_CHAR || type == U_PRIVATE_USE_CHAR ||
           type == U_UNASSIGNED || type == U_SURROGATE;
  }
  static bool is_punctuation(UChar32 c) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126) || (U_MASK(u_charType(c)) & U_GC_P_MASK) != 0;
  }
  static bool is_chinese(UChar32 c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
  }

  // The character in lower case and without accents.
  void append(UChar32 c, std::vector<UChar32>& word) const {
    icu::UnicodeString text(c);
    if (options_.strip_accents) {
      UErrorCode status = U_ZERO_ERROR;
      const icu::UnicodeString apart = decompose_->normalize(text, status);
      if (U_SUCCESS(status)) text = apart;
    }
    if (options_.lowercase) text.toLower(icu::Locale::getRoot());
    for (std::int32_t i = 0; i < text.length();) {
      const UChar32 one = text.char32At(i);
      i += U16_LENGTH(one);
      if (!options_.strip_accents || u_charType(one) != U_NON_SPACING_MARK) word.push_back(one);
    }
  }

  // The bytes of a word belong to its pieces by their number of characters.
  void add_word(const std::vector<UChar32>& word, std::int64_t& waiting, Tokens& tokens) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> pieces;  // token, characters
    const std::int64_t size = std::ssize(word);
    for (std::int64_t begin = 0; begin < size && size <= options_.longest;) {
      std::int64_t end = size;
      Vocabulary::const_iterator found = vocabulary_.end();
      for (; end > begin; --end) {
        std::string piece = begin ? options_.prefix : "";
        icu::UnicodeString::fromUTF32(word.data() + begin,
                                      static_cast<std::int32_t>(end - begin))
            .toUTF8String(piece);
        found = vocabulary_.find(piece);
        if (found != vocabulary_.end()) break;
      }
      if (end == begin) {
        pieces.clear();
        break;
      }
      pieces.emplace_back(found->second, end - begin);
      begin = end;
    }
    if (pieces.empty()) pieces.emplace_back(unknown_, size);
    std::int64_t characters = 0, given = 0;
    for (const auto& [token, count] : pieces) {
      characters += count;
      const std::int64_t up_to = waiting * characters / size;
      tokens.ids.push_back(token);
      tokens.bytes.push_back(up_to - given);
      given = up_to;
    }
    waiting = 0;
  }

  WordPieceOptions options_;
  Vocabulary vocabulary_;
  std::int64_t unknown_ = 0;
  const icu::Normalizer2* decompose_ = nullptr;
};

}  // namespace

std::unique_ptr<Tokenizer> word_pieces(Vocabulary vocabulary, WordPieceOptions options,
                                       const fs::path& path) {
  return std::make_unique<WordPieces>(std::move(vocabulary), std::move(options), path);
}

}  // namespace gnomon::lab::finetune
