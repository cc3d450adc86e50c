#include "src/core/text.h"

#include <cstdint>

namespace gnomon::internal {
namespace {

// Returns the number of bytes of the sequence at the beginning of `text`; 0 if it is
// ill-formed.
std::size_t sequence(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const std::uint8_t lead = byte(0), next = byte(1);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4 || !follows(1)) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) {
    const bool overlong = lead == 0xe0 && next < 0xa0, surrogate = lead == 0xed && next > 0x9f;
    return overlong || surrogate || !follows(2) ? 0 : 3;
  }
  const bool overlong = lead == 0xf0 && next < 0x90, beyond = lead == 0xf4 && next > 0x8f;
  return overlong || beyond || !follows(2) || !follows(3) ? 0 : 4;
}

}  // namespace

std::size_t ill_formed_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence(text.substr(at, 4));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string printable(std::string_view text, std::size_t most) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size() && at < most) {
    const std::size_t length = sequence(text.substr(at, 4));
    const auto c = static_cast<std::uint8_t>(text[at]);
    if (length == 0 || c < 32 || c == 127)
      result += '?';
    else
      result += text.substr(at, length);
    at += length ? length : 1;
  }
  return at < text.size() ? result + "..." : result;
}

std::string shown(std::string_view name) {
  return std::string("\"").append(printable(name, 80)).append("\"");
}

}  // namespace gnomon::internal
