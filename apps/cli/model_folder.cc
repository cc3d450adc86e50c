#include "apps/cli/model_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <system_error>

#include "gnomon/error.h"

namespace gnomon::cli {
namespace {

namespace fs = std::filesystem;

// Files that are open at the same time. Systems allow 256 or more.
constexpr std::size_t most_open = 64;

fs::path plain(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

// Temporary files and a folder with hidden names in `parent`. The destructor removes those that
// still exist.
class Hidden {
 public:
  explicit Hidden(const fs::path& parent) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    folder_ = parent / fmt::format(".gnomon-{:x}-{:x}", ::getpid(), now);
  }
  ~Hidden() {
    std::error_code ignored;
    for (const fs::path& file : files_) fs::remove(file, ignored);
    fs::remove_all(folder_, ignored);
  }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;

  const fs::path& folder() const { return folder_; }
  const fs::path& add() {
    return files_.emplace_back(folder_.string() + fmt::format("-{}", files_.size()));
  }
  const std::vector<fs::path>& files() const { return files_; }

 private:
  fs::path folder_;
  std::vector<fs::path> files_;
};

}  // namespace

Companions companions_of(const io::Checkpoint& checkpoint) {
  static constexpr std::string_view weights[] = {
      ".safetensors", ".bin", ".pt", ".pth",  ".ckpt",    ".gguf",       ".ggml",
      ".h5",          ".npz", ".ot", ".onnx", ".msgpack", ".index.json", ".tflite",
  };
  Companions companions;
  const auto& shards = checkpoint.shards();
  for (const auto& entry : fs::directory_iterator(checkpoint.folder())) {
    const std::string name = entry.path().filename().string();
    if (name == checkpoint.index() || std::binary_search(shards.begin(), shards.end(), name))
      continue;
    const bool is_weights =
        std::any_of(std::begin(weights), std::end(weights),
                    [&](std::string_view ending) { return name.ends_with(ending); });
    const bool comes = entry.is_regular_file() && !is_weights && name.front() != '.';
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
  const fs::path out = plain(folder);
  Hidden hidden(out.parent_path());
  // Each file is written inside the callback of the previous file of its group. The files of a
  // group get their hidden names only after the last one is complete.
  const std::function<void(std::size_t, std::size_t)> write_from = [&](std::size_t index,
                                                                       std::size_t end) {
    if (index == end) return;
    io::write_atomically(fs::path(hidden.add()), [&](io::Output& output) {
      files[index].write(output);
      write_from(index + 1, end);
    });
  };
  for (std::size_t index = 0; index < files.size(); index += most_open)
    write_from(index, std::min(index + most_open, files.size()));
  fs::create_directory(hidden.folder());
  for (std::size_t i = 0; i < files.size(); ++i)
    fs::rename(hidden.files()[i], hidden.folder() / files[i].name);
  io::sync_folder(hidden.folder());
  if (std::rename(hidden.folder().c_str(), out.c_str()) != 0)
    refuse(folder.string(), "the output folder must be new or empty",
           std::generic_category().message(errno));
  io::sync_folder(out.parent_path());
}

void copy_file(const fs::path& path, io::Output& out) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(std::size_t{1} << 20);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) ||
         file.gcount() > 0)
    out.write(std::string_view(block.data(), static_cast<std::size_t>(file.gcount())));
  if (!file.eof())
    refuse(path.string(), "must be a readable file", std::generic_category().message(errno));
}

}  // namespace gnomon::cli
