#include "apps/lab/runs/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "apps/lab/data/model_size.h"
#include "apps/lab/model/transformer.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/io/folder.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* usual = "report";
constexpr const char* lock_name = ".lock";
constexpr const char* setup_name = ".settings.lock";

fs::path numbered(int number) {
  return number == 1 ? usual : fmt::format("{}-{}", usual, number);
}

// Returns the path of a file below the folder other than its locks, empty if there is none. A
// link to a folder counts: files would be written to where it leads.
std::string first_file(const fs::path& folder) {
  for (const fs::path& one : entries(folder)) {
    if (one.filename() == lock_name || one.filename() == setup_name) continue;
    if (fs::symlink_status(one).type() != fs::file_type::directory) return one.string();
    if (std::string file = first_file(one); !file.empty()) return file;
  }
  return {};
}

// Returns the content of the folder as words for an error message, or an empty text if neither
// it nor its subfolders have files.
std::string contents(const fs::path& folder) {
  if (fs::exists(folder / "results.json"))
    return fs::exists(folder / "checkpoints") ? "a stopped run" : "a finished run";
  if (has_run(folder)) return "an unfinished run";
  const std::string file = first_file(folder);
  return file.empty() ? "" : "the file " + fs::path(file).lexically_relative(folder).string();
}

[[noreturn]] void refuse_folder(const fs::path& path, const std::string& reason) {
  refuse("lab", "--out must be a writable folder", path.string() + ": " + reason);
}

// The weights of every run, and for active runs the weights, two moments and a temporary copy.
void check_space(const fs::path& folder, const Settings& s) {
  const auto parameters = [&](const ModelSize& size) {
    return 2 * vocabulary(s) * size.width + size.layers * 12 * size.width * size.width;
  };
  std::int64_t all = 0, most = 0;
  for (const std::string& entry : s.encodings) {
    const std::int64_t one = parameters(size_of(s, entry));
    all += one * std::ssize(s.seeds);
    most = std::max(most, one);
  }
  const std::int64_t need = 4 * (all + 16 * most) + (16 << 20);
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (!error && space.available < static_cast<std::uintmax_t>(need))
    refuse("lab", fmt::format("--out must have {} MiB of free space", need >> 20),
           fmt::format("{} MiB on the disk of {}", space.available >> 20, folder.string()));
}

// Removes what killed processes left below the folder of a session.
void clean_subfolders(const fs::path& folder) {
  std::error_code error;
  for (auto one = fs::recursive_directory_iterator(folder, error);
       !error && one != fs::recursive_directory_iterator(); one.increment(error))
    if (std::error_code ignored; one->is_directory(ignored)) io::remove_leftovers(one->path());
}

}  // namespace

void refuse_link(std::string_view option, const fs::path& path, std::string_view got) {
  refuse("lab",
         fmt::format("{} requires folders of files, without links: {}", option, path.string()),
         got);
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const std::string& name : io::names_in(folder))
    if (name != "." && name != "..") paths.push_back(folder / name);
  return paths;
}

void require_plain(std::string_view option, const fs::path& path) {
  const fs::file_type type = fs::symlink_status(path).type();
  if (type == fs::file_type::directory)
    for (const fs::path& one : entries(path)) require_plain(option, one);
  else if (type != fs::file_type::regular && type != fs::file_type::not_found)
    refuse_link(option, path,
                type == fs::file_type::symlink ? "a link" : "a pipe, socket or device");
}

bool has_run(const fs::path& folder) { return fs::exists(folder / "settings.json"); }

OutputFolder::OutputFolder(const Options& options) {
  try {
    take(options);
  } catch (...) {
    unlock();
    throw;
  }
}

