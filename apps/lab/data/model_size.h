// Sizes of models. An entry of --encodings that ends with @LAYERSxWIDTH is trained in a model
// of that size, for example rotary@8x256 or rotary@random@8x256. --sizes appends sizes to all
// entries. An entry without a size has that of --layers and --width. All models of a session
// have the same head dimension, width / heads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"

namespace gnomon::lab {

struct ModelSize {
  std::int64_t layers = 0, width = 0;

  std::string text() const;  // "8x256"
  bool operator==(const ModelSize&) const = default;
};

// "rotary@8x256" as "rotary" and 8x256. No size if the name does not end with one.
struct SizedName {
  std::string name;
  std::optional<ModelSize> size;
};
SizedName split_size(const std::string& entry);

// Each size once. Throws std::invalid_argument if a text is no size, or if there is none.
std::vector<ModelSize> parse_sizes(const std::vector<std::string>& texts);
// Every entry at every size, by size. Throws std::invalid_argument if an entry has a size.
std::vector<std::string> with_sizes(const std::vector<std::string>& encodings,
                                    const std::vector<ModelSize>& sizes);

// Gives every entry its size, and the settings the first of the sizes. If all entries have the
// same size, the settings have it and no entry has.
void take_sizes(Settings& settings);

// The settings with the layers, width and heads of an entry. Throws std::invalid_argument
// unless its width is a multiple of the head dimension.
Settings sized(const Settings& settings, const std::string& entry);
// The sizes of the entries, each once, in their order.
std::vector<ModelSize> sizes_of(const Settings& settings);
// The size of an entry.
ModelSize size_of(const Settings& settings, const std::string& entry);

}  // namespace gnomon::lab
