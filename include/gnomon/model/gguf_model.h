// From a GGUF file to what its model does with position: the numbers that llama.cpp would use.
//
//   const gnomon::model::Gguf file(mapped.bytes(), mapped.name());
//   const auto model = gnomon::model::read_gguf(file);
//
// GGUF says frequencies, scalings and factors (`rope_freqs.weight`), but not which elements
// pair up: that follows from the architecture, and is known here for those that llama.cpp
// knows.
#pragma once

#include "gnomon/model/description.h"
#include "gnomon/model/gguf.h"

namespace gnomon::model {

// Throws FormatError (file, byte, reason) when a size is missing or cannot be, a scaling is not
// known, or factors do not fit. An architecture that is not known is refused: its pairing would
// be a guess.
ModelDescription read_gguf(const Gguf& file);

}  // namespace gnomon::model
