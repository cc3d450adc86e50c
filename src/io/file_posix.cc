// gnomon/io/file.h on POSIX systems.
#ifndef _WIN32
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/io/folder.h"
#include "src/io/output.h"

namespace gnomon::io {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void cannot_read(const std::string& name, std::string_view why) {
  refuse(name, "must be a readable file", why);
}
[[noreturn]] void cannot_write(const std::string& name, std::string_view why) {
  refuse(name, "must be a writable file", why);
}

// A file descriptor, closed by the destructor.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void reset(int number) {
    if (number_ >= 0) ::close(number_);
    number_ = number;
  }
  int number() const { return number_; }
  // Returns whether all writes reached the file system. Network file systems report errors only
  // here.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

// Waits until the file or folder is on disk. Some file systems cannot sync folders (EINVAL).
void sync(const Descriptor& file, const std::string& name) {
  while (::fsync(file.number()) != 0)
    if (errno != EINTR) {
      if (errno == EINVAL) return;
      cannot_write(name, reason(errno));
    }
}

// A name that is unlikely to be used by another process or thread. O_EXCL detects a collision.
std::string hidden_name() {
  static std::atomic<unsigned> counter{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  char text[64];
  std::snprintf(text, sizeof text, ".gnomon-%x-%llx-%x", static_cast<unsigned>(::getpid()),
                static_cast<unsigned long long>(now), counter++);
  return text;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : name_(path.string()) {
  // O_NONBLOCK: opening a pipe without a writer would block forever.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) cannot_read(name_, reason(errno));
  struct stat status{};
  if (::fstat(file.number(), &status) != 0) cannot_read(name_, reason(errno));
  if (S_ISDIR(status.st_mode)) cannot_read(name_, "a folder");
  if (!S_ISREG(status.st_mode)) cannot_read(name_, "a pipe or device");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (data == MAP_FAILED) cannot_read(name_, reason(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  // std::filesystem::directory_iterator of libstdc++ 12 allocates in a noexcept function.
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(folder.c_str()), ::closedir);
  if (!opened) refuse(folder.string(), "must be a readable folder", reason(errno));
  while (const dirent* const entry = ::readdir(opened.get())) names.emplace_back(entry->d_name);
  return names;
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.number() < 0 && errno == EACCES) return;
  if (opened.number() < 0) cannot_write(folder.string(), reason(errno));
  sync(opened, folder.string());
}

namespace {

struct OpenedFile final : Output::State {
  using Output::State::State;
  Descriptor file;

  void send(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t sent = ::write(file.number(), bytes.data(), bytes.size());
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) cannot_write(name, reason(errno));
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
};

// The temporary file that replaces `target`. It is nameless while it is written if the system
// supports that (Linux: O_TMPFILE), so that it does not remain even after SIGKILL. Otherwise it
// has a hidden name.
class Aside {
 public:
  Aside(const std::filesystem::path& target, const std::string& name, Descriptor& file)
      : name_(name), folder_(target.parent_path().empty() ? "." : target.parent_path()) {
#ifdef O_TMPFILE
    if (::access("/proc/self/fd", X_OK) == 0) {  // required to name the file at the end
      file.reset(::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
      if (file.number() >= 0) return;
    }
#endif
    do {
      path_ = folder_ / hidden_name();
      file.reset(::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
    } while (file.number() < 0 && errno == EEXIST);
    if (file.number() < 0) {
      const int error = errno;
      path_.clear();
      cannot_write(name_, reason(error));
    }
  }
  ~Aside() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  // The data are on the disk before the name is, so that a power failure leaves the old or the
  // new file.
  void take_the_place_of(const std::filesystem::path& target, Descriptor& file) {
    sync(file, name_);
    if (path_.empty()) {
      const std::string self = "/proc/self/fd/" + std::to_string(file.number());
      std::filesystem::path hidden;
      int linked;
      do {
        hidden = folder_ / hidden_name();
        linked = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, hidden.c_str(), AT_SYMLINK_FOLLOW);
      } while (linked != 0 && errno == EEXIST);
      if (linked != 0) cannot_write(name_, reason(errno));
      path_ = std::move(hidden);  // a copy could throw and leave the file
    }
    if (!file.close()) cannot_write(name_, reason(errno));
    if (::rename(path_.c_str(), target.c_str()) != 0) cannot_write(name_, reason(errno));
    path_.clear();
    sync_folder(folder_);
  }

 private:
  std::string name_;
  std::filesystem::path folder_, path_;
};

}  // namespace

void write_atomically(const std::filesystem::path& path,
                      const std::function<void(Output&)>& body) {
  OpenedFile state(path.string());
  Output output(state);
  if (path.empty()) cannot_write("\"\"", "an empty path");

  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) cannot_write(state.name, "a folder");
  if (exists && !S_ISREG(status.st_mode)) {
    state.file.reset(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (state.file.number() < 0) cannot_write(state.name, reason(errno));
    body(output);
    state.flush();
    return;
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) cannot_write(state.name, reason(errno));

  std::error_code ignored;
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(path, ignored)) {
    const auto followed = std::filesystem::weakly_canonical(path, ignored);
    if (!ignored) target = followed;
  }
  Aside aside(target, state.name, state.file);
  if (exists && ::fchmod(state.file.number(), status.st_mode & 07777) != 0)
    cannot_write(state.name, reason(errno));
  body(output);
  state.flush();
  aside.take_the_place_of(target, state.file);
}

}  // namespace gnomon::io
#endif
