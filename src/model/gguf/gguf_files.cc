// Split GGUF files.
#include "gnomon/model/gguf_files.h"

#include <cstdio>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::model {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t max_shards = 65535;  // split.count is a u16

[[noreturn]] void fail(const Gguf& shard, std::string_view key, const std::string& reason) {
  const GgufEntry* const entry = shard.find(key);
  throw FormatError(shard.name(), entry ? entry->offset : 0, reason);
}

std::int64_t split_value(const Gguf& shard, const std::string& key) {
  const auto value = shard.integer(key);
  if (!value) fail(shard, key, key + " is missing, which every shard of a split file has");
  return *value;
}

void require(const Gguf& shard, const std::string& key, std::int64_t wanted,
             const std::string& meaning) {
  if (const std::int64_t value = split_value(shard, key); value != wanted)
    fail(shard, key,
         key + " must be " + std::to_string(wanted) + ", " + meaning + ", got " +
             std::to_string(value));
}

// Returns "-00001-of-00003.gguf" for the first of three.
std::string ending(std::int64_t no, std::int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05lld-of-%05lld.gguf", static_cast<long long>(no + 1),
                static_cast<long long>(count));
  return text;
}

std::vector<io::MappedFile> map_files(const fs::path& path) {
  std::vector<io::MappedFile> files;
  files.emplace_back(path);
  const Gguf given(files[0].bytes(), files[0].name());
  const std::int64_t count = given.integer("split.count").value_or(1);
  if (count < 0 || count > max_shards)
    fail(given, "split.count",
         "split.count must be 0 to " + std::to_string(max_shards) + ", got " +
             std::to_string(count));
  if (count <= 1) return files;
  const std::int64_t no = split_value(given, "split.no");
  if (no < 0 || no >= count)
    fail(given, "split.no",
         "split.no must be 0 to " + std::to_string(count - 1) + ", got " + std::to_string(no));
  const std::string name = path.filename().string();
  if (!name.ends_with(ending(no, count)))
    refuse(given.name(),
           "the name of shard split.no " + std::to_string(no) + " of split.count " +
               std::to_string(count) + " must end with " + ending(no, count),
           gnomon::internal::shown(name));
  const std::string prefix = name.substr(0, name.size() - ending(no, count).size());
  files.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    const fs::path shard = path.parent_path() / (prefix + ending(i, count));
    if (!fs::exists(shard))
      refuse(given.name(),
             "all " + std::to_string(count) + " shards (split.count) must be in its folder",
             gnomon::internal::shown(shard.filename().string()) + ", which does not exist");
    files.emplace_back(shard);
  }
  return files;
}

const GgufShard& first_of(const std::vector<GgufShard>& shards) {
  if (shards.empty() || shards.size() > max_shards)
    refuse("gguf", "a model must have 1 to " + std::to_string(max_shards) + " shards",
           static_cast<std::int64_t>(shards.size()));
  return shards[0];
}

Gguf parse(const std::vector<io::MappedFile>& files) {
  if (files.size() == 1) return {files[0].bytes(), files[0].name()};
  std::vector<GgufShard> shards;
  for (const io::MappedFile& file : files) shards.push_back({file.bytes(), file.name()});
  return Gguf(std::move(shards));
}

}  // namespace

Gguf::Gguf(std::vector<GgufShard> shards)
    : Gguf(first_of(shards).bytes, first_of(shards).name) {
  const auto count = static_cast<std::int64_t>(shards.size());
  require(*this, "split.count", count, "the number of shards");
  require(*this, "split.no", 0, "the place of the shard");
  const std::int64_t tensors = split_value(*this, "split.tensors.count");
  const auto architecture = text("general.architecture");
  for (std::int64_t no = 1; no < count; ++no) {
    const auto& [bytes, name] = shards[static_cast<std::size_t>(no)];
    const Gguf shard(bytes, name);
    require(shard, "split.count", count, "the number of shards");
    require(shard, "split.no", no, "the place of the shard");
    require(shard, "split.tensors.count", tensors, "as in " + this->name());
    if (const auto other = shard.text("general.architecture"); other && other != architecture)
      fail(shard, "general.architecture",
           "general.architecture must be " +
               gnomon::internal::shown(architecture.value_or("missing")) + ", as in " +
               this->name() + ", got " + gnomon::internal::shown(*other));
    for (GgufTensor tensor : shard.tensors()) {
      tensor.shard = static_cast<std::uint16_t>(no);
      tensors_.push_back(tensor);
    }
  }
  shards_ = std::move(shards);
  require(*this, "split.tensors.count", static_cast<std::int64_t>(tensors_.size()),
          "the number of tensors in all shards");
  sort_tensors();
}

GgufFiles::GgufFiles(const fs::path& path) : files_(map_files(path)), gguf_(parse(files_)) {}

}  // namespace gnomon::model
