// The charts of `gnomon plot`, as figures.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gnomon/plot/page.h"

namespace gnomon::verdicts {
struct EncodingMatrices;
}

namespace gnomon::cli {

// Options that are not given are empty; each drawing has its own default.
struct PlotOptions {
  std::string what, kind;
  std::optional<std::int64_t> dim, length, heads;
  std::optional<double> base;
  std::optional<std::string> grid, cells, parameters;
};

struct Drawing {
  const char* what;   // the name in `gnomon plot WHAT`
  const char* other;  // another name that is accepted, or the same
  std::function<plot::Figure(const PlotOptions&)> draw;
};
const std::vector<Drawing>& drawings();

// Defined in drawings_scores.cc.
plot::Figure draw_bias(const PlotOptions& options);
plot::Figure draw_attention(const PlotOptions& options);
plot::Figure draw_shuffled(const PlotOptions& options);

// The trained position table of a small ViT, [64, 64], for a grid of 8 x 8 patches
// (tools/vit/positions.cc).
inline constexpr std::int64_t vit_side = 8, vit_width = 64;
std::vector<float> vit_positions();

// Throws std::invalid_argument if an option is given that has no effect because of another one.
void refuse_with(bool given, const char* option, const char* reason);

// Discloses parameters that are not trained: " The parameters are ...", or nothing.
std::string parameter_note(const verdicts::EncodingMatrices& matrices);

}  // namespace gnomon::cli
