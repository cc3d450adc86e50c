// Pictures of lines that the program draws itself: digits, simple shapes, and their pixels.
//
// Coordinates are x to the right and y downwards. Glyphs lie in the unit square. Values of
// pixels are 0 for paper and 1 for ink.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/data/draws.h"

namespace gnomon::lab::image_examples {

struct Point {
  double x, y;
};
struct Line {
  Point from, to;
};
using Glyph = std::vector<Line>;

constexpr std::int64_t digits = 10;
// digit: 0 to 9. The glyph of 9 is that of 6, rotated by half a turn.
Glyph digit_glyph(std::int64_t digit);

constexpr std::string_view shapes[] = {"circle", "square", "triangle", "cross", "plus"};
// shape: an index of `shapes`.
Glyph shape_glyph(std::int64_t shape);

// A square picture, row by row. `units`: its side in the units of the drawing.
class Canvas {
 public:
  Canvas(std::int64_t pixels, double units)
      : side_(pixels),
        scale_(static_cast<double>(pixels) / units),
        values_(static_cast<std::size_t>(pixels * pixels)) {}

  // Draws the lines with round ends and antialiased edges. Pixels whose column is not in
  // [clip_left, clip_right) units are unchanged.
  void draw(const Glyph& lines, double thickness, double clip_left, double clip_right);
  // Adds to each pixel a number from the uniform distribution on [-amplitude, amplitude].
  void add_noise(double amplitude, Draws& draws);

  std::int64_t side() const { return side_; }
  const std::vector<float>& values() const { return values_; }

 private:
  std::int64_t side_;
  double scale_;  // pixels per unit
  std::vector<float> values_;
};

// Uniform on [low, high).
double uniform(double low, double high, Draws& draws);

// Pictures of `side` x `side` values as text, two side by side: a character of Unicode's
// Braille patterns for 2 x 4 pixels, with a dot for each value above one half.
std::string as_text(const std::vector<std::vector<float>>& pictures, std::int64_t side);

}  // namespace gnomon::lab::image_examples
