// Byte-pair tokens of a text (Sennrich et al. 2016, arXiv:1508.07909), by SentencePiece (Kudo
// and Richardson 2018, arXiv:1808.06226). Every byte has a token of its own, and no character
// is normalized, so the bytes of the tokens of a text are exactly the text. SentencePiece runs
// in another program, gnomon-tokenizer, which must be beside this one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnomon::lab {

// The number N in "bpe:N" of --tokens. Empty for "bytes". Throws std::invalid_argument for
// other values, and unless 512 <= N <= 32000.
std::optional<std::int64_t> parse_tokens(const std::string& tokens);

class Tokenizer {
 public:
  // Trains `size` tokens on the texts. The same texts give the same tokens. Throws
  // std::invalid_argument if the texts have too few or too many different characters.
  // Cost: seconds for some MB.
  static std::shared_ptr<const Tokenizer> train(const std::vector<std::string>& texts,
                                                std::int64_t size);
  // Reads what `serialized` returned. Throws std::invalid_argument if it is damaged.
  static std::shared_ptr<const Tokenizer> load(std::string serialized);

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  // The bytes of a token.
  const std::string& bytes(std::int64_t token) const {
    return bytes_[static_cast<std::size_t>(token)];
  }
  // Throws std::invalid_argument if the text is not UTF-8, or contains U+2581, the sign that
  // stands for a space inside the tokenizer.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // A file that SentencePiece reads.
  const std::string& serialized() const { return serialized_; }

 private:
  explicit Tokenizer(std::string serialized);

  std::string serialized_;
  std::vector<std::string> bytes_;
};

}  // namespace gnomon::lab
