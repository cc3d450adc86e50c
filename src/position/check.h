// The check that positions are complete.
#pragma once

#include <string_view>

#include "gnomon/position/positions.h"

namespace gnomon::internal {

// Throws std::invalid_argument, with the operation and `who` ("positions of keys"), unless
// there are batch x tokens ids.
void check_ids(std::string_view operation, std::string_view who, const Positions& positions);
// Checks also that there are batch x tokens sequences.
void check_ids_and_sequences(std::string_view operation, std::string_view who,
                             const Positions& positions);

}  // namespace gnomon::internal
