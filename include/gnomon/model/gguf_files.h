// The file or files of a model in GGUF, by path.
//
// A split file is a set of shards, `NAME-00001-of-00003.gguf` to `NAME-00003-of-00003.gguf`.
// The first shard has the metadata. Each shard has the keys split.no, split.count and
// split.tensors.count, and a part of the tensors; the first often has none.
#pragma once

#include <filesystem>
#include <vector>

#include "gnomon/io/file.h"
#include "gnomon/model/gguf.h"

namespace gnomon::model {

// Maps a file, or all shards of a split file, and parses them.
class GgufFiles {
 public:
  // `path`: a file, or any shard. The other shards are in the same folder.
  //
  // Throws std::invalid_argument if a file cannot be opened, if a shard does not exist, or if
  // the name of a shard does not have the form above. Throws FormatError as Gguf does.
  explicit GgufFiles(const std::filesystem::path& path);

  const Gguf& gguf() const noexcept { return gguf_; }

 private:
  std::vector<io::MappedFile> files_;
  Gguf gguf_;
};

}  // namespace gnomon::model
