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
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* usual = "report";
constexpr const char* lock_name = ".lock";

fs::path numbered(int number) {
  return number == 1 ? usual : fmt::format("{}-{}", usual, number);
}

// Returns the content of the folder as words for an error message, or an empty text if neither
// it nor its subfolders have files.
std::string contents(const fs::path& folder) {
  if (fs::exists(folder / "results.json"))
    return fs::exists(folder / "checkpoints") ? "a stopped run" : "a finished run";
  if (has_run(folder)) return "an unfinished run";
  for (const fs::directory_entry& one : fs::recursive_directory_iterator(folder))
    // A link to a folder counts: files would be written to where it leads.
    if ((!one.is_directory() || one.is_symlink()) && one.path().filename() != lock_name)
      return "the file " + one.path().lexically_relative(folder).string();
  return {};
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

}  // namespace

void refuse_link(std::string_view option, const fs::path& path, std::string_view got) {
  refuse("lab",
         fmt::format("{} requires folders of files, without links: {}", option, path.string()),
         got);
}

void require_plain(std::string_view option, const fs::path& path) {
  const fs::file_type type = fs::symlink_status(path).type();
  if (type == fs::file_type::directory)
    for (const fs::directory_entry& one : fs::directory_iterator(path))
      require_plain(option, one.path());
  else if (type != fs::file_type::regular && type != fs::file_type::not_found)
    refuse_link(option, path,
                type == fs::file_type::symlink ? "a link" : "a pipe, socket or device");
}

bool has_run(const fs::path& folder) { return fs::exists(folder / "settings.json"); }

OutputFolder::OutputFolder(const Options& options) {
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
    const bool free = lock();
    if (!free && chosen)
      refuse("lab", "--out must not be in use by another lab", path_.string());
    if (!free) continue;
    const std::string found = options.resume && has_run(path_) ? "" : contents(path_);
    if (found.empty()) break;
    unlock();
    if (chosen)
      refuse("lab",
             "--out must be a new or empty folder: continue its run with --resume, or give "
             "another folder",
             fmt::format("{}, which has {}", path_.string(), found));
  }
  try {
    // The folder may come from another user. Its files are replaced.
    for (const fs::directory_entry& one : fs::directory_iterator(path_))
      require_plain("--resume", one.path());
    check_space(path_, options.settings);
  } catch (...) {
    unlock();
    throw;
  }
}

bool OutputFolder::lock() {
  const fs::path name = path_ / lock_name;
  for (;;) {
    file_ = open(name.c_str(), O_CREAT | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file_ < 0) refuse_folder(path_, std::strerror(errno));
    if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      close(file_);
      return false;
    }
    // Another lab may have removed the file after it was opened here.
    struct stat held{}, named{};
    if (fstat(file_, &held) == 0 && stat(name.c_str(), &named) == 0 &&
        held.st_ino == named.st_ino)
      return true;
    close(file_);
  }
}

OutputFolder::~OutputFolder() { unlock(); }

void OutputFolder::unlock() {
  std::error_code ignored;
  fs::remove(path_ / lock_name, ignored);
  if (created_) fs::remove(path_, ignored);  // unless it has files
  close(file_);
}

}  // namespace gnomon::lab
