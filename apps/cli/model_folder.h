// Reading and writing of model folders.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gnomon/io/checkpoint.h"
#include "gnomon/io/file.h"

namespace gnomon::cli {

// The files of a checkpoint's folder besides its weights: names, sorted.
struct Companions {
  std::vector<std::string> copied;  // files of the model
  std::vector<std::string> left;  // weights in other files or formats, subfolders, hidden files
};
Companions companions_of(const io::Checkpoint& checkpoint);

struct FileToWrite {
  std::string name;
  std::function<void(io::Output&)> write;
};

// Writes all files or none. `folder` appears when all files are complete. Until then up to 64
// files have no names (if the system supports that), so that SIGKILL leaves no files behind.
// The files of earlier groups of 64 are in a temporary folder beside `folder`, which the next
// call removes after SIGKILL. Throws if the folder exists and is not empty.
void write_folder(const std::filesystem::path& folder, const std::vector<FileToWrite>& files);
// Throws if write_folder would throw before writing.
void check_folder(const std::filesystem::path& folder);

// Copies a file in blocks.
void copy_file(const std::filesystem::path& path, io::Output& out);

}  // namespace gnomon::cli
