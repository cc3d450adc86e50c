#include "src/core/text.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "src/core/float_mode.h"

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

// Whether a terminal acts on the code point of a well-formed sequence instead of showing it:
// C0, DEL, C1, line and paragraph separators, and the property Bidi_Control of Unicode.
bool is_control(std::uint32_t point) noexcept {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e ||
         point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

std::uint32_t code_point(std::string_view sequence) noexcept {
  const auto lead = static_cast<std::uint8_t>(sequence[0]);
  if (sequence.size() == 1) return lead;
  std::uint32_t point = lead & (0x7fu >> sequence.size());
  for (const char c : sequence.substr(1))
    point = point << 6 | (static_cast<std::uint8_t>(c) & 0x3f);
  return point;
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
  while (at < text.size() && result.size() < most) {
    const std::size_t length = sequence(text.substr(at, 4));
    const std::string_view piece = text.substr(at, length ? length : 1);
    const std::uint32_t point = code_point(piece);
    char escape[16];
    std::snprintf(escape, sizeof escape, length < 2 ? "\\x%02x" : "\\u%04x", unsigned{point});
    result += length == 0 || is_control(point) ? std::string_view(escape) : piece;
    at += piece.size();
  }
  return at < text.size() ? result + "..." : result;
}

std::string printable_lines(std::string_view text) {
  const std::size_t end = text.find('\n');
  std::string result = printable(text.substr(0, end));
  for (std::size_t at = end; at != std::string_view::npos;) {
    const std::size_t next = text.find('\n', at + 1);
    result.append("\n").append(printable(text.substr(at + 1, next - at - 1)));
    at = next;
  }
  return result;
}

std::string shown(std::string_view name) {
  return std::string("\"").append(printable(name, 80)).append("\"");
}

std::string printed(const char* format, double value) {
  const DefaultFloatMode mode;
  const auto print = [](const char* by, double number) {
    std::array<char, 400> text{};  // %.3f of the largest double has 313 characters
    std::snprintf(text.data(), text.size(), by, number);
    return std::string(text.data());
  };
  std::string text = print(format, value);
  const std::string half = print("%.1f", 0.5), point = half.substr(1, half.size() - 2);
  if (const std::size_t at = text.find(point); at != std::string::npos)
    text.replace(at, point.size(), ".");
  return text;
}

}  // namespace gnomon::internal
