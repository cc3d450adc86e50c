// Runs programs for tests, as a user does.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace gnomon::testing {

enum class Streams { joined = 1, separate };  // stderr to stdout, or to a separate file

struct Child {
  pid_t pid;
  int output;         // receives stdout
  std::FILE* errors;  // receives stderr; null if joined

  std::string read_all() const {
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got; (got = read(output, buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    close(output);
    return text;
  }
  int wait(rusage* usage = nullptr) const {
    int status = 0;
    wait4(pid, &status, 0, usage);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
};

// Waits until `holds`. False if the process ends before.
template <typename Condition>
bool wait_for(const Child& child, Condition&& holds) {
  for (;;) {
    siginfo_t ended{};
    // Not reaped, so that the number is not given to another process.
    waitid(P_PID, static_cast<id_t>(child.pid), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (holds()) return true;
    if (ended.si_pid != 0) return false;
    usleep(2000);
  }
}

// `folder`: the working folder; empty: that of this process.
inline Child start(const std::string& program, const std::vector<std::string>& arguments,
                   Streams streams, const std::string& folder = {}) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::FILE* errors = streams == Streams::separate ? std::tmpfile() : nullptr;
  // Allocates before fork(): another thread can hold the lock of an allocator.
  std::vector<std::string> all{program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& one : all) pointers.push_back(one.data());
  pointers.push_back(nullptr);
  const int other = errors ? fileno(errors) : ends[1];
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("no process");
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(other, STDERR_FILENO);
    if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(126);
    execv(program.c_str(), pointers.data());
    _exit(127);
  }
  close(ends[1]);
  return {pid, ends[0], errors};
}

struct Outcome {
  int code;
  std::string output, errors;
  // Peak memory of the process; at least that of this process when it started the program.
  long kilobytes = 0;
};
inline Outcome run(const std::string& program, const std::vector<std::string>& arguments,
                   Streams streams, const std::string& folder = {}) {
  const Child child = start(program, arguments, streams, folder);
  std::string output = child.read_all();
  rusage usage{};
  const int code = child.wait(&usage);
  std::string errors;
  if (child.errors) {
    std::rewind(child.errors);
    for (int c; (c = std::fgetc(child.errors)) != EOF;) errors += static_cast<char>(c);
    std::fclose(child.errors);
  }
  return {code, std::move(output), std::move(errors), usage.ru_maxrss};
}

}  // namespace gnomon::testing
