// The output folder of a session. A folder with files of an earlier call is never changed,
// except by --resume, and two labs never use one folder at the same time.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "apps/lab/runs/options.h"

namespace gnomon::lab {

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
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  bool lock();  // false: in use by another lab
  void unlock();

  std::filesystem::path path_;
  int file_ = -1;  // descriptor of .lock
  bool created_ = false;
};

// Whether the folder has the settings of a run.
bool has_run(const std::filesystem::path& folder);

// Throws std::invalid_argument if a part of a folder, or something in it, is neither a file
// nor a folder: a link would lead to files of this user. A part that is missing is no error.
// `option`: for the message, "--resume".
void require_plain(std::string_view option, const std::filesystem::path& path);
// The error of require_plain.
[[noreturn]] void refuse_link(std::string_view option, const std::filesystem::path& path,
                              std::string_view got);

}  // namespace gnomon::lab
