// The output folder of a session or of --run. A folder with files of an earlier call is never
// changed, except by --resume and --run. Two sessions never use one folder at the same time,
// and two processes of --run never train one run.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "apps/lab/data/run_json.h"
#include "apps/lab/runs/options.h"

namespace gnomon::lab {

// A lock on a file, released by the destructor. Also between machines, on file systems that
// share locks.
class FileLock {
 public:
  // remove: deletes the file when the lock is released. wait: until others release theirs.
  enum class Kind { remove = 1, shared, wait };

  FileLock() = default;
  ~FileLock() { release(); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Returns false if another process has locked the file. Throws std::invalid_argument if it
  // cannot be created.
  bool take(const std::filesystem::path& path, Kind kind);
  void release();

 private:
  std::filesystem::path path_;
  Kind kind_ = Kind::shared;
  int file_ = -1;
};

// Locks the folder of a session until it is destroyed.
class OutputFolder {
 public:
  // With --out: that folder. Without: `report`, or `report-2`, `report-3`, ... if earlier ones
  // are in use or have files. With --resume and without --out: the last of them.
  //
  // Throws std::invalid_argument if the folder has files and --resume is not given, is in use
  // by another lab, cannot be written, has links, pipes or devices, or if its disk has too
  // little space for the settings.
  explicit OutputFolder(const Options& options);
  ~OutputFolder();

  const std::filesystem::path& path() const noexcept { return path_; }

  // Removes all files of a folder that was new or empty.
  void discard() noexcept;

 private:
  void take(const Options& options);
  void unlock();

  std::filesystem::path path_;
  FileLock lock_;
  bool created_ = false;
};

// The folder of --run: it is shared with other runs of the same session, and the run is locked.
class RunFolder {
 public:
  // Creates settings.json, or compares it with `stored`. Throws std::invalid_argument as
  // OutputFolder, and if settings.json is of another session (require_same) or another process
  // has the run.
  RunFolder(const std::filesystem::path& out, const Job& job, const StoredSettings& stored);

 private:
  FileLock session_, run_;
};

// Whether the folder has the settings of a run.
bool has_run(const std::filesystem::path& folder);

// Returns the paths of what is in a folder, in no order. Throws std::invalid_argument, with the
// path and the reason of the system, if it cannot be read.
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder);

// Throws std::invalid_argument if a part of a folder, or something in it, is neither a file
// nor a folder: a link would lead to files of this user. A part that is missing is no error.
// `option`: for the message, "--resume".
void require_plain(std::string_view option, const std::filesystem::path& path);
// The error of require_plain.
[[noreturn]] void refuse_link(std::string_view option, const std::filesystem::path& path,
                              std::string_view got);

}  // namespace gnomon::lab
