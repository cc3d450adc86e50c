// The `.safetensors` files of a model: one file, or the shards that an index names.
//
//   https://huggingface.co/docs/transformers/big_models, "Sharded checkpoints":
//   model.safetensors.index.json is {"metadata": {...}, "weight_map": {tensor: file, ...}}.
//
// `names` and `tensor` are what model::Checkpoint of gnomon/model/layer.h asks for.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/io/array.h"
#include "gnomon/io/safetensors.h"

namespace gnomon::io {

// Files are opened when one of their tensors is first asked for, and stay mapped. Used by one
// thread at a time.
class Checkpoint {
 public:
  // `path`: a `.safetensors` file, an index (`.index.json`), or a folder. Of a folder: its
  // model.safetensors.index.json or only index, else its model.safetensors or only
  // `.safetensors` file.
  //
  // Throws std::invalid_argument when the path is none of these, or when the index names a
  // file that is not there or not in its own folder; FormatError when the index is longer than
  // 100 MB, is not JSON of the form above, names a tensor twice or names none.
  explicit Checkpoint(const std::filesystem::path& path);

  const std::filesystem::path& folder() const noexcept { return folder_; }
  const std::string& index() const noexcept { return index_; }  // a file name; empty: none
  // Names of the files in the folder, sorted.
  const std::vector<std::string>& shards() const noexcept { return shards_; }

  // Of all tensors, sorted. Without an index: opens the file.
  std::vector<std::string> names() const;
  // Throws as SafeTensors, and std::invalid_argument when there is no such shard.
  const SafeTensors& shard(std::string_view name) const;
  // Throws as `shard`, and std::invalid_argument when no shard has the tensor.
  Array tensor(std::string_view name) const;
  // Opens all shards. Throws std::invalid_argument when a tensor is not in the shard that the
  // index says.
  void check() const;

 private:
  std::filesystem::path folder_;
  std::string index_;
  std::vector<std::string> shards_;
  std::map<std::string, std::string, std::less<>> shard_of_;  // of tensors; none without index
  mutable std::map<std::string, std::unique_ptr<SafeTensors>, std::less<>> open_;
};

}  // namespace gnomon::io
