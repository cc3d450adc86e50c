// Comparison of names that a user writes: case and separators do not count, and a name that is
// not found is answered with the nearest ones.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gnomon::internal {

// Returns the letters and digits of a name in lower case: "t5bias" for "T5-Bias". ++ is
// "plusplus".
std::string plain(std::string_view name);

// Returns at most 3 of `names`, nearest to `got` first, those of equal distance in their order.
// Distance: insertions, deletions, substitutions and swaps of adjacent characters of the plain
// names (optimal string alignment), but 1 if one plain name of at least 3 characters is part of
// the other. A name is near if its distance is at most 1 + a fifth of the length of `got`.
std::vector<std::string_view> nearest(std::span<const std::string_view> names,
                                      std::string_view got);

// Returns `got` for an error message, with the nearest names if there are any:
// "rotray; nearest: rotary".
std::string with_nearest(std::span<const std::string_view> names, std::string_view got);

}  // namespace gnomon::internal
