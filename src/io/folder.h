// The entries of a folder. file_posix.cc and file_windows.cc implement it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gnomon::io {

// Returns the names in the folder, in no order; `.` and `..` may be among them. Throws
// std::invalid_argument, with the path and the reason of the system, if it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace gnomon::io
