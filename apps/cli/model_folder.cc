#include "apps/cli/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "gnomon/error.h"

namespace gnomon::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using WeightMap = std::map<std::string, std::string>;  // tensor to shard

bool ends_with(const std::string& name, std::string_view ending) {
  return name.size() >= ending.size() && std::string_view(name).ends_with(ending);
}

// A name of a file in the folder itself, however it is spelt.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() < 256 &&
         name.find('/') == std::string::npos && name.find('\\') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

WeightMap read_index(const fs::path& path) {
  const io::MappedFile file(path);
  const std::string name = path.string();
  constexpr std::size_t most = std::size_t{100} << 20;
  if (file.text().size() > most) throw FormatError(name, 0, "an index of more than 100 MB");
  Json json;
  try {
    json = Json::parse(file.text());
  } catch (const Json::parse_error& error) {
    throw FormatError(name, error.byte, "the index is not JSON");
  }
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    throw FormatError(name, 0, "the index must have a weight_map");
  WeightMap map;
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    if (!shard.is_string()) throw FormatError(name, 0, "a shard must be a string");
    const std::string file_name = shard.get<std::string>();
    if (!is_plain_name(file_name) || !ends_with(file_name, ".safetensors"))
      refuse(
          name, "a shard must be the name of a .safetensors file beside the index",
          Json(file_name.substr(0, 200)).dump(-1, ' ', true, Json::error_handler_t::replace));
    map.emplace(tensor, file_name);
  }
  if (map.empty()) throw FormatError(name, 0, "the weight_map must not be empty");
  return map;
}

void sort_the_rest(Checkpoint& checkpoint) {
  static constexpr std::string_view weights[] = {
      ".safetensors", ".bin", ".pt", ".pth",  ".ckpt",    ".gguf",       ".ggml",
      ".h5",          ".npz", ".ot", ".onnx", ".msgpack", ".index.json", ".tflite",
  };
  for (const auto& entry : fs::directory_iterator(checkpoint.folder)) {
    const std::string name = entry.path().filename().string();
    if (name == checkpoint.index ||
        std::find(checkpoint.shards.begin(), checkpoint.shards.end(), name) !=
            checkpoint.shards.end())
      continue;
    const bool is_weights =
        std::any_of(std::begin(weights), std::end(weights),
                    [&](std::string_view ending) { return ends_with(name, ending); });
    const bool comes = entry.is_regular_file() && !is_weights && name.front() != '.';
    (comes ? checkpoint.companions : checkpoint.left).push_back(name);
  }
  std::sort(checkpoint.companions.begin(), checkpoint.companions.end());
  std::sort(checkpoint.left.begin(), checkpoint.left.end());
}

std::vector<std::string> names_ending(const fs::path& folder, std::string_view ending) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const auto name = entry.path().filename().string();
        ends_with(name, ending) && name.front() != '.')
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

// The preferred name, else the only one; empty when there is none.
std::string choose(const fs::path& folder, std::string_view ending, const std::string& usual) {
  const auto names = names_ending(folder, ending);
  if (names.empty()) return {};
  if (std::find(names.begin(), names.end(), usual) != names.end()) return usual;
  if (names.size() > 1)
    refuse("convert", fmt::format("the folder must have {} or one *{}", usual, ending),
           fmt::format("{} and {} more", names.front(), names.size() - 1));
  return names.front();
}

fs::path plain(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

// Files beside the folder to be, with hidden names; whatever is still there at the end goes.
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

Checkpoint find_checkpoint(const std::string& path) {
  Checkpoint checkpoint;
  if (fs::is_directory(path)) {
    checkpoint.whole_folder = true;
    checkpoint.folder = path;
    checkpoint.index = choose(path, ".safetensors.index.json", "model.safetensors.index.json");
    if (checkpoint.index.empty()) {
      const std::string only = choose(path, ".safetensors", "model.safetensors");
      if (only.empty()) refuse("convert", "the folder must have .safetensors files", path);
      checkpoint.shards = {only};
    }
  } else if (ends_with(path, ".index.json")) {
    checkpoint.whole_folder = true;
    checkpoint.folder = fs::path(path).parent_path();
    if (checkpoint.folder.empty()) checkpoint.folder = ".";
    checkpoint.index = fs::path(path).filename().string();
  } else {
    if (!ends_with(path, ".safetensors"))
      refuse("convert", "IN must be a .safetensors file, a folder or a .index.json", path);
    checkpoint.folder = fs::path(path).parent_path();
    checkpoint.shards = {fs::path(path).filename().string()};
    return checkpoint;
  }
  if (!checkpoint.index.empty()) {
    for (const auto& [tensor, shard] : read_index(checkpoint.folder / checkpoint.index))
      checkpoint.shards.push_back(shard);
    auto& shards = checkpoint.shards;
    std::sort(shards.begin(), shards.end());
    shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
    for (const std::string& shard : shards)
      if (!fs::exists(checkpoint.folder / shard))
        refuse((checkpoint.folder / checkpoint.index).string(),
               "a shard of the index must be there", shard);
  }
  sort_the_rest(checkpoint);
  return checkpoint;
}

void check_index(const Checkpoint& checkpoint,
                 const std::function<bool(const std::string&, const std::string&)>& holds) {
  if (checkpoint.index.empty()) return;
  const fs::path path = checkpoint.folder / checkpoint.index;
  for (const auto& [tensor, shard] : read_index(path))
    if (!holds(shard, tensor))
      refuse(path.string(), "a tensor of the index must be in its shard",
             Json(tensor.substr(0, 200) + " in " + shard)
                 .dump(-1, ' ', true, Json::error_handler_t::replace));
}

void check_folder(const fs::path& folder) {
  const fs::path out = plain(folder);
  std::error_code error;
  const fs::file_status status = fs::symlink_status(out, error);
  if (fs::exists(status) && !(fs::is_directory(status) && fs::is_empty(out)))
    refuse(folder.string(), "the output folder must be new, or empty", "one that is not");
  if (!fs::is_directory(out.parent_path()))
    refuse(folder.string(), "the output must lie in a folder that is there",
           out.parent_path().string());
}

void write_folder(const fs::path& folder, const std::vector<FileToWrite>& files) {
  check_folder(folder);
  const fs::path out = plain(folder);
  Hidden hidden(out.parent_path());
  // Each file is written within the writing of the one before: they get their names only on
  // the way back, when all are complete.
  const std::function<void(std::size_t)> write_from = [&](std::size_t index) {
    if (index == files.size()) return;
    io::write_aside(fs::path(hidden.add()), [&](io::Output& output) {
      files[index].write(output);
      write_from(index + 1);
    });
  };
  write_from(0);
  fs::create_directory(hidden.folder());
  for (std::size_t i = 0; i < files.size(); ++i)
    fs::rename(hidden.files()[i], hidden.folder() / files[i].name);
  if (std::rename(hidden.folder().c_str(), out.c_str()) != 0)
    refuse(folder.string(), "the output folder must be new, or empty",
           std::generic_category().message(errno));
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
