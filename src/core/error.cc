#include "gnomon/error.h"

#include <cstdio>
#include <utility>

#include "src/core/float_mode.h"
#include "src/core/text.h"

namespace gnomon {

FormatError::FormatError(std::string file, std::uint64_t offset, std::string reason)
    : std::runtime_error(internal::printable("[" + file + "] " + reason + ", at byte " +
                                             std::to_string(offset))),
      file_(std::move(file)),
      reason_(std::move(reason)),
      offset_(offset) {}

void refuse(std::string_view operation, std::string_view rule, std::string_view got) {
  throw std::invalid_argument(internal::printable(
      "[" + std::string(operation) + "] " + std::string(rule) + ", got " + std::string(got)));
}

void refuse(std::string_view operation, std::string_view rule, std::int64_t got) {
  refuse(operation, rule, std::string_view(std::to_string(got)));
}

void refuse(std::string_view operation, std::string_view rule, double got) {
  const internal::DefaultFloatMode mode;
  char shorter[40];  // 0.1 instead of 0.10000000000000001 if both are the same number
  std::snprintf(shorter, sizeof shorter, "%.15g", got);
  double back = 0;
  const bool same = std::sscanf(shorter, "%lf", &back) == 1 && back == got;
  refuse(operation, rule, internal::printed(same ? "%.15g" : "%.17g", got));
}

std::string shape_text(std::span<const std::int64_t> extents) {
  std::string text = "[";
  for (std::int64_t extent : extents) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

}  // namespace gnomon
