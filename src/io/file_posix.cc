// gnomon/io/file.h on POSIX systems.
#ifndef _WIN32
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
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
  int release() { return std::exchange(number_, -1); }
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

// Whether another process has the lock. False if the file system has no locks.
bool is_locked(int file) {
  int status = 0;
  while ((status = ::flock(file, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
  }
  return status != 0 && errno == EWOULDBLOCK;
}
// Whether remove_leftovers of another process removes the file or folder, or has removed it,
// before this process could lock it.
bool lost_to_another(int file) {
  struct stat status{};
  return is_locked(file) || (::fstat(file, &status) == 0 && status.st_nlink == 0);
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
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(opened.get());
    if (entry)
      names.emplace_back(entry->d_name);
    else if (errno != 0)
      refuse(folder.string(), "must be a readable folder", reason(errno));
    else
      return names;
  }
}

void sync_folder(const std::filesystem::path& folder) {
  sync_folder_of(folder, folder.string());
}

void sync_folder_of(const std::filesystem::path& folder, const std::string& shown) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.number() < 0 && errno == EACCES) return;
  if (opened.number() < 0) cannot_write(shown, reason(errno));
  sync(opened, shown);
}

// Unlikely to be used by another process or thread. O_EXCL detects a collision.
std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  char text[64];
  std::snprintf(text, sizeof text, ".gnomon-%x-%llx-%x", static_cast<unsigned>(::getpid()),
                static_cast<unsigned long long>(now), counter++);
  return text;
}

void TemporaryFolder::create(const std::string& shown) {
  if (created_) return;
  const auto fail = [&](int error) {
    refuse(shown, "must be a writable folder", reason(error));
  };
  // It is locked under a first name, and gets that of path() then. If remove_leftovers of
  // another process is faster, the first name is not used again: that process may not be done.
  std::filesystem::path made;
  Descriptor lock;
  for (;;) {
    made = path_.parent_path() / temporary_name();
    if (::mkdir(made.c_str(), 0777) != 0) fail(errno);
    lock.reset(::open(made.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const int error = lock.number() < 0 ? errno : 0;
    if (error == 0 && !lost_to_another(lock.number())) break;
    ::rmdir(made.c_str());
    if (error != 0 && error != ENOENT) fail(error);
  }
  if (::rename(made.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::rmdir(made.c_str());
    fail(error);
  }
  lock_ = lock.release();
  created_ = true;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!created_) return;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  ::close(lock_);
}

std::optional<std::string> TemporaryFolder::take_the_place_of(
    const std::filesystem::path& target) {
  if (::rename(path_.c_str(), target.c_str()) != 0) return reason(errno);
  path_.clear();
  return std::nullopt;
}

void remove_leftovers(const std::filesystem::path& folder) noexcept try {
  static constexpr std::string_view begin = ".gnomon-", digits = "0123456789abcdef";
  const auto is_temporary = [](std::string_view name) {
    if (!name.starts_with(begin)) return false;
    name.remove_prefix(begin.size());
    int numbers = 1;
    for (std::size_t i = 0; i < name.size(); ++i)
      if (digits.find(name[i]) == digits.npos) {
        if (name[i] != '-' || i == 0 || i + 1 == name.size() || name[i - 1] == '-')
          return false;
        ++numbers;
      }
    return numbers == 3;
  };
  const auto path = folder.empty() ? std::filesystem::path(".") : folder;
  for (const std::string& name : names_in(path)) {
    if (!is_temporary(name)) continue;
    const std::filesystem::path one = path / name;
    // O_RDWR: network file systems lock only files that are open for writing.
    constexpr int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    Descriptor file(::open(one.c_str(), O_RDWR | flags));
    if (file.number() < 0) file.reset(::open(one.c_str(), O_RDONLY | O_DIRECTORY | flags));
    struct stat status{};
    if (file.number() < 0 || ::fstat(file.number(), &status) != 0) continue;
    if (status.st_uid != ::geteuid() || ::flock(file.number(), LOCK_EX | LOCK_NB) != 0)
      continue;
    std::error_code ignored;
    if (S_ISDIR(status.st_mode))
      std::filesystem::remove_all(one, ignored);
    else if (S_ISREG(status.st_mode))
      ::unlink(one.c_str());
  }
} catch (...) {
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
  Aside(const std::filesystem::path& folder, const std::string& name, Descriptor& file)
      : name_(name), folder_(folder) {
#ifdef O_TMPFILE
    if (::access("/proc/self/fd", X_OK) == 0) {  // required to name the file at the end
      file.reset(::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
      if (file.number() >= 0) return;
    }
#endif
    do {
      path_ = folder_ / temporary_name();
      file.reset(::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
    } while (file.number() < 0 ? errno == EEXIST : lost_to_another(file.number()));
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
    const auto parent = target.parent_path().empty() ? "." : target.parent_path();
    if (path_.empty()) {
      is_locked(file.number());  // locks it
      const std::string self = "/proc/self/fd/" + std::to_string(file.number());
      std::filesystem::path hidden;
      int linked;
      do {
        hidden = parent / temporary_name();
        linked = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, hidden.c_str(), AT_SYMLINK_FOLLOW);
      } while (linked != 0 && errno == EEXIST);
      if (linked != 0) cannot_write(name_, reason(errno));
      path_ = std::move(hidden);  // a copy could throw and leave the file
    }
    const Descriptor lock(::fcntl(file.number(), F_DUPFD_CLOEXEC, 0));  // until it is renamed
    if (!file.close()) cannot_write(name_, reason(errno));
    if (::rename(path_.c_str(), target.c_str()) != 0) cannot_write(name_, reason(errno));
    path_.clear();
    sync_folder_of(parent, name_);
  }

 private:
  std::string name_;
  std::filesystem::path folder_, path_;
};

}  // namespace

void write_atomically_as(const std::filesystem::path& path, const std::string& shown,
                         const std::filesystem::path& folder,
                         const std::function<void(Output&)>& body) {
  OpenedFile state(shown);
  Output output = state.output();
  if (path.empty()) cannot_write("\"\"", "an empty path");

  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) cannot_write(state.name, reason(errno));
  if (exists && S_ISDIR(status.st_mode)) cannot_write(state.name, "a folder");
  if (exists && !S_ISREG(status.st_mode)) {
    state.file.reset(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (state.file.number() < 0) cannot_write(state.name, reason(errno));
    body(output);
    state.flush();
    if (!state.file.close()) cannot_write(state.name, reason(errno));
    return;
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) cannot_write(state.name, reason(errno));

  std::error_code ignored;
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(path, ignored)) {
    const auto followed = std::filesystem::weakly_canonical(path, ignored);
    if (!ignored) target = followed;
  }
  const auto parent = target.parent_path().empty() ? "." : target.parent_path();
  Aside aside(folder.empty() ? parent : folder, state.name, state.file);
  if (exists && ::fchmod(state.file.number(), status.st_mode & 07777) != 0)
    cannot_write(state.name, reason(errno));
  body(output);
  state.flush();
  aside.take_the_place_of(target, state.file);
}

}  // namespace gnomon::io
#endif
