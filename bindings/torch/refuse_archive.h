// Modules of Gnomon are not in archives of LibTorch. Not installed.
#pragma once

#include "gnomon/error.h"

namespace gnomon::libtorch {

[[noreturn]] inline void refuse_save(const char* module) {
  refuse("torch::save", "modules of Gnomon must be written by gnomon::libtorch::save_state",
         module);
}
[[noreturn]] inline void refuse_load(const char* module) {
  refuse("torch::load",
         "modules of Gnomon must be read by gnomon::libtorch::load_state, because archives of "
         "LibTorch can "
         "contain code",
         module);
}

}  // namespace gnomon::libtorch
