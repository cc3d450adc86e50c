// Rotary pairing of a GGUF file by its architecture. Files do not contain the pairing.
#pragma once

#include <string_view>

namespace gnomon::model::internal {

// The values of `llama_model_rope_type`.
enum class RopeType { adjacent = 1, halves, sections, interleaved_sections, none };

// Returns RopeType{} for an unknown architecture.
RopeType rope_type_of(std::string_view architecture) noexcept;

}  // namespace gnomon::model::internal
