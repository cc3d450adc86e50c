// Measurement of the memory that a function uses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace gnomon::cli {

// Returns the peak resident memory of the process during `run` minus its resident memory
// before, in bytes. Stacks of threads and leaked memory count. Free memory of malloc is
// returned to the system first. Error: about 0.3 MB. Empty on other systems than Linux.
std::optional<std::int64_t> peak_growth(const std::function<void()>& run);

}  // namespace gnomon::cli
