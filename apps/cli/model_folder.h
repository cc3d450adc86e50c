// The folder of a model: what lies beside its weights, and writing another folder like it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gnomon/io/checkpoint.h"
#include "gnomon/io/file.h"

namespace gnomon::cli {

// What lies in a checkpoint's folder besides its weights, names of files, sorted.
struct Companions {
  std::vector<std::string> copied;  // belong to the model
  std::vector<std::string> left;  // weights in other files or formats, subfolders, hidden files
};
Companions companions_of(const io::Checkpoint& checkpoint);

struct FileToWrite {
  std::string name;
  std::function<void(io::Output&)> write;
};

// All of them or nothing: `folder` appears whole at the end, and until then its files have no
// names (where the system offers that), so that not even SIGKILL leaves any. Each costs a file
// descriptor meanwhile. Throws when the folder is there and not empty.
void write_folder(const std::filesystem::path& folder, const std::vector<FileToWrite>& files);
// Whether write_folder would begin: throws where it would.
void check_folder(const std::filesystem::path& folder);

// From one file to the next, in blocks.
void copy_file(const std::filesystem::path& path, io::Output& out);

}  // namespace gnomon::cli
