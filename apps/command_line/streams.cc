#include "apps/command_line/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "gnomon/error.h"

namespace gnomon {
namespace {

constexpr const char* output_rule = "standard output must be writable";

std::string message(int error) { return std::generic_category().message(error); }

}  // namespace

void reserve_standard_streams() {
  // open() returns the lowest free number. The streams cannot be written: EBADF.
  for (int file = 0; file <= 2; ++file)
    if (fcntl(file, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) break;
}

void check_standard_output() {
  const bool failed = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed) return;
  refuse("gnomon", output_rule, errno ? message(errno) : "an error of an earlier write");
}

void print_error(const std::string& line) noexcept {
  std::fputs(line.c_str(), stderr);
  std::fputc('\n', stderr);
}

std::string error_text(const std::exception& error, const std::string& program) {
  const auto text = [](const std::string& what, const std::string& rule,
                       const std::string& got) {
    return "[" + what + "] " + rule + ", got " + got;
  };
  if (dynamic_cast<const std::bad_alloc*>(&error) ||
      dynamic_cast<const std::length_error*>(&error))
    return text(program, "the result must fit in memory", "more");
  if (const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return text(of_file->path1().empty() ? program : of_file->path1().string(),
                "must be a file or folder that this user can access",
                of_file->code().message());
  if (const auto* of_system = dynamic_cast<const std::system_error*>(&error)) {
    if (std::ferror(stdout)) return text(program, output_rule, of_system->code().message());
    if (of_system->code() == std::errc::resource_unavailable_try_again)
      return text(program, "a thread or process must start", of_system->code().message());
  }
  return error.what();
}

}  // namespace gnomon
