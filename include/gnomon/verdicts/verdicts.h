// Verdicts on the properties that papers and tutorials claim for position encodings: whether
// positions differ, whether only the distance counts, what happens beyond the training length,
// whether nearer keys score higher, whether order has an effect, whether left and right are
// told apart, and whether decoding with a cache equals the full pass. Each verdict comes from
// measurements (gnomon/analysis) of the encoding's usual settings. `gnomon check` prints them.
//
//   const std::string json = gnomon::verdicts::to_json("rotary");
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gnomon::verdicts {

// Sizes of the measurements.
struct Setting {
  std::int64_t width = 128;    // C, channels; a multiple of 2 heads, 4 to 65536
  std::int64_t heads = 4;      // H; head dimension 32
  std::int64_t trained = 128;  // positions of a training window; 16 to 4096
  std::int64_t length = 512;   // measured positions; `trained` to 65536
};
// Throws std::invalid_argument if a size breaks a rule above.
void check(const Setting& setting);

// Returns the measurements of an encoding of the list and the verdicts:
//
//   {"kind": "rotary", ..., "promises": [{"what": ..., "kept": true}, ...],
//    "verdicts": {"unique": {"word": "yes", "number": "0.09", "sentence": ...}, ...}}
//
// A promise is a property that the definition of the encoding guarantees. Parameters that are
// trained have random values, and a verdict that depends on them is "trained". Cost:
// O(length^2 heads + length^2 width). Throws as check and model::find_encoding.
std::string to_json(std::string_view name, const Setting& setting = {});

}  // namespace gnomon::verdicts
