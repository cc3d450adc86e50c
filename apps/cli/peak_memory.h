// How much memory a piece of work takes for itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace gnomon::cli {

// Bytes by which the most that the process ever held during `run` exceeds what it held before:
// resident pages, so threads' stacks and memory that nobody freed count, too. Free memory that
// malloc keeps is given back first. Within some 0.3 MB; nothing where the system cannot say it
// (Linux can).
std::optional<std::int64_t> peak_growth(const std::function<void()>& run);

}  // namespace gnomon::cli
