#include "src/position/check.h"

#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon::internal {
namespace {

void check_count(std::string_view operation, std::string_view who, const Positions& positions,
                 std::string_view what, std::size_t count) {
  if (holds(count, positions.batch, positions.tokens)) return;
  refuse(operation,
         std::string(who) + " must hold batch x tokens = " + std::to_string(positions.batch) +
             " x " + std::to_string(positions.tokens) + " " + std::string(what),
         static_cast<std::int64_t>(count));
}

}  // namespace

void check_ids(std::string_view operation, std::string_view who, const Positions& positions) {
  check_count(operation, who, positions, "ids", positions.ids.size());
}

void check_ids_and_sequences(std::string_view operation, std::string_view who,
                             const Positions& positions) {
  check_ids(operation, who, positions);
  check_count(operation, who, positions, "sequences", positions.sequences.size());
}

}  // namespace gnomon::internal
