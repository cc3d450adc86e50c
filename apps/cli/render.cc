#include "apps/cli/render.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/io/file.h"

namespace gnomon::cli {
namespace {

namespace fs = std::filesystem;

// A temporary folder that is removed with its files.
class Folder {
 public:
  Folder() {
    const char* const place = std::getenv("TMPDIR");
    path_ = (fs::path(place && *place ? place : "/tmp") / "gnomon-XXXXXX").string();
    if (!mkdtemp(path_.data()))
      refuse(path_, "must be a folder for temporary files", std::strerror(errno));
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    for (const std::string& path : {source(), target(), log()}) unlink(path.c_str());
    rmdir(path_.c_str());
  }
  std::string source() const { return path_ + "/spec.vl.json"; }
  std::string target() const { return path_ + "/image"; }
  std::string log() const { return path_ + "/log"; }

 private:
  std::string path_;
};

constexpr int cannot_execute = 127;

// Runs a program with the arguments as given, without a shell. Its output goes to the file
// `log`. Returns its exit status, `cannot_execute` if there is no such program.
int execute(const std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) refuse(log, "must be a writable file", std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    if (dup2(out, 1) >= 0 && dup2(out, 2) >= 0) execvp(arguments[0], arguments.data());
    _exit(cannot_execute);
  }
  const int error = errno;
  close(out);
  if (child < 0) refuse("plot", "a process must be created", std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return cannot_execute;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// Exits with `cannot_execute` if the package is missing.
constexpr const char* script = R"py(
import sys
try:
    import vl_convert
except ImportError:
    sys.exit(127)
source, target, ending = sys.argv[1:]
with open(source, encoding='utf-8') as file:
    spec = file.read()
if ending == '.png':
    image = vl_convert.vegalite_to_png(spec, scale=2)
else:
    image = vl_convert.vegalite_to_svg(spec).encode()
with open(target, 'wb') as file:
    file.write(image)
)py";

std::string last_line(const std::string& path) {
  std::string text(io::MappedFile(path).text());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::string render(const std::string& spec, const std::string& ending) {
  const Folder folder;
  const std::string source = folder.source(), target = folder.target(), log = folder.log();
  io::write_atomically(source, spec);
  std::vector<std::vector<std::string>> commands;
  if (ending == ".png")
    commands.push_back({"vl-convert", "vl2png", "-i", source, "-o", target, "--scale", "2"});
  else
    commands.push_back({"vl-convert", "vl2svg", "-i", source, "-o", target});
  for (const char* python : {GNOMON_SETUP_PYTHON, "python3"})
    commands.push_back({python, "-c", script, source, target, ending});
  for (const auto& command : commands) {
    const int status = execute(command, log);
    if (status == cannot_execute) continue;
    if (status != 0 || !fs::exists(target))
      refuse("plot", "vl-convert must draw the chart", last_line(log));
    return std::string(io::MappedFile(target).text());
  }
  refuse("plot",
         "-o " + ending.substr(1) +
             " requires vl-convert (pip install vl-convert-python, or make setup)",
         "no vl-convert on the PATH");
}

}  // namespace gnomon::cli
