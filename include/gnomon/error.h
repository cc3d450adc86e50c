// Error reporting. A message is one sentence that names the operation, the rule, and the value
// that breaks the rule:
//
//   [rotary] rotary_dim must be even, got 7
//
// Functions throw std::invalid_argument if an argument breaks a rule, and FormatError if a file
// does not have the expected format. In messages, control characters, controls of bidirectional
// text and ill-formed UTF-8 are visible escapes (\x1b, \u202e): a terminal may show them.
// Kernels do not throw: arguments are checked before.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gnomon {

// Thrown if a file does not have the expected format. `offset` is the byte offset at which
// reading stopped.
class FormatError : public std::runtime_error {
 public:
  FormatError(std::string file, std::uint64_t offset, std::string reason);

  const std::string& file() const noexcept { return file_; }
  const std::string& reason() const noexcept { return reason_; }
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  std::string file_, reason_;
  std::uint64_t offset_;
};

// Throws std::invalid_argument("[operation] rule, got value").
[[noreturn]] void refuse(std::string_view operation, std::string_view rule,
                         std::string_view got);
[[noreturn]] void refuse(std::string_view operation, std::string_view rule, std::int64_t got);
[[noreturn]] void refuse(std::string_view operation, std::string_view rule, double got);
[[noreturn]] void refuse(std::string_view operation, std::string_view rule,
                         std::signed_integral auto got) {
  refuse(operation, rule, std::int64_t{got});
}

// Returns a shape as it appears in messages: "[2, 3]".
std::string shape_text(std::span<const std::int64_t> extents);
template <std::size_t Rank>
std::string shape_text(const std::array<std::int64_t, Rank>& extents) {
  return shape_text(std::span<const std::int64_t>(extents));
}

}  // namespace gnomon
