// Lookup of encodings by name, title or synonym.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/model/encoding.h"
#include "src/core/nearest.h"

namespace gnomon::model {
namespace {

// Names in papers and code, beside the names and titles of the list.
constexpr std::pair<std::string_view, std::string_view> synonyms[] = {
    {"NoPE", "none"},
    {"no position", "none"},
    {"no position encoding", "none"},
    {"sine", "sinusoidal"},
    {"sinusoid", "sinusoidal"},
    {"sinusoidal embedding", "sinusoidal"},
    {"learned positions", "learned"},
    {"learned absolute", "learned"},
    {"learned embedding", "learned"},
    {"axial learned", "axial"},
    {"Fourier features", "fourier"},
    {"Perceiver", "fourier"},
    {"random Fourier features", "fourier-gaussian"},
    {"learnable Fourier features", "fourier-learned"},
    {"sinusoidal 2D", "sinusoidal-grid"},
    {"2D sinusoidal", "sinusoidal-grid"},
    {"MAE", "sinusoidal-grid"},
    {"sinusoidal video", "video"},
    {"ViLT", "cross-modal"},
    {"LapPE", "laplacian"},
    {"RWPE", "random-walk"},
    {"RWSE", "random-walk"},
    {"RoPE", "rotary"},
    {"rotary embedding", "rotary"},
    {"rotary position embedding", "rotary"},
    {"YaRN", "rotary-scaled"},
    {"scaled rotary", "rotary-scaled"},
    {"scaled RoPE", "rotary-scaled"},
    {"RoPE scaled", "rotary-scaled"},
    {"axial rotary", "rotary-axial"},
    {"axial RoPE", "rotary-axial"},
    {"2D RoPE", "rotary-axial"},
    {"RoPE 2D", "rotary-axial"},
    {"multimodal rotary", "mrope"},
    {"multimodal RoPE", "mrope"},
    {"attention with linear biases", "alibi"},
    {"T5 relative bias", "t5"},
    {"T5's relative position bias", "t5"},
    {"clipped bias", "clipped"},
    {"clipped relative bias", "clipped"},
    {"KERPLE log", "kerple"},
    {"dynamic position bias", "dynamic"},
    {"Swin v2 bias", "swin-v2"},
    {"continuous position bias", "swin-v2"},
    {"CPB", "swin-v2"},
    {"LayoutLM", "layout"},
    {"LayoutLMv2", "layout"},
    {"LayoutLMv3", "layout"},
    {"relative position representations", "shaw"},
    {"TXL", "transformer-xl"},
    {"DeBERTa v1", "deberta"},
    {"disentangled attention", "deberta"},
    {"DeBERTa v2", "deberta-v3"},
    {"MViTv2", "decomposed"},
    {"SAM", "decomposed"},
};

}  // namespace

const EncodingInfo& find_encoding(std::string_view name) {
  const std::string wanted = gnomon::internal::plain(name);
  std::vector<std::string_view> names;
  for (const EncodingInfo& one : encodings()) {
    if (wanted == gnomon::internal::plain(one.name) ||
        wanted == gnomon::internal::plain(one.title))
      return one;
    names.push_back(one.name);
  }
  for (const auto& [synonym, its] : synonyms) {
    if (wanted == gnomon::internal::plain(synonym)) return find_encoding(its);
    names.push_back(synonym);
  }
  refuse("encoding",
         "name must be one of the " + std::to_string(encodings().size()) +
             " that `gnomon list` prints",
         gnomon::internal::with_nearest(names, name));
}

std::string canonical_names(std::string_view scheme) {
  constexpr std::string_view separators = "+*/@";
  std::string text;
  for (char before = 0;;) {
    const std::size_t end = std::min(scheme.find_first_of(separators), scheme.size());
    const std::string_view part = scheme.substr(0, end);
    // A number of layers follows *, a numbering of positions follows @.
    const bool name = before != '*' && before != '@' && !part.empty();
    text += name ? find_encoding(part).name : part;
    if (end == scheme.size()) return text;
    before = scheme[end];
    text += before;
    scheme.remove_prefix(end + 1);
  }
}

}  // namespace gnomon::model
