// Checks of settings.
#pragma once

#include "apps/lab/data/settings.h"

namespace gnomon::lab {

// Throws std::invalid_argument if a setting is outside its range.
void check_settings(const Settings& settings);
// The same for layers, width and heads.
void check_size(const Settings& settings);

}  // namespace gnomon::lab
