// Conversion of a Hugging Face checkpoint to a GGUF file that llama.cpp opens: the keys, the
// names of the tensors, and the pairing of q and k of the graph of its architecture.
//
//   const io::Checkpoint checkpoint(folder);
//   const GgufConversion conversion = plan_gguf(config, tensors_of(checkpoint), {});
//   io::write_atomically(
//       path, [&](io::Output& out) { write_gguf(conversion, checkpoint, out); });
//
// The names of the tensors, the keys and the fixed values of a graph stand in the row of the
// family. `gguf_families` returns the families that can be converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/io/checkpoint.h"
#include "gnomon/io/file.h"
#include "gnomon/model/gguf_vocabulary.h"
#include "gnomon/model/gguf_writer.h"

namespace gnomon::model {

// A tensor of the checkpoint, and its elements in the order of a part of the tensor of the
// file: element [i, j, ...] is element offset + i stride_0 + j stride_1 + ... of the
// checkpoint's.
struct GgufPart {
  struct Axis {
    std::int64_t extent = 0, stride = 0;  // in elements
  };
  std::string tensor;
  // MXFP4: the tensor of the scales. `tensor` has rows of blocks, and `offset` and `axes` count
  // rows.
  std::string scales = {};
  io::Array::Shape shape;  // of the checkpoint's tensor
  io::Element element = {};
  std::int64_t offset = 0;
  std::vector<Axis> axes;  // outermost first
};

// Data of a tensor of the file: parts of the checkpoint, one after the other, or values.
struct GgufData {
  std::vector<GgufPart> parts;
  double added = 0;           // added to each element
  std::vector<float> values;  // if there are no parts
};

struct GgufConversion {
  GgufHeader header;
  std::vector<GgufData> data;  // of each tensor of the header
  std::string model_type;
  // What llama.cpp computes otherwise than the model, and what the file lacks.
  std::vector<std::string> notes;

  std::uint64_t bytes() const;  // size of the file
};

struct GgufOptions {
  std::string name = "config.json";  // file name in error messages
  std::string title = {};            // general.name; empty or not UTF-8: none
  // Element type of matrices. Empty: that of the checkpoint. Vectors, norms and biases are F32.
  std::optional<GgufElement> element = {};
  TokenizerFiles tokenizer = {};  // without tokenizer.json no vocabulary is written
};

// Returns the families that can be converted, by model_type, sorted.
std::vector<std::string> gguf_families();

// Returns the tensors of all shards. Throws as io::Checkpoint::check does.
std::vector<io::TensorEntry> tensors_of(const io::Checkpoint& checkpoint);

// Plans the conversion of a model with this config.json and these tensors.
//
// Throws FormatError as read_config does, and if a key that llama.cpp requires is missing.
// Throws std::invalid_argument, naming tensor, key or family, if the family cannot be
// converted, if a tensor is missing, unknown, or has another shape or a type other than F32,
// F16 and BF16, and if llama.cpp's graph would compute other frequencies, scales or norms than
// the model has.
GgufConversion plan_gguf(std::string_view config, std::span<const io::TensorEntry> tensors,
                         const GgufOptions& options);

// Writes the file. `checkpoint` must have the tensors that were planned. Memory: the header and
// at most 64 rows of a tensor. Throws std::invalid_argument if a tensor has changed, and as
// io::Checkpoint does.
void write_gguf(const GgufConversion& conversion, const io::Checkpoint& checkpoint,
                io::Output& out);

}  // namespace gnomon::model
