#include "src/io/shard_index.h"

#include <utility>

#include "gnomon/error.h"
#include "src/core/text.h"
#include "src/io/json.h"

namespace gnomon::io::internal {
namespace {

using gnomon::internal::Json;
using gnomon::internal::JsonDocument;
using gnomon::internal::JsonType;
using gnomon::internal::shown;

// Whether `name` is a file name without a folder, for any path separator.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() < 256 &&
         name.find('/') == std::string::npos && name.find('\\') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

ShardOf read_shard_index(std::string_view text, const std::string& name) {
  constexpr std::size_t most = std::size_t{100} << 20;
  if (text.size() > most) throw FormatError(name, 0, "an index of more than 100 MB");
  const JsonDocument document(text, name);
  const Json root = document.root();
  root.require(JsonType::object, "an index");
  const auto map = root.find("weight_map");
  if (!map) root.fail("the index must have a weight_map");
  map->require(JsonType::object, "weight_map");
  ShardOf shard_of;
  map->for_each_member([&](const std::string& tensor, Json value) {
    std::string shard = value.string("a shard");
    constexpr std::string_view ending = ".safetensors";
    if (!is_plain_name(shard) || !shard.ends_with(ending) || shard == ending)
      refuse(name, "a shard must be the name of a .safetensors file beside the index",
             shown(shard));
    if (!shard_of.emplace(tensor, std::move(shard)).second)
      value.fail("the index must name each tensor once, got " + shown(tensor) + " twice");
  });
  if (shard_of.empty()) map->fail("the weight_map must not be empty");
  return shard_of;
}

}  // namespace gnomon::io::internal
