#include "gnomon/io/checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "gnomon/error.h"
#include "src/core/text.h"
#include "src/io/folder.h"
#include "src/io/shard_index.h"

namespace gnomon::io {
namespace {

namespace fs = std::filesystem;
using gnomon::internal::shown;

constexpr std::string_view index_ending = ".index.json", shard_ending = ".safetensors";

// Returns the file of the usual name in the folder, or else the only file with the extension;
// empty if there is none.
std::string choose(const fs::path& folder, std::string_view ending, const std::string& usual) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [&](const std::string& name) {
    return !name.ends_with(ending) || name.front() == '.';
  });
  if (names.empty()) return {};
  if (std::find(names.begin(), names.end(), usual) != names.end()) return usual;
  if (names.size() > 1)
    refuse("checkpoint", "the folder must have " + usual + " or one *" + std::string(ending),
           *std::min_element(names.begin(), names.end()) + " and " +
               std::to_string(names.size() - 1) + " more");
  return names.front();
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  if (fs::is_directory(path)) {
    folder_ = path;
    index_ = choose(path, std::string(shard_ending).append(index_ending),
                    "model.safetensors.index.json");
    if (index_.empty()) shards_ = {choose(path, shard_ending, "model.safetensors")};
    if (index_.empty() && shards_[0].empty())
      refuse("checkpoint", "the folder must have .safetensors files", path.string());
  } else {
    folder_ = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (name.ends_with(index_ending))
      index_ = name;
    else if (name.ends_with(shard_ending))
      shards_ = {name};
    else
      refuse("checkpoint", "must be a .safetensors file, a folder or a .index.json",
             path.string());
  }
  if (index_.empty()) return;
  {
    const MappedFile file(folder_ / index_);
    shard_of_ = internal::read_shard_index(file.text(), file.name());
  }
  for (const auto& [tensor, shard] : shard_of_) shards_.push_back(shard);
  std::sort(shards_.begin(), shards_.end());
  shards_.erase(std::unique(shards_.begin(), shards_.end()), shards_.end());
  for (const std::string& shard : shards_)
    if (!fs::exists(folder_ / shard))
      refuse((folder_ / index_).string(), "a shard of the index must exist", shard);
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> all;
  for (const auto& [tensor, shard] : shard_of_) all.push_back(tensor);
  if (!index_.empty()) return all;
  for (const TensorEntry& entry : shard(shards_[0]).tensors()) all.push_back(entry.name);
  std::sort(all.begin(), all.end());
  return all;
}

const SafeTensors& Checkpoint::shard(std::string_view name) const {
  if (!std::binary_search(shards_.begin(), shards_.end(), name))
    refuse(folder_.string(), "must contain the requested shard", shown(name));
  std::unique_ptr<SafeTensors>& file = open_[std::string(name)];
  if (!file) file = std::make_unique<SafeTensors>(folder_ / name);
  return *file;
}

Array Checkpoint::tensor(std::string_view name) const {
  if (index_.empty()) return shard(shards_[0]).tensor(name);
  const auto found = shard_of_.find(name);
  if (found == shard_of_.end())
    refuse((folder_ / index_).string(), "must contain the requested tensor", shown(name));
  return shard(found->second).tensor(name);
}

void Checkpoint::check() const {
  for (const std::string& name : shards_) shard(name);
  for (const auto& [tensor, name] : shard_of_)
    if (!shard(name).find(tensor))
      refuse((folder_ / index_).string(), "a tensor of the index must be in its shard",
             shown(tensor) + " in " + name);
}

}  // namespace gnomon::io
