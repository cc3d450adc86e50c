#include "src/model/families/family.h"

#include <algorithm>

namespace gnomon::model::internal {

const std::vector<Family>& all_families() {
  static const std::vector<Family> sorted = [] {
    Families add;
    for (const auto lineage :
         {add_audio_encoder, add_bert, add_deepseek, add_encoder_decoder, add_gemma, add_glm,
          add_gpt, add_granite, add_hybrid, add_inkling, add_llama, add_multimodal, add_qwen,
          add_refused, add_rotary_tower, add_sliding, add_speech, add_vit, add_window_tower})
      lineage(add);
    std::vector<Family> rows = std::move(add).rows();
    std::stable_sort(rows.begin(), rows.end(), [](const Family& a, const Family& b) {
      return a.model_type < b.model_type;
    });
    return rows;
  }();
  return sorted;
}

const Family* find_row(std::string_view model_type) {
  if (model_type.empty()) return nullptr;
  const auto& rows = all_families();
  const auto found = std::lower_bound(
      rows.begin(), rows.end(), model_type,
      [](const Family& row, std::string_view type) { return row.model_type < type; });
  return found != rows.end() && found->model_type == model_type ? &*found : nullptr;
}

const Family* find_family(std::string_view model_type) {
  const Family* const row = find_row(model_type);
  return row && row->read ? row : nullptr;
}

const Family* find_architecture(std::string_view architecture) {
  for (const Family& row : all_families())
    if (!architecture.empty() && row.gguf.architecture == architecture) return &row;
  return nullptr;
}

}  // namespace gnomon::model::internal
