#include "apps/cli/peak_memory.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <fstream>
#include <string>

namespace gnomon::cli {
namespace {

// A line of /proc/self/status: "VmHWM:     1234 kB".
std::optional<std::int64_t> status(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return {};
}

// Resets the peak: proc_pid_clear_refs(5).
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5 << std::flush;
  return file.good();
}

}  // namespace

std::optional<std::int64_t> peak_growth(const std::function<void()>& run) {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
  const bool can_tell = reset_peak();
  const auto before = status("VmRSS");
  run();
  const auto peak = status("VmHWM");
  if (!can_tell || !before || !peak) return {};
  return std::max<std::int64_t>(0, *peak - *before);
}

}  // namespace gnomon::cli
