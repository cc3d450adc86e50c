// `.safetensors`: named tensors in one file, the weights of released models.
//
//   https://github.com/huggingface/safetensors, section "Format".
//
//   u64 N | JSON of N bytes: {"name": {"dtype": "F32", "shape": [2, 3],     | the tensors'
//   bytes,
//         |   "data_offsets": [begin, end]}, "__metadata__": {"k": "v"}}    | without holes
//
// Offsets count bytes from the end of the JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/io/array.h"
#include "gnomon/io/file.h"

namespace gnomon::io {

// What the header says of one tensor.
struct TensorEntry {
  std::string name, dtype;  // dtype as written: "F32", "BF16", "F8_E4M3"
  Array::Shape shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header

  bool operator==(const TensorEntry&) const = default;
};

using Metadata = std::map<std::string, std::string>;

// A mapped file. Opening reads the header alone; a tensor's bytes are read when they are
// touched.
class SafeTensors {
 public:
  // Memory: less than nine times the header, of which at most 100 MB are read.
  //
  // Throws FormatError (file, byte, reason) when the header is longer than the file or than
  // 100 MB, is not JSON in UTF-8 of the form above, names a key twice, has more than 65536
  // entries of metadata, or when a tensor's offsets leave the file, do not fit its dtype and
  // shape, overlap others or leave holes. A dtype that is not known is kept, its size
  // unchecked. Throws std::invalid_argument when the file cannot be opened.
  explicit SafeTensors(const std::filesystem::path& path);

  const std::string& name() const noexcept { return file_->name(); }  // the path
  // In the order in which their bytes lie in the file.
  std::span<const TensorEntry> tensors() const noexcept { return tensors_; }
  const Metadata& metadata() const noexcept { return metadata_; }

  // Null when there is none of that name.
  const TensorEntry* find(std::string_view name) const noexcept;
  // Mapped (copied where its bytes are not aligned to its elements), and alive for as long as
  // any copy of it. Throws std::invalid_argument naming the file and the tensor if there is
  // none.
  Array tensor(std::string_view name) const;
  Array tensor(const TensorEntry& entry) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  std::uint64_t data_ = 0;  // where the header ends
  std::vector<TensorEntry> tensors_;
  std::vector<std::size_t> by_name_;  // sorted by name
  Metadata metadata_;
};

struct NamedArray {
  std::string name;
  Array array;
};

// Writes the tensors in the given order, aside and renamed (io/file.h); the header is padded to
// a multiple of 8 bytes. Give wide elements first to keep all of them aligned: the format knows
// no padding between tensors. Opaque arrays are written under their own dtype.
//
// Throws std::invalid_argument when a name occurs twice, is "__metadata__", or is not UTF-8.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> tensors,
                       const Metadata& metadata = {});

}  // namespace gnomon::io
