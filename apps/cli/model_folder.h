// The `.safetensors` files of a model: one, or the shards of a folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gnomon/io/file.h"

namespace gnomon::cli {

struct Checkpoint {
  std::filesystem::path folder;
  std::vector<std::string> shards;  // names of files in the folder
  std::string index;                // the name of the index that lists them; may be empty
  bool whole_folder = false;        // or one file, named for itself

  // Of what else lies in a folder: what belongs to the model, and weights in other files or
  // formats, subfolders and hidden files, which do not come along.
  std::vector<std::string> companions, left;
};

// A `.safetensors` file, a folder, or a `.index.json` in it. Of a folder, the shards of its
// index, else its only `.safetensors`. Throws FormatError or std::invalid_argument when the
// index is not one, names a file outside of the folder, or one that is not there.
Checkpoint find_checkpoint(const std::string& path);

// Throws when a tensor that the index places in a shard is not in it. `holds(shard, tensor)`.
void check_index(const Checkpoint& checkpoint,
                 const std::function<bool(const std::string&, const std::string&)>& holds);

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
