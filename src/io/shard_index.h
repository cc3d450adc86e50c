// The index of a model in shards: model.safetensors.index.json.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace gnomon::io::internal {

using ShardOf = std::map<std::string, std::string, std::less<>>;  // by tensor

// Reads the text of an index. Throws FormatError for other JSON and if a tensor is named twice,
// std::invalid_argument if a shard is not a file name with the ending .safetensors.
ShardOf read_shard_index(std::string_view text, const std::string& name);

}  // namespace gnomon::io::internal
