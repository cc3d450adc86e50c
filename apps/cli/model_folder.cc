#include "apps/cli/model_folder.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <system_error>

#include "gnomon/error.h"
#include "src/io/folder.h"
#include "src/io/output.h"

namespace gnomon::cli {
namespace {

namespace fs = std::filesystem;

// Files that are open at the same time. Systems allow 256 or more.
constexpr std::size_t most_open = 64;

fs::path plain(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

Companions companions_of(const io::Checkpoint& checkpoint) {
  static constexpr std::string_view weights[] = {
      ".safetensors", ".bin", ".pt", ".pth",  ".ckpt",    ".gguf",       ".ggml",
      ".h5",          ".npz", ".ot", ".onnx", ".msgpack", ".index.json", ".tflite",
  };
  Companions companions;
  const auto& shards = checkpoint.shards();
  for (const std::string& name : io::names_in(checkpoint.folder())) {
    if (name == "." || name == ".." || name == checkpoint.index() ||
        std::binary_search(shards.begin(), shards.end(), name))
      continue;
    const bool is_weights =
        std::any_of(std::begin(weights), std::end(weights),
                    [&](std::string_view ending) { return name.ends_with(ending); });
    const bool comes =
        !is_weights && name.front() != '.' && fs::is_regular_file(checkpoint.folder() / name);
    (comes ? companions.copied : companions.left).push_back(name);
  }
  std::sort(companions.copied.begin(), companions.copied.end());
  std::sort(companions.left.begin(), companions.left.end());
  return companions;
}

void check_folder(const fs::path& folder) {
  const fs::path out = plain(folder);
  std::error_code error;
  const fs::file_status status = fs::symlink_status(out, error);
  if (fs::exists(status) && !(fs::is_directory(status) && fs::is_empty(out)))
    refuse(folder.string(), "the output folder must be new or empty", "neither");
  if (!fs::is_directory(out.parent_path()))
    refuse(folder.string(), "the parent folder of the output must exist",
           out.parent_path().string());
}

void write_folder(const fs::path& folder, const std::vector<FileToWrite>& files) {
  check_folder(folder);
  const fs::path out = plain(folder), parent = out.parent_path();
  io::remove_leftovers(parent);
  io::TemporaryFolder hidden(parent);
  // Each file is written inside the callback of the previous file of its group. The files of a
  // group get names, in a temporary folder, only after the last one is complete.
  const std::function<void(std::size_t, std::size_t)> write_from = [&](std::size_t index,
                                                                       std::size_t end) {
    if (index == end) return hidden.create(folder.string());
    const std::string& name = files[index].name;
    io::write_atomically_as(hidden.path() / name, (folder / name).string(), parent,
                            [&](io::Output& output) {
                              files[index].write(output);
                              write_from(index + 1, end);
                            });
  };
  for (std::size_t index = 0; index < files.size(); index += most_open)
    write_from(index, std::min(index + most_open, files.size()));
  hidden.create(folder.string());
  io::sync_folder_of(hidden.path(), folder.string());
  if (const auto reason = hidden.take_the_place_of(out))
    refuse(folder.string(), "the output folder must be new or empty", *reason);
  io::sync_folder_of(parent, folder.string());
}

void copy_file(const fs::path& path, io::Output& out) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(std::size_t{1} << 20);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) ||
         file.gcount() > 0)
    out.write(std::string_view(block.data(), static_cast<std::size_t>(file.gcount())));
  if (!file.eof())
    refuse(path.string(), "must be a readable file", std::generic_category().message(errno));
}

}  // namespace gnomon::cli
