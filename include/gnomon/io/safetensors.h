// `.safetensors`: named tensors in one file, the format of the weights of released models.
//
//   https://github.com/huggingface/safetensors, section "Format".
//
//   u64 N | JSON of N bytes: {"name": {"dtype": "F32", "shape": [2, 3],     | bytes of the
//         |   "data_offsets": [begin, end]}, "__metadata__": {"k": "v"}}    | tensors, no holes
//
// Offsets are in bytes from the end of the JSON.
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

// Header entry of one tensor.
struct TensorEntry {
  std::string name, dtype;  // dtype as written: "F32", "BF16", "F8_E4M3"
  Array::Shape shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header

  bool operator==(const TensorEntry&) const = default;
};

using Metadata = std::map<std::string, std::string>;

// A mapped `.safetensors` file. The constructor reads the header only. The bytes of a tensor
// are read on first access.
class SafeTensors {
 public:
  // Memory: less than nine times the size of the header, which is at most 100 MB.
  //
  // Throws FormatError (file, byte, reason) if the header is longer than the file or than 100
  // MB, is not UTF-8 JSON of the form above, names a key twice, or has more than 65536 entries
  // of metadata, or if the offsets of a tensor are outside the file, do not match its dtype and
  // shape, overlap others or leave holes. A tensor of an unknown dtype is kept, and its size is
  // not checked. Throws std::invalid_argument if the file cannot be opened.
  explicit SafeTensors(const std::filesystem::path& path);

  const std::string& name() const noexcept { return file_->name(); }  // the path
  // Tensors in the order of their bytes in the file.
  std::span<const TensorEntry> tensors() const noexcept { return tensors_; }
  const Metadata& metadata() const noexcept { return metadata_; }

  // Returns null if there is no tensor of that name.
  const TensorEntry* find(std::string_view name) const noexcept;
  // Returns the tensor, mapped (copied if its bytes are not aligned to its element type). The
  // bytes stay alive as long as any copy of the array. Throws std::invalid_argument, naming the
  // file and the tensor, if there is no such tensor.
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

// Writes the tensors in the given order and replaces the file atomically (io/file.h). The
// header is padded to a multiple of 8 bytes. The format has no padding between tensors, so pass
// wide element types first to keep all tensors aligned. Opaque arrays are written with their
// own dtype.
//
// Throws std::invalid_argument if a name occurs twice, is "__metadata__", or is not UTF-8.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> tensors,
                       const Metadata& metadata = {});

}  // namespace gnomon::io
