#include "apps/lab/model/extension.h"

#include <fmt/format.h>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/model_size.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

constexpr ExtensionInfo list[] = {
    {"linear", "Interpolation (linear)", "Chen et al. 2023, arXiv:2306.15595"},
    {"ntk", "NTK-aware", "bloc97 2023; Peng et al. 2023, arXiv:2309.00071"},
    {"dynamic-ntk", "Dynamic NTK", "Peng et al. 2023, arXiv:2309.00071"},
    {"yarn", "YaRN", "Peng et al. 2023, arXiv:2309.00071"},
    {"drope", "Positions dropped (DroPE)", "Gelberg et al. 2025, arXiv:2512.12167"},
};

}  // namespace

std::span<const ExtensionInfo> extensions() { return list; }

const ExtensionInfo& find_extension(std::string_view name) {
  if (const ExtensionInfo* one = find_by(list, &ExtensionInfo::name, name)) return *one;
  refuse("lab",
         fmt::format("--extend must be one of {}",
                     fmt::join(mapped(list, &ExtensionInfo::name), ", ")),
         name);
}

std::string extension_title(const std::string& method) {
  return method == control_extension ? "Fine-tuned without scaling"
                                     : std::string(find_extension(method).title);
}

bool extends(const std::string& encoding) { return split_size(encoding).name == "rotary"; }

}  // namespace gnomon::lab
