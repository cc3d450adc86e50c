// Checkpoint: the `.safetensors` files of a model, either one file or the shards of an index.
//
//   https://huggingface.co/docs/transformers/big_models, "Sharded checkpoints":
//   model.safetensors.index.json is {"metadata": {...}, "weight_map": {tensor: file, ...}}.
//
// `names` and `tensor` are the functions that model::Checkpoint of gnomon/model/layer.h
// requires.
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

// Opens a file when one of its tensors is first requested and keeps it mapped. Not thread-safe:
// use one thread at a time.
class Checkpoint {
 public:
  // `path`: a `.safetensors` file, an index (`.index.json`), or a folder. In a folder, the
  // constructor uses model.safetensors.index.json, or else the only index, or else
  // model.safetensors, or else the only `.safetensors` file.
  //
  // Throws std::invalid_argument if the path is none of these, or if the index names a file
  // that does not exist or is not in the folder of the index. Throws FormatError if the index
  // is longer than 100 MB, is not JSON of the form above, names a tensor twice, or names none.
  explicit Checkpoint(const std::filesystem::path& path);

  const std::filesystem::path& folder() const noexcept { return folder_; }
  const std::string& index() const noexcept { return index_; }  // a file name; empty: none
  // Names of the files in the folder, sorted.
  const std::vector<std::string>& shards() const noexcept { return shards_; }

  // Returns the names of all tensors, sorted. Opens the file if there is no index.
  std::vector<std::string> names() const;
  // Throws as SafeTensors does, and std::invalid_argument if there is no such shard.
  const SafeTensors& shard(std::string_view name) const;
  // Throws as `shard` does, and std::invalid_argument if no shard has the tensor.
  Array tensor(std::string_view name) const;
  // Opens all shards. Throws std::invalid_argument if a tensor is not in the shard that the
  // index names for it.
  void check() const;

 private:
  std::filesystem::path folder_;
  std::string index_;
  std::vector<std::string> shards_;
  std::map<std::string, std::string, std::less<>> shard_of_;  // shard of each tensor; empty
                                                              // without an index
  mutable std::map<std::string, std::unique_ptr<SafeTensors>, std::less<>> open_;
};

}  // namespace gnomon::io
