// Numbers and names as text for sentences.
#pragma once

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gnomon::lab {

// "A", "A and B", "A, B and C". A list of ten or more has its first eight items, "and 30
// others".
inline std::string listed(std::vector<std::string> names, const char* last = " and ") {
  constexpr std::size_t most_named = 8;
  if (names.size() > most_named + 1) {
    const std::size_t others = names.size() - most_named;
    names.resize(most_named);
    names.push_back(std::to_string(others) + " others");
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? last : ", ") + names[i];
  return text;
}

// "A", "A or B", "A, B or C".
inline std::string either(const std::vector<std::string>& names) {
  return listed(names, " or ");
}

// The first line of an error message: LibTorch appends a stack trace.
inline std::string first_line(const std::string& message) {
  return message.substr(0, message.find('\n'));
}

inline std::string capitalized(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// "byte" from "bytes".
inline std::string singular(std::string_view unit) {
  return std::string(unit.substr(0, unit.size() - unit.ends_with('s')));
}

// "1 step", "30 steps".
inline std::string counted(std::int64_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

// A number in a format of fmt, or "diverged" if it is not finite.
inline std::string number_or_diverged(const char* format, double number) {
  return std::isfinite(number) ? fmt::format(fmt::runtime(format), number) : "diverged";
}

// "0.25", and with a third digit below 0.1: "0.013".
inline std::string bits_number(double bits) {
  return fmt::format(fmt::runtime(std::abs(bits) < 0.0995 ? "{:.3f}" : "{:.2f}"), bits);
}

// "12.5 %", with 3 digits.
inline std::string percent_text(double share) {
  const double hundred = 100 * share;
  if (hundred >= 0.1 || hundred == 0) return fmt::format("{:.3g} %", hundred);
  return fmt::format("{:.0e} %", hundred);
}

// "7 to 12", or "6" for a range of one length.
inline std::string range_text(std::int64_t from, std::int64_t to) {
  return from == to ? std::to_string(to) : fmt::format("{} to {}", from, to);
}

}  // namespace gnomon::lab
