// `gnomon lab` starts a separate program, because the lab requires LibTorch.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "apps/cli/command.h"
#include "gnomon/error.h"

namespace gnomon::cli {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

// $GNOMON_LAB if it is set. Otherwise looks beside this program (where `cmake --install` puts
// it), then in the build folder. Returns an empty path if there is none.
std::string find_lab() {
  if (const char* given = std::getenv("GNOMON_LAB"); given && *given) return given;
  std::error_code error;
  for (const char* place : {"gnomon-lab", "../libexec/gnomon/gnomon-lab", "../lab/gnomon-lab"})
    if (const fs::path program = folder_of_program() / place; fs::exists(program, error))
      return program.string();
  return {};
}

// The help of all commands of gnomon-lab, separated by form feeds. Empty without gnomon-lab.
std::string lab_helps() {
  const std::string program = find_lab();
  if (program.empty()) return {};
  std::string quoted = "'";  // quoted for the shell
  for (const char c : program) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  std::FILE* const pipe = popen((quoted + "' help").c_str(), "r");
  if (!pipe) return {};
  std::string text;
  std::array<char, 4096> block{};
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), pipe))
    text.append(block.data(), got);
  return pclose(pipe) == 0 ? text : std::string();
}

}  // namespace

std::string lab_help(const std::string& command) {
  // Starting gnomon-lab takes a second, so it prints the help of all its commands at once.
  static const std::string all = lab_helps();
  const std::size_t begin = all.find("Usage: gnomon " + command + " ");
  return begin == std::string::npos ? "" : all.substr(begin, all.find('\f', begin) - begin);
}

int run_lab(char** argv) {
  const std::string program = find_lab();
  if (program.empty())
    refuse("lab", "gnomon-lab must be installed (it is built if LibTorch is found)",
           "none near " + folder_of_program().string());
  execv(program.c_str(), argv);
  refuse("lab", program + " must start", std::strerror(errno));
}

}  // namespace gnomon::cli
