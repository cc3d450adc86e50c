#include "apps/lab/data/model_size.h"

#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

std::optional<ModelSize> parse_size(const std::string& text) {
  const std::size_t x = text.find('x');
  if (x == std::string::npos) return std::nullopt;
  const ModelSize size{parse_integer(text.substr(0, x)).value_or(0),
                       parse_integer(text.substr(x + 1)).value_or(0)};
  return size.text() == text ? std::optional(size) : std::nullopt;
}

}  // namespace

std::string ModelSize::text() const {
  return std::to_string(layers) + "x" + std::to_string(width);
}

SizedName split_size(const std::string& entry) {
  const std::size_t at = entry.rfind('@');
  if (at == std::string::npos) return {entry, std::nullopt};
  const auto size = parse_size(entry.substr(at + 1));
  return {size ? entry.substr(0, at) : entry, size};
}

std::vector<ModelSize> parse_sizes(const std::vector<std::string>& texts) {
  constexpr const char* rule = "--sizes must be LAYERSxWIDTH, as 2x64,4x128";
  if (texts.empty()) refuse("lab", rule, "none");
  std::vector<ModelSize> sizes;
  for (const std::string& text : texts) {
    const auto size = parse_size(text);
    if (!size) refuse("lab", rule, text);
    add_once(sizes, *size);
  }
  return sizes;
}

std::vector<std::string> with_sizes(const std::vector<std::string>& encodings,
                                    const std::vector<ModelSize>& sizes) {
  std::vector<std::string> entries;
  for (const ModelSize& size : sizes)
    for (const std::string& name : encodings) {
      if (split_size(name).size)
        refuse("lab", "--sizes requires --encodings without sizes", name);
      entries.push_back(name + "@" + size.text());
    }
  return entries;
}

void take_sizes(Settings& settings) {
  const std::vector<ModelSize> sizes = sizes_of(settings);
  for (std::string& entry : settings.encodings) {
    const std::string size = size_of(settings, entry).text();
    entry = split_size(entry).name + (sizes.size() > 1 ? "@" + size : "");
  }
  settings = sized(settings, "@" + sizes[0].text());
}

Settings sized(const Settings& settings, const std::string& entry) {
  Settings own = settings;
  const ModelSize size = size_of(settings, entry);
  if (size.layers == settings.layers && size.width == settings.width) return own;
  const std::int64_t head_dim = settings.width / settings.heads;
  if (size.width % head_dim != 0)
    refuse("lab",
           "the width of a size must be a multiple of the head dimension " +
               std::to_string(head_dim),
           entry);
  own.layers = size.layers;
  own.width = size.width;
  own.heads = size.width / head_dim;
  return own;
}

std::vector<ModelSize> sizes_of(const Settings& settings) {
  std::vector<ModelSize> sizes;
  for (const std::string& entry : settings.encodings) add_once(sizes, size_of(settings, entry));
  return sizes;
}

ModelSize size_of(const Settings& settings, const std::string& entry) {
  return split_size(entry).size.value_or(ModelSize{settings.layers, settings.width});
}

}  // namespace gnomon::lab
