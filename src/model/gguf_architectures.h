// Which elements of a head pair up in a GGUF file: its architecture says it, and nothing else.
#pragma once

#include <string_view>

namespace gnomon::model::internal {

// As `llama_model_rope_type` has it.
enum class Turn { adjacent = 1, halves, sections, interleaved_sections, none };

// Turn{} for an architecture that is not known.
Turn turn_of(std::string_view architecture) noexcept;

}  // namespace gnomon::model::internal