void OutputFolder::take(const Options& options) {
  if (!options.out.empty()) {
    path_ = options.out;
  } else if (options.resume) {
    int last = 1;
    while (has_run(numbered(last + 1))) ++last;
    path_ = numbered(last);
  }
  const bool chosen = !path_.empty();
  for (int number = 1;; ++number) {
    if (!chosen) path_ = numbered(number);
    std::error_code error;
    created_ = fs::create_directories(path_, error);
    if (error) refuse_folder(path_, error.message());
    const bool free = lock_.take(path_ / lock_name, FileLock::Kind::remove);
    if (!free && chosen)
      refuse("lab", "--out must not be in use by another lab", path_.string());
    if (!free) continue;
    io::remove_leftovers(path_);
    const std::string found = options.resume && has_run(path_) ? "" : contents(path_);
    if (found.empty()) break;
    if (chosen)
      refuse("lab",
             "--out must be a new or empty folder: continue its run with --resume, or give "
             "another folder",
             fmt::format("{}, which has {}", path_.string(), found));
    unlock();
  }
  // The folder may come from another user. Its files are replaced.
  for (const fs::path& one : entries(path_)) require_plain("--resume", one);
  clean_subfolders(path_);
  check_space(path_, options.settings);
}

OutputFolder::~OutputFolder() { unlock(); }

void OutputFolder::discard() noexcept {
  std::error_code ignored;
  for (auto one = fs::directory_iterator(path_, ignored); one != fs::directory_iterator();
       one.increment(ignored))
    if (one->path().filename() != lock_name) fs::remove_all(one->path(), ignored);
}

void OutputFolder::unlock() {
  lock_.release();
  std::error_code ignored;
  if (created_) fs::remove(path_, ignored);  // unless it has files
}

bool FileLock::take(const fs::path& path, Kind kind) {
  for (;;) {
    constexpr int flags = O_CREAT | O_RDWR | O_NOFOLLOW | O_CLOEXEC;
    int file = open(path.c_str(), flags | O_EXCL, 0644);
    const bool created = file >= 0;
    if (!created && errno == EEXIST) file = open(path.c_str(), flags, 0644);
    if (file < 0) refuse_folder(path.parent_path(), std::strerror(errno));
    const int operation =
        kind == Kind::wait ? LOCK_EX : LOCK_NB | (kind == Kind::shared ? LOCK_SH : LOCK_EX);
    int status = 0;
    while ((status = flock(file, operation)) != 0 && errno == EINTR) {
    }
    if (status != 0) {
      const int error = errno;
      close(file);
      if (error == EWOULDBLOCK) return false;
      if (created) unlink(path.c_str());  // the file system has no locks: nobody has this one
      refuse_folder(path.parent_path(), std::strerror(error));
    }
    // Another process may have removed the file after it was opened here.
    struct stat held{}, named{};
    if (fstat(file, &held) == 0 && stat(path.c_str(), &named) == 0 &&
        held.st_ino == named.st_ino) {
      path_ = path, kind_ = kind, file_ = file;
      return true;
    }
    close(file);
  }
}

void FileLock::release() {
  if (file_ < 0) return;
  std::error_code ignored;
  if (kind_ == Kind::remove) fs::remove(path_, ignored);
  close(file_);
  file_ = -1;
}

RunFolder::RunFolder(const fs::path& out, const Job& job, const StoredSettings& stored) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error) refuse_folder(out, error.message());
  if (!session_.take(out / lock_name, FileLock::Kind::shared))
    refuse("lab", "--out must not be in use by another lab", out.string());
  {
    FileLock setup;
    setup.take(out / setup_name, FileLock::Kind::wait);
    for (const char* part : {"settings.json", "runs", "models", "checkpoints"})
      if (const fs::file_type type = fs::symlink_status(out / part).type();
          type == fs::file_type::symlink)
        refuse_link("--run", out / part, "a link");
    io::remove_leftovers(out);
    if (!has_run(out)) {
      if (const std::string found = contents(out); !found.empty())
        refuse("lab", "--out must be a new or empty folder, or have runs of the same session",
               fmt::format("{}, which has {}", out.string(), found));
      Settings one = stored.settings;
      one.encodings = {job.encoding};
      one.seeds = {job.seed};
      check_space(out, one);
      io::write_atomically(out / "settings.json", to_json(stored).dump(1));
    }
    for (const char* part : {"runs", "models", "checkpoints"})
      fs::create_directories(out / part);
    clean_subfolders(out);
  }
  require_same(out.string(), read_settings(out / "settings.json"), "this run", stored);
  for (const fs::path& part :
       {job.result(out), job.checkpoint(out), out / "models" / job.name()})
    require_plain("--run", part);
  if (!run_.take(out / "checkpoints" / (job.name() + ".lock"), FileLock::Kind::remove))
    refuse("lab", "--run must not be in use by another process", job.name());
}

}  // namespace gnomon::lab
