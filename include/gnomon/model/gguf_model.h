// Reader of model descriptions from GGUF files, with the frequencies and factors that llama.cpp
// computes.
//
//   const gnomon::model::Gguf file(mapped.bytes(), mapped.name());
//   const auto model = gnomon::model::read_gguf(file);
//
// A GGUF file contains frequencies, scalings and factors (`rope_freqs.weight`), but not the
// pairing. The pairing follows from the architecture, and the reader knows it for the
// architectures of llama.cpp.
#pragma once

#include <string>
#include <vector>

#include "gnomon/model/description.h"
#include "gnomon/model/gguf.h"

namespace gnomon::model {

// Returns the description of the model in `file`.
//
// Throws FormatError (file, byte, reason) if a size is missing or out of range, if a scaling is
// unknown, if factors have the wrong length, or if the architecture is unknown, because its
// pairing is then unknown too.
ModelDescription read_gguf(const Gguf& file);

// An architecture of GGUF files, as text. Used by the docs and tests.
struct ArchitectureInfo {
  std::string name;        // general.architecture
  std::string model_type;  // family with the same facts, or empty
  std::string position;    // "rotary, halves"; "M-RoPE, halves"; "ALiBi"; "none"
  // "yes"; "yes, but layers are not lowered: REASON"; "no: REASON"
  std::string read;
};
// All architectures that llama.cpp names, sorted.
std::vector<ArchitectureInfo> architectures();

}  // namespace gnomon::model
