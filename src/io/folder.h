// The entries of a folder. file_posix.cc and file_windows.cc implement it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gnomon::io {

// Returns the names in the folder, in no order; `.` and `..` may be among them. Throws
// std::invalid_argument, with the path and the reason of the system, if it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// As sync_folder of gnomon/io/file.h. Errors name the file or folder `shown`.
void sync_folder_of(const std::filesystem::path& folder, const std::string& shown);

// The name of a temporary file or folder. Their owner holds a lock (flock) on them while they
// have this name.
std::string temporary_name();

// A temporary folder that becomes another one. The destructor removes it with its files, unless
// it was renamed.
class TemporaryFolder {
 public:
  // In `parent`. It does not exist yet.
  explicit TemporaryFolder(const std::filesystem::path& parent)
      : path_(parent / temporary_name()) {}
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  // Without effect if it exists. Throws std::invalid_argument, which names `shown`.
  void create(const std::string& shown);
  // Replaces `target`, which must not exist or be an empty folder. Returns the reason of the
  // system if that is not possible.
  std::optional<std::string> take_the_place_of(const std::filesystem::path& target);

 private:
  std::filesystem::path path_;
  bool created_ = false;
  [[maybe_unused]] int lock_ = -1;  // none on Windows
};

// Removes the temporary files and folders that processes of this user left in a folder when
// they were killed. The lock tells whether the process exists. Without effect if the file
// system has no locks, and on Windows. Errors are ignored.
void remove_leftovers(const std::filesystem::path& folder) noexcept;

}  // namespace gnomon::io
