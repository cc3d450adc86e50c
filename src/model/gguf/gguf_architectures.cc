// The list of architectures, from the rows of the families.
#include <algorithm>

#include "gnomon/model/gguf_model.h"
#include "src/model/families/family.h"

namespace gnomon::model {
namespace {

std::string position_of(const internal::Family& row) {
  switch (row.gguf.rope_type) {
    case internal::RopeType::adjacent:
      return "rotary, adjacent";
    case internal::RopeType::halves:
      return "rotary, halves";
    case internal::RopeType::sections:
      return "M-RoPE, halves";
    case internal::RopeType::interleaved_sections:
      return "interleaved M-RoPE, halves";
    case internal::RopeType::none:
      break;
  }
  if (row.gguf.parts != internal::GgufParts::none) return "T5";
  if (row.alibi_heads == internal::by_heads) return "ALiBi";
  return std::string(row.position);
}

std::string reading_of(const internal::Family& row) {
  if (!row.gguf.refused.empty()) return "no: " + std::string(row.gguf.refused);
  if (row.unsupported.empty()) return "yes";
  if (const std::string_view key = row.gguf.unsupported_by; !key.empty())
    return "yes, but layers with " + std::string(key) +
           " are not lowered: " + std::string(row.unsupported);
  return "yes, but layers are not lowered: " + std::string(row.unsupported);
}

}  // namespace

std::vector<ArchitectureInfo> architectures() {
  std::vector<ArchitectureInfo> all;
  for (const internal::Family& row : internal::all_families())
    if (!row.gguf.architecture.empty())
      all.push_back({std::string(row.gguf.architecture), std::string(row.model_type),
                     row.gguf.refused.empty() ? position_of(row) : "", reading_of(row)});
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

}  // namespace gnomon::model
